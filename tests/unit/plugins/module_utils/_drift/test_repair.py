# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is put back and what is left; that a kernel takes it is for tests/lab."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey as surveys
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.repair import (
    DAY_SECONDS,
    GIVEN_UP,
    ROLES,
    given_up_settings_metric,
    repair_drift,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import Verdict
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import BOOT_SERVICE_LINK
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import REPAIRS, TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks, hosts

BALANCING = "/proc/sys/kernel/numa_balancing"
INTENT = {"housekeeping": {"cores": 1, "per": "node"}}


class Clock:
    now = 1e9

    def time(self) -> float:
        return self.now


class Machine:
    """A small machine on which a setting is stored, and may be set by somebody else."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small(root)
        self.tree.put(BALANCING, 0)
        self.tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
        self.tree.put(BOOT_SERVICE_LINK, "[Unit]")
        self.fs = KernelFS(str(root))
        self.store = Store(str(root))
        self.clock = Clock()
        Ledger(self.store, self.fs).ensure_files()
        self.store.save_document(
            "desired.json", {"intent": INTENT, "requests": {"sysfs/numa": {"numa_balancing": False}}}
        )

    def repair(self, *roles: str, **more: Any) -> list[str]:
        """Repair; return how many were repaired, given up and left, and the words on them."""
        done = repair_drift(self.fs, self.store, roles or ROLES, clock=self.clock, **more)
        return [f"{len(done.repaired)} {len(done.given_up)} {len(done.left)}", *done.format_outcome_lines()]

    def fight(self) -> None:
        self.tree.put(BALANCING, 1)

    @staticmethod
    def fail() -> None:
        raise TuningError("No topology.")

    def balancing(self) -> str:
        return self.fs.read(BALANCING)

    def metrics(self) -> dict[str, Any]:
        found = surveys.check_host(self.fs, store=self.store).list_findings()
        return given_up_settings_metric(self.store, found, self.clock)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_is_written_where_nothing_has_drifted(machine: Machine) -> None:
    assert machine.repair() == ["0 0 0", "Nothing was to be repaired."]
    assert not machine.store.has_file(REPAIRS)


def test_a_check_says_what_would_be_repaired(machine: Machine) -> None:
    machine.fight()
    assert machine.repair(check=True) == ["1 0 0", "NUMA balancing: would be repaired, 1 -> 0"]
    assert machine.balancing() == "1" and not machine.store.has_file(REPAIRS)


def test_a_host_is_clean_only_where_nothing_is_left_and_a_check_repairs_nothing(machine: Machine) -> None:
    def clean(check: bool = False) -> bool:
        return repair_drift(machine.fs, machine.store, ROLES, clock=machine.clock, check=check).is_clean

    assert clean() and clean(check=True)
    machine.fight()
    assert not clean(check=True)
    assert clean(), "it was repaired"
    machine.tree.drop(BOOT_SERVICE_LINK)
    assert not clean(), "the boot service is for site.yml"
    told = machine.repair()
    assert told[0] == "0 0 0" and told[1].startswith("Left alone: boot service, sovereign-epyc.service: ")
    assert told[1].endswith(" Run site.yml --tags base.")


def test_what_is_not_the_work_of_a_repair_is_named_with_what_is_to_be_done(machine: Machine) -> None:
    def look(fs: KernelFS, store: Store) -> surveys.Survey:
        unit = Verdict("", "llama:llama-chat.service/active", "active")
        unit.found, unit.live, unit.persistent = "failed", "drift", "ok"
        unit.reason = "'journalctl -u llama-chat.service' says why"
        return surveys.check_host(fs, store=store, extra_verdicts=[unit], layers={"numa": [], "cat": []})

    machine.fight()
    assert machine.repair(check_host=look)[1:] == [
        "NUMA balancing: was repaired, 1 -> 0",
        "Left alone: L3 partition: found nothing, wanted stored; the layer cat is asked for, and nothing is stored for "
        "it on this host. Run site.yml --tags cat.",
        "Left alone: run of instance chat: found failed, wanted active; 'journalctl -u llama-chat.service' says why. "
        "Run site.yml --tags llama.",
    ]
    assert machine.balancing() == "0"


def test_a_host_on_which_nothing_is_stored_is_not_clean(tmp_path: Path) -> None:
    done = repair_drift(KernelFS(str(hosts.small(tmp_path).root)), Store(str(tmp_path)), ROLES)
    assert not done.is_clean
    (line,) = done.format_outcome_lines()
    assert line.startswith("Left alone: stored requests: unknown: nothing is stored on this host")
    assert line.endswith(". Run site.yml.")


def test_a_third_time_within_a_day_is_a_fight(machine: Machine) -> None:
    for dummy in range(2):
        machine.fight()
        assert machine.repair() == ["1 0 0", "NUMA balancing: was repaired, 1 -> 0"]
        assert machine.balancing() == "0" and machine.metrics() == {}
        machine.clock.now += 3600
    machine.fight()
    counted, line = machine.repair()
    assert counted == "0 1 0" and line.startswith(
        "NUMA balancing: given up, it is 1 again and should be 0. Somebody else"
    )
    assert machine.balancing() == "1"
    ((labels, number),) = machine.metrics()[GIVEN_UP]
    assert (labels["layer"], labels["what"], labels["role"], number) == ("sysfs", "NUMA balancing", "numa", 1)
    machine.clock.now += DAY_SECONDS - 3600
    assert machine.repair()[0] == "1 0 0", "only one of the last day is left"


@pytest.mark.parametrize("back", [60, 2 * DAY_SECONDS, 20 * 365 * DAY_SECONDS])
def test_a_clock_that_goes_back_does_not_begin_the_fight_anew(machine: Machine, back: float) -> None:
    """As that of a host whose clock begins in the past at each boot."""
    for dummy in range(2):
        machine.fight()
        assert machine.repair()[0] == "1 0 0"
    machine.clock.now -= back
    machine.fight()
    assert machine.repair()[0] == "0 1 0" and machine.metrics()[GIVEN_UP]
    machine.clock.now += back + DAY_SECONDS
    assert machine.repair()[0] == "1 0 0"


def test_times_that_cannot_be_are_passed_over(machine: Machine) -> None:
    machine.store.save_document(
        REPAIRS, {"most": 2, "repairs": {"sysfs:numa_balancing": ["x", None, float("nan"), -(10**400)]}}
    )
    machine.fight()
    assert machine.repair()[0] == "1 0 0"


@pytest.mark.parametrize("check", [True, False])
def test_what_cannot_be_counted_is_not_repaired(machine: Machine, check: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.fight()
    disks.refuse_changes(monkeypatch, machine.store.folder, errno.EROFS)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    store = Store(str(machine.tree.root), read_only=check)
    with pytest.raises(TuningError, match=r"sovereign-epyc cannot be written.* Nothing was changed\."):
        repair_drift(machine.fs, store, ROLES, check=check, clock=machine.clock)
    assert machine.balancing() == "1"


def test_the_disk_is_full_before_a_repair_or_after_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.fight()
    with monkeypatch.context() as patch:
        disks.refuse_changes(patch, machine.store.folder, errno.ENOSPC, REPAIRS)
        with pytest.raises(TuningError, match=r"repairs\.json cannot be written: No space left"):
            machine.repair()
    assert machine.balancing() == "1"
    real = Store.save_document

    def save(store: Store, name: str, data: dict[str, Any]) -> None:
        if name == REPAIRS and store.has_file(REPAIRS):
            raise TuningError("repairs.json cannot be written.")
        real(store, name, data)

    monkeypatch.setattr(Store, "save_document", save)
    monkeypatch.setattr(machine.fs, "write", lambda path, text: None)
    lines = machine.repair()
    assert lines[0] == "0 0 1" and lines[-1].startswith("repairs.json cannot be written. So what could not")


def test_what_was_not_repaired_does_not_count(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(machine.fs, "write", lambda path, text: None)
        for dummy in range(3):
            machine.fight()
            assert machine.repair()[0] == "0 0 1"
    assert machine.repair()[0] == "1 0 0"


def test_a_second_look_that_fails_is_told_with_what_was_done(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.fight()
    real = KernelFS.write

    def write(fs: KernelFS, path: str, text: str) -> None:
        real(fs, path, text)
        monkeypatch.setattr(surveys, "check_host", lambda *dummy, **more: machine.fail())

    monkeypatch.setattr(KernelFS, "write", write)

    def look(*given: Any, **more: Any) -> surveys.Survey:
        return surveys.check_host(*given, **more)

    done = repair_drift(machine.fs, machine.store, ROLES, clock=machine.clock, check_host=look)
    assert len(done.changes) == len(done.left) == 1
    assert done.remarks == ["1 settings were changed, and cannot be looked at again: No topology."]


def test_only_the_layers_of_these_roles(machine: Machine) -> None:
    machine.fight()
    assert machine.repair("irq", "cat") == [
        "0 0 0",
        "Left alone: NUMA balancing: found 1, wanted 0. Run site.yml --tags numa.",
    ]
    assert machine.balancing() == "1"
    some = repair_drift(machine.fs, machine.store, ("irq", "cat"), clock=machine.clock)
    assert some.left_alone and some.is_clean, "it was asked for other roles"
    machine.tree.drop(BOOT_SERVICE_LINK)
    assert not repair_drift(machine.fs, machine.store, ROLES, clock=machine.clock).is_clean
    with pytest.raises(BadRequest, match="grub_params is not repaired by itself; cat, cpufreq"):
        machine.repair("grub_params")


def test_nothing_is_repaired_in_a_trial(machine: Machine) -> None:
    machine.fight()
    machine.store.save_document(TRIAL, {})
    assert machine.repair() == ["0 0 0", f"Nothing is repaired while {surveys.UNDER_TRIAL}."]
    assert machine.balancing() == "1"


def test_what_cannot_be_written_is_left(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.fight()
    monkeypatch.setattr(machine.fs, "write", lambda path, text: None)
    counted, *lines = machine.repair()
    assert counted == "0 0 1" and any("left, it is 1 and should be 0" in line for line in lines), lines


def test_a_damaged_record_is_begun_anew(machine: Machine) -> None:
    machine.tree.put(f"{machine.store.folder}/{REPAIRS}"[len(str(machine.tree.root)) :], "{")
    machine.fight()
    assert machine.repair()[0] == "1 0 0" and machine.metrics() == {}
