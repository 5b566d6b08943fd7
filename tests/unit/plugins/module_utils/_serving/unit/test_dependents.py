# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What instances lose by an undo of layers: which undo is refused, and what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.dependents import require_undo_possible
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import PLAN_MARK
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import plan

ORIGINALS = [
    "hugepages:node0/2048kB",
    "resctrl:draft",
    "partition:llama.slice/type",
    "cmdline:hugepages",
    "sysfs:numa_balancing",
]
AGAIN = "Run site.yml with the layers that stay: it plans the instances anew, and verify.yml is right about them."


def write_unit(root: Path, slice_line: str = "", rpc: dict[str, Any] | None = None, **expect: Any) -> None:
    folder = root / UNIT_FOLDER[1:]
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(plan(expect={"cpus": "0-3", **expect}, rpc=rpc))
    (folder / "llama-chat.service").write_text(f"{INSTANCE_HEAD}\n[Service]\n{slice_line}\n{PLAN_MARK}{text}\n")


@pytest.mark.parametrize("layer", ["numa", "grub_params"])
@pytest.mark.parametrize("drafts", [False, True])
def test_pools_that_an_instance_was_planned_with_are_not_taken_away(tmp_path: Path, layer: str, drafts: bool) -> None:
    pools = {"hugepages": {"hugetlb": "4096MiB"}}
    write_unit(tmp_path, rpc={"unit": "llama-chat-rpc.service", "expect": pools}, **({} if drafts else pools))
    with pytest.raises(BadRequest) as caught:
        require_undo_possible(["cat", layer], ORIGINALS, str(tmp_path))
    said = str(caught.value)
    assert said.startswith(
        f"The instance chat has 4096MiB of its memory in pools of huge pages, which {layer} made and"
    )
    assert "Nothing was changed." in said
    asked = json.loads(said.partition("-e '")[2].partition("'")[0])
    assert asked["epyc_restore_instances"] is True
    assert set(asked["epyc_restore_layers"]) == {"cat", layer, "llama"}


@pytest.mark.parametrize(
    ("layers", "originals", "expect"),
    [
        (["irq", "cat"], ORIGINALS, {"hugepages": {"hugetlb": "4096MiB"}}),
        (["numa"], ["sysfs:numa_balancing"], {"hugepages": {"hugetlb": "4096MiB"}}),
        (["numa"], ORIGINALS, {"hugepages": {"thp": "4096MiB"}}),
        (["numa"], ORIGINALS, {}),
        (["cat"], ["sysfs:numa_balancing"], {"group": "draft"}),
        (["grub_params"], ORIGINALS, {}),
    ],
)
def test_what_no_instance_was_planned_with_is_no_reason(
    tmp_path: Path, layers: list[str], originals: list[str], expect: dict[str, Any]
) -> None:
    write_unit(tmp_path, **expect)
    assert require_undo_possible(layers, originals, str(tmp_path)) == []


def test_what_instances_lose_and_survive_is_said(tmp_path: Path) -> None:
    write_unit(tmp_path, slice_line="Slice=llama.slice", group="draft")
    slices = "chat runs on in llama.slice, whose CPUs other programs may use from now on."
    caches = "chat runs on, and shares its L3 caches with other programs from now on."
    assert require_undo_possible(["cat"], ORIGINALS, str(tmp_path)) == [caches, AGAIN]
    assert require_undo_possible(["grub_params"], ORIGINALS, str(tmp_path)) == [slices, AGAIN]
    assert require_undo_possible(["cat", "grub_params"], ORIGINALS, str(tmp_path)) == [slices, caches, AGAIN]


def test_a_host_without_instances_has_nothing_to_lose(tmp_path: Path) -> None:
    assert require_undo_possible(["numa", "cat", "grub_params"], ORIGINALS, str(tmp_path)) == []
