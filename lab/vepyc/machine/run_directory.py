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
from ..paths import ensure_directory
from .sockets import JsonLines, connect_unix_socket


@dataclass(frozen=True)
class Config:
    """What a machine was started with; written before its supervisor starts."""

    name: str
    shape: str
    kernel: str
    port: int
    image: str  # directory of the base image
    snapshot: str | None  # directory of the saved state to start from
    bmc: str | None = None  # the vendor of its BMC; None without a BMC
    bios: dict[str, Any] = field(default_factory=dict)  # BIOS settings that differ from those of the shape


class RunDirectory:
    """`run/NAME`. The supervisor of the machine holds the lock in it; without a supervisor the directory is stale."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = path / "lock"
        self.pid = path / "pid"
        self.error = path / "error"
        self.console = path / "console.log"
        self.log = path / "supervisor.log"
        self.bmc = path / "bmc.json"  # address and password of the BMC, if there is one
        self.bios = path / "bios.json"  # changed BIOS settings
        self.disk = path / "disk.qcow2"
        self.stopped = path / "stopped"  # exists if the machine was stopped and its disk is kept for `vepyc start`
        self._config = path / "config.json"

    @classmethod
    def of_machine(cls, name: str) -> RunDirectory:
        """Return the run directory of the machine of that name; it need not exist."""
        return cls(ensure_directory("run") / name)

    @classmethod
    def list_all(cls) -> list[RunDirectory]:
        """Return every run directory, stale ones included."""
        return [cls(path) for path in sorted(ensure_directory("run").iterdir())]

    def create(self, config: Config) -> None:
        """Create the directory of a new machine, with an empty console log."""
        self.path.mkdir(mode=0o700)
        self.lock.touch()
        self.console.touch()
        self.write_config(config)

    def write_config(self, config: Config) -> None:
        """Store what the machine is started with, for its next supervisor."""
        self._config.write_text(json.dumps(asdict(config), indent=2) + "\n")

    def has_bootable_disk(self) -> bool:
        """True if the machine does not run, has its disk, and did not fail to start."""
        return self.disk.exists() and not self.error.exists() and not self.is_alive()

    def clear_leftovers(self) -> None:
        """Remove all files of an ended machine but its disk and config, so that a supervisor can start it again."""
        leftovers = [self.stopped, self.pid, *self.path.glob("*.sock"), *self.path.glob("control.new")]
        for path in leftovers:
            path.unlink(missing_ok=True)
        self.console.write_text("")

    def read_port(self) -> int | None:
        """Return its ssh port on the loopback address; None if the directory was removed meanwhile."""
        try:
            return self.read_config().port
        except FileNotFoundError:
            return None

    def read_config(self) -> Config:
        """Return what the machine was started with."""
        return Config(**json.loads(self._config.read_text()))

    def uses_saved_state(self, snapshot: Path) -> bool:
        """True if the machine was started from this saved state, and reads the frozen disk in it."""
        try:
            return self.read_config().snapshot == str(snapshot)
        except FileNotFoundError:  # the machine was removed meanwhile
            return False

    def is_alive(self) -> bool:
        """True if a supervisor holds the lock, which means that the machine runs."""
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
        """Send a request to the supervisor and wait until it was executed; its failure is raised as a VepycError."""
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
        """End the supervisor as `end_supervisor` does, and remove the directory with the disk."""
        self.end_supervisor(grace)
        self.remove()

    def end_supervisor(self, grace: float = 20) -> None:
        """End the supervisor by SIGTERM, or after ``grace`` seconds by SIGKILL."""
        if not self._signal_supervisor(signal.SIGTERM, grace):
            self._signal_supervisor(signal.SIGKILL, grace)

    def kill_with_reason(self, reason: str, grace: float = 20) -> None:
        """Kill the supervisor of a machine that did not start, and keep the directory with its logs and the reason."""
        self._signal_supervisor(signal.SIGKILL, grace)
        self.error.write_text(f"{reason}\n")

    def _signal_supervisor(self, number: signal.Signals, seconds: float) -> bool:
        """Signal the supervisor; return whether it has ended within so many seconds, True if there is none."""
        if not self.is_alive():
            return True
        descriptor = os.pidfd_open(int(self.pid.read_text()))
        try:
            # Checked again now that the descriptor pins the process, because its id may have been reused before.
            if not self.is_alive():
                return True
            signal.pidfd_send_signal(descriptor, number)
            poller = select.poll()
            poller.register(descriptor, select.POLLIN)
            return bool(poller.poll(seconds * 1000))
        finally:
            os.close(descriptor)
