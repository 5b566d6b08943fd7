# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `make site`, `make up` and `make ask` say where they fail, while they wait, and of a machine that is tuned."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools import site
from vepyc import VepycError, playbook_runs
from vepyc.machine.run_directory import Config, RunDirectory


def run_site_tool(home: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run the tool with a cache of its own, in which it may not begin to build; return its exit code and its lines."""
    done = playbook_runs.run_command(
        "tools/run.sh", "tools/site.py", *arguments, VEPYC_HOME=str(home), PYTHONPATH="lab"
    )
    assert not (home / "images").exists()
    return done.returncode, done.stdout.strip().splitlines()


def test_a_sku_that_there_is_not(tmp_path: Path) -> None:
    code, lines = run_site_tool(tmp_path, "epyc9999")
    assert (code, lines) == (
        1,
        [
            "[1/7] boot a virtual EPYC",
            "vepyc: there is no shape 'epyc9999'; the shapes are small, smt, epyc9754, epyc9654, epyc9354, epyc7543x2,"
            " epyc9655, epyc9006",
            "site: 'boot a virtual EPYC' failed with exit code 1; run it again alone:"
            " lab/bin/vepyc up epyc9999 --llama",
        ],
    )


def test_there_is_nobody_to_ask(tmp_path: Path) -> None:
    code, lines = run_site_tool(tmp_path, "epyc9754", "--ask", "Who is there?")
    assert (code, lines[-1]) == (1, "site: there is nobody to ask; start one: make site SKU=epyc9754")


def test_nothing_was_switched_off(tmp_path: Path) -> None:
    code, lines = run_site_tool(tmp_path, "epyc9754", "--up")
    assert (code, lines) == (1, ["site: there is no machine that was switched off; make one: make site SKU=epyc9754"])


def test_another_kernel_gets_a_machine_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    commands = {kernel: " ".join(site.boot_step("epyc9754", kernel).command) for kernel in ("6.12", "backports")}
    assert commands == {
        "6.12": "lab/bin/vepyc up epyc9754 --llama",
        "backports": "lab/bin/vepyc up epyc9754 --llama --kernel backports",
    }


def test_a_machine_with_another_kernel_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    RunDirectory.of_machine("epyc9754").create(Config("epyc9754", "epyc9754", "6.12", 29754, "image", None))
    RunDirectory.of_machine("epyc9754").disk.touch()
    code, lines = run_site_tool(tmp_path, "epyc9754", "--kernel", "backports")
    assert (code, lines) == (
        1,
        [
            "site: the machine epyc9754 has kernel 6.12, and was left as it is. End it and throw its disk away:"
            " lab/bin/vepyc down epyc9754; or go on with it: make site SKU=epyc9754 KERNEL=6.12"
        ],
    )


def test_a_long_silence_says_what_is_waited_for_and_the_exit_code_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(site, "SILENCE", 0.2)
    command = ["sh", "-c", "echo 'building it (once; log: /tmp/log)'; echo meanwhile more; sleep 0.5; exit 7"]
    done = site.run_step(site.Step(command, "1 to 2 minutes", announces=True), "wait")
    assert (done.code, done.output.splitlines()[1], done.seconds_to_first_task) == (7, "meanwhile more", None)
    assert b"... wait: 0 s; usually 1 to 2 minutes; now building it (once)\n" in capfdbinary.readouterr().out
    site.run_step(site.Step(command, "1 to 2 minutes"), "wait")
    assert b"... wait: 0 s; usually 1 to 2 minutes\n" in capfdbinary.readouterr().out


def test_the_first_task_of_a_playbook_is_noticed() -> None:
    done = site.run_step(
        site.Step(["sh", "-c", "echo PLAY; sleep 0.3; echo 'TASK [first] ***'; sleep 0.3"], "a second"), "x"
    )
    assert done.seconds_to_first_task is not None
    assert 0.3 <= done.seconds_to_first_task < done.seconds - 0.2


def test_cold_and_warm_runs_are_shown_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    site.print_and_save_times("cold", {"before": 120, "after": 280})
    first = capsys.readouterr().out.splitlines()
    assert "warm  no such run yet" in first
    assert first[-1] == "figure site_share_before_first_task 30.00 % (bar <= 30)"
    site.print_and_save_times("warm", {"before": 20, "after": 180})
    cold, warm, figure = capsys.readouterr().out.splitlines()[-3:]
    assert cold.split() == ["cold", "120", "s", "280", "s", "400", "s", "30", "%", "an", "earlier", "run"]
    assert warm.split() == ["warm", "20", "s", "180", "s", "200", "s", "10", "%", "this", "run"]
    assert figure == "figure site_share_before_first_task 10.00 % (bar <= 30)"


#: The lines with which `make site` ends: the commands that come next, to be copied.
NEXT_LINES = [
    "Ask it yourself: make ask SKU=epyc9754 PROMPT='...'",
    "Run any playbook on it: tools/run.sh ansible-playbook -i inventories/lab playbooks/drift.yml -l epyc9754",
]


def test_a_complete_run_ends_with_what_was_done_and_the_next_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    site.tuned_mark_path("epyc9754").parent.mkdir()
    monkeypatch.setattr(site, "run_step", lambda step, title: site.Done(0, "", 1, 1))
    assert site.run_all_steps("epyc9754", "6.12", 0, None) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "epyc9754 was tuned and rebooted, has passed the checklist, and its model has answered. Nothing waits.",
        *NEXT_LINES,
    ]


class Guest:
    """A machine that runs; the collection's own check of it ends with this code, or does not reach it."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def run(self, command: str, check: bool) -> subprocess.CompletedProcess[str]:
        assert (command, check) == ("sovereign-epyc check", False)
        if self.code is None:
            raise VepycError("ssh failed")
        return subprocess.CompletedProcess(command, self.code)


@pytest.mark.parametrize(
    ("alive", "digest", "code", "tuned"),
    [
        (True, "now", 0, True),
        (True, "now", 2, False),
        (True, "now", None, False),
        (True, "before a change", 0, False),
        (True, None, 0, False),
        (False, "now", 0, False),
    ],
)
def test_a_machine_is_tuned_if_this_collection_did_it_and_all_settings_are_in_force(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alive: bool, digest: str | None, code: int | None, tuned: bool
) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    monkeypatch.setattr(site, "collection_digest", lambda: "now")
    monkeypatch.setattr(RunDirectory, "is_alive", lambda run_dir: alive)
    monkeypatch.setattr("vepyc.Machine.find_running", lambda name: Guest(code))
    if digest:
        mark = site.tuned_mark_path("epyc9754")
        mark.parent.mkdir()
        mark.write_text(digest)
    assert site.is_tuned("epyc9754") == tuned


def test_a_machine_that_is_tuned_already_is_only_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    RunDirectory.of_machine("epyc9754").create(Config("epyc9754", "epyc9754", "6.12", 29754, "image", None))
    site.tuned_mark_path("epyc9754").touch()
    commands: list[str] = []

    def run(step: site.Step, what: str) -> site.Done:
        commands.append(" ".join(step.command[:2]))
        return site.Done(0, "", 1, None)

    alive = True
    monkeypatch.setattr(RunDirectory, "is_alive", lambda run_dir: alive)
    monkeypatch.setattr(site, "run_step", run)
    monkeypatch.setattr(site, "is_tuned", lambda sku: True)
    monkeypatch.setattr("sys.argv", ["site.py", "epyc9754"])
    assert site.main() == 0
    assert commands == ["ansible-playbook playbooks/ask.yml"]
    shown = capsys.readouterr().out
    assert "epyc9754 is tuned already" in shown
    assert shown.splitlines()[-2:] == NEXT_LINES
    alive = False
    RunDirectory.of_machine("epyc9754").disk.touch()
    assert site.main() == 0
    assert commands[1:] == ["lab/bin/vepyc start", "ansible-playbook playbooks/ask.yml"]
