# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An undo whose layers meet trouble: what is put back, what stays remembered, what is said, and what files stay."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HISTORY, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import trial
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import KNOBS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change, Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import FILES, Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import (
    StoredRequests,
    load_stored_requests,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl import obsolete
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.undo import (
    AGAIN,
    LAST_RUN,
    UndoOutcome,
    undo_changes,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks, hosts

DEFAULT = "/proc/irq/default_smp_affinity"
REQUESTS: dict[str, Any] = {
    "sysfs/numa": {"numa_balancing": False},
    "irq/irq": {"cpus": "0", "default": True},
}


class Machine:
    """A small machine on which two layers were changed and stored."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small_to_tune(root)
        self.tree.put(DEFAULT, "ffff")
        self.tree.put("/sys/devices/system/cpu/possible", "0-15")
        self.store = Store(str(root))
        self.ledger = Ledger(self.store, self.tree.fs)
        self.host = Host(self.tree.fs)

    def tune(self) -> None:
        for name, options in REQUESTS.items():
            converge_knobs(KNOBS[name.partition("/")[0]].build_knobs(self.host, options), self.ledger)
        converge_knobs([StoredRequests(self.store, REQUESTS)], self.ledger)

    def restore(self, **how: bool) -> UndoOutcome:
        ledger = Ledger(self.store, self.tree.fs, how.pop("without_originals", False))
        return undo_changes(Host(self.tree.fs), ledger, **how)

    def files(self) -> list[str]:
        """Return the names of the files in the store, but the history, which an undo keeps."""
        folder = Path(self.store.folder)
        return sorted(path.name for path in folder.iterdir() if path.name != HISTORY) if folder.exists() else []

    @staticmethod
    def fail(error: str | Exception) -> None:
        raise error if isinstance(error, Exception) else TuningError(error)

    def values(self) -> tuple[str, str]:
        return self.tree.fs.read(hosts.BALANCING), self.tree.fs.read(DEFAULT)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_all_comes_back_and_no_file_stays(machine: Machine) -> None:
    before = machine.values()
    machine.tune()
    machine.store.save_document(LAST_RUN, {})
    assert machine.values() == ("0", "0001")
    check = machine.restore(check=True)
    assert machine.values() == ("0", "0001")
    done = machine.restore()
    assert (machine.values(), done.left, done.remarks) == (before, [], [])
    assert done.to_diff() == check.to_diff()
    assert machine.files() == []


def test_what_a_knob_remarks_when_it_puts_something_back_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.tune()
    for knob in KNOBS["sysfs"].build_knobs(machine.host, {}):
        monkeypatch.setattr(type(knob), "list_remarks", lambda knob: ["Mind this."])
    done = machine.restore()
    assert (done.remarks, done.left) == (["Mind this."], [])
    assert machine.restore().remarks == []


def test_a_host_that_was_never_tuned_has_no_file_afterwards(machine: Machine) -> None:
    assert machine.restore().changes == []
    assert machine.files() == []


@pytest.mark.parametrize("refused", [hosts.BALANCING, DEFAULT])
def test_one_layer_that_cannot_be_put_back_holds_up_no_other(
    machine: Machine, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.values()
    machine.tune()
    real = KernelFS.write

    def write(fs: KernelFS, path: str, text: str) -> None:
        if path == refused:
            raise Refused(f"Cannot write {path}: Device or resource busy.", 16, path)
        real(fs, path, text)

    with monkeypatch.context() as patch:
        patch.setattr(KernelFS, "write", write)
        done = machine.restore()
    (left,) = done.left
    assert "Device or resource busy" in left
    assert AGAIN in done.unrestored_message() and left in done.unrestored_message()
    (stays,) = (at for at, path in enumerate((hosts.BALANCING, DEFAULT)) if path == refused)
    assert machine.values()[1 - stays] == before[1 - stays]
    assert machine.values()[stays] != before[stays]
    assert load_stored_requests(machine.store)[1] == {}, "the next boot must not tune again"
    # Later it can be had, and the same command finishes the job.
    assert machine.restore().left == []
    assert machine.values() == before
    assert machine.files() == []


def test_without_a_ledger_it_says_what_it_cannot_know(machine: Machine) -> None:
    machine.tune()
    for name in FILES:
        Path(machine.store.file_path(name)).write_text("[]")
    with pytest.raises(TuningError, match=r"restore --without-originals"):
        machine.restore()
    assert machine.values() == ("0", "0001")
    assert load_stored_requests(machine.store)[1] == REQUESTS
    check = machine.restore(without_originals=True, check=True)
    done = machine.restore(without_originals=True)
    assert done.remarks == check.remarks
    assert (
        len(done.remarks) == 1
        and "until the next boot, which no longer sets it: kernel settings, interrupts." in done.remarks[0]
    )
    assert (machine.values(), done.left, load_stored_requests(machine.store)[1]) == (("0", "0001"), [], {})
    assert machine.files() == [f"{name}.damaged" for name in sorted(FILES)], "somebody may still mend them"
    assert machine.restore().left == []


@pytest.mark.parametrize("check", [True, False])
def test_damaged_requests_are_told_before_anything_is_put_back(machine: Machine, check: bool) -> None:
    """And nobody is advised to have this host tuned anew."""
    before = machine.values()
    machine.tune()
    desired = Path(machine.store.file_path("desired.json"))
    desired.write_text("{")
    with pytest.raises(
        TuningError, match=r"desired\.json is damaged: .* Nothing was changed\. Move it away and res"
    ) as caught:
        machine.restore(check=check)
    assert "site.yml" not in str(caught.value)
    assert machine.values() == ("0", "0001") and len(machine.ledger.load_originals()) == 2
    # As it says.
    desired.unlink()
    assert (machine.restore().left, machine.values()) == ([], before)
    assert machine.files() == []


def test_nothing_is_put_back_where_the_store_cannot_be_written(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.values()
    machine.tune()
    with monkeypatch.context() as patch:
        disks.refuse_changes(patch, machine.store.folder, errno.EROFS)
        with pytest.raises(TuningError, match=r"cannot be written: Read-only file system\. Nothing was changed\.$"):
            machine.restore()
    assert machine.values() == ("0", "0001")
    assert (machine.restore().left, machine.values()) == ([], before)


def test_a_layer_that_the_ledger_could_not_forget_is_left(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.tune()
    machine.store.save_document(LAST_RUN, {})
    with monkeypatch.context() as patch:
        disks.refuse_changes(patch, machine.store.folder, errno.ENOSPC, "ledger")
        done = machine.restore()
    assert machine.values() == ("0", "0001")
    assert [one.partition(":")[0] for one in done.left[:2]] == ["kernel settings", "interrupts"]
    assert all("ledger.json cannot be written: No space left on device" in one for one in done.left[:2])
    assert load_stored_requests(machine.store)[1] == {} and not machine.store.has_file(LAST_RUN)
    assert machine.restore().left == []


def test_what_the_ledger_did_not_forget_in_the_end_was_put_back_all_the_same(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.values()
    machine.tune()
    with monkeypatch.context() as patch:
        patch.setattr(
            Ledger, "forget_originals", lambda ledger, addresses: machine.fail("ledger.json cannot be written.")
        )
        done = machine.restore()
    assert machine.values() == before
    assert {change.address for change in done.changes} > {"sysfs:numa_balancing", "irq:default"}
    assert "ledger.json cannot be written. The 1 changes of this run stay" in done.left[0]
    assert (machine.restore().changes, machine.ledger.load_originals()) == ([], {})


def test_requests_that_cannot_be_removed_are_told_with_what_was_done(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.values()
    machine.tune()
    with monkeypatch.context() as patch:
        disks.refuse_changes(patch, machine.store.folder, errno.EPERM, "desired.json")
        done = machine.restore()
    assert machine.values() == before and len(done.changes) == 2
    (left,) = done.left
    assert left.startswith("the stored requests, which the next boot applies: ") and "Operation not permitted" in left


@pytest.mark.parametrize("error", [TuningError("It does not end."), KeyError("x")])
def test_a_trial_that_does_not_end_holds_up_nothing(
    machine: Machine, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = machine.values()
    machine.tune()
    monkeypatch.setattr(trial, "end_trial", lambda *dummy: machine.fail(error))
    done = machine.restore()
    (left,) = done.left
    assert machine.values() == before and left.startswith("the trial that was under way: ")
    assert ("please report it" in left) == isinstance(error, KeyError)


class Marked(Knob):
    """A knob with two addresses, of which one shows that we made it, and a note that its change waits for a reboot."""

    prefix = "cmdline"
    outlives_reboot = True

    def __init__(self, values: dict[str, str | None]) -> None:
        self.values = values

    def wanted_settings(self) -> dict[str, str | None]:
        return {"cmdline:ours": "1", "cmdline:theirs": "2"}

    def read_settings(self, addresses: Any) -> dict[str, str | None]:
        return {address: self.values.get(address) for address in addresses}

    def write_changes(self, changes: Any) -> None:
        self.values.update({change.address: change.after for change in changes})

    def list_marked_addresses(self) -> list[str]:
        return ["cmdline:ours"]

    def module_facts(self) -> dict[str, object]:
        return {"pending": ["ours"]}


@pytest.fixture
def marked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Marked:
    knob = Marked({"cmdline:theirs": "0"})
    monkeypatch.setattr(KNOBS["cmdline"], "_load", lambda: type("engine", (), {"build_knobs": lambda *dummy: [knob]}))
    converge_knobs([knob, StoredRequests(machine.store, {"cmdline/cmdline": {}})], machine.ledger)
    return knob


def test_a_note_says_which_parameters_wait_for_a_reboot(machine: Machine, marked: Marked) -> None:
    note = machine.tree.root / "run/sovereign-epyc/waits-for-reboot"
    machine.restore(check=True)
    assert not note.exists()
    machine.restore()
    assert (marked.values, note.read_text()) == ({"cmdline:ours": None, "cmdline:theirs": "0"}, "ours\n")


def test_a_note_that_cannot_be_written_is_told_and_holds_up_nothing(
    machine: Machine, marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.store.save_document(LAST_RUN, {})
    run = machine.tree.root / "run/sovereign-epyc"
    run.mkdir(parents=True)
    disks.refuse_changes(monkeypatch, run, errno.ENOSPC)
    (left,) = machine.restore().left
    assert left.startswith("the note for reboot.yml that ours waits for a reboot, which this host needs all the same: ")
    assert marked.values["cmdline:theirs"] == "0" and machine.files() == []


def test_what_bears_our_mark_goes_also_without_originals(machine: Machine, marked: Marked) -> None:
    for name in FILES:
        Path(machine.store.file_path(name)).unlink()
    machine.restore(without_originals=True)
    assert marked.values == {"cmdline:ours": None, "cmdline:theirs": "2"}


def test_a_setting_that_cannot_be_reached_is_left(machine: Machine) -> None:
    machine.tune()
    machine.ledger.remember_originals(
        KNOBS["cpufreq"].build_knobs(machine.host, {})[0], [Change("cpufreq:policy99/max", "1", "2")]
    )
    done = machine.restore()
    assert done.left == ["cpufreq:policy99/max was not put back: CPU 99 is offline."] or "policy99" in done.left[0]
    assert machine.ledger.load_originals() == {"cpufreq:policy99/max": "1"}


MOUNTED = {"resctrl:default": "present", "resctrl:default/L3/0": "ffff", "resctrl:x": "present", "resctrl:x/L3/0": "f"}


@pytest.mark.parametrize(
    ("original", "found", "sentence"),
    [
        ("resctrl:default/L3/0", {}, obsolete.UNMOUNTED),
        ("resctrl:default/L3CODE/0", MOUNTED, obsolete.OTHER_MOUNT),
        ("resctrl:y/L3/0", MOUNTED, "The group y of resctrl was removed meanwhile"),
        ("resctrl:x/mon/m/cpus", MOUNTED, "The group x of resctrl was removed meanwhile"),
        ("resctrl:x/L3/0", MOUNTED, None),
        ("resctrl:y", MOUNTED, None),
    ],
)
def test_what_ended_with_its_mount_or_group_is_forgotten(
    original: str, found: dict[str, str | None], sentence: str | None
) -> None:
    told = obsolete.obsolete_originals({original: "ff"}, found)
    assert (sentence is None and told == {}) or told[original].startswith(str(sentence))


@pytest.mark.parametrize(
    ("original", "found", "sentence"),
    [
        (None, "no options", None),
        ("cdp", "cdp", None),
        ("cdp", "no options", obsolete.OTHER_MOUNT),
        ("cdp", None, obsolete.UNMOUNTED),
    ],
)
def test_a_mount_of_others_is_theirs(original: str | None, found: str | None, sentence: str | None) -> None:
    assert obsolete.obsolete_mount_reason(original, found) == sentence


def test_the_mask_of_a_domain_that_is_offline_waits_for_it() -> None:
    assert "L3 domain 3 are offline" in str(obsolete.offline_domain_reason("resctrl:x/L3/3", MOUNTED))
    assert obsolete.offline_domain_reason("resctrl:x/L3/0", MOUNTED) is None
    assert obsolete.offline_domain_reason("resctrl:x/cpus", MOUNTED) is None
