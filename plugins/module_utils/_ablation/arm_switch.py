# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Switches a host and its instance from one arm to the next.

A setting that an arm removes gets its original of the ledger; all other settings have their stored values. The ledger
does not change. Each write is read back, and process and arguments of the server are checked after each start.
"""

from __future__ import annotations

import hashlib
import json

from .._bench.target import fingerprint
from .._bench.target.measured_instance import find_llama_instance
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
    """How an arm runs the instance.

    ``drop_in`` is the text of a drop-in for the unit, None for the unit as it is. ``arguments`` are the arguments of
    the process, the program first. ``unset`` are environment variables that the process must not have. With
    ``anywhere`` the memory may be on other nodes than planned. ``plan`` replaces the plan of the unit, None for no
    change.
    """

    def __init__(
        self,
        drop_in: str | None,
        arguments: Sequence[str],
        unset: Iterable[str] = (),
        anywhere: bool = False,
        plan: Mapping[str, Any] | None = None,
    ) -> None:
        self.drop_in = drop_in
        self.arguments = list(arguments)
        self.unset = list(unset)
        self.anywhere = anywhere
        self.plan = plan


class OriginalLeftInLedger(RestoringKnob):
    """Writes originals as an undo does, but keeps them in the ledger, because the stored values return later."""

    def require_writable_record(self) -> None:
        """Require nothing: the ledger does not change, so that a host with a full disk can be measured."""

    def record_end_of_run(self) -> None:
        """Leave the originals in the ledger."""


class ArmSwitch:
    """Switches a host between arms; ``target`` is the running instance, and ``variant`` is how it was started."""

    def __init__(
        self,
        store: Store,
        fs: KernelFS,
        target: MeasuredInstance,
        tuned: Settings,
        build_variant: Callable[[Mapping[str, Any]], InstanceVariant],
        answer_timeout: float,
        clock: Any,
    ) -> None:
        """Begin with all stored settings, ``tuned``; ``build_variant`` returns the variant of an arm."""
        self.store = store
        self.fs = fs
        self.target = target
        self.tuned = tuned
        self.starts = 0
        #: The digest of all settings, as they were read back after the last switch.
        self.settings_digest = digest_settings(tuned)
        self.variant = InstanceVariant(None, target.arguments)
        self._build_variant = build_variant
        self._answer_timeout = answer_timeout
        self._clock = clock
        self._written_originals: Settings = {}

    def host(self) -> Host:
        """Return the host with its stored requests and its present topology."""
        return Host(self.fs, load_stored_requests(self.store)[0], stored=True)

    def read_settings_digest(self) -> str:
        """Read all settings of the host, and return their digest."""
        return digest_settings(fingerprint.read_values_of_stored_settings(self.host()))

    def apply_settings(self, arm: Mapping[str, Any]) -> None:
        """Apply the settings of an arm; TuningError where a setting does not take effect or changes another setting."""
        originals = dict(arm["settings"])
        self._restore_settings_of_last_arm(originals)
        if originals:
            self._written_originals = originals
            write_originals_in_undo_order(self.store, self.host(), originals)
        self._require_other_settings_unchanged(originals)

    def start_instance(self, arm: Mapping[str, Any]) -> None:
        """Restart the instance in the variant of an arm, with its model read from disk; TuningError if that fails."""
        unit, before = self.target.units[0], self.target.process
        command.run_command(["systemctl", "stop", unit])
        self.apply_settings(arm)
        # The settings may change which CPUs are online, and the variant depends on the online CPUs.
        variant = self._build_variant(arm)
        trial.set_temporary_drop_in(unit, variant.drop_in)
        # Cached pages of a file would stay on the nodes that an earlier arm read them to. Arms may have other models.
        for file in dict.fromkeys([*self.target.plan["mapped"], *(variant.plan or self.target.plan)["mapped"]]):
            cache.evict_file_from_page_cache(file)
        trial.restart_unit_and_wait(unit)
        self.starts += 1
        self.target = find_llama_instance(
            self.host(), self.target.name, self._answer_timeout, self._clock, variant.plan
        )
        self.variant = variant
        remaining = set(variant.unset).intersection(list_environment_variables(self.fs, self.target.process))
        if self.target.process == before:
            raise TuningError(f"{unit} did not start anew: process {before} still serves.")
        if self.target.arguments != variant.arguments or remaining:
            raise TuningError(f"{unit} was started with other arguments than this arm has.")

    def _restore_settings_of_last_arm(self, originals: Settings) -> None:
        """Restore the settings that the last arm removed, unless this arm removes the same settings."""
        if not self._written_originals or self._written_originals == originals:
            return
        application = StoredApplication(self.fs, self.store, only=_knob_names(self._written_originals))
        application.apply_requests()
        if application.failures:
            raise RestoreFailed(f"The stored settings could not be put back: {' '.join(application.failures)}")
        self._written_originals = {}

    def _require_other_settings_unchanged(self, originals: Settings) -> None:
        """Read all settings back; TuningError where a setting has changed whose knob has no setting in ``originals``.

        Settings of one knob may depend on each other: all masks depend on the mount of resctrl.
        """
        settings = fingerprint.read_values_of_stored_settings(self.host())
        self.settings_digest = digest_settings(settings)
        if SMT in originals:
            return  # SMT decides which CPUs are online, and an offline CPU has no settings.
        knobs = _knob_names(originals)
        for address, value in self.tuned.items():
            if address.partition(":")[0] not in knobs and settings.get(address) != value:
                raise TuningError(f"{address} is {settings.get(address)} in this arm, and was {value}.")


def _knob_names(settings: Settings) -> set[str]:
    return {address.partition(":")[0] for address in settings}


def write_originals_in_undo_order(store: Store, host: Host, originals: Settings) -> None:
    """Write originals in the order of an undo; TuningError where an original has no effect or is unreachable."""
    ledger = Ledger(store, host.fs)
    for name in ["sysfs", *(name for name in reversed(KNOBS) if name != "sysfs")]:
        addresses = {address for address in originals if address.partition(":")[0] == name}
        if addresses:
            knobs = [
                OriginalLeftInLedger(knob, ledger, only=addresses)
                for knob in reversed(KNOBS[name].build_knobs(host, {}))
            ]
            converge_knobs(knobs, ledger)
            unreachable = [sentence for knob in knobs for sentence in knob.unreachable]
            if unreachable:
                raise TuningError(" ".join(unreachable))


def render_service_drop_in(lines: Iterable[str]) -> str:
    """Return the text of a drop-in with these lines in its section [Service]."""
    return "\n".join(
        ["# Written for a trial that is under way, and removed at the end of the trial.", "[Service]", *lines, ""]
    )


def list_environment_variables(fs: KernelFS, process: int) -> list[str]:
    """Return the names of the environment variables of a process."""
    text = fs.read(f"/proc/{process}/environ")
    return [line.partition("=")[0] for line in text.split("\0") if line]


def digest_settings(settings: Settings) -> str:
    """Return the SHA-256 of settings, which samples record."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


class RestoreFailed(TuningError):
    """The stored settings could not be restored, so that no further arm can be measured."""
