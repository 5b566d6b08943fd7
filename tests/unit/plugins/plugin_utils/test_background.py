# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Modules that run in the background of a host: what is asked of it meanwhile, and what is shown."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ansible_collections.sovereign.epyc.plugins.action import llama_ablation, llama_build, llama_server, model_file
from ansible_collections.sovereign.epyc.plugins.plugin_utils import _background

FILE = "/root/.ansible_async/j1.7"
STARTED = {"started": True, "finished": False, "ansible_job_id": "j1.7", "results_file": FILE, "changed": True}
#: Of how many questions the last one is the first whose answer would be shown.
DUE = 12
DONE = {"changed": False, "path": "/srv/m.gguf", "ansible_job_id": "j1.7", "finished": True}


class Host:
    """Stands for a host: what it answers to each question, and what it was asked. Time passes when somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, plugin: Any = model_file) -> None:
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.executed: list[dict[str, Any]] = []
        self.shown: list[str] = []
        self.resets = self.refuses = 0
        self.handed: list[bytes] = []
        self.now = 0.0
        self.first: dict[str, Any] = dict(STARTED)
        self.task = SimpleNamespace(
            args={"path": "/srv/m.gguf"},
            async_val=0,
            check_mode=False,
            no_log=False,
            action="sovereign.epyc.model_file",
        )
        shell = SimpleNamespace(tmpdir=None)
        connection = SimpleNamespace(_shell=shell, reset=self.reset)
        self.plugin = plugin.ActionModule(self.task, connection, None, None, None)
        monkeypatch.setattr(self.plugin, "_execute_module", self.execute)
        monkeypatch.setattr(self.plugin, "_low_level_execute_command", self.ask)
        monkeypatch.setattr(self.plugin._display, "display", self.shown.append)
        monkeypatch.setattr(_background.time, "sleep", self.sleep)
        monkeypatch.setattr(_background.time, "monotonic", lambda: self.now)

    def execute(self, **asked: Any) -> dict[str, Any]:
        self.executed.append({**asked, "async_val": self.task.async_val})
        if asked.get("module_name"):
            return dict(DONE)
        return self.first if asked["wrap_async"] else {"changed": True}

    def ask(self, command: str, in_data: bytes | None = None) -> dict[str, Any]:
        self.asked.append(command)
        if in_data is not None:
            self.handed.append(in_data)
            return {"rc": self.refuses, "stdout": ""}
        answer = self.answers.pop(0) if self.answers else 9
        if isinstance(answer, Exception):
            raise answer  # pylint: disable=raising-bad-type
        return {"rc": 0, "stdout": answer} if isinstance(answer, str) else {"rc": answer, "stdout": ""}

    def reset(self) -> None:
        self.resets += 1

    def sleep(self, seconds: float) -> None:
        assert seconds <= _background.BackgroundAction.longest_pause
        self.now += seconds

    def run(self) -> dict[str, Any]:
        return dict(self.plugin.run(task_vars={"inventory_hostname": "epyc"}))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_a_module_that_ends_at_once_is_asked_once(host: Host) -> None:
    assert host.run() == {"changed": False, "path": "/srv/m.gguf"}
    assert host.now == _background.FIRST_PAUSE and host.shown == []
    begun, collected = host.executed
    assert (begun["wrap_async"], begun["async_val"]) == (True, _background.MODULE_TIMEOUT)
    # Nothing else is to be wrapped, and Ansible itself shall not wait for the job.
    assert (collected["module_name"], collected["async_val"]) == ("ansible.legacy.async_status", 0)
    assert collected["module_args"] == {"jid": "j1.7", "_async_dir": "/root/.ansible_async"}
    assert host.task.async_val == 0 and host.asked[-1] == f"rm -f {FILE}"


def test_what_changes_is_shown_from_time_to_time(host: Host) -> None:
    host.answers = ["1 of 9 GiB\n"] * DUE + ["2 of 9 GiB\n"] * 8 + [9]
    host.run()
    assert host.shown == ["epyc: 1 of 9 GiB (16 s)", "epyc: 2 of 9 GiB (36 s)"]


def test_how_far_it_is_is_only_asked_when_it_can_be_shown(host: Host) -> None:
    host.answers = [""] * DUE
    host.run()
    *before, due = host.asked[:DUE]
    (ended,) = set(before)
    assert due.startswith(f"{ended}; cat ")


@pytest.mark.parametrize("seconds", [1, 3, 10, 20])
def test_the_end_of_a_module_is_seen_soon(host: Host, seconds: int) -> None:
    """However long the module takes, nobody waits much longer than a fourth of that again."""
    host.plugin._low_level_execute_command = lambda *dummy: {"rc": 9 if host.now >= seconds else 0, "stdout": ""}
    host.run()
    assert seconds <= host.now <= _background.PAUSE_GROWTH * seconds + _background.FIRST_PAUSE


def test_what_a_host_says_cannot_move_a_terminal(host: Host) -> None:
    host.answers = ["first\n\x1b[2J\x07evil\u202e" + "x" * 300 + "\n\n"] * DUE
    host.run()
    assert len(host.shown) == 1 and host.shown[0].startswith("epyc: [2Jevilxxx") and len(host.shown[0]) < 200


def test_a_task_that_hides_its_output_shows_nothing(host: Host) -> None:
    host.task.no_log = True
    host.answers = ["secret"] * DUE
    host.run()
    assert host.shown == []


def test_a_lost_connection_is_made_anew(host: Host) -> None:
    host.answers = [AnsibleConnectionFailure("gone")] * 3 + ["1 of 9 GiB", 9]
    assert host.run()["path"] == "/srv/m.gguf" and host.resets == 3


def test_a_host_that_stays_away_is_given_up(host: Host) -> None:
    host.answers = [AnsibleConnectionFailure("gone")] * 1000
    with pytest.raises(AnsibleConnectionFailure):
        host.run()
    assert (
        _background.MAX_UNREACHABLE
        < host.now
        < _background.MAX_UNREACHABLE + 2 * _background.BackgroundAction.longest_pause
    )


def test_a_job_that_does_not_begin_is_the_result(host: Host) -> None:
    host.first = {"failed": True, "msg": "no room"}
    assert host.run() == {"failed": True, "msg": "no room"} and host.asked == []


@pytest.mark.parametrize(("changes", "wrapped"), [({"check_mode": True}, 0), ({"async_val": 77}, 77)])
def test_check_mode_and_a_tasks_own_async_are_as_ever(host: Host, changes: dict[str, Any], wrapped: int) -> None:
    vars(host.task).update(changes)
    host.run()
    (only,) = host.executed
    assert only["wrap_async"] == wrapped and only["module_args"] == {"path": "/srv/m.gguf"} and host.asked == []
    assert host.task.async_val == wrapped


def test_each_poll_of_a_measurement_says_that_its_controller_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, llama_ablation)
    host.task.args = {"instance": "chat"}
    host.answers = ["", ""]
    host.run()
    assert len(host.asked) == 4
    assert all(asked.startswith("touch /run/sovereign-epyc/benchmark.asked 2>/dev/null; ") for asked in host.asked[:3])
    timeout = host.executed[0]["module_args"]["controller_timeout"]
    # Two polls may fail.
    assert 60 == timeout >= 3 * llama_ablation.ActionModule.longest_pause
    host.task.args["controller_timeout"] = 600
    host.run()
    assert host.executed[-2]["module_args"]["controller_timeout"] == 600


def test_nobody_asks_for_a_controller_that_was_killed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that asks survives it, and a run on the host would count it as the controller."""
    monkeypatch.setattr(_background.os, "getppid", lambda: 1 if host.now > 10 else 77)
    host.answers = [""] * 1000
    with pytest.raises(AnsibleActionFail, match="ansible-playbook has ended"):
        host.run()
    assert 10 < host.now < 20 and len(host.asked) < 20


