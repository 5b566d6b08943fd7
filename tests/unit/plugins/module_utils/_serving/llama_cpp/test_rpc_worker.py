# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unit of a worker as it comes, is judged, and goes; and what the unit of its server says of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import rpc_worker
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory import free_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import installed
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import silent_unit_items as judge
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, machine
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import Service
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import (
    analyze,
    lines,
    main_unit,
)

UNIT = "ggml-rpc-worker.service"
ASKED: dict[str, Any] = {
    "state": "present",
    "binary": "/bin/true",
    "address": "10.20.0.2",
    "port": 50052,
    "clients": ["10.20.0.1"],
    **dict.fromkeys(("cpus", "threads", "nodes", "l3_group")),
}
HELP = CommandResult(0, "", "  -t, --threads N\n  -c, --cache\n")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    fake = Systemd(tmp_path, {UNIT: "multi-user.target"})
    monkeypatch.setattr(managed_units.command, "run_command", fake.run)
    monkeypatch.setattr(
        rpc_worker.probe, "list_program_files_and_openmp", lambda binary, walls: ({binary: [1, 2]}, True)
    )
    monkeypatch.setattr(rpc_worker.sandbox, "run_in_sandbox", lambda walls, words, seconds: HELP)
    free = free_memory.FreeMemory(dict.fromkeys(range(4), 200 * GB))
    monkeypatch.setattr(free_memory, "read_free_and_staged_memory", lambda *dummy: free)
    return fake


def knobs(systemd: Systemd, **asked: Any) -> list[Knob]:
    return rpc_worker.worker_knobs(machine("9754"), {**ASKED, **asked}, str(systemd.root))


def run(systemd: Systemd, **asked: Any) -> list[str]:
    root = str(systemd.root)
    changed = converge_knobs(knobs(systemd, **asked), Ledger(Store(root), KernelFS(root)), False).changes
    return [change.address for change in changed]


def test_it_comes_stays_and_goes_with_what_it_kept(systemd: Systemd) -> None:
    assert run(systemd) == [
        f"llama:/etc/systemd/system/{UNIT}", f"llama:{UNIT}/active", f"llama:{UNIT}/enabled",
    ]  # fmt: skip
    assert systemd.active == {UNIT: "active"} and run(systemd) == []
    kept = systemd.root / "var/lib/private/ggml-rpc-worker/rpc"
    kept.mkdir(parents=True)
    (systemd.root / "var/lib/ggml-rpc-worker").symlink_to("private/ggml-rpc-worker")
    systemd.asked()
    assert run(systemd, port=50053) == [f"llama:/etc/systemd/system/{UNIT}"]
    assert f"try-restart {UNIT}" in systemd.asked() and kept.is_dir()
    run(systemd, state="absent", binary=None, address=None)
    assert os.listdir(systemd.root / "var/lib/private") == []
    assert not os.path.lexists(systemd.root / "var/lib/ggml-rpc-worker") and not systemd.file(UNIT).exists()
    assert run(systemd, state="absent") == []


