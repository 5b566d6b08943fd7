# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has become of the units of llama.cpp on a host, each thing that can be wrong with them by itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import Finding, group_into_findings
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import format_finding_with_step
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import read_progress
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks.read_progress import ReadProgress
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import drift, installed
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import service

MAIN, RPC, WORKER = "llama-chat.service", "llama-chat-rpc.service", "ggml-rpc-worker.service"
TARGET = "multi-user.target"


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """A host with an instance that runs, and its draft."""
    fake = Systemd(tmp_path, {MAIN: TARGET, WORKER: TARGET})
    monkeypatch.setattr(managed_units.command, "run_command", fake.run)
    one = service(rpc=True)
    model = tmp_path / "m.gguf"
    model.touch()
    found = model.stat()
    one.files, one.mapped = {str(model): [found.st_size, found.st_mtime_ns]}, [str(model)]
    for path, text in unit_texts.render_llama_units(one, []).items():
        (tmp_path / path.lstrip("/")).write_text(text)
    fake.run(["systemctl", "enable", MAIN])
    fake.run(["systemctl", "restart", MAIN, RPC])
    fake.run(["systemctl", "show", MAIN, RPC])
    return fake


def wrong(systemd: Systemd) -> list[Finding]:
    return group_into_findings(drift.list_unit_verdicts(str(systemd.root)))


def only(systemd: Systemd) -> Finding:
    (finding,) = wrong(systemd)
    return finding


def test_as_they_were_left(systemd: Systemd) -> None:
    found = drift.list_unit_verdicts(str(systemd.root))
    assert [one.address for one in found if not one.is_clean] == []
    assert [one.address for one in found] == [
        *(f"llama:{MAIN}/{kind}" for kind in ("file", "drop-ins", "loaded", "enabled", "active")),
        *(f"llama:{RPC}/{kind}" for kind in ("file", "drop-ins", "active")),
    ]
    assert drift.list_unit_verdicts(str(systemd.root / "empty")) == [] and systemd.asked()[-1] == f"show {MAIN} {RPC}"


def test_one_that_stopped(systemd: Systemd) -> None:
    systemd.active[MAIN] = "failed"
    one = only(systemd)
    assert (one.layer, one.what, one.wanted, one.found) == ("llama", "run of instance chat", "active", "failed")
    assert (one.live, one.persistent, one.at_boot) == ("drift", "ok", "active")
    assert (one.role, one.variables, one.repair) == (
        "llama", ["epyc_llama_instances"], "sovereign.epyc.site --tags llama",
    )  # fmt: skip
    assert one.reason == f"'journalctl -u {MAIN}' says why"


def test_one_that_does_not_come_back_after_a_boot(systemd: Systemd) -> None:
    systemd.run(["systemctl", "disable", MAIN])
    one = only(systemd)
    assert (one.what, one.live, one.persistent, one.at_boot) == ("instance chat", "ok", "drift", "disabled")


@pytest.mark.parametrize(("name", "who"), [(MAIN, "instance chat"), (RPC, "instance chat-rpc")])
def test_one_that_was_changed_by_hand(systemd: Systemd, name: str, who: str) -> None:
    path = systemd.file(name)
    path.write_text(path.read_text().replace("AllowedCPUs=", "AllowedCPUs=9-"))
    file, run = sorted(wrong(systemd), key=lambda one: one.what, reverse=True)
    assert (file.what, file.wanted, file.found) == (f"unit of {who}", "as it was written", "changed by hand")
    assert (run.what, run.found) == (f"run of {who}", "active as before its file changed")


def test_one_of_an_earlier_version_is_not_known(systemd: Systemd) -> None:
    path = systemd.file(MAIN)
    path.write_text(path.read_text().rpartition(installed.DIGEST_MARK)[0])
    systemd.reload()
    one = only(systemd)
    assert (one.what, one.status) == ("unit of instance chat", "unknown")
    assert one.reason.startswith("an earlier version of the collection wrote")


def test_drop_ins(systemd: Systemd) -> None:
    folder = systemd.file(f"{MAIN}.d")
    folder.mkdir()
    (folder / "note.txt").touch()
    assert wrong(systemd) == []
    (folder / "more.conf").touch()
    one = only(systemd)
    assert (one.what, one.wanted) == ("drop-ins of instance chat", "nothing")
    assert one.found == f"/etc/systemd/system/{MAIN}.d/more.conf"


def test_a_model_that_was_replaced(systemd: Systemd) -> None:
    model = systemd.root / "m.gguf"
    os.utime(model, (0, 0))
    one = only(systemd)
    assert (one.what, one.wanted, one.found) == ("files of instance chat", "as they were planned", f"changed: {model}")
    processes = systemd.root / "sys/fs/cgroup/system.slice" / MAIN / "cgroup.procs"
    maps = systemd.root / "proc/7/maps"
    for file, content in ((processes, "7\n"), (maps, f"7f00-7f01 r--s 00000000 08:01 42    {model}\n")):
        file.parent.mkdir(parents=True)
        file.write_text(content)
    assert only(systemd).reason.startswith(
        f"{model} was overwritten in place while {MAIN} maps it: the server computes"
    )