# A token


def test_a_token_goes_over_the_connection_into_memory(host: Host) -> None:
    """Not with the arguments, which Ansible writes to a disk, nor with a command, which others see."""
    host.task.args["token"] = "swordfish"
    assert host.run()["path"] == "/srv/m.gguf"
    file = host.executed[0]["module_args"]["token_file"]
    assert file.startswith("/run/sovereign-epyc-") and host.handed == [b"swordfish"]
    assert host.asked[0] == f"umask 077 && cat > {file}" and host.asked[-1] == f"rm -f {file}"
    assert "swordfish" not in str([host.executed, host.asked, vars(host.task), host.shown])


def test_a_token_that_cannot_be_handed_over(host: Host) -> None:
    host.task.args["token"], host.refuses = "swordfish", 1
    with pytest.raises(AnsibleActionFail, match=r"cannot be written on the host, so run the task with become\.$"):
        host.run()
    assert host.executed == []


def test_a_check_hands_no_token_over(host: Host) -> None:
    host.task.args["token"], host.task.check_mode = "swordfish", True
    host.run()
    (only,) = host.executed
    assert "token_file" in only["module_args"] and "token" not in only["module_args"] and host.asked == []


def test_a_task_of_its_own_async_keeps_its_token(host: Host) -> None:
    """The module, which may not have begun yet, removes it."""
    host.task.args["token"], host.task.async_val = "swordfish", 77
    host.run()
    assert len(host.asked) == 1 and host.handed == [b"swordfish"]


