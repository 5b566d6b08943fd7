# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is tried behind walls: a script stands in for systemd-run, notes what it is told, and runs the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.binary import probe, sandbox
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_servers import server

WALLS = ["DynamicUser=yes", 'BindReadOnlyPaths="/home/100%%"']
RUNS = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'


class SystemdRun:
    """The stand-in: what it was told, and what it does then."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.does(RUNS)

    def does(self, text: str) -> None:
        for name in ("systemd-run", "systemctl"):
            path = self.folder / name
            path.write_text(
                f'#!/bin/sh\necho {name} "$@" >>{self.folder}/told\n{text if name == "systemd-run" else ""}\n'
            )
            path.chmod(0o755)

    def told(self) -> list[str]:
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def systemd_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemdRun:
    monkeypatch.setattr(command, "PATH", f"{tmp_path}:{command.PATH}")
    return SystemdRun(tmp_path)


def script(folder: Path, text: str) -> str:
    path = folder / "llama-server"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_program_runs_behind_the_walls(systemd_run: SystemdRun) -> None:
    done = sandbox.attempt(WALLS, ["sh", "-c", "echo out; echo err >&2; exit 3"], 60)
    assert (done.code, done.out, done.err) == (3, "out\n", "err\n")
    (told,) = systemd_run.told()
    assert told.startswith("systemd-run --quiet --collect --wait --pipe --unit=sovereign-epyc-try-")
    assert '--property=DynamicUser=yes --property=BindReadOnlyPaths="/home/100%" -- ' in told
    assert "--property=RuntimeMaxSec=70 " in told


def test_nothing_of_a_server_runs_elsewhere(systemd_run: SystemdRun, tmp_path: Path) -> None:
    """Each of the questions is asked there, that for a token too, and that one ends there."""
    binary = script(tmp_path, f"echo x >>{tmp_path}/began; exit 1")
    systemd_run.does("exit 1")
    for ask in (
        lambda: probe.capabilities(binary, WALLS),
        lambda: probe.program_files(binary, WALLS),
        lambda: probe.dry_run(binary, [], WALLS),
        lambda: probe.one_token(binary, server("b11434"), WALLS),
    ):
        with pytest.raises(TuningError, match="systemd cannot try the server behind the walls of its unit"):
            ask()
    assert len(systemd_run.told()) == 4 and not (tmp_path / "began").exists()


def test_a_server_that_hangs_is_ended_by_its_unit(
    systemd_run: SystemdRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "SECONDS", 0.2)
    systemd_run.does(f"{RUNS.rpartition(';')[0]}; echo '{sandbox.BEGUN}' >&2; sleep 0.5")
    (remark,) = probe.one_token(script(tmp_path, ""), server("b11434"), WALLS)
    assert remark.endswith("could not be tried: it says nothing.")
    unit = systemd_run.told()[0].partition("--unit=")[2].split()[0]
    assert systemd_run.told()[1] == f"systemctl kill --signal=KILL {unit}"


def test_what_systemd_says_itself_is_not_taken_for_the_program(systemd_run: SystemdRun) -> None:
    systemd_run.does("echo 'Failed to connect to bus: No such file' >&2; exit 1")
    with pytest.raises(TuningError, match=r"\(systemd-run\).*It says Failed to connect to bus: No such file"):
        sandbox.attempt(WALLS, ["true"], 60)
    systemd_run.does("exit 226")
    with pytest.raises(TuningError, match="It says nothing; its journal may say more"):
        sandbox.attempt(WALLS, ["true"], 60)


def test_a_signal_and_the_end_of_the_time_are_told_apart(systemd_run: SystemdRun, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="was built for another CPU"):
        probe.dry_run(script(tmp_path, "kill -ILL $$"), [], WALLS)
    with pytest.raises(TuningError, match=r"'sleep 60' had not ended after 0\.1 seconds, and was stopped"):
        sandbox.attempt(WALLS, ["sleep", "60"], 0.1)
