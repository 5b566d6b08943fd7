# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The protocol of knobs: a knob is a kind of setting, whose addresses have values that the kernel owns.

A knob expands a request into the wanted settings, reads any of its addresses, and writes changes in an order that the
kernel accepts. All other steps are written once for all knobs: differences, check mode, read-back and rollback in
converge.py, originals in ledger.py, and the settings after a boot in stored_requests.py.

An address is a text such as ``resctrl:draft/L3/0``; a value is the text that the kernel shows, None if it shows none.
"""

from __future__ import annotations

from ..._io.blocks import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Optional, Union

    Settings = dict[str, Optional[str]]
    #: The noun for a setting, the unit of its place such as "CPU", and its place, such as the number of the CPU.
    Words = tuple[str, str, Optional[Union[int, str]]]

#: The unit of places for which a report also names the CCDs.
L3_DOMAIN = "L3 domain"


class Change:
    """One difference between the wanted and the present settings."""

    def __init__(self, address: str, before: str | None, after: str | None) -> None:
        self.address = address
        self.before = before
        self.after = after


class Knob:
    """The base class of knobs; a knob overrides wanted_settings, read_settings and write_changes.

    ``prefix`` begins its addresses. ``outlives_reboot`` means that its settings survive a reboot, as boot parameters
    do, and ``outlives_kexec`` that they survive a kernel that starts the next one (kexec), as registers do; the ledger
    keeps their originals as long. ``has_originals`` is False for settings that nothing needs to restore.
    ``needs_ledger`` is False for files that only this collection writes: they can be changed though the ledger is lost.
    """

    prefix = ""
    outlives_reboot = False
    outlives_kexec = False
    has_originals = True
    needs_ledger = True
    #: Remarks of the last run, filled by knobs that have any.
    _remarks: Sequence[str] = ()

    def wanted_settings(self) -> Settings:
        """Return the settings of the request. Raises BadRequest, before any write, if this host cannot have them."""
        raise TypeError("a knob must have wanted settings")

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the present value of each address of this knob, None for an address without a value."""
        raise TypeError("a knob must read settings")

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write changes, in an order that the kernel accepts."""
        raise TypeError("a knob must write changes")

    def read_live_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the values in force, which may differ from the configured ones that read_settings returns."""
        return self.read_settings(addresses)

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values mean the same, as for values that the kernel rounds."""
        return wanted == found

    def is_in_force(self, address: str, wanted: str | None, live: str | None) -> bool:
        """Return whether a value of read_live_settings means the same as the wanted value.

        A knob overrides it if its values_equal compares more than two values, such as those of all boot entries.
        """
        return self.values_equal(address, wanted, live)

    def rewrite_reason(self, address: str, wanted: str | None) -> str:
        """Return why a setting that reads as wanted still needs a write; an empty text if it needs none."""
        return ""

    def owns_address(self, address: str) -> bool:
        """Return whether an address belongs to this knob."""
        return address.startswith(f"{self.prefix}:")

    def holder_address(self, address: str) -> str | None:
        """Return the address of the object that a setting belongs to and ends with, as a mask with its group."""
        return None

    def unreachable_reason(self, address: str) -> str | None:
        """Return why a setting can be neither read nor written now, as with an offline CPU; None if it can."""
        return None

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return the originals that cannot be restored now, each with the reason."""
        reasons = {address: self.unreachable_reason(address) for address in originals}
        return {address: reason for address, reason in reasons.items() if reason}

    def settings_of_other_knobs_lost_by(self, changes: Sequence[Change]) -> Settings:
        """Return settings of other knobs, with their present values, that the kernel discards with these changes.

        The ledger stores them together with the originals, because those knobs run later, when their values are lost.
        """
        return {}

    def obsolete_originals(self, originals: Settings) -> dict[str, str]:
        """Return the originals that need no restoring any more, each with the reason, such as a removed group."""
        return {}

    def list_marked_addresses(self) -> Iterable[str]:
        """Return addresses that bear a mark of this collection, for an undo whose originals are lost."""
        return ()

    def settings_to_restore(self, originals: Settings) -> Settings:
        """Return the settings that an undo restores: the originals, or better ones that the host itself shows.

        It may add settings of this collection that the ledger does not know.
        """
        return originals

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock that the kernel's documentation prescribes, from the first read to the last write."""
        yield

    def list_remarks(self) -> list[str]:
        """Return sentences that the user should read though nothing failed."""
        return list(self._remarks)

    def module_facts(self) -> dict[str, Any]:
        """Return more return values of the module, such as whether a reboot is required."""
        return {}

    def require_writable_record(self) -> None:
        """Raise TuningError if a record of this knob other than its originals could not be written.

        It is called before the first change of a run, with the ledger locked, and in check mode.
        """

    def record_end_of_run(self) -> None:
        """Record the end of a run. It is called when every knob of the run is proven, with the ledger still locked."""
