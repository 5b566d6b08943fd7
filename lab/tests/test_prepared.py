# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which state a machine starts from, which is saved, and which is removed; no QEMU and no guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from vepyc import SHAPES, Machine, Preparation, VepycError, start_machine
from vepyc.images import guest_system
from vepyc.machine.run_directory import Config, RunDirectory
from vepyc.machine.saved_states import take_snapshot


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    return tmp_path


class FakeMachine:
    """A machine without a guest: saved, it leaves a folder."""

    def __init__(self, run_dir: RunDirectory) -> None:
        self.run_dir, self.name, self.resumed = run_dir, run_dir.path.name, True

    def run(self, command: str) -> None:
        pass

    def disconnect(self) -> None:
        pass

    def discard(self) -> None:
        self.run_dir.remove()


@pytest.fixture
def without_guests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Machines that are only a run directory, and states that are only a folder."""
    monkeypatch.setattr("vepyc.machine.start.ensure_image", lambda release: tmp_path)
    monkeypatch.setattr("vepyc.machine.start._start_and_wait", FakeMachine)
    monkeypatch.setattr("vepyc.machine.start.take_snapshot", lambda machine, shape, release: None)
    monkeypatch.setattr("vepyc.machine.saved_states.run_tool", lambda command: None)
    monkeypatch.setattr(RunDirectory, "send_request", lambda self, request, timeout, **arguments: None)


def saved_states(home: Path) -> list[str]:
    return sorted(path.name.rpartition("-")[0] for path in (home / "prepared").iterdir())


@pytest.mark.usefixtures("without_guests")
def test_a_machine_is_prepared_once_for_all(own_home: Path) -> None:
    prepared: list[str] = []
    tuned = Preparation("tuned", "key", lambda machine: prepared.append(machine.name))
    for name in ("one", "two"):
        start_machine("small", name=name, prepared=tuned)
    assert prepared == ["one"]
    start_machine("small", name="three", kernel="6.1", prepared=tuned)
    assert prepared == ["one", "three"]
    assert saved_states(own_home) == ["small-6.1-tuned", "small-6.12-tuned"]
    (state,) = (own_home / "prepared").glob("small-6.12-*")
    started_from = {name: RunDirectory.of_machine(name).read_config().snapshot for name in ("one", "two")}
    assert started_from == {"one": None, "two": str(state)}


@pytest.mark.usefixtures("without_guests")
def test_a_saved_state_goes_when_another_takes_its_name_and_no_machine_needs_it(own_home: Path) -> None:
    def tuned(key: str, name: str = "tuned") -> Preparation:
        return Preparation(name, key, lambda machine: None)

    start_machine("small", name="other", prepared=tuned("first", "tuned-twice"))
    start_machine("small", name="maker", prepared=tuned("first"))
    start_machine("small", name="user", prepared=tuned("first"))
    start_machine("small", name="second", prepared=tuned("second"))
    assert saved_states(own_home) == ["small-6.12-tuned", "small-6.12-tuned", "small-6.12-tuned-twice"]
    RunDirectory.of_machine("user").remove()
    start_machine("small", name="third", prepared=tuned("third"))
    assert saved_states(own_home) == ["small-6.12-tuned", "small-6.12-tuned-twice"]


@pytest.mark.usefixtures("without_guests")
def test_a_preparation_that_fails_leaves_nothing(own_home: Path) -> None:
    def fail(machine: Machine) -> None:
        raise VepycError("no luck")

    with pytest.raises(VepycError, match="no luck"):
        start_machine("small", name="one", prepared=Preparation("tuned", "key", fail))
    assert saved_states(own_home) == []
    assert not RunDirectory.of_machine("one").path.exists()


def test_a_machine_that_runs_is_in_no_known_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunDirectory, "is_alive", lambda self: True)
    with pytest.raises(VepycError, match="'one' is already up, and nobody knows in which state"):
        start_machine("small", name="one", prepared=Preparation("tuned", "key", lambda machine: None))


def test_a_machine_out_of_a_snapshot_cannot_make_one() -> None:
    run_dir = RunDirectory.of_machine("one")
    run_dir.create(Config("one", "small", "6.12", 1, "image", "snapshot"))
    with pytest.raises(VepycError, match="came out of a snapshot itself; start it with --cold"):
        take_snapshot(Machine(run_dir), SHAPES["small"], guest_system.RELEASES["6.12"], replace=True)
