# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of irqbalance, the daemon that places interrupts anew every ten seconds: banned CPUs, or a stopped service.

Addresses: ``irq:irqbalance/banned_cpus``, the raw value of its variable IRQBALANCE_BANNED_CPULIST, and
``irq:irqbalance/service``, systemd's words such as "enabled active". Both outlive a reboot. Source: cputree.c and the
manual page of irqbalance. The file with the variable is the one that its unit names.
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
#: The older variable; if it is not empty, irqbalance ignores the newer one.
OLD_VARIABLE = "IRQBALANCE_BANNED_CPUS"
STOPPED = "disabled inactive"
PROPERTIES = "LoadState,ActiveState,UnitFileState,EnvironmentFiles,MainPID"


class Irqbalance(Knob):
    """The settings of irqbalance: ``mode`` is ban, stop or ignore; ``cpus`` are the CPUs that interrupts may use.

    With ``spread``, each interrupt is to have a CPU of its own, which a running irqbalance would prevent.
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
        return address in (BANNED, SERVICE)

    def wanted_settings(self) -> Settings:
        """Return the wanted settings of irqbalance; none if it is not installed."""
        self._remarks = []
        if not self.is_installed:
            return {}
        if self.mode == "stop":
            return {SERVICE: STOPPED}
        if self.mode == "ban":
            if self._read_unit_property("LoadState") == "masked" and not self.is_running:
                return {}  # Nothing can start a masked unit, and its variables are in no known file.
            if self.spread and self.is_running:
                raise BadRequest(
                    "irqbalance runs here and spreads interrupts over the CPUs that it may use by itself, so spread "
                    "cannot hold beside irqbalance=ban. Leave spread out, or set irqbalance to stop."
                )
            old = find_shell_variable(self._read_environment_file(), OLD_VARIABLE)
            if old and strip_quotes(old):
                raise BadRequest(
                    f"{self._environment_file_path()} sets {OLD_VARIABLE}, and irqbalance then does not look at "
                    f"{VARIABLE}. Remove that old line, or set irqbalance to stop."
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
        """Return the configured settings, of the file and of systemd."""
        if not self.is_installed:
            return dict.fromkeys(addresses)
        service = f"{self._read_unit_property('UnitFileState')} {'active' if self.is_running else 'inactive'}"
        return {
            address: find_shell_variable(self._read_environment_file(), VARIABLE) if address == BANNED else service
            for address in addresses
        }

    def read_live_settings(self, addresses: Iterable[str]) -> Settings:
        """Return the settings of the running process, which has read the file when it started."""
        live = self.read_settings(addresses)
        if BANNED in live:
            live[BANNED] = self._banned_cpus_of_process(live[BANNED])
        return live

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values name the same CPUs, and the running daemon uses these."""
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
        """Return whether two values name the same CPUs; ``live`` is already the value of the daemon."""
        return (
            _parse_banned_cpus(wanted) == _parse_banned_cpus(live)
            if address == BANNED
            else self.values_equal(address, wanted, live)
        )

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Set the variable of banned CPUs and restart a running daemon; or enable, disable, start or stop it."""
        for change in changes:
            if change.address == BANNED:
                text = set_shell_variable(self._read_environment_file(), VARIABLE, change.after)
                path = textfile.path_in_tree(self.fs.root, self._environment_file_path())
                if text:
                    textfile.write_file(path, text)
                else:
                    textfile.remove_file(path)  # Before this collection there was no file.
                self.run(["systemctl", "try-restart", UNIT])
            elif change.after is not None:
                self._set_service_state(change.after)
        self._unit = None

    def module_facts(self) -> dict[str, object]:
        return {"irqbalance": "running" if self.is_running else "stopped" if self.is_installed else "not installed"}

    @property
    def is_installed(self) -> bool:
        """Return whether systemd knows irqbalance."""
        return self._read_unit_property("LoadState") in ("loaded", "masked")

    @property
    def is_running(self) -> bool:
        """Return whether irqbalance runs or starts."""
        return self._read_unit_property("ActiveState") in ("active", "activating", "reloading")

    def _read_unit_property(self, name: str) -> str:
        if self._unit is None:
            self._unit = {}
            # Most tuned hosts have no irqbalance, and a call of systemctl costs more than a look for the program.
            if self.fs.read_status(PROGRAM) is not None:
                try:
                    output = self.run(["systemctl", "show", f"--property={PROPERTIES}", UNIT])
                except Absent:
                    output = ""
                # Of several rows with EnvironmentFiles, systemd reads the file of the last row last.
                self._unit = {row.partition("=")[0]: row.partition("=")[2] for row in output.splitlines()}
        return self._unit.get(name, "")

    def _environment_file_path(self) -> str:
        """Return the file with the variables of the unit, in /etc/default on Debian, in /etc/sysconfig on RHEL."""
        path = self._read_unit_property("EnvironmentFiles").partition(" ")[0]
        if not path.startswith("/"):
            raise BadRequest(
                f"The unit {UNIT} names no EnvironmentFile, so irqbalance cannot be told which CPUs to leave alone. "
                "Set irqbalance to stop, or give the unit one by a drop-in."
            )
        return path

    def _read_environment_file(self) -> str:
        return textfile.read_text(textfile.path_in_tree(self.fs.root, self._environment_file_path())) or ""

    def _banned_cpus_of_process(self, configured: str | None) -> str | None:
        """Return the banned CPUs of the running process; the configured ones if it has not started yet."""
        process = f"/proc/{self._read_unit_property('MainPID')}"
        # Until systemd has started the program itself, the process has another name.
        if (self.fs.read_if_present(f"{process}/comm") or "").strip() != "irqbalance":
            return configured
        environment = (self.fs.read_if_present(f"{process}/environ") or "").split("\0")
        values = [row.partition("=")[2] for row in environment if row.startswith(f"{VARIABLE}=")]
        return values[-1] if values else None

    def _set_service_state(self, enabled_and_active: str) -> None:
        enablement, dummy, activity = enabled_and_active.partition(" ")
        verb = {"enabled": "enable", "masked": "mask"}.get(enablement, "disable")
        self.run(["systemctl", "--quiet", verb, UNIT])
        self.run(["systemctl", "start" if activity == "active" else "stop", UNIT])


def find_shell_variable(text: str, name: str) -> str | None:
    """Return the raw value of NAME=VALUE in a file, the last one of several; None without one."""
    values = [row.strip()[len(name) + 1 :] for row in text.split("\n") if row.strip().startswith(f"{name}=")]
    return values[-1] if values else None


def set_shell_variable(text: str, name: str, value: str | None) -> str:
    """Return the text with a variable set in place, or in a new first line, or removed; all else byte for byte."""
    rows = text.split("\n")
    numbers = [number for number, row in enumerate(rows) if row.strip().startswith(f"{name}=")]
    if value is None:
        return "\n".join(row for number, row in enumerate(rows) if number not in numbers)
    if numbers:
        rows[numbers[-1]] = f"{name}={value}"
        return "\n".join(rows)
    # A new first line can be removed again without a trace, even from a file without a final newline.
    return f"{name}={value}\n{text}"


def strip_quotes(value: str) -> str:
    """Return a value without the quotes that systemd removes."""
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value


def _parse_banned_cpus(value: str | None) -> object:
    """Return the CPUs of a raw value, or the text itself if it is no list of CPUs."""
    if value is None:
        return None
    try:
        return parse_cpulist(strip_quotes(value))
    except ValueError:
        return value
