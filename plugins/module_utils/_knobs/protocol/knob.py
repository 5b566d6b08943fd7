# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A knob is a mapping that the kernel owns: every setting has an address and a value.

A knob knows how to expand what was asked into a wanted mapping, how to read any of its addresses, and in which order to
write differences. All else is written once for all knobs: difference, check mode, read-back and the way back in
converge.py, originals in ledger.py, what holds after a boot in desired.py.

An address is a text such as ``resctrl:draft/L3/0``; a value is the text the kernel would show, None for "is not there".
"""

from __future__ import annotations

from ..._io.blocks import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional, Union

    Settings = dict[str, Optional[str]]
    #: What a setting is, the unit that its places are counted in, and its place.
    Words = tuple[str, str, Optional[Union[int, str]]]

#: The unit of places that a report also tells the CCDs of.
L3_DOMAIN = "L3 domain"


class Change:
    """One difference between the wanted and the found mapping."""

    __slots__ = ("address", "after", "before")

    def __init__(self, address: str, before: str | None, after: str | None) -> None:
        self.address = address
        self.before = before
        self.after = after


class Knob:
    """The protocol. A knob of its own overrides wanted, read and write; the rest has defaults that suit most.

    ``prefix`` begins its addresses. ``lasting`` says that a setting outlives a reboot, as a boot parameter does; the
    ledger keeps the original of such a one for longer. ``in_hardware`` says that it outlives a kernel that starts the
    next one (kexec), as a register does. ``remembered`` is False for what has no original to go back to,
    and ``recorded`` where a lost ledger is no hindrance: for files of ours, which nothing was before.
    """

    prefix = ""
    outlives_reboot = False
    outlives_kexec = False
    has_originals = True
    needs_ledger = True

    def wanted_settings(self) -> Settings:
        """Return the mapping to have. Raises BadRequest before anything is written when this host cannot have it."""
        raise TypeError("a knob must want")

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the present value of each address, None for one that is not there. Works for every own address."""
        raise TypeError("a knob must read")

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Make changes, in an order that the kernel accepts."""
        raise TypeError("a knob must write")

    def read_live_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the values in force, where those differ from the configured ones that read returns."""
        return self.read_settings(addresses)

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values mean the same; for values that the kernel rounds."""
        return wanted == found

    def is_in_force(self, address: str, wanted: str | None, live: str | None) -> bool:
        """Return whether a value that live returned means the same as the wanted one.

        For a knob whose ``same`` looks at more than two values, such as at every boot entry.
        """
        return self.values_equal(address, wanted, live)

    def stale_reason(self, address: str, wanted: str | None) -> str:
        """Return why a setting that reads as wanted is not the same all the same; an empty text where it is."""
        return ""

    def owns_address(self, address: str) -> bool:
        """Return whether an address is this knob's."""
        return address.startswith(f"{self.prefix}:")

    def holder_address(self, address: str) -> str | None:
        """Return the address of the thing that holds this setting and takes it along when it goes."""
        return None

    def unreachable_reason(self, address: str) -> str | None:
        """Return why a setting can be neither read nor written now, as with an offline CPU; None where it can."""
        return None

    def unrestorable_reasons(self, originals: Settings) -> dict[str, str]:
        """Return the originals that cannot be put back now, each with the reason."""
        reasons = {address: self.unreachable_reason(address) for address in originals}
        return {address: reason for address, reason in reasons.items() if reason}

    def companion_settings(self, changes: Sequence[Change]) -> Settings:
        """Return settings of other knobs, with their present values, that the kernel loses when these changes are made.

        The ledger remembers them too: by the turn of those knobs it would be too late.
        """
        return {}

    def obsolete_originals(self, originals: Settings) -> dict[str, str]:
        """Return the originals that mean nothing any more, each with a sentence: what held them is another one now."""
        return {}

    def list_marked_addresses(self) -> Iterable[str]:
        """Return addresses that show by themselves that we made them, for an undo whose originals are lost."""
        return ()

    def settings_to_restore(self, originals: Settings) -> Settings:
        """Return what an undo makes of originals: these, unless the host itself tells better what is not ours.

        It may add settings of ours that the ledger does not know.
        """
        return originals

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep other programs that follow the kernel's locking rules away from the first read to the last."""
        yield

    def list_remarks(self) -> list[str]:
        """Return sentences that the person should read though nothing failed."""
        return []

    def module_facts(self) -> dict[str, object]:
        """Return what else a module should return, such as whether a reboot is required."""
        return {}

    def require_writable_record(self) -> None:
        """Raise TuningError where what this knob records beside its originals could not be written.

        Called before the first change of a run, with the ledger locked, and in a check.
        """

    def finish_run(self) -> None:
        """Called when every knob of the run is proven, with the ledger still locked."""
