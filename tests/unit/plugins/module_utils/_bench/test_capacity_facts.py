# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the controller keeps of a host to count its capacity."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.capacity_facts import (
    find_flag_value,
    read_capacity_facts,
    read_command_line_of_unit,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import PLAN_MARK
from ansible_collections.sovereign.epyc.tests.unit.fakes import instances as fakes
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import WEIGHTS, Measured, measured
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    with measured(tmp_path, monkeypatch) as host:
        yield host


def install(here: Measured, name: str = "chat", model: str | None = None, **changes: Any) -> None:
    """Install an instance with a command line; its plan is as usual but for the changes."""
    unit = f"llama-{name}.service"
    words = f"/opt/llama-server --model {model or here.model} --parallel 2 --ctx-size 8192 --threads 2"
    plan = json.dumps(
        fakes.plan(name=name, unit=unit, files={here.model: [WEIGHTS, 1]}, mapped=[here.model], **changes)
    )
    here.unit(unit, f"{INSTANCE_HEAD}\n[Service]\nExecStartPre=/bin/true\nExecStart={words}\n{PLAN_MARK}{plan}\n")


def read(here: Measured, folder: str = "/none") -> dict[str, Any]:
    facts = read_capacity_facts(here.host(), folder)
    assert json.loads(json.dumps(facts)) == facts
    return facts


def test_the_facts_of_a_host_and_its_instance(here: Measured) -> None:
    install(here)
    facts = read(here)
    (chat,) = facts["instances"]
    assert (chat["name"], chat["model"], chat["slots"], chat["context"]) == ("chat", here.model, 2, 8192)
    assert chat["shape"]["file_bytes"] and chat["unknown"] == ""
    assert (chat["files"], chat["mapped"], chat["run"]) == ({here.model: WEIGHTS}, [here.model], None)
    # CPUs 4 and 5 compute, and the memory is on the nodes 0 and 1.
    assert (chat["processor"]["threads"], chat["processor"]["cores"], chat["nodes"]) == (2, 2, [0, 1])
    assert facts["sockets"] and sum(socket["bytes"] for socket in facts["sockets"]) == facts["bytes"]
    assert all(socket["source"] == "paper" and socket["gbps"] for socket in facts["sockets"])
    assert facts["memory"]["faults"] == []


def test_the_newest_run_of_an_instance_is_summed_up(here: Measured, tmp_path: Path) -> None:
    install(here)
    folder = tmp_path / "runs"
    folder.mkdir()
    for stamp in ("20261101T000000Z", "20261102T000000Z"):
        document = {**bench_documents.benchmark(), "id": f"chat-{stamp}"}
        (folder / f"chat-{stamp}.json").write_text(json.dumps(document))
    (chat,) = read(here, str(folder))["instances"]
    assert chat["run"]["id"] == "chat-20261102T000000Z"
    assert [rate["streams"] for rate in chat["run"]["rates"]] == [1, 2, 4]
    one, two, four = (rate["tokens_per_second"] for rate in chat["run"]["rates"])
    assert one >= two >= four > 0


def test_an_instance_whose_model_cannot_be_read_says_why(here: Measured) -> None:
    install(here)
    os.unlink(here.model)
    (chat,) = read(here)["instances"]
    assert chat["shape"] is None and here.model in chat["unknown"]


def test_an_instance_without_a_plan_has_a_name_only(here: Measured) -> None:
    here.unit("llama-chat.service", f"{INSTANCE_HEAD}\n")
    (chat,) = read(here)["instances"]
    assert (chat["name"], chat["slots"], chat["files"]) == ("chat", 1, {})
    assert chat["unknown"] == "its unit names no model"


def test_the_command_line_of_a_unit() -> None:
    words = read_command_line_of_unit('[Service]\nExecStart=/opt/x --model "/srv/a b%%.gguf" --last\n')
    assert words == ["/opt/x", "--model", "/srv/a b%.gguf", "--last"]
    assert find_flag_value(words, "--model") == "/srv/a b%.gguf"
    assert find_flag_value(words, "--last") is None
    assert read_command_line_of_unit("") == []
