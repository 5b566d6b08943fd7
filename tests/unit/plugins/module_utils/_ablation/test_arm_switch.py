# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From arm to arm on a tree of kernel files: what is written, read back and refused. A real kernel is in tests/lab."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import arm_switch as switches
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation import removable_options, removable_settings
from ansible_collections.sovereign.epyc.plugins.module_utils._ablation.arm_switch import ArmSwitch, RestoreFailed
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target import fingerprint
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.target.measured_instance import find_llama_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import BOOT_SERVICE_LINK
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.apply_stored import StoredApplication
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

BALANCING = "/proc/sys/kernel/numa_balancing"
THP = "/sys/kernel/mm/transparent_hugepage/enabled"
WITHOUT_BALANCING = {"name": "without NUMA balancing", "settings": {"sysfs:numa_balancing": "1"}, "arguments": []}
TUNED: dict[str, Any] = {"name": "tuned", "settings": {}, "arguments": []}


class Machine:
    """A host whose one instance serves, with two settings that were tuned."""

    def __init__(self, here: Measured, patch: pytest.MonkeyPatch) -> None:
        self.here = here
        self.fs = here.service.tree.fs
        self.put(BALANCING, 1)
        self.put(THP, "[always] madvise never")
        self.put("/proc/sys/kernel/random/boot_id", "this-boot")
        self.put(BOOT_SERVICE_LINK, "[Unit]")
        self.put("/sys/devices/system/cpu/online", "0-7")
        self.put("/proc/100/environ", "PATH=/bin")
        self.store = Store(self.fs.root)
        Ledger(self.store, self.fs).ensure_files()
        requests = {"sysfs/numa": {"numa_balancing": False, "thp": "madvise"}}
        self.store.save_document("desired.json", {"intent": {}, "requests": requests})
        # A tree takes the word that is written for the whole text, where a kernel shows all of them.
        patch.setattr(self.fs, "write", self.write)
        StoredApplication(self.fs, self.store).apply_requests()
        self.told: list[str] = []
        patch.setattr(switches.trial, "restart_unit_and_wait", lambda unit: self.told.append(f"restart {unit}"))
        patch.setattr(switches.command, "run_command", lambda words: self.told.append(" ".join(words[1:])))
        patch.setattr(switches.trial, "set_temporary_drop_in", self.change)
        patch.setattr(switches.cache, "evict_file_from_page_cache", lambda path: self.told.append("drop"))
        #: What the process of the server is after the next start.
        self.words = find_llama_instance(self.host(), "chat").arguments
        self.drop_in: str | None = None
        self.switch = self.begin()

    def begin(self) -> ArmSwitch:
        target = find_llama_instance(self.host(), "chat")
        variants = removable_options.make_variant_builder(target, self.host())
        return ArmSwitch(
            self.store, self.fs, target, fingerprint.read_values_of_stored_settings(self.host()), variants, 10, time
        )

    def put(self, path: str, text: object) -> None:
        self.here.service.tree.put(path, text)

    def write(self, path: str, text: str) -> None:
        words = {"madvise": "always [madvise] never", "always": "[always] madvise never"}
        self.put(path, words.get(text.strip(), text.strip()))

    def host(self) -> Host:
        return Host(self.fs, {}, stored=True)

    def change(self, unit: str, text: str | None) -> bool:
        self.drop_in = text
        self.told.append("drop-in" if text else "own unit")
        return True

    def starts(self, process: int, words: list[str]) -> None:
        """Have the unit another process, as a start would."""
        self.here.service.thread(process, "4", 4)
        self.put("/sys/fs/cgroup/system.slice/llama-chat.service/cgroup.procs", process)
        self.put(f"/proc/{process}/cmdline", "\0".join(words))
        self.put(f"/proc/{process}/environ", "PATH=/bin")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    with measured(tmp_path, monkeypatch) as here:
        yield Machine(here, monkeypatch)


