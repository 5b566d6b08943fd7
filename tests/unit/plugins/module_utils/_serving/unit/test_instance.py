# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of an instance as they come, change and go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.instance import Instance
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import service

MAIN, RPC = "llama-chat.service", "llama-chat-rpc.service"


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    fake = Systemd(tmp_path, {MAIN: "multi-user.target"})
    monkeypatch.setattr(managed_units.command, "run_command", fake.run)
    return fake


def run(systemd: Systemd, texts: dict[str, str], check: bool = False) -> Outcome:
    root = str(systemd.root)
    ledger = Ledger(Store(root, read_only=check), KernelFS(root, read_only=check))
    files = {f"{UNIT_FOLDER}/{name}": text for name, text in texts.items()}
    return converge_knobs([Instance("chat", files, root=root)], ledger, check)


class NextServer:
    """Stands for the new version beside the running one, and notes what systemd was asked for before each call."""

    def __init__(self, systemd: Systemd, failure: str = "") -> None:
        self.systemd = systemd
        self.failure = failure
        self.is_running = False
        self.calls: list[tuple[str, list[str]]] = []

    def start_and_redirect_new_connections(self) -> None:
        self.calls.append(("start", self.systemd.asked()))
        if self.failure:
            raise TuningError(self.failure)

    def end_after_its_last_request(self) -> None:
        self.calls.append(("end", self.systemd.asked()))


def update(systemd: Systemd, next_server: NextServer) -> None:
    run(systemd, {MAIN: "one"})
    systemd.asked()
    root = str(systemd.root)
    files = {f"{UNIT_FOLDER}/{MAIN}": "two"}
    knob = Instance("chat", files, root=root, next_server=next_server)  # type: ignore[arg-type]
    converge_knobs([knob], Ledger(Store(root), KernelFS(root)))


def test_a_next_server_serves_from_before_the_restart_until_after_it(systemd: Systemd) -> None:
    server = NextServer(systemd)
    update(systemd, server)
    (started, before), (ended, between) = server.calls
    assert (started, ended) == ("start", "end") and there(systemd) == {MAIN: "two"}
    assert not [call for call in before if "restart" in call] and f"try-restart {MAIN}" in between


def test_a_next_server_that_does_not_serve_stops_nothing(systemd: Systemd) -> None:
    server = NextServer(systemd, "It does not serve.")
    with pytest.raises(TuningError, match="It does not serve"):
        update(systemd, server)
    assert there(systemd) == {MAIN: "one"} and "try-restart" not in str(server.calls)


def test_a_next_server_serves_until_the_version_before_is_restored(systemd: Systemd) -> None:
    server = NextServer(systemd)
    systemd.refuses = f"try-restart {MAIN}"
    with pytest.raises(TuningError):
        update(systemd, server)
    assert [name for name, dummy in server.calls] == ["start", "end"], "what is restored has served before"
    assert server.calls[1][1].count(f"try-restart {MAIN}") == 2 and there(systemd) == {MAIN: "one"}


