# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger: the original of every address, which is its value before this collection first changed it.

Settings of the running kernel end with a reboot, so their originals are stored with the id of their boot and ignored
after it. Originals of settings that outlive a reboot, such as boot parameters, are stored until they are restored.
Registers end with a reboot too, but not if one kernel started the next one (kexec), and neither do their originals.

The originals exist nowhere else, so the ledger has two files, each of which is complete. Before anything is stored or
changed, both files are written. So a host with stored requests and without a ledger has lost its ledger, unless the
requests have format 1: the version that wrote them wrote the ledger at the first change of a setting, and nothing was
changed on that host.
"""

from __future__ import annotations

from ..._errors import Damaged, TuningError
from ..._io.store import REQUESTS
from ..._notation.shape import ANY, Nullable
from .knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    from ..._io.kernelfs import KernelFS
    from ..._io.store import Store
    from .knob import Change, Settings

FILES = ("ledger.json", "ledger.copy.json")
_ORIGINALS = {ANY: Nullable(str)}
RUNNING, HARDWARE, LASTING = "running", "hardware", "lasting"
_OF_A_BOOT = {"boot_id": str, "originals": _ORIGINALS}
SHAPE = {RUNNING: _OF_A_BOOT, HARDWARE: _OF_A_BOOT, LASTING: _ORIGINALS}
#: The file with the kernel's number of the boot loader, shifted by four bits, and the number of kexec.
#: Source: Documentation/arch/x86/boot.rst (type_of_loader) and arch/x86/kernel/kexec-bzimage64.c of the Linux kernel.
BOOT_LOADER, KEXEC = "/proc/sys/kernel/bootloader_type", 0xD


class Ledger:
    """The ledger of one host."""

    def __init__(self, store: Store, fs: KernelFS, without_originals: bool = False) -> None:
        """With ``without_originals``, a ledger whose two files are damaged counts as empty, and both are set aside."""
        self.store = store
        self.fs = fs
        self.without_originals = without_originals
        self._files_ensured = False

    def hold_lock(self) -> AbstractContextManager[None]:
        return self.store.hold_lock()

    def load_originals(self) -> Settings:
        """Return the original of every address that was changed and not restored."""
        data = self._load_originals_of_this_boot()
        return {**data[RUNNING]["originals"], **data[HARDWARE]["originals"], **data[LASTING]}

    def remember_originals(self, knob: Knob, changes: Sequence[Change]) -> None:
        """Store the value before the change of each address that has no original yet; on the disk when this returns.

        The original of a setting is None if its holder had none: a mask of a group that a run makes did not exist
        before.
        """
        known = self.load_originals()
        new: Settings = {}
        for change in changes:
            if change.address not in known:
                holder = knob.holder_address(change.address)
                # A monitor group that another program made ends with its group, so the holder's holder counts too.
                while holder is not None and {**known, **new}.get(holder, "") is not None:
                    holder = knob.holder_address(holder)
                new[change.address] = change.before if holder is None else None
        companions = {a: value for a, value in knob.settings_of_other_knobs_lost_by(changes).items() if a not in known}
        if new or companions:
            data = self._load_originals_of_this_boot()
            section = data[HARDWARE if knob.outlives_kexec else RUNNING]["originals"]
            (data[LASTING] if knob.outlives_reboot else section).update(new)
            data[RUNNING]["originals"].update(companions)
            self._save_both_files(data)

    def forget_originals(self, addresses: Iterable[str]) -> None:
        """Remove the originals of addresses that were restored."""
        data = self._load_originals_of_this_boot()
        for address in addresses:
            for originals in (data[RUNNING]["originals"], data[HARDWARE]["originals"], data[LASTING]):
                originals.pop(address, None)
        self._save_both_files(data)

    def ensure_files(self) -> None:
        """Write both files if they are not there, so that files that are missing later count as lost.

        It is called before anything is stored or changed. Raises TuningError if both files are lost already.
        """
        if self._files_ensured:
            return
        whole, reasons = self._read_both_files()
        if reasons and not whole:
            current = self._load_originals_of_this_boot()
            for name in filter(self.store.has_file, FILES):
                self.store.rename_file(name, f"{name}.damaged")
            self._save_both_files(current)
        elif len(whole) < len(FILES) or self.store.has_older_format(REQUESTS):
            self._save_both_files(self._load_originals_of_this_boot())

    def remove_files_if_empty(self) -> None:
        """Remove both files if no original is left."""
        if not self.load_originals():
            for name in FILES:
                self.store.remove_file(name)

    def require_writable(self) -> None:
        """Raise TuningError if the files could not be written after an undo.

        The files are written with their present content, which also detects a full disk. In check mode nothing is
        written.
        """
        if self.store.read_only:
            self.store.require_writable()
        else:
            self.ensure_files()
            self._save_both_files(self._load_originals_of_this_boot())

    def damaged_copy_reason(self) -> str:
        """Return what is wrong with one file while the other file is whole; an empty text if both are whole.

        Raises TuningError if both files are lost.
        """
        self._load_whole_copy()
        whole, reasons = self._read_both_files()
        if not reasons or not whole:
            return ""
        damage = " ".join(reasons)
        copy = next(path for path in map(self.store.file_path, FILES) if path not in damage)
        return f"{damage} {copy} has the same content, and the next run of site.yml repairs the damaged file."

    def has_lost_originals(self) -> bool:
        """Return whether originals were stored on this host but no file has them any more."""
        whole, reasons = self._read_both_files()
        return bool(reasons) and not whole

    def _read_both_files(self) -> tuple[list[dict[str, dict]], list[str]]:  # type: ignore[type-arg]
        """Return the contents of the whole files, and what is wrong with the other files."""
        whole, reasons = [], []
        for name in FILES:
            try:
                if self.store.has_file(name):
                    whole.append(self.store.load_document(name, SHAPE))
            except Damaged as error:
                reasons.append(str(error))
        # The second file may be missing: an older version of the collection wrote only the first one.
        if not self.store.has_file(FILES[0]) and (whole or reasons or self._has_requests_stored_after_ledger()):
            reasons.append(f"{self.store.file_path(FILES[0])} is gone.")
        return whole, reasons

    def _has_requests_stored_after_ledger(self) -> bool:
        """Return whether requests are stored by a version that writes the ledger before it stores anything."""
        try:
            return self.store.has_file(REQUESTS) and not self.store.has_older_format(REQUESTS)
        except Damaged:
            return True

    def _load_whole_copy(self) -> dict[str, dict]:  # type: ignore[type-arg]
        whole, reasons = self._read_both_files()
        if reasons and not whole and not self.without_originals:
            raise TuningError(
                f"{' '.join(reasons)} This file is the record of what this host's settings were before this collection "
                f"changed them, and there is no whole copy of it. Nothing was changed now. Put {FILES[0]} or "
                f"{FILES[1]} back from a backup. Without a backup, 'sovereign-epyc restore --without-originals' "
                "restores the settings that bear a mark of this collection."
            )
        return whole[0] if whole else {}

    def _save_both_files(self, data: dict[str, dict]) -> None:  # type: ignore[type-arg]
        for name in FILES:
            self.store.save_document(name, data)
        # Only now does the format of the requests say that there is a ledger.
        self.store.save_in_present_format(REQUESTS)
        self._files_ensured = True

    def _load_originals_of_this_boot(self) -> dict[str, dict]:  # type: ignore[type-arg]
        """Return the stored originals, without those of an earlier boot."""
        data = self._load_whole_copy()
        boot_id = self.fs.read("/proc/sys/kernel/random/boot_id")
        current: dict[str, dict] = {LASTING: dict(data.get(LASTING, {}))}  # type: ignore[type-arg]
        for name in (RUNNING, HARDWARE):
            section = data.get(name, {})
            holds = section.get("boot_id") == boot_id or (name == HARDWARE and self._was_started_by_kexec())
            current[name] = {"boot_id": boot_id, "originals": dict(section.get("originals", {})) if holds else {}}
        return current

    def _was_started_by_kexec(self) -> bool:
        """Return whether another kernel started this one, so that no firmware reset the registers in between."""
        text = self.fs.read_if_present(BOOT_LOADER) or ""
        return text.isdecimal() and int(text) >> 4 == KEXEC


class RestoringKnob(Knob):
    """A knob whose wanted settings are the originals of another knob; the ledger forgets them after the proof."""

    has_originals = False

    def __init__(
        self,
        inner: Knob,
        ledger: Ledger,
        originals_lost: bool = False,
        only: Collection[str] | None = None,
        note: str = "",
    ) -> None:
        """``only`` limits the addresses to restore. ``note`` is a remark of this run.

        With ``originals_lost``, the wanted settings are the removal of those that bear a mark of this collection.
        """
        self.restored_knob = inner
        self.prefix = inner.prefix
        self.outlives_reboot = inner.outlives_reboot
        self.ledger = ledger
        self.originals_lost = originals_lost
        self.only = only
        self.note = note
        #: Sentences on originals that cannot be restored now, and on those that need no restoring any more.
        self.unreachable: list[str] = []
        self.obsolete: list[str] = []
        #: The remarks of the restored knob after its writes.
        self.write_remarks: list[str] = []
        self._restored_addresses: list[str] = []
        self.read_settings = inner.read_settings  # type: ignore[method-assign]
        self.values_equal = inner.values_equal  # type: ignore[method-assign]
        self.hold_lock = inner.hold_lock  # type: ignore[method-assign]
        self.module_facts = inner.module_facts  # type: ignore[method-assign]

    def wanted_settings(self) -> Settings:
        """Return the originals, except those that cannot be reached now, which stay in the ledger."""
        originals = {a: value for a, value in self.ledger.load_originals().items() if self._should_restore(a)}
        if self.originals_lost:
            originals = dict.fromkeys(self.restored_knob.list_marked_addresses())
        obsolete = self.restored_knob.obsolete_originals(originals)
        reasons = self.restored_knob.unrestorable_reasons({a: v for a, v in originals.items() if a not in obsolete})
        self.unreachable = [f"{address} was not put back: {reason.rstrip('.')}." for address, reason in reasons.items()]
        self.obsolete = list(dict.fromkeys(obsolete.values()))
        self._restored_addresses = [address for address in originals if address not in reasons]
        reached = {address: originals[address] for address in self._restored_addresses if address not in obsolete}
        wanted = self.restored_knob.settings_to_restore(reached)
        return {address: value for address, value in wanted.items() if self._should_restore(address)}

    def require_writable_record(self) -> None:
        """Raise TuningError if there are originals to restore and the ledger could not be updated after it."""
        known = self.restored_knob.list_marked_addresses() if self.originals_lost else self.ledger.load_originals()
        if any(map(self._should_restore, known)):
            self.ledger.require_writable()

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write the originals, and note the remarks of the restored knob."""
        self.restored_knob.write_changes(changes)
        self.write_remarks = self.restored_knob.list_remarks()

    def _should_restore(self, address: str) -> bool:
        return self.restored_knob.owns_address(address) and (self.only is None or address in self.only)

    def list_remarks(self) -> list[str]:
        """Return the originals that could not be restored, with the reasons, and the remarks of the restored knob."""
        return [*([self.note] if self.note else []), *self.unreachable, *self.obsolete, *self.write_remarks]

    def record_end_of_run(self) -> None:
        """Forget the restored originals now: a later knob may remove what made their addresses reachable."""
        if self._restored_addresses:
            self.ledger.forget_originals(self._restored_addresses)
