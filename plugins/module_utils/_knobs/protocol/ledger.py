# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger: what every address held before this collection first wrote to it.

Settings of the running kernel are gone with a reboot, and so are their originals: they are kept under the id of the
boot they belong to. Originals of lasting settings, such as boot parameters, are kept until they are put back. Those of
the hardware, such as registers, are gone with a reboot too, but not where one kernel started the next one (kexec).

Nobody else knows the originals, so the ledger is kept in two files, of which one is enough.
"""

from __future__ import annotations

from ..._errors import Damaged, TuningError
from ..._io.store import ANY, REQUESTS
from .knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    from ..._io.kernelfs import KernelFS
    from ..._io.store import Store
    from .knob import Change, Settings

FILES = ("ledger.json", "ledger.copy.json")
_ORIGINALS = {ANY: (str, type(None))}
RUNNING, HARDWARE, LASTING = "running", "hardware", "lasting"
_OF_A_BOOT = {"boot_id": str, "originals": _ORIGINALS}
SHAPE = {RUNNING: _OF_A_BOOT, HARDWARE: _OF_A_BOOT, LASTING: _ORIGINALS}
#: What the kernel shows of the boot loader, shifted by four bits, where kexec was it.
#: Source: Documentation/arch/x86/boot.rst (type_of_loader) and arch/x86/kernel/kexec-bzimage64.c of the Linux kernel.
BOOT_LOADER, KEXEC = "/proc/sys/kernel/bootloader_type", 0xD


class Ledger:
    """The ledger of one host."""

    def __init__(self, store: Store, fs: KernelFS, without_originals: bool = False) -> None:
        """``without_originals`` goes on where they are lost: none is known then, and damaged files are set aside."""
        self.store = store
        self.fs = fs
        self.without_originals = without_originals
        self._files_ensured = False

    def hold_lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the store."""
        return self.store.hold_lock()

    def load_originals(self) -> Settings:
        """Return the original of every address that was touched and not put back."""
        data = self._load_current()
        mine: Settings = {}
        for originals in (data[RUNNING]["originals"], data[HARDWARE]["originals"], data[LASTING]):
            mine.update(originals)
        return mine

    def remember_originals(self, knob: Knob, changes: Sequence[Change]) -> None:
        """Keep the present value of each address that has no original yet; on the disk when this returns.

        A setting of something that did not exist has the original None, as a mask in a group that we made.
        """
        known = self.load_originals()
        new: Settings = {}
        for change in changes:
            if change.address not in known:
                holder = knob.holder_address(change.address)
                # A monitor that somebody made in a group of ours goes with the group, so every holder counts.
                while holder is not None and {**known, **new}.get(holder, "") is not None:
                    holder = knob.holder_address(holder)
                new[change.address] = change.before if holder is None else None
        along = {address: value for address, value in knob.companion_settings(changes).items() if address not in known}
        if new or along:
            data = self._load_current()
            mine = (
                data[LASTING]
                if knob.outlives_reboot
                else data[HARDWARE if knob.outlives_kexec else RUNNING]["originals"]
            )
            mine.update(new)
            data[RUNNING]["originals"].update(along)
            self._save_data(data)

    def forget_originals(self, addresses: Iterable[str]) -> None:
        """Drop originals that were put back."""
        data = self._load_current()
        for address in addresses:
            for originals in (data[RUNNING]["originals"], data[HARDWARE]["originals"], data[LASTING]):
                originals.pop(address, None)
        self._save_data(data)

    # The two files

    def ensure_files(self) -> None:
        """Have both files there and whole before anything is stored or written: from then on, missing ones are lost.

        Raises TuningError where they are lost already.
        """
        if self._files_ensured:
            return
        whole, reasons = self._read_both_files()
        if reasons and not whole:
            current = self._load_current()
            for name in filter(self.store.has_file, FILES):
                self.store.rename_file(name, f"{name}.damaged")
            self._save_data(current)
        elif len(whole) < len(FILES):
            self._save_data(self._load_current())

    def remove_files_if_empty(self) -> None:
        """Remove both files when no original is left."""
        if not self.load_originals():
            for name in FILES:
                self.store.remove_file(name)

    def require_writable(self) -> None:
        """Raise TuningError where both files cannot be written as they will be when originals were put back.

        They are written anew with what they hold, which also shows a full disk. In a check nothing is written.
        """
        if self.store.read_only:
            self.store.require_writable()
        else:
            self.ensure_files()
            self._save_data(self._load_current())

    def damaged_copy_reason(self) -> str:
        """Return what is wrong with one of the files though the other has all, an empty text where nothing is.

        Raises TuningError where both are lost.
        """
        self._load_data()
        whole, reasons = self._read_both_files()
        if not reasons or not whole:
            return ""
        said = " ".join(reasons)
        other = next(path for path in map(self.store.file_path, FILES) if path not in said)
        return f"{said} {other} has the same, and the next run of site.yml mends it."

    def has_lost_originals(self) -> bool:
        """Return whether originals were kept here, and no file has them any more."""
        whole, reasons = self._read_both_files()
        return bool(reasons) and not whole

    def _read_both_files(self) -> tuple[list[dict[str, dict]], list[str]]:  # type: ignore[type-arg]
        """Return what each whole file holds, and what is wrong with the others."""
        whole, reasons = [], []
        for name in FILES:
            try:
                if self.store.has_file(name):
                    whole.append(self.store.load_document(name, SHAPE))
            except Damaged as error:
                reasons.append(str(error))
        # One without the copy was written before there was one.
        if not self.store.has_file(FILES[0]) and (whole or reasons or self.store.has_file(REQUESTS)):
            reasons.append(f"{self.store.file_path(FILES[0])} is gone.")
        return whole, reasons

    def _load_data(self) -> dict[str, dict]:  # type: ignore[type-arg]
        whole, reasons = self._read_both_files()
        if reasons and not whole and not self.without_originals:
            raise TuningError(
                f"{' '.join(reasons)} It is the record of what this host's settings were before this collection "
                f"changed them, and there is no whole copy. Nothing was changed now. Put {FILES[0]} or {FILES[1]} back "
                "from a backup. Where there is none, 'sovereign-epyc restore --without-originals' takes back what can "
                "be told without it."
            )
        return whole[0] if whole else {}

    def _save_data(self, data: dict[str, dict]) -> None:  # type: ignore[type-arg]
        for name in FILES:
            self.store.save_document(name, data)
        self._files_ensured = True

    def _load_current(self) -> dict[str, dict]:  # type: ignore[type-arg]
        """Return what is remembered, without originals of an earlier boot."""
        data = self._load_data()
        boot_id = self._read_boot_id()
        current: dict[str, dict] = {LASTING: dict(data.get(LASTING, {}))}  # type: ignore[type-arg]
        for name in (RUNNING, HARDWARE):
            kept = data.get(name, {})
            holds = kept.get("boot_id") == boot_id or (name == HARDWARE and self._was_started_by_kexec())
            current[name] = {"boot_id": boot_id, "originals": dict(kept.get("originals", {})) if holds else {}}
        return current

    def _was_started_by_kexec(self) -> bool:
        """Return whether another kernel started this one, so that no firmware has reset the registers in between."""
        text = self.fs.read_if_present(BOOT_LOADER) or ""
        return text.isdecimal() and int(text) >> 4 == KEXEC

    def _read_boot_id(self) -> str:
        return self.fs.read("/proc/sys/kernel/random/boot_id")