def test_a_drop_in_is_named_and_copied_before_it_is_removed(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one"})
    path = f"{UNIT_FOLDER}/{MAIN}.d/mine.conf"
    textfile.write_file(f"{systemd.root}{path}", "[Service]\nNice=5\n")
    (remark,) = run(systemd, {MAIN: "one"}, check=True).remarks
    assert remark.startswith(f"{path} is a drop-in that this collection has not written. It will be removed, and")
    (remark,) = run(systemd, {MAIN: "one"}).remarks
    assert not os.path.exists(f"{systemd.root}{path}")
    (copy,) = (systemd.root / "var/lib/sovereign-epyc/removed-drop-ins" / MAIN).iterdir()
    assert copy.read_text() == "[Service]\nNice=5\n" and copy.name.startswith("mine.conf.2")
    assert f"It is removed; /{copy.relative_to(systemd.root)} is a copy of it." in remark
    assert copy.stat().st_mode & 0o777 == 0o600
    assert run(systemd, {MAIN: "one"}).remarks == []


def there(systemd: Systemd) -> dict[str, str]:
    return {path.name: path.read_text() for path in systemd.file(MAIN).parent.glob("*.service")}


def test_a_state_folder_goes_with_the_line_that_makes_it(systemd: Systemd) -> None:
    text = "[Service]\nStateDirectory=llama-chat\n"
    run(systemd, {MAIN: text})
    folders = [systemd.root / "var/lib/llama-chat", systemd.root / "var/lib/private/llama-chat"]
    for folder in folders:
        (folder / "slot-0.kv").parent.mkdir(parents=True)
        (folder / "slot-0.kv").write_text("a prompt")
    run(systemd, {MAIN: f"{text}Nice=5\n"})
    assert all(folder.exists() for folder in folders)
    run(systemd, {MAIN: "[Service]\nNice=5\n"})
    assert not any(folder.exists() for folder in folders)


def test_it_comes_stays_and_goes(systemd: Systemd) -> None:
    assert run(systemd, {MAIN: "one"}, check=True).to_diff()["after"] == {
        f"llama:/etc/systemd/system/{MAIN}": "one",
        f"llama:{MAIN}/active": "active",
        f"llama:{MAIN}/enabled": "enabled",
    }
    assert there(systemd) == {}
    run(systemd, {MAIN: "one"})
    assert there(systemd) == {MAIN: "one"} and systemd.active == {MAIN: "active"}
    systemd.asked()
    assert run(systemd, {MAIN: "one"}).changes == [] and systemd.asked() == [f"show {MAIN} {RPC}"]
    run(systemd, {})
    assert there(systemd) == {} and systemd.active == {MAIN: "inactive"}
    assert run(systemd, {}).changes == []


def test_only_what_changed_is_started_again(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one", RPC: "draft"})
    systemd.asked()
    run(systemd, {MAIN: "two", RPC: "draft"})
    assert [call for call in systemd.asked() if "restart" in call] == [f"try-restart {MAIN}"]
    run(systemd, {MAIN: "two", RPC: "other"})
    assert [call for call in systemd.asked() if "restart" in call] == [f"try-restart {RPC}"]


def unit_text(**options: Any) -> str:
    return unit_texts.render_llama_units(service(**options), ["--port", "8080"])[f"{UNIT_FOLDER}/{MAIN}"]


@pytest.mark.parametrize(
    "later",
    [
        {"drain_timeout": 5},
        {"stop_timeout": 9},
        {"start_timeout": 9},
        {"restart_seconds": 9, "restart_limit": 9, "restart_limit_seconds": 9},
        {"unit_settings": {"OnFailure": "notify@%n.service", "ExecStopPost": "-/bin/true", "Restart": "always"}},
    ],
)
def test_how_it_is_stopped_or_started_next_time_does_not_start_it_again(
    systemd: Systemd, later: dict[str, Any]
) -> None:
    run(systemd, {MAIN: unit_text()})
    systemd.asked()
    run(systemd, {MAIN: unit_text(**later)})
    assert there(systemd) == {MAIN: unit_text(**later)}
    calls = systemd.asked()
    assert "daemon-reload" in calls and not [call for call in calls if "restart" in call]
    run(systemd, {MAIN: unit_text(**later, unit_settings={"MemoryMax": "1G"})} if "unit_settings" not in later else {})
    assert [call for call in systemd.asked() if call in (f"try-restart {MAIN}", f"stop {MAIN}")]


def test_a_program_a_model_or_keys_that_were_replaced_start_it_again(systemd: Systemd) -> None:
    one = service()

    def text(program: int, model: int, keys: int) -> dict[str, str]:
        one.files = {"/srv/m.gguf": [1, model]}
        return {
            MAIN: unit_texts.render_llama_units(one, [], {"/opt/llama-server": [1, program]}, keys)[
                f"{UNIT_FOLDER}/{MAIN}"
            ]
        }

    run(systemd, text(1, 1, 1))
    for changed in ((2, 1, 1), (2, 2, 1), (2, 2, 2)):
        systemd.asked()
        run(systemd, text(*changed))
        assert [call for call in systemd.asked() if "restart" in call] == [f"try-restart {MAIN}"], changed
    assert run(systemd, text(2, 2, 2)).changes == []


def test_a_draft_that_is_not_wanted_any_more_goes(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one", RPC: "draft"})
    run(systemd, {MAIN: "two"})
    assert there(systemd) == {MAIN: "two"} and systemd.active == {MAIN: "active", RPC: "inactive"}


def test_one_that_does_not_start_leaves_the_one_before(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one"})
    systemd.refuses, systemd.journal = "try-restart", "it has no weights\n"
    with pytest.raises(TuningError, match="The journal ends: it has no weights"):
        run(systemd, {MAIN: "two"})
    assert there(systemd) == {MAIN: "one"}


def test_one_that_ends_at_once_is_a_failure(systemd: Systemd) -> None:
    systemd.breaks = {MAIN}
    with pytest.raises(NotApplied, match=rf"llama:{MAIN}/active: .* wanted 'active', found 'failed'"):
        run(systemd, {MAIN: "one"})
    assert there(systemd) == {}


def test_a_mask_is_replaced_and_never_written_through(systemd: Systemd) -> None:
    behind = systemd.root / "behind"
    behind.write_text("")
    behind.chmod(0o666)
    systemd.file(MAIN).symlink_to(behind)
    run(systemd, {MAIN: "one"})
    assert behind.read_text() == "" and not systemd.file(MAIN).is_symlink()
    assert os.stat(systemd.file(MAIN)).st_mode & 0o777 == 0o644


@pytest.mark.parametrize("folder", managed_units.FOLDERS)
def test_what_was_added_by_hand_goes_and_the_unit_starts_again(systemd: Systemd, folder: str) -> None:
    run(systemd, {MAIN: "one", RPC: "draft"})
    added = systemd.root / f"{folder}/{MAIN}.d/override.conf".lstrip("/")
    added.parent.mkdir(parents=True)
    added.write_text("[Service]\nNice=5\n")
    assert run(systemd, {MAIN: "one", RPC: "draft"}, check=True).to_diff() == {
        "before": {f"llama:{folder}/{MAIN}.d/override.conf": "[Service]\nNice=5\n"},
        "after": {f"llama:{folder}/{MAIN}.d/override.conf": None},
    }
    systemd.asked()
    run(systemd, {MAIN: "one", RPC: "draft"})
    assert not added.parent.exists()
    assert systemd.asked()[-4:-1] == ["daemon-reload", f"reset-failed {MAIN}", f"try-restart {MAIN}"]


def test_an_added_file_is_there_again_when_it_does_not_start_without(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one"})
    added = systemd.file(f"{MAIN}.d") / "memory.conf"
    added.parent.mkdir()
    added.write_text("[Service]\n")
    systemd.refuses = "try-restart"
    with pytest.raises(TuningError):
        run(systemd, {MAIN: "one"})
    assert added.read_text() == "[Service]\n"


def test_copies_on_a_hugetlbfs_go_with_the_instance_that_staged_them(systemd: Systemd) -> None:
    """They would hold their pages until the next boot. A folder of another name is not ours."""
    stages = "ExecStartPre=+/usr/sbin/sovereign-epyc llama stage '/srv/a model.gguf' {} --nodes 0 --policy bind\n"
    copies = [systemd.root / "dev/hugepages" / name / "model.gguf" for name in ("llama-chat", "llama-other")]
    for copy in copies:
        copy.parent.mkdir(parents=True)
    for after in ({}, {MAIN: "reads its model\n"}):
        for copy in copies:
            copy.touch()
        run(systemd, {MAIN: "".join(stages.format(f"/dev/hugepages/{copy.parent.name}") for copy in copies)})
        run(systemd, after)
        assert [copy.exists() for copy in copies] == [False, True]
        copies[0].parent.mkdir()
    copies[0].touch()
    text = stages.format("/dev/hugepages/llama-chat")
    run(systemd, {MAIN: text})
    run(systemd, {MAIN: f"{text}Environment=A=1\n"})
    assert copies[0].exists()


def test_a_unit_that_is_being_started_is_as_wanted(systemd: Systemd) -> None:
    """The planner has waited for it; so check mode announces no change, and a run starts nothing twice."""
    run(systemd, {MAIN: "one"})
    systemd.active[MAIN] = "activating"
    systemd.asked()
    assert run(systemd, {MAIN: "one"}).changes == [] and not [call for call in systemd.asked() if "start" in call]
    systemd.jobs.add(MAIN)
    systemd.active[MAIN] = "inactive"
    assert run(systemd, {MAIN: "one"}, check=True).changes == []


def test_a_unit_that_fails_at_each_start_is_started_with_a_new_count(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one"})
    systemd.active[MAIN], systemd.substates[MAIN] = "activating", "auto-restart"
    systemd.asked()
    (change,) = run(systemd, {MAIN: "one"}, check=True).changes
    assert (change.before, change.after) == ("auto-restart", "active")
    systemd.asked()
    run(systemd, {MAIN: "one"})
    calls = [call for call in systemd.asked() if "show" not in call]
    assert calls[:2] == [f"reset-failed {MAIN}", f"restart {MAIN}"]
