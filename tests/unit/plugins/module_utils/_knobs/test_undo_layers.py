# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An undo of some layers: exactly their settings come back, their requests go, and all else stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import MEMORY_SPEED, REPAIRS, TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.layers import LAYERS, validate_layer_names
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change, Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import FILES, Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import (
    StoredRequests,
    load_stored_requests,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.undo import LAST_RUN, UndoOutcome, undo_changes
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

DEFAULT = "/proc/irq/default_smp_affinity"
WORKQUEUE = "/sys/devices/virtual/workqueue/cpumask"
INTENT = {"draft": {"ccds": 1}}
#: What numa and irq store; both have a request of the knob sysfs.
REQUESTS: dict[str, Any] = {
    "sysfs/numa": {"numa_balancing": False},
    "sysfs/irq": {"workqueue_cpus": "0"},
    "irq/irq": {"cpus": "0", "default": True},
}


class Machine:
    """A small machine on which the settings of two layers were changed and stored."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small_to_tune(root)
        self.tree.put(DEFAULT, "ffff")
        self.tree.put(WORKQUEUE, "ffff")
        self.tree.put("/sys/devices/system/cpu/possible", "0-15")
        self.store = Store(str(root))
        self.before = self.values()
        self.ask(REQUESTS)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store, self.tree.fs)

    def ask(self, requests: dict[str, Any]) -> None:
        for name, options in requests.items():
            converge_knobs(KNOBS[name.partition("/")[0]].build_knobs(Host(self.tree.fs), options), self.ledger)
        converge_knobs([StoredRequests(self.store, {"intent": INTENT, **requests})], self.ledger)

    def undo(self, *layers: str, check: bool = False, lost: bool = False) -> UndoOutcome:
        return undo_changes(Host(self.tree.fs), Ledger(self.store, self.tree.fs, lost), check, layers)

    def values(self) -> dict[str, str]:
        return {path.rpartition("/")[2]: self.tree.fs.read(path) for path in (hosts.BALANCING, DEFAULT, WORKQUEUE)}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_only_the_settings_and_requests_of_the_layer_go(machine: Machine) -> None:
    tuned = machine.values()
    done = machine.undo("irq")
    back = ("default_smp_affinity", "cpumask")
    assert machine.values() == {**tuned, **{name: machine.before[name] for name in back}}
    assert load_stored_requests(machine.store) == (INTENT, {"sysfs/numa": REQUESTS["sysfs/numa"]})
    assert machine.ledger.load_originals() == {"sysfs:numa_balancing": "1"}
    assert all(machine.store.has_file(name) for name in FILES)
    assert {change.address for change in done.changes} == {
        "sysfs:workqueue/cpumask",
        "irq:default",
        "desired:sysfs/irq",
        "desired:irq/irq",
    }
    assert (done.left, done.remarks) == ([], [])


def test_a_second_undo_changes_nothing_and_says_so(machine: Machine) -> None:
    machine.undo("irq")
    again = machine.undo("irq")
    assert again.changes == []
    assert again.summary_message(["irq"]) == (
        "Nothing of irq was ever changed on this host, or all of it was put back before. Nothing was done now."
    )


def test_a_check_says_the_same_and_writes_nothing(machine: Machine) -> None:
    files = {path: path.read_bytes() for path in machine.tree.root.rglob("*") if path.is_file()}
    check = machine.undo("irq", check=True)
    assert {path: path.read_bytes() for path in machine.tree.root.rglob("*") if path.is_file()} == files
    done = machine.undo("irq")
    assert check.to_diff() == done.to_diff()
    assert check.summary_message(["irq"], check=True) == done.summary_message(["irq"]).replace(
        "Put back:", "Would be put back:"
    )
    assert done.summary_message(["irq"]) == (
        "Put back: 1 setting of kernel settings, 1 setting of interrupts, 2 stored requests dropped. All else stays. "
        "Take irq out of epyc_steps too, or the next site.yml sets it again."
    )


def test_the_last_run_holds_no_more_and_repairs_of_other_layers_stay_counted(machine: Machine) -> None:
    machine.store.save_document(LAST_RUN, {})
    machine.store.save_document(REPAIRS, {"most": 2, "repairs": {}})
    machine.store.save_document(MEMORY_SPEED, {})
    machine.undo("irq")
    kept = [machine.store.has_file(name) for name in (LAST_RUN, REPAIRS, MEMORY_SPEED)]
    assert kept == [False, True, True]
    machine.undo()
    assert not any(machine.store.has_file(name) for name in (REPAIRS, MEMORY_SPEED))


def test_a_layer_whose_settings_were_as_asked_leaves_the_record_of_the_others(machine: Machine) -> None:
    """Without the files of the ledger, originals would count as lost while requests are stored."""
    converge_knobs([StoredRequests(machine.store, {"cpuidle/cpuidle": {"settings": []}})], machine.ledger)
    machine.undo("irq", "numa")
    assert load_stored_requests(machine.store)[1].keys() == {"cpuidle/cpuidle"}
    assert machine.ledger.load_originals() == {} and not machine.ledger.has_lost_originals()


def test_layer_after_layer_leaves_what_everything_leaves(machine: Machine) -> None:
    for layer in LAYERS:
        assert machine.undo(layer).left == []
    assert machine.values() == machine.before
    assert load_stored_requests(machine.store) == ({}, {}), "nothing needs the intent any more"
    assert [name for name in (*FILES, "desired.json") if machine.store.has_file(name)] == []


def test_several_layers_at_once(machine: Machine) -> None:
    machine.undo("irq", "numa")
    assert (machine.values(), load_stored_requests(machine.store)) == (machine.before, ({}, {}))


def test_what_somebody_s_own_task_asks_for_is_of_no_layer(machine: Machine) -> None:
    machine.ask({"sysfs/mine": {"numa_balancing": False}})
    tuned = machine.values()
    machine.undo("numa")
    assert machine.values() == tuned
    assert load_stored_requests(machine.store)[1].keys() == {"sysfs/irq", "irq/irq", "sysfs/mine"}


def test_an_own_request_that_cannot_be_planned_is_a_refusal(machine: Machine) -> None:
    tuned = machine.values()
    converge_knobs([StoredRequests(machine.store, {"sysfs/mine": {"workqueue_cpus": "draft:9"}})], machine.ledger)
    with pytest.raises(
        BadRequest, match=r"^The stored request sysfs/mine belongs to no layer .* Nothing was changed\."
    ):
        machine.undo("irq")
    assert machine.values() == tuned and len(load_stored_requests(machine.store)[1]) == 4


def test_what_cannot_be_reached_stays_in_the_ledger_of_its_layer(machine: Machine) -> None:
    knob = KNOBS["cpufreq"].build_knobs(Host(machine.tree.fs), {})[0]
    machine.ledger.remember_originals(knob, [Change("cpufreq:policy99/max", "1", "2")])
    assert machine.undo("irq").left == []
    (left,) = machine.undo("cpufreq").left
    assert "policy99" in left
    assert machine.ledger.load_originals()["cpufreq:policy99/max"] == "1"


def test_without_originals_only_what_bears_our_mark_in_the_layer_goes(machine: Machine) -> None:
    tuned = machine.values()
    for name in FILES:
        Path(machine.store.file_path(name)).write_text("[]")
    with pytest.raises(TuningError, match="--without-originals"):
        machine.undo("irq")
    (remark,) = machine.undo("irq", lost=True).remarks
    assert "which no longer sets it: kernel settings, interrupts." in remark
    assert machine.values() == tuned
    assert load_stored_requests(machine.store)[1].keys() == {"sysfs/numa"}


def test_during_a_trial_no_layer_is_undone(machine: Machine) -> None:
    machine.store.save_document(TRIAL, {})
    tuned = machine.values()
    with pytest.raises(BadRequest, match=r"Nothing was changed\. .*'sovereign-epyc settle'"):
        machine.undo("irq")
    assert machine.values() == tuned


class CommandLine(Knob):
    """A boot parameter that is configured, and that the running kernel was started with."""

    prefix = "cmdline"
    outlives_reboot = True
    configured: str | None = "1"

    def wanted_settings(self) -> dict[str, str | None]:
        return {"cmdline:nohz_full": "1"}

    def read_settings(self, addresses: Any) -> dict[str, str | None]:
        return dict.fromkeys(addresses, self.configured)

    def read_live_settings(self, addresses: Any) -> dict[str, str | None]:
        return dict.fromkeys(addresses, "1")

    def write_changes(self, changes: Any) -> None:
        self.configured = changes[0].after

    def module_facts(self) -> dict[str, object]:
        return {"pending": ["nohz_full"]}


def test_boot_parameters_say_that_they_wait_in_a_check_too(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    knob = CommandLine()
    monkeypatch.setattr(KNOBS["cmdline"], "_load", lambda: type("engine", (), {"build_knobs": lambda *dummy: [knob]}))
    machine.ledger.remember_originals(knob, [Change("cmdline:nohz_full", None, "1")])
    assert machine.undo("irq").pending == []
    check = machine.undo("grub_params", check=True)
    done = machine.undo("grub_params")
    assert check.pending == done.pending == ["nohz_full"]
    assert "The running kernel has nohz_full until the next reboot" in done.summary_message(["grub_params"])


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["catt"], "There is no layer 'catt'; did you mean cat? The layers that can be undone are numa, irq, cat,"),
        (["resctrl"], "There is no layer 'resctrl'; did you mean cat? "),
        (["cpufreq_per_ccd"], "There is no layer 'cpufreq_per_ccd'; did you mean cpufreq? "),
        (["cat", "everything"], "There is no layer 'everything'. The layers that can be undone are "),
        (["base"], "base cannot be undone alone. The command and the services of base undo the other layers"),
        (["llama"], "llama cannot be undone alone. Instances are removed by restore.yml"),
        (["prerequisites"], "prerequisites cannot be undone alone. "),
        (["bios"], "bios cannot be undone alone. BIOS settings are put back through the BMC"),
        (["bios_check"], "bios_check cannot be undone alone. bios_check changes nothing."),
        ([], "No layer is named. "),
    ],
)
def test_names_that_are_no_layers_of_settings_are_refused(names: list[str], sentence: str) -> None:
    with pytest.raises(BadRequest, match=r"Nothing was changed\.") as caught:
        validate_layer_names(names)
    assert str(caught.value).startswith(sentence)


def test_every_layer_of_settings_can_be_undone() -> None:
    assert validate_layer_names([*LAYERS, "cat"]) == [
        "numa",
        "irq",
        "cat",
        "cpufreq",
        "cpuidle",
        "prefetch",
        "grub_params",
    ]
