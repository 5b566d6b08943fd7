# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules that hold for every knob, shown on one whose kernel is a dictionary."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import (
    BadRequest,
    NotApplied,
    Refused,
    TuningError,
    Unrestored,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import (
    LedgerNotUpdated,
    converge_knobs,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change, Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger, RestoringKnob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import StoredRequests
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks


class Dial(Knob):
    """A knob on a dictionary; ``refuse`` names what its kernel says no to, ``deaf`` what it accepts and ignores."""

    prefix = "dial"

    def __init__(self, kernel: dict[str, str | None], want: dict[str, str | None]) -> None:
        self.kernel = kernel
        self.want = want
        self.refuse: set[str] = set()
        self.deaf: set[str] = set()
        self.out_of_reach: set[str] = set()
        self.writes = 0

    def wanted_settings(self) -> dict[str, str | None]:
        if "impossible" in self.want.values():
            raise BadRequest("This host has no impossible.")
        return self.want

    def read_settings(self, addresses: Iterable[str]) -> dict[str, str | None]:
        return {address: self.kernel.get(address) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.writes += 1
            if change.address in self.refuse:
                raise Refused(f"Cannot write {change.address}: Invalid argument.", 22, change.address)
            if change.address not in self.deaf:
                self.kernel[change.address] = change.after

    def holder_address(self, address: str) -> str | None:
        return address.rpartition("/")[0] or None

    def unreachable_reason(self, address: str) -> str | None:
        return "the CPU is offline" if address in self.out_of_reach else None


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("first-boot\n")
    return Ledger(Store(str(tmp_path)), KernelFS(str(tmp_path)))


def reboot(ledger: Ledger, name: str) -> None:
    (Path(ledger.fs.root) / "proc/sys/kernel/random/boot_id").write_text(f"{name}\n")


def test_only_differences_are_written_and_reported(ledger: Ledger) -> None:
    kernel = {"dial:a": "1", "dial:b": "2"}
    outcome = converge_knobs([Dial(kernel, {"dial:a": "1", "dial:b": "3"})], ledger)
    assert kernel == {"dial:a": "1", "dial:b": "3"}
    assert outcome.to_diff() == {"before": {"dial:b": "2"}, "after": {"dial:b": "3"}}


def test_a_diff_of_two_steps_tells_both_ends(ledger: Ledger) -> None:
    kernel: dict[str, str | None] = {"dial:a": "1"}
    outcome = converge_knobs([Dial(kernel, {"dial:a": "2"}), Dial(kernel, {"dial:a": "3"})], ledger)
    assert outcome.to_diff() == {"before": {"dial:a": "1"}, "after": {"dial:a": "3"}}


def test_a_second_run_changes_nothing(ledger: Ledger) -> None:
    dial = Dial({"dial:a": "1"}, {"dial:a": "2"})
    converge_knobs([dial], ledger)
    assert converge_knobs([dial], ledger).changes == []
    assert dial.writes == 1


def test_a_check_says_the_same_and_writes_nothing(ledger: Ledger) -> None:
    dial = Dial({"dial:a": "1"}, {"dial:a": "2"})
    assert converge_knobs([dial], ledger, check=True).to_diff() == {"before": {"dial:a": "1"}, "after": {"dial:a": "2"}}
    assert dial.kernel == {"dial:a": "1"}
    assert not Path(ledger.store.folder).exists()


def test_a_write_without_effect_is_a_failure_that_names_wanted_and_found(ledger: Ledger) -> None:
    dial = Dial({"dial:a": "1", "dial:b": "1"}, {"dial:a": "2", "dial:b": "2"})
    dial.deaf = {"dial:b"}
    with pytest.raises(NotApplied, match=r"dial:b: .* wanted '2', found '1'.*put back") as caught:
        converge_knobs([dial], ledger)
    assert caught.value.details == {"address": "dial:b", "wanted": "2", "found": "1"}
    assert dial.kernel == {"dial:a": "1", "dial:b": "1"}


def test_a_refusal_in_the_middle_undoes_what_came_before_it_in_every_knob(ledger: Ledger) -> None:
    first = Dial({"dial:a": "1"}, {"dial:a": "2"})
    second = Dial({"dial:b": "1", "dial:c": "1"}, {"dial:b": "2", "dial:c": "2"})
    second.refuse = {"dial:c"}
    with pytest.raises(Refused, match=r"Cannot write dial:c.*put back"):
        converge_knobs([first, second], ledger)
    assert (first.kernel, second.kernel) == ({"dial:a": "1"}, {"dial:b": "1", "dial:c": "1"})


class RecordingKernel(dict[str, "str | None"]):
    """A kernel that records the values written to it, in order."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.written: list[tuple[str, str | None]] = []

    def __setitem__(self, address: str, value: str | None) -> None:
        self.written.append((address, value))
        super().__setitem__(address, value)


def test_a_rollback_restores_the_knob_that_was_written_last_first(ledger: Ledger) -> None:
    kernel = RecordingKernel({"dial:a": "1", "dial:b": "1", "dial:c": "1"})
    dials = [Dial(kernel, {address: "2"}) for address in ("dial:a", "dial:b", "dial:c")]
    dials[2].refuse = {"dial:c"}
    with pytest.raises(Refused, match="put back"):
        converge_knobs(dials, ledger)
    assert kernel.written == [("dial:a", "2"), ("dial:b", "2"), ("dial:b", "1"), ("dial:a", "1")]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_nobody_foresaw_undoes_too(ledger: Ledger, error: type[BaseException]) -> None:
    first = Dial({"dial:a": "1"}, {"dial:a": "2"})
    second = Dial({"dial:b": "1"}, {"dial:b": "2"})

    def fail(changes: Sequence[Change]) -> None:
        second.kernel["dial:b"] = "2"
        second.write_changes = Dial.write_changes.__get__(second)  # type: ignore[method-assign]
        raise error

    second.write_changes = fail  # type: ignore[method-assign]
    with pytest.raises(error):
        converge_knobs([first, second], ledger)
    assert (first.kernel, second.kernel) == ({"dial:a": "1"}, {"dial:b": "1"})


def test_a_request_that_cannot_be_met_undoes_the_knobs_before_it(ledger: Ledger) -> None:
    first = Dial({"dial:a": "1"}, {"dial:a": "2"})
    with pytest.raises(BadRequest, match="no impossible"):
        converge_knobs([first, Dial({}, {"dial:b": "impossible"})], ledger)
    assert first.kernel == {"dial:a": "1"}


def test_an_undo_that_fails_says_that_the_host_is_between_two_states(ledger: Ledger) -> None:
    dial = Dial({"dial:a": "1", "dial:b": "1"}, {"dial:a": "2", "dial:b": "2"})

    def write(changes: Sequence[Change]) -> None:
        dial.refuse = {"dial:a", "dial:b"} if dial.writes else {"dial:b"}
        Dial.write_changes(dial, changes)

    dial.write_changes = write  # type: ignore[method-assign]
    with pytest.raises(Unrestored, match="between two states"):
        converge_knobs([dial], ledger)


def test_a_setting_that_cannot_be_restored_keeps_no_other_from_it(ledger: Ledger) -> None:
    class Stuck(Dial):
        def write_changes(self, changes: Sequence[Change]) -> None:
            for change in changes:
                if change.after == "1" and change.address in ("dial:a", "dial:c"):
                    raise Refused(f"Cannot write {change.after}: Invalid argument.", 22, "a file")
                super().write_changes([change])

    kernel: dict[str, str | None] = dict.fromkeys(("dial:a", "dial:b", "dial:c", "dial:d", "dial:e"), "1")
    first = Dial(kernel, {"dial:d": "2"})
    last = Dial(kernel, {"dial:e": "2"})
    last.refuse.add("dial:e")
    with pytest.raises(Unrestored, match="between two states") as caught:
        converge_knobs([first, Stuck(kernel, dict.fromkeys(("dial:a", "dial:b", "dial:c"), "2")), last], ledger)
    assert kernel == {"dial:a": "2", "dial:b": "1", "dial:c": "2", "dial:d": "1", "dial:e": "1"}
    for address, is_named in {"dial:a": True, "dial:b": False, "dial:c": True, "dial:d": False}.items():
        assert (f"{address}: Cannot write" in str(caught.value)) is is_named


def test_the_original_is_that_before_the_first_write(ledger: Ledger) -> None:
    kernel: dict[str, str | None] = {"dial:a": "1"}
    for value in ("2", "3"):
        converge_knobs([Dial(kernel, {"dial:a": value})], ledger)
    assert ledger.load_originals() == {"dial:a": "1"}


def test_the_original_is_on_the_disk_before_the_write(ledger: Ledger) -> None:
    dial = Dial({"dial:a": "1"}, {"dial:a": "2"})
    seen = []

    def write_changes(changes: Sequence[Change]) -> None:
        seen.append(ledger.load_originals())
        Dial.write_changes(dial, changes)

    dial.write_changes = write_changes  # type: ignore[method-assign]
    converge_knobs([dial], ledger)
    assert seen == [{"dial:a": "1"}]


def test_nothing_is_written_when_the_original_cannot_be_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    dial = Dial({"dial:a": "1"}, {"dial:a": "2"})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TuningError, match=r"ledger.json cannot be written"):
        converge_knobs([dial], ledger)
    assert dial.writes == 0


def test_originals_stay_where_the_ledger_could_not_forget_them(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    dial = Dial({"dial:a": "1"}, {"dial:a": "2"})
    converge_knobs([dial], ledger)
    disks.refuse_changes(monkeypatch, ledger.store.folder, errno.ENOSPC, "ledger")
    with pytest.raises(TuningError, match=r"ledger.json cannot be written: No space left on device. It is as it was.$"):
        converge_knobs([RestoringKnob(dial, ledger)], ledger)
    assert (dial.kernel, dial.writes) == ({"dial:a": "2"}, 1)


def test_what_was_put_back_stays_and_is_told_where_the_ledger_cannot_be_written_any_more(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel: dict[str, str | None] = {"dial:a": "1"}
    dial = Dial(kernel, {"dial:a": "2"})
    converge_knobs([dial], ledger)

    class Breaks(Dial):
        def write_changes(self, changes: Sequence[Change]) -> None:
            super().write_changes(changes)
            disks.refuse_changes(monkeypatch, ledger.store.folder, errno.EROFS)

    with pytest.raises(
        LedgerNotUpdated, match=r"Read-only file system.* The 1 changes of this run stay, and"
    ) as caught:
        converge_knobs([RestoringKnob(Breaks(kernel, {}), ledger)], ledger)
    assert caught.value.details["diff"] == {"before": {"dial:a": "2"}, "after": {"dial:a": "1"}}
    assert kernel == {"dial:a": "1"} and ledger.load_originals() == {"dial:a": "1"}
    monkeypatch.undo()
    assert converge_knobs([RestoringKnob(dial, ledger)], ledger).changes == []
    assert ledger.load_originals() == {}


@pytest.mark.parametrize("broken", ["damaged", "read-only"])
def test_nothing_is_written_where_the_request_cannot_be_stored(
    ledger: Ledger, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where all originals are in the ledger already, which then need not be written."""
    kernel: dict[str, str | None] = {"dial:a": "1"}
    converge_knobs([Dial(kernel, {"dial:a": "2"}), StoredRequests(ledger.store, {"dial/x": {}})], ledger)
    if broken == "damaged":
        Path(ledger.store.file_path("desired.json")).write_text("{")
    else:
        disks.refuse_changes(monkeypatch, ledger.store.folder, errno.EROFS)
    dial = Dial(kernel, {"dial:a": "3"})
    with pytest.raises(TuningError, match=r"desired\.json is damaged|Read-only file system") as caught:
        converge_knobs([dial, StoredRequests(ledger.store, {"dial/x": {"a": "3"}})], ledger)
    assert dial.writes == 0 and "Nothing was changed." in str(caught.value)
    assert "put back" not in str(caught.value)


def test_originals_come_back_and_are_forgotten(ledger: Ledger) -> None:
    kernel: dict[str, str | None] = {"dial:a": "1"}
    converge_knobs([Dial(kernel, {"dial:a": "2", "dial:new": "5"})], ledger)
    converge_knobs([RestoringKnob(Dial(kernel, {}), ledger)], ledger)
    assert kernel == {"dial:a": "1", "dial:new": None}
    assert ledger.load_originals() == {}


def test_what_lies_in_something_new_was_not_there_either(ledger: Ledger) -> None:
    kernel: dict[str, str | None] = {}
    converge_knobs([Dial(kernel, {"dial:group": "present"})], ledger)
    kernel["dial:group/mask"] = "ffff"
    converge_knobs([Dial(kernel, {"dial:group/mask": "ff"})], ledger)
    assert ledger.load_originals() == {"dial:group": None, "dial:group/mask": None}


def test_what_cannot_be_reached_stays_remembered_and_is_named(ledger: Ledger) -> None:
    dial = Dial({"dial:a": "1", "dial:b": "1"}, {"dial:a": "2", "dial:b": "2"})
    converge_knobs([dial], ledger)
    dial.out_of_reach = {"dial:b"}
    outcome = converge_knobs([RestoringKnob(dial, ledger)], ledger)
    assert outcome.remarks == ["dial:b was not put back: the CPU is offline."]
    assert dial.kernel == {"dial:a": "1", "dial:b": "2"}
    assert ledger.load_originals() == {"dial:b": "1"}


def test_what_was_put_back_is_forgotten_though_a_later_knob_takes_it_out_of_reach(ledger: Ledger) -> None:
    """As with registers, when the kernel module that shows them is unloaded again after them."""
    kernel: dict[str, str | None] = {"dial:a": "1"}
    dial = Dial(kernel, {"dial:a": "2"})
    converge_knobs([dial], ledger)

    class Takes(Dial):
        def wanted_settings(self) -> dict[str, str | None]:
            dial.out_of_reach = {"dial:a"}
            return {}

    converge_knobs([RestoringKnob(dial, ledger), Takes(kernel, {})], ledger)
    assert kernel == {"dial:a": "1"}
    assert ledger.load_originals() == {}


def test_what_went_out_of_reach_during_a_run_does_not_hinder_the_undo_of_the_rest(ledger: Ledger) -> None:
    """As with a CPU that goes offline between reading and writing."""
    kernel: dict[str, str | None] = {"dial:a": "1", "dial:b": "1"}

    class Leaves(Dial):
        def write_changes(self, changes: Sequence[Change]) -> None:
            for change in changes:
                if change.address == "dial:b" and not self.out_of_reach:
                    self.out_of_reach = {"dial:b"}
                    self.kernel["dial:b"] = None
                    raise Refused("Cannot write dial:b: No such file or directory.", 2, "dial:b")
                self.kernel[change.address] = change.after

    with pytest.raises(Refused, match=r"was put back, except what cannot be reached now: the CPU is offline"):
        converge_knobs([Leaves(kernel, {"dial:a": "2", "dial:b": "2"})], ledger)
    assert kernel == {"dial:a": "1", "dial:b": None}
    assert ledger.load_originals() == {"dial:a": "1", "dial:b": "1"}


def test_a_reboot_ends_originals_of_the_running_kernel_but_not_lasting_ones(ledger: Ledger) -> None:
    lasting = Dial({"dial:file": "old"}, {"dial:file": "new"})
    lasting.outlives_reboot = True
    converge_knobs([Dial({"dial:a": "1"}, {"dial:a": "2"}), lasting], ledger)
    reboot(ledger, "second-boot")
    assert ledger.load_originals() == {"dial:file": "old"}
    converge_knobs([Dial({"dial:a": "7"}, {"dial:a": "2"})], ledger)
    assert ledger.load_originals() == {"dial:a": "7", "dial:file": "old"}


def test_a_read_only_store_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="A check tried to write"):
        Store(str(tmp_path), read_only=True).save_document("ledger.json", {})
