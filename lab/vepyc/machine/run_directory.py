# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory of one running machine, shared by the supervisor that owns it and the commands that talk to it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import VepycError
from ..paths import directory
from .sockets import JsonLines, connect_unix_socket


@dataclass(frozen=True)
class Config:
    """What a machine is; written once, before its supervisor starts."""

    name: str
    shape: str
    kernel: str
    port: int
    image: str  # directory of the base image
    snapshot: str | None  # directory of the saved state to start from
    bmc: str | None = None  # the vendor of the BMC in front of it
    bios: dict[str, Any] = field(default_factory=dict)  # the settings of its BIOS that differ from those of the shape


class RunDirectory:
    """`run/NAME`. Whoever holds the lock in it is the machine's supervisor; without a holder the directory is stale."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / "lock"
        self.pid = path / "pid"
        self.error = path / "error"
        self.console = path / "console.log"
        self.log = path / "supervisor.log"
        self.bmc = path / "bmc.json"  # how to reach the BMC, where there is one
        self.bios = path / "bios.json"  # the settings of its BIOS that have been changed
        self.disk = path / "disk.qcow2"
        self.stopped = path / "stopped"  # the disk outlives the machine: `vepyc start` boots it again
        self._config = path / "config.json"

    @classmethod
    def of_machine(cls, name: str) -> RunDirectory:
        """The run directory of the machine of that name."""
        return cls(directory("run") / name)

    @classmethod
    def list_all(cls) -> list[RunDirectory]:
        """Every run directory there is, stale ones included."""
        return [cls(path) for path in sorted(directory("run").iterdir())]

    def create(self, config: Config) -> None:
        """Make the directory for a new machine."""
        self.path.mkdir(mode=0o700)
        self.lock.touch()
        self.console.touch()
        self.write_config(config)

    def write_config(self, config: Config) -> None:
        """Say anew what the machine is, before its supervisor starts."""
        self._config.write_text(json.dumps(asdict(config), indent=2) + "\n")

    def has_bootable_disk(self) -> bool:
        """True if nobody runs the machine and its disk is here; false for one that failed to come up."""
        return self.disk.exists() and not self.error.exists() and not self.is_alive()

    def clear_leftovers(self) -> None:
        """Remove what an ended machine has left beside its disk, so that its supervisor can start again."""
        leftovers = [self.stopped, self.pid, *self.path.glob("*.sock"), *self.path.glob("control.new")]
        for path in leftovers:
            path.unlink(missing_ok=True)
        self.console.write_text("")

    def read_port(self) -> int | None:
        """Its port on the loopback address; none when the directory is gone meanwhile."""
        try:
            return self.read_config().port
        except FileNotFoundError:
            return None

    def read_config(self) -> Config:
        """What the machine is."""
        return Config(**json.loads(self._config.read_text()))

    def uses_saved_state(self, snapshot: Path) -> bool:
        """Whether the machine was started from this saved state."""
        try:
            return self.read_config().snapshot == str(snapshot)
        except FileNotFoundError:  # gone meanwhile
            return False

    def is_alive(self) -> bool:
        """Whether a supervisor holds the lock."""
        try:
            with self.lock.open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def remove(self) -> None:
        """Delete the directory and the machine's disk with it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def send_request(self, request: str, timeout: float, **arguments: Any) -> None:
        """Have the supervisor do something, and wait until it is done."""
        try:
            connection = connect_unix_socket(self.path / "control.sock")
        except OSError:
            raise VepycError(f"machine {self.path.name!r} is not running; start it with: vepyc up") from None
        with connection:
            connection.settimeout(timeout)
            lines = JsonLines(connection)
            lines.send_message({"do": request, **arguments})
            try:
                answer = lines.receive_message()
            except TimeoutError:
                raise VepycError(f"the supervisor of {self.path.name!r} did not answer; see {self.log}") from None
        if "error" in answer:
            raise VepycError(str(answer["error"]))

    def end_and_remove(self, grace: float = 20) -> None:
        """End the supervisor, politely first, and remove what is left."""
        self.end_supervisor(grace)
        self.remove()

    def end_supervisor(self, grace: float = 20) -> None:
        """End the supervisor, politely first."""
        if not self._signal_supervisor(signal.SIGTERM, grace):
            self._signal_supervisor(signal.SIGKILL, grace)

    def kill_with_reason(self, reason: str, grace: float = 20) -> None:
        """End the supervisor of a machine that did not come up, but keep the directory: its logs tell why."""
        self._signal_supervisor(signal.SIGKILL, grace)
        self.error.write_text(f"{reason}\n")

    def _signal_supervisor(self, number: signal.Signals, seconds: float) -> bool:
        """Signal the supervisor, if there is one, and say whether it is gone after these seconds."""
        if not self.is_alive():
            return True
        descriptor = os.pidfd_open(int(self.pid.read_text()))
        try:
            # Asked again, now that the descriptor holds on to the process: it cannot be another one of the same number.
            if not self.is_alive():
                return True
            signal.pidfd_send_signal(descriptor, number)
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            return bool(poller.poll(seconds * 1000))
        finally:
            os.close(descriptor)
