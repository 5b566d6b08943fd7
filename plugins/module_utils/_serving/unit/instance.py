# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of one instance: writes its unit files, removes drop-ins, starts the server and waits until it serves.

When a changed instance does not start, the previous one is restored. Addresses: ``llama:/FILE`` with the text of a unit
file as value, and ``llama:UNIT/enabled`` and ``llama:UNIT/active``.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import nullcontext, suppress

from ..._errors import TuningError
from ..._io import textfile
from ..._io.paths import HOST_TOOL, UNIT_FOLDER
from ..._io.safe_open import remove_folder_or_link
from ..._knobs.managed_units import (
    REMOVED_DROP_INS,
    ManagedUnits,
    copy_removed_drop_in,
    list_drop_ins_of_unit,
    run_systemctl,
    unit_property_address,
)
from ..._knobs.protocol.knob import Knob
from ..catalogue import LLAMA
from ..hooks import server_http
from ..options.unit_names import watchdog_unit_name
from . import start_limits
from .installed import BOOT_TARGET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..._knobs.protocol.knob import Change, Settings
    from ..catalogue import EngineRow
    from ..plan.instance_plan import InstancePlan
    from ..update.restart import Restart
    from .start_first import NextServer

PREFIX = "llama"
#: The begin of the line by which a unit has a state folder.
STATE_FOLDER = "\nStateDirectory="
DROP_IN_ADVICE = "Settings of systemd belong into the option unit_settings of the instance."
#: A change of these lines needs no restart: they say how a server is stopped, or how it is started the next time, and
#: systemd follows them after it has reloaded the unit.
LINES_WITHOUT_RESTART = re.compile(
    rf"(?:Description|Documentation|After|Before|Wants|OnFailure|OnSuccess|Restart\w*|StartLimit\w+|TimeoutStartSec|"
    rf"TimeoutStopSec|ExecStop|ExecStopPost|LogRateLimit\w+|Digest|"
    rf"ExecStartPre={re.escape(HOST_TOOL)} llama port .*|"
    rf"ExecStartPost=\+?{re.escape(HOST_TOOL)} llama (?:await|answer) .*)(?:=.*)?"
)


