# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is tried behind walls: a script stands in for systemctl, which runs units as they are written and notes them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command, sandbox
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import probe
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import server

WALLS = ["DynamicUser=yes", 'BindReadOnlyPaths="/home/100%%"']
#: Its result is SAYS where that is not empty; else it runs the program, with the files that the unit names.
SYSTEMCTL = """
import os, shlex, signal, subprocess, sys
here, verb, name, says = "{here}", sys.argv[1], sys.argv[-1], "{says}"
state = f"{{here}}/{{name}}.state"
if verb != "show":
    print(verb, *sys.argv[2:], file=open(f"{{here}}/told", "a"))
if verb == "kill":
    os.kill(int(open(f"{{here}}/{{name}}.pid").read()), signal.SIGKILL)
elif verb == "show":
    print(open(state).read())
elif verb == "start":
    text = open(f"{{here}}/units/{{name}}").read()
    open(f"{{here}}/ran", "a").write(text)
    line = dict(row.partition("=")[::2] for row in text.splitlines())
    if says:
        print("Job failed.", file=sys.stderr)
        open(state, "w").write(says.replace(" ", "\\n"))
        sys.exit(1)
    files = [(kind, "rb" if kind == "Input" else "ab") for kind in ("Input", "Output", "Error")]
    paths = [(line["Standard" + kind].rpartition(":")[2].replace("null", "/dev/null"), how) for kind, how in files]
    opened = [open(path, how) if path != "inherit" else subprocess.STDOUT for path, how in paths]
    done = subprocess.Popen(shlex.split(line["ExecStart"]), stdin=opened[0], stdout=opened[1], stderr=opened[2])
    open(f"{{here}}/{{name}}.pid", "w").write(str(done.pid))
    limit = float(line["TimeoutStartSec"])
    try:
        code, result = done.wait(limit), "exit-code"
    except subprocess.TimeoutExpired:
        done.kill()
        code, result = done.wait(), "timeout"
    rows = f"Result={{result}}", f"ExecMainCode={{1 if code >= 0 else 2}}", f"ExecMainStatus={{abs(code)}}"
    print(*rows, sep="\\n", file=open(state, "w"))
    sys.exit(code != 0)
"""


class Systemd:
    """The stand-in: what it was told, and which units it ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "units").mkdir()
        self.says("")

    def says(self, result: str) -> None:
        path = self.folder / "systemctl"
        path.write_text(f"#!{sys.executable}\n{SYSTEMCTL.format(here=self.folder, says=result)}")
        path.chmod(0o755)

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    monkeypatch.setattr(command, "PATH", f"{tmp_path}:{command.PATH}")
    monkeypatch.setattr(sandbox, "RUNTIME_UNIT_FOLDER", str(tmp_path / "units"))
    monkeypatch.setattr(sandbox, "RUNTIME_FOLDER", str(tmp_path))
    return Systemd(tmp_path)


def script(folder: Path, text: str) -> str:
    path = folder / "llama-server"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_runs_behind_the_walls_and_leaves_nothing(systemd: Systemd) -> None:
    before = sorted(systemd.folder.iterdir())
    done = sandbox.run_in_sandbox(WALLS, ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], 60)
    assert (done.code, done.out, done.err) == (3, "out\n", "err\n")
    assert sandbox.run_in_sandbox(WALLS, ["/bin/true"], 60).code == 0
    lines = systemd.read("ran").splitlines()
    assert lines[-len(WALLS) :] == WALLS and "Type=oneshot" in lines and "TimeoutStartSec=60" in lines
    assert list((systemd.folder / "units").iterdir()) == []
    left = {path for path in systemd.folder.iterdir() if path.suffix not in (".state", ".pid")} - set(before)
    assert {path.name for path in left} == {"told", "ran"}
    assert [call.split()[0] for call in systemd.read("told").splitlines()] == ["start", "reset-failed"] * 2


def test_nothing_of_a_server_runs_elsewhere(systemd: Systemd, tmp_path: Path) -> None:
    """Each of the questions is asked there, that for a token too."""
    binary = script(tmp_path, f"echo x >>{tmp_path}/began; exit 1")
    systemd.says("Result=exit-code ExecMainCode=1 ExecMainStatus=226")
    for ask in (
        lambda: probe.probe_capabilities(binary, WALLS),
        lambda: probe.list_program_file_sizes_and_times(binary, WALLS),
        lambda: probe.require_accepted_arguments(binary, [], WALLS),
        lambda: probe.try_to_compute_one_token(binary, server("b11434"), WALLS),
    ):
        with pytest.raises(TuningError, match=r"systemd cannot raise the walls of the unit.*exit code 226"):
            ask()
    assert systemd.read("ran").count("DynamicUser=yes") == 4 and not (tmp_path / "began").exists()


def test_a_server_that_hangs_is_ended(systemd: Systemd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the model at the descriptor that it is told, and what it says is kept."""
    monkeypatch.setattr(probe, "_wait_for_token", lambda server, port: until(tmp_path / "begun") and False)
    binary = script(tmp_path, f"head -c 4 /proc/self/fd/0; echo; : >{tmp_path}/begun; exec sleep 60")
    (remark,) = probe.try_to_compute_one_token(binary, server("b11434"), WALLS)
    assert remark.endswith("could not be tried: GGUF.")
    unit = systemd.read("told").splitlines()[0].split()[1]
    assert systemd.read("told").splitlines()[1:] == [f"kill --signal=KILL {unit}", f"reset-failed {unit}"]


def until(path: Path) -> bool:
    while not path.exists():
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("Result=exit-code ExecMainCode=1 ExecMainStatus=203", r"/bin/true cannot be executed behind .* \(203/EXEC\)"),
        ("Result=exit-code ExecMainCode=1 ExecMainStatus=217", "exit code 217, see systemd.exec.* Look at user"),
        ("Result=resources ExecMainCode=0 ExecMainStatus=0", "to try /bin/true behind them: Job failed"),
        ("", "to try /bin/true behind them: "),
    ],
)
def test_what_systemd_cannot_do_is_not_taken_for_the_program(systemd: Systemd, result: str, words: str) -> None:
    systemd.says(result or "Result=resources")
    with pytest.raises(TuningError, match=words):
        sandbox.run_in_sandbox(WALLS, ["/bin/true"], 60)


def test_a_signal_and_the_end_of_the_time_are_told_apart(systemd: Systemd, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="was built for another CPU"):
        probe.require_accepted_arguments(script(tmp_path, "kill -ILL $$"), [], WALLS)
    with pytest.raises(BadRequest, match="was built for another CPU"):
        probe.try_to_compute_one_token(script(tmp_path, "kill -ILL $$"), server("b11434"), WALLS)
    with pytest.raises(TuningError, match=r"'sleep 60' had not ended after 0\.1 seconds, and was stopped"):
        sandbox.run_in_sandbox(WALLS, ["sleep", "60"], 0.1)


def test_a_host_without_systemd_is_told(systemd: Systemd) -> None:
    (systemd.folder / "units").rmdir()
    with pytest.raises(TuningError, match="this host was not booted with systemd, and instances need it"):
        sandbox.run_in_sandbox(WALLS, ["/bin/true"], 60)
