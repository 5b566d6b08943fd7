# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One instance as systemd has it: its unit files written, drop-ins removed, started and awaited.

When the new one does not start, the one before is there again.
Addresses: ``llama:/FILE`` with the text of a unit file, and ``llama:UNIT/enabled`` and ``llama:UNIT/active``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from contextlib import suppress

from ..._errors import TuningError
from ..._io import textfile
from ..._io.paths import HOST_TOOL, UNIT_FOLDER
from ..._knobs.managed_units import ManagedUnits, list_drop_ins, run_systemctl, unit_address
from ..._knobs.protocol.knob import Knob
from ..catalogue import LLAMA
from ..options.unit_names import watchdog_unit
from .installed import BOOT_TARGET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ..._knobs.protocol.knob import Change, Settings
    from ..catalogue import EngineRow
    from ..plan.instance_plan import InstancePlan

PREFIX = "llama"
#: Lines that do not concern a server that runs: they say how it is stopped, or how it is started the next time, and
#: systemd follows them as soon as it has read them.
LINES_WITHOUT_RESTART = re.compile(
    rf"(?:Description|Documentation|After|Before|Wants|OnFailure|OnSuccess|Restart\w*|StartLimit\w+|TimeoutStartSec|"
    rf"TimeoutStopSec|ExecStop|ExecStopPost|LogRateLimit\w+|Digest|"
    rf"ExecStartPost=\+?{re.escape(HOST_TOOL)} llama await .*)(?:=.*)?"
)


class UnitFiles(Knob):
    """The unit files of an instance, with their texts as values, so that a difference shows what changes."""

    prefix = PREFIX
    has_originals = needs_ledger = False
    root = "/"

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the texts of the files that are there. A link counts as none: that of a masked unit has no text."""
        return {address: self._read_unit_text(address[len(PREFIX) + 1 :]) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write and remove files."""
        for change in changes:
            path = textfile.path_in_tree(self.root, change.address[len(PREFIX) + 1 :])
            # What a link leads to is never written: that of a masked unit leads to a device.
            if change.after is None or os.path.islink(path):
                textfile.remove_file(path)
                if path.endswith(".conf"):
                    with suppress(OSError):  # it holds something else
                        os.rmdir(os.path.dirname(path))
            if change.after is not None:
                textfile.write_file(path, change.after)

    def _read_unit_text(self, path: str) -> str | None:
        path = textfile.path_in_tree(self.root, path)
        return None if os.path.islink(path) else textfile.read_text(path)


class Instance(ManagedUnits, UnitFiles):
    """The units of an instance: that of the server, and that of a draft which has a CCD to itself."""

    def __init__(
        self,
        name: str,
        files: Mapping[str, str],
        service: InstancePlan | None = None,
        root: str = "/",
        proof: Callable[[], None] | None = None,
        row: EngineRow = LLAMA,
    ) -> None:
        """``files`` are the texts of its units by path; with none of them it shall not be on the host.

        ``proof`` has it serve beside the one that runs, which is left alone where that fails.
        """
        self.root = root
        self.files = dict(files)
        self.service = service
        self.require_new_units_serve = proof
        self.names = row.unit_names(name)
        self.main_unit = self.names[0]
        #: What systemd keeps for its units, which goes with them.
        self.folders = row.state_folders(name)
        self.watchdog = watchdog_unit(name)
        self.started_by = {self.main_unit: BOOT_TARGET}

    def wanted_settings(self) -> Settings:
        """Return the texts of files, and systemd's words; the draft's server comes and goes with the other.

        What somebody added to a unit by hand shall not be there: it would run otherwise than planned.
        """
        wanted: Settings = dict.fromkeys(f"{PREFIX}:{UNIT_FOLDER}/{name}" for name in self.names)
        wanted.update(
            dict.fromkeys(f"{PREFIX}:{path}" for name in self.names for path in list_drop_ins(self.root, name))
        )
        wanted.update({f"{PREFIX}:{path}": text for path, text in self.files.items()})
        for name in self.names:
            there = f"{UNIT_FOLDER}/{name}" in self.files
            wanted[unit_address(PREFIX, name, "active")] = "active" if there else None
        wanted[unit_address(PREFIX, self.main_unit, "enabled")] = "enabled" if self.files else None
        return wanted

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write, remove, stop and start; what an instance has staged goes when its unit stages nothing any more.

        A watchdog would be started anew with the unit, as the unit before has told it.
        """
        path = f"{UNIT_FOLDER}/{self.main_unit}"
        # The one before, when it is put back, has served already.
        if self.require_new_units_serve and any(
            one.address == f"{PREFIX}:{path}" and one.after == self.files[path] for one in changes
        ):
            self.require_new_units_serve()
        for change in changes:
            if self.watchdog in (change.before or "") and needs_restart(change.before, change.after or ""):
                with suppress(TuningError):  # it does not run
                    run_systemctl("stop", [self.watchdog])
        super().write_changes(changes)
        for change in changes:
            if change.address == f"{PREFIX}:{path}":
                for folder in set(_list_staging_folders(change.before)) - set(_list_staging_folders(change.after)):
                    # Root removes what a text says that somebody may have edited, so the name has to be ours.
                    if os.path.basename(folder) == self.main_unit[: -len(".service")]:
                        shutil.rmtree(textfile.path_in_tree(self.root, folder), ignore_errors=True)
                for folder in self.folders if change.after is None else ():
                    _remove_folder(textfile.path_in_tree(self.root, folder))

    def list_outdated_units(self, files: Sequence[Change]) -> list[str]:
        """Return the units that run otherwise than their files and drop-ins say now, those that others need first."""
        changed = [
            change.address
            for change in files
            if ".service.d/" in change.address
            or (change.after is not None and needs_restart(change.before, change.after))
        ]
        return [name for name in reversed(self.names) if any(name == _unit_of_address(address) for address in changed)]

    def list_remarks(self) -> list[str]:
        """Return what the plan says of this instance."""
        return list(self.service.remarks) if self.service else []


def needs_restart(before: str | None, after: str) -> bool:
    """Return whether a unit whose text becomes another one must be started anew to run as it says."""
    old, new = (
        [line for line in (text or "").splitlines() if not LINES_WITHOUT_RESTART.fullmatch(line)]
        for text in (before, after)
    )
    return old != new


def _remove_folder(path: str) -> None:
    """Remove a folder with all that is in it, or the link that leads to it."""
    if os.path.islink(path):
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)


def _list_staging_folders(text: str | None) -> list[str]:
    """Return the folders on a hugetlbfs into which a unit has its models copied before it starts."""
    begin = f"ExecStartPre=+{HOST_TOOL} llama stage "
    lines = [line[len(begin) :] for line in (text or "").splitlines() if line.startswith(begin)]
    return [shlex.split(line)[1].replace("%%", "%") for line in lines]


def _unit_of_address(address: str) -> str:
    """Return the unit that a file or a drop-in is of."""
    folder, dummy, file = address.rpartition("/")
    return os.path.basename(folder)[: -len(".d")] if folder.endswith(".service.d") else file


class PlanReport(Knob):
    """Changes nothing, and tells of all instances what was planned."""

    has_originals = needs_ledger = False

    def __init__(self, services: Sequence[InstancePlan]) -> None:
        self.services = services

    def wanted_settings(self) -> Settings:
        """Return nothing."""
        return {}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return nothing."""
        return {}

    def module_facts(self) -> dict[str, object]:
        """Return the plans by the names of the instances, as plain data."""
        return {"services": {service.name: service.to_dict() for service in self.services}}
