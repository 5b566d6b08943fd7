# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings host and instance from one arm to the next, and verifies by read-back that they have it.

The settings that an arm removes get the originals of the ledger, which keeps them; all other settings have their stored
values. Each write is read back, and the process and the arguments of the server are checked after each start.
"""

from __future__ import annotations

import hashlib
import json

from .._bench.target import fingerprint
from .._bench.target.measured_instance import find_instance
from .._errors import TuningError
from .._host.host import Host
from .._io import command
from .._knobs import trial
from .._knobs.apply_stored import StoredApplication
from .._knobs.catalogue import KNOBS
from .._knobs.protocol.converge import converge_knobs
from .._knobs.protocol.ledger import Ledger, RestoringKnob
from .._knobs.protocol.stored_requests import load_stored_requests
from .._serving.hooks import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .._bench.target.measured_instance import MeasuredInstance
    from .._io.kernelfs import KernelFS
    from .._io.store import Store
    from .._knobs.protocol.knob import Settings

SMT = "sysfs:smt/control"


class InstanceVariant:
    """How an arm runs the instance: ``lines`` of a drop-in, None for the unit as it is, and its results.

    ``arguments`` are those of the process, the program first, ``unset`` the environment variables that it must not
    have, and ``plan`` is another plan of the instance, where it has one. ``anywhere`` says that the memory may be
    on other nodes than planned.
    """

    def __init__(
        self,
        lines: str | None,
        arguments: Sequence[str],
        unset: Iterable[str] = (),
        anywhere: bool = False,
        plan: Mapping[str, Any] | None = None,
    ) -> None:
        self.lines = lines
        self.arguments = list(arguments)
        self.unset = list(unset)
        self.anywhere = anywhere
        self.plan = plan


class HeldOriginal(RestoringKnob):
    """Writes originals as an undo does, but leaves them in the ledger, because the stored values return later."""

    def require_writable_record(self) -> None:
        """Require nothing: the ledger does not change, so that a host with a full disk can be measured."""

    def finish_run(self) -> None:
        """Leave the originals in the ledger."""


class ArmSwitch:
    """The present state of the host: ``target`` is the running instance, ``variant`` how it was started."""

    def __init__(
        self,
        store: Store,
        fs: KernelFS,
        target: MeasuredInstance,
        tuned: Settings,
        variants: Callable[[Mapping[str, Any]], InstanceVariant],
        limit: float,
        clock: Any,
    ) -> None:
        """Begin with all settings at their stored values, ``tuned``; ``variants`` makes the variant for an arm."""
        self.store = store
        self.fs = fs
        self.target = target
        self.tuned = tuned
        self.starts = 0
        #: The digest of all settings of the present arm as read back.
        self.proven = digest_settings(tuned)
        self.variant = InstanceVariant(None, target.arguments)
        self._variants = variants
        self._limit = limit
        self._clock = clock
        self._held: Settings = {}

    def host(self) -> Host:
        """Return this host as it is now."""
        return Host(self.fs, load_stored_requests(self.store)[0], stored=True)

    def digest(self) -> str:
        """Return a digest of all settings as they are now."""
        return digest_settings(fingerprint.read_settings(self.host()))

    def live(self, arm: Mapping[str, Any]) -> None:
        """Apply the settings of an arm; TuningError where one does not take effect, or another one changes with it."""
        wanted = dict(arm["settings"])
        self._restore_stored_values(wanted)
        if wanted:
            self._held = wanted
            write_originals(self.store, self.host(), wanted)
        self._read_back_settings(wanted)

    def start(self, arm: Mapping[str, Any]) -> None:
        """Start the instance as an arm has it, with its model read anew; TuningError where that fails."""
        unit, before = self.target.units[0], self.target.process
        command.run_command(["systemctl", "stop", unit])
        self.live(arm)
        # The settings may change which CPUs are online, so the variant is built after them.
        variant = self._variants(arm)
        trial.override_unit(unit, variant.lines)
        for file in self.target.plan["mapped"]:
            # Pages in the cache would stay on the nodes of the arm before.
            cache.evict_file(file)
        trial.restart_unit(unit)
        self.starts += 1
        self.target = find_instance(self.host(), self.target.name, self._limit, self._clock, variant.plan)
        self.variant = variant
        left = set(variant.unset).intersection(variable_names(self.fs, self.target.process))
        if self.target.process == before:
            raise TuningError(f"{unit} did not start anew: process {before} still serves.")
        if self.target.arguments != variant.arguments or left:
            raise TuningError(f"{unit} was started with other arguments than this arm has.")

    def _restore_stored_values(self, wanted: Settings) -> None:
        """Restore the stored values of what the last arm removed, unless this arm removes the same."""
        if not self._held or self._held == wanted:
            return
        work = StoredApplication(self.fs, self.store, only={address.partition(":")[0] for address in self._held})
        work.apply_requests()
        if work.failures:
            raise RestoreFailed(f"The stored settings could not be put back: {' '.join(work.failures)}")
        self._held = {}

    def _read_back_settings(self, wanted: Settings) -> None:
        """Read all settings back; TuningError where a setting of another knob has changed.

        Other settings of the same knob may change with it, as all masks do with the mount of resctrl.
        """
        found = fingerprint.read_settings(self.host())
        self.proven = digest_settings(found)
        if SMT in wanted:
            return  # Which CPUs there are decides on which settings there are.
        prefixes = {address.partition(":")[0] for address in wanted}
        for address, value in self.tuned.items():
            if address.partition(":")[0] not in prefixes and found.get(address) != value:
                raise TuningError(f"{address} is {found.get(address)} in this arm, and was {value}.")


def write_originals(store: Store, host: Host, wanted: Settings) -> None:
    """Write originals, in the order of an undo; TuningError where one does not take effect, or is unreachable."""
    ledger = Ledger(store, host.fs)
    for name in ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]:
        mine = {address for address in wanted if address.partition(":")[0] == name}
        if mine:
            knobs = [HeldOriginal(knob, ledger, only=mine) for knob in reversed(KNOBS[name].build_knobs(host, {}))]
            converge_knobs(knobs, ledger)
            unreached = [sentence for knob in knobs for sentence in knob.unreachable]
            if unreached:
                raise TuningError(" ".join(unreached))


def render_service_drop_in(lines: Iterable[str]) -> str:
    """Return the text of a drop-in with these lines for the service."""
    return "\n".join(["# Of a trial that is under way; it goes when that ends.", "[Service]", *lines, ""])


def variable_names(fs: KernelFS, process: int) -> list[str]:
    """Return the names of the environment variables of a process."""
    text = fs.read(f"/proc/{process}/environ")
    return [line.partition("=")[0] for line in text.split("\0") if line]


def digest_settings(settings: Settings) -> str:
    """Return the digest of settings that samples record."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


class RestoreFailed(TuningError):
    """The stored settings could not be restored, so that no further arm can be measured."""