class RestoringKnob(Knob):
    """Wants what the ledger remembers of another knob, and has the ledger forget it once it is proven."""

    has_originals = False

    def __init__(
        self,
        inner: Knob,
        ledger: Ledger,
        originals_lost: bool = False,
        only: Collection[str] | None = None,
        note: str = "",
    ) -> None:
        """With ``originals_lost``, settings that bear our mark are removed; ``only`` are the addresses to restore."""
        self.restored_knob = inner
        self.prefix = inner.prefix
        self.outlives_reboot = inner.outlives_reboot
        self.ledger = ledger
        self.originals_lost = originals_lost
        self.only = only
        self.note = note
        #: Sentences on originals that cannot be put back now, and on those that mean nothing any more.
        self.unreachable: list[str] = []
        self.obsolete: list[str] = []
        #: What the knob remarked when it wrote, such as what of others was in its way.
        self.write_remarks: list[str] = []
        self._restored_addresses: list[str] = []
        self.read_settings = inner.read_settings  # type: ignore[method-assign]
        self.values_equal = inner.values_equal  # type: ignore[method-assign]
        self.hold_lock = inner.hold_lock  # type: ignore[method-assign]
        self.module_facts = inner.module_facts  # type: ignore[method-assign]

    def wanted_settings(self) -> Settings:
        """Return the originals, without those that cannot be reached now, which stay in the ledger."""
        originals = {a: value for a, value in self.ledger.load_originals().items() if self._is_mine(a)}
        if self.originals_lost:
            originals = dict.fromkeys(self.restored_knob.list_marked_addresses())
        void = self.restored_knob.obsolete_originals(originals)
        kept = self.restored_knob.unrestorable_reasons({a: value for a, value in originals.items() if a not in void})
        self.unreachable = [f"{address} was not put back: {reason.rstrip('.')}." for address, reason in kept.items()]
        self.obsolete = list(dict.fromkeys(void.values()))
        self._restored_addresses = [address for address in originals if address not in kept]
        reached = {address: originals[address] for address in self._restored_addresses if address not in void}
        wanted = self.restored_knob.settings_to_restore(reached)
        return {address: value for address, value in wanted.items() if self._is_mine(address)}

    def require_writable_record(self) -> None:
        """Raise TuningError where the ledger could not forget what is put back; nothing where nothing is to be."""
        known = self.restored_knob.list_marked_addresses() if self.originals_lost else self.ledger.load_originals()
        if any(map(self._is_mine, known)):
            self.ledger.require_writable()

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Put back, and keep what the knob has to say of it."""
        self.restored_knob.write_changes(changes)
        self.write_remarks = self.restored_knob.list_remarks()

    def _is_mine(self, address: str) -> bool:
        return self.restored_knob.owns_address(address) and (self.only is None or address in self.only)

    def list_remarks(self) -> list[str]:
        """Return what could not be put back, with the reason, and what the knob remarked."""
        return [*([self.note] if self.note else []), *self.unreachable, *self.obsolete, *self.write_remarks]

    def finish_run(self) -> None:
        """Forget what was put back; a knob after this one may have taken away what made it reachable."""
        if self._restored_addresses:
            self.ledger.forget_originals(self._restored_addresses)
