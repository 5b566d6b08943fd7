# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units of systemd whose files a knob writes: whether they are enabled and active, and their stops and starts.

Addresses: ``PREFIX:UNIT/enabled`` and ``PREFIX:UNIT/active``, in addition to ``PREFIX:/FILE``. A value is systemd's
word, such as "enabled" or "failed", None for a unit that does not exist. Source: systemctl(1) and
org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .._errors import TuningError
from .._io import command, textfile
from .._io.paths import UNIT_FOLDER
from .._io.store import HOME
from .._notation.error_line import find_reason_line
from .protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .protocol.knob import Change, Settings

#: The folders with drop-ins of units: those that people write, and those that `systemctl set-property` makes.
FOLDERS = (UNIT_FOLDER, "/run/systemd/system", "/etc/systemd/system.control", "/run/systemd/system.control")
#: The folder with copies of removed drop-ins, in a folder for each unit.
REMOVED_DROP_INS = f"{HOME}/removed-drop-ins"
PROPERTIES = "Id,LoadState,UnitFileState,ActiveState,SubState,Job,NeedDaemonReload,InvocationID"
#: The folder with a file for each unit that a run is about to restart: the ID of the start that the restart replaces.
#: After a run that was killed, the next run restarts a unit that still runs by that start. A boot removes the folder.
RESTARTS = "/run/sovereign-epyc/restarts"
#: The states of a unit without processes.
STOPPED = (None, "inactive", "failed")
#: The verbs of systemctl after whose failure the journal of the unit may name the reason.
STARTS = ("restart", "try-restart")
#: How many last lines of a journal are searched for the reason of a failed start, and how many are shown. A server that
#: aborts writes up to a hundred lines about its stack.
LINES_READ, LINES_SHOWN = 300, 6
#: The state of a unit whose changed file or drop-in systemd has not read yet, or that waits for its restart after that.
OLD = "active as before its file changed"
#: The states of a unit that has not finished to start, stop or reload.
BETWEEN_STATES = ("activating", "deactivating", "reloading")
#: The state of a unit whose start has failed, until systemd starts it again.
AUTO_RESTART = "auto-restart"
#: The states of a unit that may have used up its start limit.
FAILING = ("failed", AUTO_RESTART, "activating")


class ManagedUnits(Knob):
    """A mixin for ManagedFiles that adds units.

    Files and units are one knob, so that an undo, too, stops units first and starts them last. ``started_by`` maps each
    unit that can be enabled to its target; ``root`` is the tree with the files.
    """

    started_by: Mapping[str, str] = {}
    root = "/"
    #: The properties of units by name, as they were read last.
    _properties: Mapping[str, Mapping[str, str]] = {}

    def list_outdated_units(self, files: Sequence[Change]) -> list[str]:
        """Return the units that may still run with the old content of these changed files."""
        raise TypeError("a knob with units must list outdated units")

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the digests of files, and the states of units, with one call of systemctl."""
        addresses = list(addresses)
        values = super().read_settings(address for address in addresses if not _is_unit_address(address))
        states = [address for address in addresses if _is_unit_address(address)]
        if states:
            shown = read_unit_properties(dict.fromkeys(_unit_of_address(address) for address in states))
            self._properties = {**self._properties, **shown}
            for address in states:
                unit = shown.get(_unit_of_address(address), {})
                values[address] = (
                    self._enabled_state(unit) if address.endswith("/enabled") else _active_state(self.root, unit)
                )
        return values

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two states are equal; inactive equals failed, and a passing state equals any."""
        if not _is_unit_address(address) or address.endswith("/enabled") or wanted == "active":
            return wanted == found
        return found in (None, "inactive") if wanted is None else wanted not in STOPPED or found in STOPPED

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Stop and disable units, write files, have systemd read the files, then enable and start units."""
        files = [change for change in changes if not _is_unit_address(change.address)]
        states = [change for change in changes if _is_unit_address(change.address)]
        active = {_unit_of_address(change.address): change for change in states if change.address.endswith("/active")}
        enabled = {_unit_of_address(change.address): change for change in states if change.address.endswith("/enabled")}
        places = tuple(f"{self.prefix}:{folder}/" for folder in FOLDERS)
        stale = any(change.address.startswith(places) for change in files)
        stop = [name for name, change in active.items() if change.after in STOPPED]
        start = [name for name in active if name not in stop]
        stale |= any(self._properties.get(name, {}).get("NeedDaemonReload") == "yes" for name in start)
        self._note_restarts([*start, *self.list_outdated_units(files)])
        run_systemctl("stop", [name for name in stop if active[name].before not in STOPPED])
        # systemd goes on listing a failed unit after its file is removed, and a stop can fail a unit, too.
        shown = read_unit_properties(stop) if stop else {}
        run_systemctl("reset-failed", [name for name in stop if shown[name].get("ActiveState") == "failed"])
        off = [name for name, change in enabled.items() if change.before == "enabled"]
        run_systemctl("disable", off, "--no-reload")
        super().write_changes(files)
        on = [name for name, change in enabled.items() if change.after == "enabled"]
        run_systemctl("enable", on)  # Enabling a unit has systemd read all files, too.
        if (stale or off) and not on:
            command.run_command(["systemctl", "daemon-reload"])
        again = [name for name in self.list_outdated_units(files) if name not in active]
        # The start limit of a unit is meant for crashes, not for changes, so the count of its starts is reset. systemd
        # refuses the reset for a unit that is not loaded, which has no count.
        with suppress(TuningError):
            run_systemctl("reset-failed", [*(name for name in start if active[name].before in FAILING), *again])
        run_systemctl("restart", start)
        run_systemctl("try-restart", again)
        self._forget_restarts([*start, *again])

    def _note_restarts(self, names: Iterable[str]) -> None:
        """Write for each unit that runs by which start it does, before its file is changed and it is restarted."""
        for name in names:
            unit = self._properties.get(name, {})
            if unit.get("ActiveState") == "active" and unit.get("InvocationID"):
                textfile.write_file(_restart_note_path(self.root, name), f"{unit['InvocationID']}\n")

    def _forget_restarts(self, names: Iterable[str]) -> None:
        for name in names:
            textfile.remove_file(_restart_note_path(self.root, name))
        with suppress(OSError):  # There is none, or it has notes on other units.
            os.rmdir(textfile.path_in_tree(self.root, RESTARTS))

    def _enabled_state(self, unit: dict[str, str]) -> str | None:
        """Return systemd's word, such as "enabled", for a unit, but "disabled" after its link was removed.

        systemd notices a removed link only when it reads all files again.
        """
        name, word = unit.get("Id", ""), unit.get("UnitFileState", "")
        link = f"{UNIT_FOLDER}/{self.started_by.get(name)}.wants/{name}"
        if word == "enabled" and not os.path.islink(textfile.path_in_tree(self.root, link)):
            return "disabled"
        return word or None


def list_drop_ins_of_unit(root: str, name: str) -> list[str]:
    """Return the paths of the drop-ins of a unit."""
    paths = []
    for folder in FOLDERS:
        with suppress(FileNotFoundError):
            names = sorted(os.listdir(textfile.path_in_tree(root, f"{folder}/{name}.d")))
            paths += [f"{folder}/{name}.d/{file}" for file in names if file.endswith(".conf")]
    return paths


def copy_removed_drop_in(root: str, path: str) -> str:
    """Copy a drop-in that somebody wrote before it is removed, and return the path of the copy."""
    moment = time.strftime("%Y-%m-%dT%H%M%S")
    name = f"{os.path.basename(os.path.dirname(path))[: -len('.d')]}/{os.path.basename(path)}.{moment}"
    copy = f"{REMOVED_DROP_INS}/{name}"
    text = textfile.read_text(textfile.path_in_tree(root, path)) or ""
    # A drop-in may hold secrets in variables of the environment.
    textfile.write_file(textfile.path_in_tree(root, copy), text, mode=0o600)
    return copy


def unit_property_address(prefix: str, name: str, kind: str) -> str:
    """Return the address of a property of a unit; ``kind`` is the property, "enabled" or "active"."""
    return f"{prefix}:{name}/{kind}"


def read_unit_properties(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the properties of units by their names, even of units that do not exist."""
    output = command.run_command(["systemctl", "show", f"--property={PROPERTIES}", *names])
    units = [dict(row.partition("=")[::2] for row in part.splitlines()) for part in output.split("\n\n")]
    return {unit.get("Id", ""): unit for unit in units}