def test_a_plan_that_is_not_whole(systemd: Systemd) -> None:
    path = systemd.file(MAIN)
    path.write_text(installed.append_digest_line(path.read_text().rpartition("Plan=")[0]))
    systemd.reload()
    assert (only(systemd).what, only(systemd).status) == ("files of instance chat", "unknown")


def test_one_that_is_gone(systemd: Systemd) -> None:
    """What starts it at a boot is still there, or what drafts for it."""
    systemd.file(MAIN).unlink()
    systemd.reload()
    one = only(systemd)
    assert (one.what, one.found, one.status, one.reason) == (
        "unit of instance chat",
        "nothing",
        "drift",
        drift.FILE_REMOVED,
    )
    systemd.link(MAIN).unlink()
    assert only(systemd).found == "nothing"
    systemd.file(RPC).unlink()
    assert wrong(systemd) == []


def test_a_unit_of_a_package_is_not_ours(systemd: Systemd) -> None:
    """Its file is in another folder, wherever its link is."""
    (systemd.link(MAIN).parent / "llama-other.service").symlink_to("/usr/lib/systemd/system/llama-other.service")
    (systemd.link(MAIN).parent / "other.service").symlink_to("../other.service")
    assert wrong(systemd) == []


@pytest.mark.parametrize(("word", "doing"), [("activating", "started"), ("deactivating", "stopped")])
def test_one_that_is_between(systemd: Systemd, word: str, doing: str) -> None:
    systemd.active[MAIN] = word
    found = only(systemd)
    reason = f"{MAIN} is being {doing}; check again"
    assert (found.status, found.reason, found.found, found.repair) == ("unknown", reason, word, "")


def test_one_whose_start_is_queued_is_being_started(systemd: Systemd) -> None:
    """As after a boot, while the settings of the host are applied."""
    systemd.active[MAIN] = "inactive"
    systemd.jobs.add(MAIN)
    assert (only(systemd).status, only(systemd).found) == ("unknown", "activating")


def test_how_much_of_its_model_it_has_read(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    systemd.active[MAIN] = "activating"
    monkeypatch.setattr(read_progress, "list_processes", lambda fs, unit: [1])
    monkeypatch.setattr(read_progress, "measure_read_progress", lambda fs, ids, size: ReadProgress(0.43, 120))
    assert only(systemd).reason == (
        f"{MAIN} is being started: it has read 43 % of its model, about 2 min left; check again"
    )


def test_one_that_fails_at_each_start_is_drift(systemd: Systemd) -> None:
    systemd.active[MAIN], systemd.substates[MAIN] = "activating", "auto-restart"
    found = only(systemd)
    assert (found.status, found.found, found.repair) == ("drift", "auto-restart", "sovereign.epyc.site --tags llama")


def test_a_systemd_that_does_not_answer(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(command: object) -> str:
        raise TuningError("'systemctl show' failed with exit code 1.")

    monkeypatch.setattr(managed_units.command, "run_command", fail)
    assert {(one.status, one.reason) for one in wrong(systemd)} == {
        ("unknown", "'systemctl show' failed with exit code 1.")
    }


def test_a_worker(systemd: Systemd, tmp_path: Path) -> None:
    program = tmp_path / "rpc-server"
    program.touch()
    found = program.stat()
    plan = f'{{"address": "10.20.0.2", "expect": {{}}, "programs": {{"{program}": [0, {found.st_mtime_ns}]}}}}'
    systemd.file(WORKER).write_text(installed.append_digest_line(f"[Unit]\n\n{installed.PLAN_MARK}{plan}\n"))
    systemd.run(["systemctl", "enable", WORKER])
    systemd.run(["systemctl", "restart", WORKER])
    assert wrong(systemd) == []
    os.utime(program, (0, 0))
    one = only(systemd)
    assert (one.what, one.found, one.role, one.repair) == (
        "files of the RPC worker", f"changed: {program}", "group", "sovereign.epyc.group",
    )  # fmt: skip
    systemd.active[WORKER] = "inactive"
    assert format_finding_with_step(wrong(systemd)[1].to_dict()) == (
        f"run of the RPC worker: found inactive, wanted active; 'journalctl -u {WORKER}' says why. Run group.yml."
    )


def test_an_instance_that_the_inventory_asks_for_and_that_is_not_there(systemd: Systemd) -> None:
    root = str(systemd.root)
    assert group_into_findings(drift.list_unit_verdicts(root, ["chat"])) == []
    (one,) = group_into_findings(drift.list_unit_verdicts(root, ["chat", "embed"]))
    assert (one.what, one.found, one.status) == ("unit of instance embed", "nothing", "drift")
    assert (one.reason, one.repair) == (drift.NOT_INSTALLED, "sovereign.epyc.site --tags llama")