def test_what_was_tuned_can_be_left_out_by_the_names_that_people_know(machine: Machine) -> None:
    found, untested = removable_settings.list_removable_settings(machine.host(), machine.store)
    settings = {one["name"]: one["settings"] for one in found}
    assert settings == {
        "transparent huge pages": {"sysfs:thp/enabled": "always"},
        "NUMA balancing": {"sysfs:numa_balancing": "1"},
    }
    assert {one["class"] for one in found} == {"restart"} and untested == {}


def test_a_host_that_is_not_as_configured_is_refused(machine: Machine) -> None:
    machine.put(BALANCING, 1)
    with pytest.raises(
        BadRequest, match=r"not as it was configured: sysfs:numa_balancing: it is 1, and should be 0\. Run"
    ):
        removable_settings.list_removable_settings(machine.host(), machine.store)


def test_the_switch_applies_arms_and_restores_stored_values(machine: Machine) -> None:
    before = machine.switch.read_settings_digest()
    machine.switch.apply_settings(WITHOUT_BALANCING)
    assert machine.fs.read(BALANCING) == "1" and machine.switch.read_settings_digest() != before
    # The ledger still knows the original, for this arm again and for an undo.
    assert Ledger(machine.store, machine.fs).load_originals()["sysfs:numa_balancing"] == "1"
    machine.switch.apply_settings(TUNED)
    assert machine.fs.read(BALANCING) == "0" and machine.switch.read_settings_digest() == before


def test_a_write_without_effect_is_an_error(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.fs, "write", lambda path, text: None)
    with pytest.raises(TuningError, match="sysfs:numa_balancing: the write succeeded without effect"):
        machine.switch.apply_settings(WITHOUT_BALANCING)


def test_what_cannot_be_put_back_ends_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.switch.apply_settings(WITHOUT_BALANCING)
    monkeypatch.setattr(machine.fs, "write", lambda path, text: None)
    with pytest.raises(RestoreFailed, match="The stored settings could not be put back: sysfs/numa: "):
        machine.switch.apply_settings(TUNED)


def test_another_setting_that_changed_is_told(machine: Machine) -> None:
    machine.switch.tuned = {**machine.switch.tuned, "irq:default": "ff"}
    with pytest.raises(TuningError, match="irq:default is None in this arm, and was ff"):
        machine.switch.apply_settings(WITHOUT_BALANCING)


def test_a_start_has_other_arguments_and_the_model_is_read_anew(machine: Machine) -> None:
    arm = {"name": "without slots", "settings": {}, "arguments": ["--parallel"]}
    machine.starts(200, machine.words[:-2])
    machine.switch.target.process = 100
    machine.switch.start_instance(arm)
    assert machine.told == ["stop llama-chat.service", "drop-in", "drop", "restart llama-chat.service"]
    assert machine.drop_in is not None and "--parallel" not in machine.drop_in
    assert (machine.switch.target.process, machine.switch.starts) == (200, 1)


def test_a_server_that_did_not_start_anew_is_refused(machine: Machine) -> None:
    with pytest.raises(TuningError, match="did not start anew: process 100 still serves"):
        machine.switch.start_instance(TUNED)


def test_a_server_with_other_arguments_is_refused(machine: Machine) -> None:
    machine.starts(200, [*machine.words, "--threads", "3"])
    with pytest.raises(TuningError, match="was started with other arguments than this arm has"):
        machine.switch.start_instance(TUNED)


def test_a_variable_that_is_still_there_is_refused(machine: Machine) -> None:
    machine.starts(200, machine.words)
    machine.put("/proc/200/environ", "PATH=/bin\0OMP_PROC_BIND=close")
    with pytest.raises(TuningError, match="was started with other arguments than this arm has"):
        machine.switch.start_instance({"name": "without OpenMP", "settings": {}, "arguments": ["OMP_PROC_BIND="]})