# What the host is asked, by a real shell


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[Host], tuple[str, str]]:
    """The question, with the file of a job in it that runs, and that has ended."""
    file = tmp_path / "job"

    def asked(host: Host) -> tuple[str, str]:
        host.first["results_file"] = str(file)
        host.answers = [""] * DUE
        host.asked.clear()
        host.run()
        said = []
        for text in ('{"started": 1, "finished": 0}', '{"changed": true, "path": "/srv"}'):
            file.write_text(text)
            done = subprocess.run(["sh", "-c", host.asked[DUE - 1]], capture_output=True, text=True, check=False)
            said.append(done.stdout if done.returncode == 0 else f"rc {done.returncode}")
        return said[0], said[1]

    return asked


def test_the_progress_of_a_download(host: Host, shell: Any, tmp_path: Path) -> None:
    host.task.args["progress"] = str(tmp_path / "a progress")
    (tmp_path / "a progress").write_text("3 of 9 GiB\n")
    assert shell(host) == ("3 of 9 GiB\n", "rc 9")
    (tmp_path / "a progress").unlink()
    assert shell(host) == ("", "rc 9")
    del host.task.args["progress"]
    host.answers = [""] * DUE
    host.run()
    path = host.executed[-2]["module_args"]["progress"]
    assert path.startswith("/run/sovereign-epyc-") and path in host.asked[-2]


def test_the_progress_of_a_build(monkeypatch: pytest.MonkeyPatch, shell: Any, tmp_path: Path) -> None:
    host = Host(monkeypatch, llama_build)
    host.task.args = {"folder": str(tmp_path / "my builds")}
    (tmp_path / "my builds").mkdir()
    assert shell(host) == ("", "rc 9")
    (tmp_path / "my builds" / "1f2e.log").write_text("[  1%] Building a\n[ 37%] Building b\n")
    assert shell(host) == ("[ 37%] Building b\n", "rc 9")


def test_the_progress_of_instances(monkeypatch: pytest.MonkeyPatch, shell: Any, tmp_path: Path) -> None:
    for name, text in (
        ("systemctl", "echo 'llama-chat.service loaded activating start-post A model'"),
        ("journalctl", 'echo "load_tensors: loading $8"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    host = Host(monkeypatch, llama_server)
    assert shell(host) == ("llama-chat.service: load_tensors: loading llama-chat.service\n", "rc 9")
