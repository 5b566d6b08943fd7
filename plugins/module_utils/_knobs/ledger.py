# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger: what every address held before this collection first wrote to it.

Settings of the running kernel are gone with a reboot, and so are their originals: they are kept under the id of the
boot they belong to. Originals of lasting settings, such as boot parameters, are kept until they are put back.
"""

from __future__ import annotations

from .knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from contextlib import AbstractContextManager

    from .._io.kernelfs import KernelFS
    from .._io.store import Store
    from .knob import Change, Settings

FILE = "ledger.json"


class Ledger:
    """The ledger of one host."""

    def __init__(self, store: Store, fs: KernelFS) -> None:
        self.store = store
        self.fs = fs

    def lock(self) -> AbstractContextManager[None]:
        """Hold the lock of the store."""
        return self.store.lock()

    def originals(self) -> Settings:
        """Return the original of every address that was touched and not put back."""
        data = self.store.load(FILE)
        running = data.get("running", {})
        mine: Settings = dict(running.get("originals", {})) if running.get("boot_id") == self._boot_id() else {}
        mine.update(data.get("lasting", {}))
        return mine

    def remember(self, knob: Knob, changes: Sequence[Change]) -> None:
        """Keep the present value of each address that has no original yet; on the disk when this returns.

        A setting of something that did not exist has the original None, as a mask in a group that we made.
        """
        known = self.originals()
        new: Settings = {}
        for change in changes:
            if change.address not in known:
                holder = knob.parent(change.address)
                # A monitor that somebody made in a group of ours goes with the group, so every holder counts.
                while holder is not None and {**known, **new}.get(holder, "") is not None:
                    holder = knob.parent(holder)
                new[change.address] = change.before if holder is None else None
        if new:
            self._save(new, knob.lasting)

    def forget(self, addresses: Iterable[str]) -> None:
        """Drop originals that were put back."""
        data = self._current()
        for address in addresses:
            data["running"]["originals"].pop(address, None)
            data["lasting"].pop(address, None)
        self.store.save(FILE, data)

    def _save(self, new: Settings, lasting: bool) -> None:
        data = self._current()
        (data["lasting"] if lasting else data["running"]["originals"]).update(new)
        self.store.save(FILE, data)

    def _current(self) -> dict[str, dict]:  # type: ignore[type-arg]
        """Return the file's content, without originals of an earlier boot."""
        data = self.store.load(FILE)
        running = data.get("running", {})
        if running.get("boot_id") != self._boot_id():
            running = {"boot_id": self._boot_id(), "originals": {}}
        return {"running": running, "lasting": data.get("lasting", {})}

    def _boot_id(self) -> str:
        return self.fs.read("/proc/sys/kernel/random/boot_id")


class Original(Knob):
    """Wants what the ledger remembers of another knob, and has the ledger forget it once it is proven."""

    remembered = False

    def __init__(self, inner: Knob, ledger: Ledger) -> None:
        self.inner = inner
        self.prefix = inner.prefix
        self.lasting = inner.lasting
        self.ledger = ledger
        self._remarks: list[str] = []
        self._reached: Settings = {}
        self.read = inner.read  # type: ignore[method-assign]
        self.write = inner.write  # type: ignore[method-assign]
        self.same = inner.same  # type: ignore[method-assign]
        self.lock = inner.lock  # type: ignore[method-assign]
        self.facts = inner.facts  # type: ignore[method-assign]

    def wanted(self) -> Settings:
        """Return the originals, without those that cannot be reached now; they stay in the ledger."""
        originals = {a: value for a, value in self.ledger.originals().items() if self.inner.owns(a)}
        kept = self.inner.kept(originals)
        self._remarks = [f"{address} was not put back: {reason}" for address, reason in kept.items()]
        reached = {address: value for address, value in originals.items() if address not in kept}
        self._reached = self.inner.given_back(reached)
        return dict(self._reached)

    def remarks(self) -> list[str]:
        """Return what could not be put back, with the reason."""
        return self._remarks

    def settled(self) -> None:
        """Forget what was put back; a knob after this one may have taken away what made it reachable."""
        self.ledger.forget(self._reached)