def test_the_unit_is_open_to_its_clients_only_and_well_sheltered(systemd: Systemd, tmp_path: Path) -> None:
    run(systemd)
    text = systemd.file(UNIT).read_text()
    assert (lines(text, "IPAddressDeny"), lines(text, "IPAddressAllow")) == (["any"], ["10.20.0.1"])
    assert lines(text, "ExecStart")[0].startswith("/bin/true -H 10.20.0.2 -p 50052 -t ")
    assert lines(text, "ExecStart")[0].endswith(" -c")
    assert (lines(text, "Restart"), lines(text, "StartLimitIntervalSec")) == (["always"], ["0"])
    assert lines(text, "Environment")[-1].startswith('"GOMP_CPU_AFFINITY=')
    path = tmp_path / UNIT
    path.write_text(text)
    assert analyze("verify", "--man=no", str(path)) == ""
    said = analyze("security", "--offline=true", "--no-pager", str(path))
    assert float(said.split(f"Overall exposure level for {UNIT}:")[1].split()[0]) <= 1.5, said


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"address": None}, "address is missing, without which there is no worker."),
        ({"binary": None}, "binary is missing"),
        ({"address": "8.8.8.8"}, "8.8.8.8 is not an address of a private network"),
    ],
)
def test_what_is_refused(systemd: Systemd, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        knobs(systemd, **asked)
    assert words in str(caught.value) and systemd.calls == []


def test_another_program_is_refused(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        rpc_worker.sandbox, "run_in_sandbox", lambda walls, words, seconds: CommandResult(0, "usage: true", "")
    )
    with pytest.raises(BadRequest, match=r"/bin/true is no ggml-rpc-server of llama\.cpp: its --help does not offer"):
        knobs(systemd)


def test_the_server_waits_for_its_workers_without_a_limit() -> None:
    told = {"rpc_workers": ["10.20.0.2:50052", "[fd00::2]:50052"], "speculation": "none"}
    text = main_unit(**told, start_timeout=600)
    reach = "/usr/sbin/sovereign-epyc llama reach 10.20.0.2:50052,[fd00::2]:50052 --timeout 600"
    assert lines(text, "ExecStartPre")[-1] == reach
    assert lines(text, "StartLimitIntervalSec") == ["0"] and lines(text, "Wants") == ["network-online.target"]
    assert lines(text, "IPAddressAllow") == ["localhost", "10.20.0.2", "fd00::2"]
    assert lines(main_unit(**told, host="10.20.0.1"), "IPAddressDeny") == []
    assert "reach" not in main_unit() and lines(main_unit(), "StartLimitIntervalSec") != ["0"]


# The checklist


class Judged:
    """A host with the unit of a worker, whose thread is on CPUs 0 to 3."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.service = Service(root)
        self.state = "active"
        patch.setattr(judge, "read_unit_properties", lambda names: {UNIT: {"ActiveState": self.state}})
        self.service.thread(100, "0-3", 0)
        self.service.tree.put(f"/sys/fs/cgroup/system.slice/{UNIT}/cgroup.procs", "100")

    def planned(self, cpus: str = "0-3", programs: dict[str, list[int]] | None = None) -> None:
        plan = {"address": "10.20.0.2", "programs": programs or {}}
        plan["expect"] = {"cpus": cpus, "busy_cpus": cpus, "nodes": "0-1", "interleaved": False, "spread": "core"}
        self.service.tree.put(f"/etc/systemd/system/{UNIT}", f"[Unit]\n\n{installed.PLAN_MARK}{json.dumps(plan)}\n")

    def items(self) -> dict[str, str]:
        found = judge.check_rpc_worker(Host(self.service.tree.fs), self.service)
        self.sentences = [item.sentence for item in found]
        return {item.name: item.verdict for item in found}


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    return Judged(tmp_path, monkeypatch)


def test_a_host_without_a_worker_has_no_item(judged: Judged) -> None:
    assert judged.items() == {}


def test_a_worker_in_its_place(judged: Judged) -> None:
    judged.planned()
    assert judged.items() == {"service/rpc-worker": "ok", "placement/rpc-worker": "ok"}
    assert judged.sentences[0] == f"{UNIT} is active at 10.20.0.2."


def test_a_worker_that_is_elsewhere_or_down(judged: Judged) -> None:
    judged.planned(cpus="2-3")
    assert judged.items() == {"service/rpc-worker": "ok", "placement/rpc-worker": "wrong"}
    assert judged.sentences[1].endswith("Run group.yml.")
    judged.state = "failed"
    assert judged.items() == {"service/rpc-worker": "wrong", "placement/rpc-worker": "unknown"}
    assert judged.sentences[0].endswith(f"'journalctl -u {UNIT}' says why. Run group.yml.")


def test_a_worker_with_another_program_or_without_a_plan(judged: Judged) -> None:
    judged.planned(programs={"/nowhere/ggml-rpc-server": [1, 2]})
    assert judged.items()["service/rpc-worker"] == "wrong"
    assert judged.sentences[0].startswith("/nowhere/ggml-rpc-server was replaced or removed since")
    judged.service.tree.put(f"/etc/systemd/system/{UNIT}", "[Unit]\n")
    assert judged.items() == {"service/rpc-worker": "unknown"}