def unit_state(properties: Mapping[str, str]) -> str:
    """Return systemd's word for the state of a unit, such as "active"; "" for an unknown unit.

    systemd calls a unit "activating" too while it waits to start the unit again after a failure: this state is
    "auto-restart" here. A stopped unit whose start is queued, as after a boot, is "activating".
    """
    word = properties.get("ActiveState", "")
    if word == "activating" and properties.get("SubState", "").startswith(AUTO_RESTART):
        return AUTO_RESTART
    if word in STOPPED and properties.get("Job", "0") not in ("", "0"):
        return "activating"
    return word


def runs_as_before_its_file_changed(root: str, properties: Mapping[str, str]) -> bool:
    """Return whether a running unit was started before its file or a drop-in changed, and needs a restart for that."""
    if unit_state(properties) != "active":
        return False
    note = textfile.read_text(_restart_note_path(root, properties.get("Id", "")))
    waits_for_restart = note is not None and note.strip() == properties.get("InvocationID")
    return waits_for_restart or properties.get("NeedDaemonReload") == "yes"


def _restart_note_path(root: str, name: str) -> str:
    return textfile.path_in_tree(root, f"{RESTARTS}/{name}")


def _is_unit_address(address: str) -> bool:
    return not address.partition(":")[2].startswith("/")


def _unit_of_address(address: str) -> str:
    return address.partition(":")[2].partition("/")[0]


def _active_state(root: str, unit: dict[str, str]) -> str | None:
    word = unit_state(unit)
    if unit.get("LoadState") == "not-found" and word in STOPPED:
        return None
    return OLD if runs_as_before_its_file_changed(root, unit) else word or None


def run_systemctl(verb: str, names: Sequence[str], *options: str) -> None:
    """Run a verb of systemctl on units. The option --quiet is left out, because it hides the reason of a failure."""
    if not names:
        return
    try:
        command.run_command(["systemctl", *options, verb, *names])
    except TuningError as error:
        if verb in STARTS:
            add_journal_to_error(error, names)
        raise


def add_journal_to_error(error: TuningError, names: Sequence[str]) -> TuningError:
    """Put the reason in the journal of units before an error of their start, and the last lines behind it."""
    # The journal is empty before the first start.
    with suppress(TuningError):
        units = [f"--unit={name}" for name in names]
        words = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--lines={LINES_READ}", *units]
        lines = command.run_command(words).strip().splitlines()
        reason = find_reason_line(lines)
        said = f"{names[0]} says: {reason.rstrip('.')}. " if reason else ""
        if lines:
            error.args = (f"{said}{error} The journal ends: {' | '.join(lines[-LINES_SHOWN:])}",)
    return error
