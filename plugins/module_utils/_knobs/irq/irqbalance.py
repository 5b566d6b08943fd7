# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""irqbalance, the daemon that places interrupts anew every ten seconds, as a knob: kept off CPUs, or stopped.

Addresses: ``irq:irqbalance/banned_cpus``, the raw value of its variable IRQBALANCE_BANNED_CPULIST, and
``irq:irqbalance/service``, systemd's words on it such as "enabled active". Both outlive a reboot.
Source: cputree.c and the manual page of irqbalance. The file is the one that its unit names.
"""

from __future__ import annotations

from ..._errors import Absent, BadRequest
from ..._io import command, textfile
from ..._notation.cpulist import format_cpulist, parse_cpulist
from ..protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings

BANNED = "irq:irqbalance/banned_cpus"
SERVICE = "irq:irqbalance/service"
PROGRAM = "/usr/sbin/irqbalance"
UNIT = "irqbalance.service"
VARIABLE = "IRQBALANCE_BANNED_CPULIST"
#: The older variable; where it is not empty, irqbalance does not look at the newer one.
OLD_VARIABLE = "IRQBALANCE_BANNED_CPUS"
STOPPED = "disabled inactive"
PROPERTIES = "LoadState,ActiveState,UnitFileState,EnvironmentFiles,MainPID"


class Irqbalance(Knob):
    """What irqbalance shall do: ``mode`` is ban, stop or ignore; ``cpus`` are those that interrupts may use.

    ``spread`` tells that each interrupt shall have a CPU of its own, which is not compatible with a running irqbalance.
    """

    prefix = "irq"
    outlives_reboot = True

    def __init__(
        self,
        host: Host,
        mode: str,
        cpus: Callable[[], Sequence[int]],
        spread: bool = False,
        run: Callable[[Sequence[str]], str] = command.run_command,
    ) -> None:
        self.host = host
        self.fs = host.fs
        self.mode = mode
        self.cpus = cpus
        self.spread = spread
        self.run = run
        self._remarks: list[str] = []
        self._unit: dict[str, str] | None = None

    def owns_address(self, address: str) -> bool:
        """The two addresses of irqbalance."""
        return address in (BANNED, SERVICE)

    def wanted_settings(self) -> Settings:
        """Return what irqbalance shall be told; nothing where there is none."""
        self._remarks = []
        if not self.is_installed:
            return {}
        if self.mode == "stop":
            return {SERVICE: STOPPED}
        if self.mode == "ban":
            if self._read_unit_property("LoadState") == "masked" and not self.is_running:
                return {}  # Nothing can start it, and such a unit names no file to tell it anything.
            if self.spread and self.is_running:
                raise BadRequest(
                    "irqbalance runs here and spreads interrupts over the CPUs that it may use by itself, so spread "
                    "cannot hold beside irqbalance=ban. Leave spread out, or set irqbalance to stop."
                )
            old = find_variable(self._read_environment_file(), OLD_VARIABLE)
            if old and strip_quotes(old):
                raise BadRequest(
                    f"{self._environment_file()} sets {OLD_VARIABLE}, and irqbalance then does not look at "
                    f"{VARIABLE}. Remove that "
                    "old line, or set irqbalance to stop."
                )
            top = self.host.topology
            banned = {*top.online, *top.offline} - set(self.cpus())
            return {BANNED: format_cpulist(banned)}
        if self.is_running:
            self._remarks = [
                "irqbalance runs here and will place interrupts anew within ten seconds, wherever it likes. Set "
                "irqbalance to ban, so that it keeps to the same CPUs, or to stop."
            ]
        return {}

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return what its file and systemd say."""
        found: Settings = {}
        for address in addresses:
            if not self.is_installed:
                found[address] = None
            elif address == BANNED:
                found[address] = find_variable(self._read_environment_file(), VARIABLE)
            else:
                found[address] = (
                    f"{self._read_unit_property('UnitFileState')} {'active' if self.is_running else 'inactive'}"
                )
        return found

    def read_live_settings(self, addresses: Iterable[str]) -> Settings:
        """Return what the running process was told, which is its file as it was when it started."""
        found = self.read_settings(addresses)
        if BANNED in found:
            found[BANNED] = self._banned_cpus_of_process(found[BANNED])
        return found

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Compare CPUs, not their spelling. A daemon that started before the file changed still uses the old value."""
        if address == SERVICE and wanted == STOPPED and found is not None:
            return found.endswith(" inactive") and not found.startswith("enabled")
        if address == BANNED:
            return (
                _parse_banned_cpus(wanted)
                == _parse_banned_cpus(found)
                == _parse_banned_cpus(self._banned_cpus_of_process(found))
            )
        return wanted == found

    def is_in_force(self, address: str, wanted: str | None, live: str | None) -> bool:
        """Compare CPUs too; ``live`` is what it was told already."""
        return (
            _parse_banned_cpus(wanted) == _parse_banned_cpus(live)
            if address == BANNED
            else self.values_equal(address, wanted, live)
        )

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Change one line of its file and restart it when it runs; or change the service, in at most two calls."""
        for change in changes:
            if change.address == BANNED:
                text = set_variable(self._read_environment_file(), VARIABLE, change.after)
                path = textfile.path_in_tree(self.fs.root, self._environment_file())
                if text:
                    textfile.write_file(path, text)
                else:
                    textfile.remove_file(path)  # There was no file before us.
                self.run(["systemctl", "try-restart", UNIT])
            elif change.after is not None:
                self._set_service(change.after)
        self._unit = None

    def list_remarks(self) -> list[str]:
        """Return a warning when it runs and nobody told it anything."""
        return self._remarks

    def module_facts(self) -> dict[str, object]:
        """Return whether it is there, and runs."""
        return {"irqbalance": "running" if self.is_running else "stopped" if self.is_installed else "not installed"}

    # What systemd tells

    @property
    def is_installed(self) -> bool:
        """Return whether there is an irqbalance that systemd knows."""
        return self._read_unit_property("LoadState") in ("loaded", "masked")

    @property
    def is_running(self) -> bool:
        """Return whether it runs or is about to."""
        return self._read_unit_property("ActiveState") in ("active", "activating", "reloading")

    def _read_unit_property(self, name: str) -> str:
        if self._unit is None:
            self._unit = {}
            # Looked at first, because most tuned hosts have none and asking systemd costs a process.
            if self.fs.read_status(PROGRAM) is not None:
                try:
                    said = self.run(["systemctl", "show", f"--property={PROPERTIES}", UNIT])
                except Absent:
                    said = ""
                # EnvironmentFiles may have several rows; the last is read last and wins.
                self._unit = {row.partition("=")[0]: row.partition("=")[2] for row in said.splitlines()}
        return self._unit.get(name, "")

    def _environment_file(self) -> str:
        """Return the file that the unit reads its variables from: /etc/default on Debian, /etc/sysconfig on RHEL."""
        path = self._read_unit_property("EnvironmentFiles").partition(" ")[0]
        if not path.startswith("/"):
            raise BadRequest(
                f"The unit {UNIT} names no EnvironmentFile, so irqbalance cannot be told which CPUs to leave alone. "
                "Set irqbalance to stop, or give the unit one by a drop-in."
            )
        return path

    def _read_environment_file(self) -> str:
        return textfile.read_text(textfile.path_in_tree(self.fs.root, self._environment_file())) or ""

    def _banned_cpus_of_process(self, configured: str | None) -> str | None:
        """Return what the running process was told; what is configured, where it is still to read that."""
        process = f"/proc/{self._read_unit_property('MainPID')}"
        # Until systemd has started the program itself, the process bears another name.
        if (self.fs.read_if_present(f"{process}/comm") or "").strip() != "irqbalance":
            return configured
        environment = (self.fs.read_if_present(f"{process}/environ") or "").split("\0")
        values = [row.partition("=")[2] for row in environment if row.startswith(f"{VARIABLE}=")]
        return values[-1] if values else None

    def _set_service(self, words: str) -> None:
        enablement, dummy, activity = words.partition(" ")
        verb = {"enabled": "enable", "masked": "mask"}.get(enablement, "disable")
        self.run(["systemctl", "--quiet", verb, UNIT])
        self.run(["systemctl", "start" if activity == "active" else "stop", UNIT])


def find_variable(text: str, name: str) -> str | None:
    """Return the raw value of a variable in a file of settings, the last where there are several; None for none."""
    values = [row.strip()[len(name) + 1 :] for row in text.split("\n") if row.strip().startswith(f"{name}=")]
    return values[-1] if values else None


def set_variable(text: str, name: str, value: str | None) -> str:
    """Return the text with a variable set in place, or as a new first line, or without it; all else byte for byte."""
    rows = text.split("\n")
    mine = [number for number, row in enumerate(rows) if row.strip().startswith(f"{name}=")]
    if value is None:
        return "\n".join(row for number, row in enumerate(rows) if number not in mine)
    if mine:
        rows[mine[-1]] = f"{name}={value}"
        return "\n".join(rows)
    # In front, because a file may lack its last newline: taking the line out again gives back every byte.
    return f"{name}={value}\n{text}"


def strip_quotes(value: str) -> str:
    """Return a value as systemd reads it."""
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _parse_banned_cpus(value: str | None) -> object:
    """Return the CPUs of a raw value, or the text itself where it is no list."""
    if value is None:
        return None
    try:
        return parse_cpulist(strip_quotes(value))
    except ValueError:
        return value