class UnitFiles(Knob):
    """The unit files of an instance. Their texts are the values, so that a difference shows the changed lines."""

    prefix = PREFIX
    has_originals = needs_ledger = False
    root = "/"
    removed_drop_ins: dict[str, str]

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the texts of the files that exist. A link has no text: a masked unit is a link to a device."""
        return {address: self._read_unit_text(address[len(PREFIX) + 1 :]) for address in addresses}

    def write_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            path = textfile.path_in_tree(self.root, change.address[len(PREFIX) + 1 :])
            # The target of a link is never written: the link of a masked unit leads to a device.
            if change.after is None or os.path.islink(path):
                is_drop_in = path.endswith(".conf")
                if is_drop_in:
                    unit_path = change.address[len(PREFIX) + 1 :]
                    self.removed_drop_ins[unit_path] = copy_removed_drop_in(self.root, unit_path)
                textfile.remove_file(path)
                if is_drop_in:
                    with suppress(OSError):  # the folder has other files
                        os.rmdir(os.path.dirname(path))
            if change.after is not None:
                textfile.write_file(path, change.after)

    def _read_unit_text(self, path: str) -> str | None:
        path = textfile.path_in_tree(self.root, path)
        return None if os.path.islink(path) else textfile.read_text(path)


class Instance(ManagedUnits, UnitFiles):
    """The knob of the units of an instance: one unit for the server, and one for a draft in a process of its own."""

    def __init__(
        self,
        name: str,
        files: Mapping[str, str],
        service: InstancePlan | None = None,
        root: str = "/",
        restart: Restart | None = None,
        next_server: NextServer | None = None,
        row: EngineRow = LLAMA,
    ) -> None:
        """Make the knob of an instance; with empty ``files``, the instance is removed.

        ``files`` are the texts of its units by path. ``restart`` is the restart of the running instance that they need,
        and ``next_server`` its new version that is started first; None for neither.
        """
        self.root = root
        self.files = dict(files)
        self.service = service
        self.restart = restart
        self.next_server = next_server
        self._has_written = False
        self.names = row.unit_names(name)
        self.main_unit = self.names[0]
        #: The state folders of systemd for these units; they are removed with the instance.
        self.folders = row.state_folders(name)
        self.watchdog = watchdog_unit_name(name)
        self.started_by = {self.main_unit: BOOT_TARGET}
        #: The drop-ins that somebody added, and the copy of each removed one.
        self.drop_ins: list[str] = []
        self.removed_drop_ins: dict[str, str] = {}

    def wanted_settings(self) -> Settings:
        """Return the wanted texts of the unit files, no drop-ins, and the wanted states of the units.

        A drop-in that somebody added would make the instance run otherwise than planned. The unit of a draft is not
        enabled by itself: the unit of the server starts it.
        """
        wanted: Settings = dict.fromkeys(f"{PREFIX}:{UNIT_FOLDER}/{name}" for name in self.names)
        self.drop_ins = [path for name in self.names for path in list_drop_ins_of_unit(self.root, name)]
        wanted.update(dict.fromkeys(f"{PREFIX}:{path}" for path in self.drop_ins))
        wanted.update({f"{PREFIX}:{path}": text for path, text in self.files.items()})
        for name in self.names:
            is_wanted = f"{UNIT_FOLDER}/{name}" in self.files
            wanted[unit_property_address(PREFIX, name, "active")] = "active" if is_wanted else None
        wanted[unit_property_address(PREFIX, self.main_unit, "enabled")] = "enabled" if self.files else None
        return wanted

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values are equal. A unit that is being started counts as active.

        Before the first change, a run has waited for such units; check mode does not wait.
        """
        is_starting = wanted == "active" and found == "activating"
        return is_starting or super().values_equal(address, wanted, found)

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write, remove, stop and start units; a next server serves until the instance does.

        After a failure, the next call restores the version before, and the next server serves until then.
        """
        is_restored = self._has_written
        self._has_written = True
        next_server = self.next_server
        if next_server and not is_restored:
            next_server.start_and_redirect_new_connections()
        try:
            with self.restart.measure_outage() if self.restart else nullcontext():
                self._replace_units(changes)
                if next_server and next_server.is_running and self.restart and self.service:
                    # The hook of the unit may belong to an older host tool, which does not reach the instance itself.
                    server_http.wait_for_health(self.restart.url, start_limits.compute_start_timeout(self.service))
        except BaseException:
            if next_server and is_restored:
                next_server.end_after_its_last_request()
            raise
        if next_server:
            next_server.end_after_its_last_request()

    def _replace_units(self, changes: Sequence[Change]) -> None:
        """Write, remove, stop and start units, and remove the staged copies that no unit needs any more."""
        path = f"{UNIT_FOLDER}/{self.main_unit}"
        for change in changes:
            if self.watchdog in (change.before or "") and needs_restart_for_new_text(change.before, change.after or ""):
                with suppress(TuningError):  # the watchdog does not run
                    run_systemctl("stop", [self.watchdog])
        super().write_changes(changes)
        for change in changes:
            if change.address == f"{PREFIX}:{path}":
                for folder in set(_parse_staging_folders(change.before)) - set(_parse_staging_folders(change.after)):
                    # Somebody may have edited the text, and root removes the folder. So the folder must have the name
                    # of the unit.
                    if os.path.basename(folder) == self.main_unit[: -len(".service")]:
                        remove_folder_or_link(textfile.path_in_tree(self.root, folder))
                for folder in self.folders if _needs_no_state_folder(change) else ():
                    remove_folder_or_link(textfile.path_in_tree(self.root, folder))

    def list_outdated_units(self, files: Sequence[Change]) -> list[str]:
        """Return the units that need a restart after these changes; a draft comes before its server."""
        changed = [
            change.address
            for change in files
            if ".service.d/" in change.address
            or (change.after is not None and needs_restart_for_new_text(change.before, change.after))
        ]
        return [name for name in reversed(self.names) if any(name == _unit_of_address(address) for address in changed)]

    def list_remarks(self) -> list[str]:
        """Return the remarks of the plan, what the restart costs, and where copies of removed drop-ins are."""
        remarks = list(self.service.remarks) if self.service else []
        remarks += [self.restart.format_message()] if self.restart else []
        for path in self.drop_ins:
            copy = self.removed_drop_ins.get(path)
            place = (
                f"is removed; {copy} is a copy of it" if copy else f"will be removed, and copied to {REMOVED_DROP_INS}"
            )
            remarks.append(f"{path} is a drop-in that this collection has not written. It {place}. {DROP_IN_ADVICE}")
        return remarks


def needs_restart(root: str, files: Mapping[str, str]) -> bool:
    """Return whether a running instance is restarted by new texts of its units, or by the removal of a drop-in."""
    return any(
        needs_restart_for_new_text(textfile.read_text(textfile.path_in_tree(root, path)), text)
        or list_drop_ins_of_unit(root, os.path.basename(path))
        for path, text in files.items()
    )


def needs_restart_for_new_text(before: str | None, after: str) -> bool:
    old, new = (
        [line for line in (text or "").splitlines() if not LINES_WITHOUT_RESTART.fullmatch(line)]
        for text in (before, after)
    )
    return old != new


def _needs_no_state_folder(change: Change) -> bool:
    """Return whether an instance is removed, or its unit had a state folder before a change and has none now."""
    return change.after is None or (STATE_FOLDER in (change.before or "") and STATE_FOLDER not in change.after)


def _parse_staging_folders(text: str | None) -> list[str]:
    begin = f"ExecStartPre=+{HOST_TOOL} llama stage "
    lines = [line[len(begin) :] for line in (text or "").splitlines() if line.startswith(begin)]
    return [shlex.split(line)[1].replace("%%", "%") for line in lines]


def _unit_of_address(address: str) -> str:
    folder, dummy, file = address.rpartition("/")
    return os.path.basename(folder)[: -len(".d")] if folder.endswith(".service.d") else file


class PlanReport(Knob):
    """Changes nothing, and reports the plans of all instances as facts of the module."""

    has_originals = needs_ledger = False

    def __init__(self, services: Sequence[InstancePlan], restarts: Sequence[Restart] = ()) -> None:
        self.services = services
        self.restarts = restarts

    def wanted_settings(self) -> Settings:
        return {}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        return {}

    def module_facts(self) -> dict[str, object]:
        """Return the plans as plain data by the names of the instances, and the restarts of running instances."""
        return {
            "services": {service.name: service.to_dict() for service in self.services},
            "restarts": [restart.to_dict() for restart in self.restarts],
        }
