# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The interface: the page has what the sources have, and nothing of the last release is gone without a word."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.interface import __main__ as command
from tools.interface.losses import Loss, list_losses, list_unannounced_losses
from tools.interface.page import PAGE, insert_tables
from tools.interface.sources import Interface

BEFORE: Interface = {
    "Variables of roles": {
        "epyc_numa_thp": ["str", "optional", "=madvise", "=never"],
        "epyc_numa_pools": ["list of dict", "optional"],
        "epyc_numa_pools.node": ["str", "optional"],
    },
    "Modules": {"hugepages": [], "hugepages.pools": ["list of dict", "optional"], "hugepages.label": ["str"]},
    "Files on hosts": {"/usr/sbin/sovereign-epyc": []},
}


def test_the_page_and_the_last_release_are_as_the_sources(run: Callable[..., str]) -> None:
    said = run(sys.executable, "-m", "tools.interface", env={"PYTHONPATH": ".collections:."})
    assert int(said.split()[0]) > 2000


def change(**changes: dict[str, list[str] | None]) -> Interface:
    """Return BEFORE with other names of roles and modules; None removes a name."""
    kinds = {"variables": "Variables of roles", "modules": "Modules"}
    now = {kind: dict(names) for kind, names in BEFORE.items()}
    for kind, names in changes.items():
        for name, parts in names.items():
            if parts is None:
                del now[kinds[kind]][name]
            else:
                now[kinds[kind]][name] = parts
    return now


@pytest.mark.parametrize(
    ("now", "losses"),
    [
        (change(), []),
        (change(variables={"epyc_numa_new": ["bool", "optional"]}), []),
        (change(variables={"epyc_numa_thp": None}), [Loss("Variables of roles", "epyc_numa_thp")]),
        (
            change(variables={"epyc_numa_pools": None, "epyc_numa_pools.node": None}),
            [Loss("Variables of roles", "epyc_numa_pools")],
        ),
        (change(variables={"epyc_numa_pools.node": None}), [Loss("Variables of roles", "epyc_numa_pools.node")]),
        (
            change(variables={"epyc_numa_thp": ["str", "optional", "=madvise"]}),
            [Loss("Variables of roles", "epyc_numa_thp", "=never")],
        ),
        (
            change(variables={"epyc_numa_thp": ["str", "=madvise", "=never"]}),
            [Loss("Variables of roles", "epyc_numa_thp", "optional")],
        ),
        (change(modules={"hugepages.size": ["str"]}), [Loss("Modules", "hugepages.size", "optional")]),
        (change(modules={"hugepages.size": ["str", "optional"]}), []),
    ],
)
def test_what_users_miss(now: Interface, losses: list[Loss]) -> None:
    assert list_losses(BEFORE, now) == losses


@pytest.mark.parametrize(
    ("loss", "fragments", "routing", "words"),
    [
        (Loss("Variables of roles", "epyc_numa_thp"), {}, {}, ["epyc_numa_thp is gone, and no fragment"]),
        (Loss("Variables of roles", "epyc_numa_thp"), {"bugfixes": ["epyc_numa_thp is gone."]}, {}, ["no fragment"]),
        (Loss("Variables of roles", "epyc_numa_thp"), {"breaking_changes": ["epyc_numa_thp_defrag"]}, {}, ["no frag"]),
        (Loss("Variables of roles", "epyc_numa_thp"), {"removed_features": ["``epyc_numa_thp`` is gone."]}, {}, []),
        (Loss("Modules", "hugepages.pools"), {"breaking_changes": ["hugepages - pools is gone."]}, {}, []),
        (Loss("Modules", "hugepages.state", "=absent"), {"breaking_changes": ["hugepages state"]}, {}, ["'=absent'"]),
        (Loss("Modules", "hugepages"), {"breaking_changes": ["hugepages is gone."]}, {}, ["no redirect"]),
        (
            Loss("Modules", "hugepages"),
            {"breaking_changes": ["hugepages is gone."]},
            {"modules": {"hugepages": {"redirect": "sovereign.epyc.pools"}}},
            [],
        ),
        (
            Loss("Modules", "hugepages"),
            {"breaking_changes": ["hugepages is gone."]},
            {"modules": {"hugepages": {"deprecation": {}}}},
            ["no tombstone"],
        ),
    ],
)
def test_a_loss_is_announced(loss: Loss, fragments: Any, routing: Any, words: list[str]) -> None:
    problems = list(list_unannounced_losses([loss], fragments, routing))
    assert [word in problem for word, problem in zip(words, problems, strict=True)] == [True] * len(words)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page of BEFORE, the interface of a release that had one variable more, and no new fragment."""
    released = {"version": "1.0.0", "interface": change(variables={"epyc_numa_gone": ["str", "optional"]})}
    (tmp_path / "interface.json").write_text(json.dumps(released))
    page = insert_tables(PAGE.read_text(encoding="utf-8"), BEFORE)
    (tmp_path / "interface.md").write_text(page, encoding="utf-8")
    (tmp_path / "changelog.yaml").write_text("releases: {1.0.0: {fragments: [old.yml]}}\n")
    for name, place in {"RELEASED": "interface.json", "PAGE": "interface.md", "CHANGES": "changelog.yaml"}.items():
        monkeypatch.setattr(command, name, tmp_path / place)
    (tmp_path / "fragments").mkdir()
    monkeypatch.setattr(command, "FRAGMENTS", tmp_path / "fragments")
    monkeypatch.setattr(command, "read_interface", lambda: BEFORE)
    monkeypatch.setattr(sys, "argv", ["interface"])
    return tmp_path


def test_the_command_is_red_for_a_variable_that_the_last_release_had(
    clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main() == 1
    said = capsys.readouterr().out
    assert said.startswith("since 1.0.0: Variables of roles: epyc_numa_gone is gone, and no fragment says so under")
    assert said.count("\n") == 1
    (clone / "fragments/old.yml").write_text("removed_features: [epyc_numa_gone is gone.]\n")
    assert command.main() == 1, "a fragment of the release itself announces nothing"
    (clone / "fragments/new.yml").write_text("removed_features: [epyc_numa_gone is gone.]\n")
    assert command.main() == 0


def test_the_command_is_red_for_an_old_page_and_renews_it(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (clone / "fragments/new.yml").write_text("removed_features: [epyc_numa_gone is gone.]\n")
    page = clone / "interface.md"
    right = page.read_text(encoding="utf-8")
    page.write_text(right.replace("madvise", "maybe"), encoding="utf-8")
    assert command.main() == 1
    assert "interface.md is not as the sources" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["interface", "--write"])
    assert (command.main(), page.read_text(encoding="utf-8")) == (0, right)
