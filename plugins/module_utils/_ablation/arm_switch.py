# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings host and instance from one arm to the next, and proves that they are there.

What an arm leaves out gets the original that the ledger remembers, which the ledger keeps, and all else has its stored
value. Nothing is taken on trust: each write is read back, and a server is asked for its process and its arguments.
"""

from __future__ import annotations

import hashlib
import json

from .._bench.target import fingerprint
from .._bench.target.measured_instance import find
from .._errors import TuningError
from .._host.host import Host
from .._io import command
from .._knobs import trial
from .._knobs.apply_stored import Application
from .._knobs.catalogue import KNOBS
from .._knobs.protocol.converge import converge
from .._knobs.protocol.ledger import Ledger, Original
from .._knobs.protocol.stored_requests import stored
from .._serving.hooks import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from .._bench.target.measured_instance import Target
    from .._io.kernelfs import KernelFS
    from .._io.store import Store
    from .._knobs.protocol.knob import Settings

SMT = "sysfs:smt/control"


class Variant:
    """How an arm has the unit of an instance: ``lines`` of a drop-in, None for the unit as it is, and what they make.

    ``arguments`` are those of the process, the program first, ``unset`` the variables that it must not have, and
    ``plan`` is another plan of the instance, where it has one. ``anywhere`` is for one that lets its memory lie on
    other nodes than planned.
    """

    __slots__ = ("anywhere", "arguments", "lines", "plan", "unset")

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


class Held(Original):
    """Wants originals as an undo does, but the ledger keeps them: the stored values come back after this arm."""

    def require_record(self) -> None:
        """Require nothing: the ledger stays as it is, so that a host can be measured whose disk is full."""

    def settled(self) -> None:
        """Forget nothing."""


class Switch:
    """Knows what the host has now. ``target`` is the instance as it runs, and ``variant`` how; new after each start."""

    def __init__(
        self,
        store: Store,
        fs: KernelFS,
        target: Target,
        tuned: Settings,
        variants: Callable[[Mapping[str, Any]], Variant],
        limit: float,
        clock: Any,
    ) -> None:
        """``tuned`` are all settings with their stored values, and ``variants`` says how an arm has the unit."""
        self.store = store
        self.fs = fs
        self.target = target
        self.tuned = tuned
        self.starts = 0
        #: The digest of all settings of the present arm, as they were read back.
        self.proven = digest_of(tuned)
        self.variant = Variant(None, target.arguments)
        self._variants = variants
        self._limit = limit
        self._clock = clock
        self._held: Settings = {}

    def host(self) -> Host:
        """Return this host as it is now."""
        return Host(self.fs, stored(self.store)[0], stored=True)

    def digest(self) -> str:
        """Return a digest of all settings."""
        return digest_of(fingerprint.settings(self.host()))

    def live(self, arm: Mapping[str, Any]) -> None:
        """Have the settings of an arm. TuningError where one does not take, or another one changed with them."""
        wanted = dict(arm["settings"])
        self._back(wanted)
        if wanted:
            self._held = wanted
            hold(self.store, self.host(), wanted)
        self._prove(wanted)

    def start(self, arm: Mapping[str, Any]) -> None:
        """Start the instance as an arm has it, its model read anew. TuningError where it does not start, or not so."""
        unit, before = self.target.units[0], self.target.process
        command.run_command(["systemctl", "stop", unit])
        self.live(arm)
        # Which CPUs there are may depend on the settings.
        variant = self._variants(arm)
        trial.change_unit(unit, variant.lines)
        for file in self.target.plan["mapped"]:
            # Its pages would stay on the nodes of the arm before.
            cache.drop_file(file)
        trial.restart(unit)
        self.starts += 1
        self.target = find(self.host(), self.target.name, self._limit, self._clock, variant.plan)
        self.variant = variant
        left = set(variant.unset).intersection(environment(self.fs, self.target.process))
        if self.target.process == before:
            raise TuningError(f"{unit} did not start anew: process {before} still serves.")
        if self.target.arguments != variant.arguments or left:
            raise TuningError(f"{unit} was started with other arguments than this arm has.")

    def _back(self, wanted: Settings) -> None:
        """Give stored values back to what the last arm left out, unless this one leaves out the same."""
        if not self._held or self._held == wanted:
            return
        work = Application(self.fs, self.store, only={address.partition(":")[0] for address in self._held})
        work.run()
        if work.failures:
            raise NotBack(f"The stored settings could not be put back: {' '.join(work.failures)}")
        self._held = {}

    def _prove(self, wanted: Settings) -> None:
        """Read all back. Other settings of the same knob may go with it, as all masks do with the mount of resctrl."""
        found = fingerprint.settings(self.host())
        self.proven = digest_of(found)
        if SMT in wanted:
            return  # Which CPUs there are decides on which settings there are.
        prefixes = {address.partition(":")[0] for address in wanted}
        for address, value in self.tuned.items():
            if address.partition(":")[0] not in prefixes and found.get(address) != value:
                raise TuningError(f"{address} is {found.get(address)} in this arm, and was {value}.")


def hold(store: Store, host: Host, wanted: Settings) -> None:
    """Write originals, in the order of an undo. TuningError where one does not take, or cannot be reached."""
    ledger = Ledger(store, host.fs)
    for name in ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]:
        mine = {address for address in wanted if address.partition(":")[0] == name}
        if mine:
            knobs = [Held(knob, ledger, only=mine) for knob in reversed(KNOBS[name].build(host, {}))]
            converge(knobs, ledger)
            unreached = [sentence for knob in knobs for sentence in knob.unreached]
            if unreached:
                raise TuningError(" ".join(unreached))


def service_lines(lines: Iterable[str]) -> str:
    """Return the text of a drop-in with these lines for the service."""
    return "\n".join(["# Of a trial that is under way; it goes when that ends.", "[Service]", *lines, ""])


def environment(fs: KernelFS, process: int) -> list[str]:
    """Return the names of the variables of a process."""
    text = fs.read(f"/proc/{process}/environ")
    return [line.partition("=")[0] for line in text.split("\0") if line]


def digest_of(settings: Settings) -> str:
    """Return the digest of settings that samples carry."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


class NotBack(TuningError):
    """The stored settings could not be put back, so that no arm can be measured any more."""
