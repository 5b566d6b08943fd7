# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of QEMU's machine protocol."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

from ..errors import VepycError
from .sockets import JsonLines


class Qmp:
    """A QMP session. Events that arrive while a command waits are kept in `events`."""

    def __init__(self, connection: socket.socket) -> None:
        self.lines = JsonLines(connection)
        self.events: list[dict[str, Any]] = []
        self.lines.receive_message()
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Execute a command and return its result; events that arrive meanwhile are appended to `events`."""
        self.lines.send_message({"execute": command, "arguments": arguments})
        while True:
            message = self.lines.receive_message()
            if "event" in message:
                self.events.append(message)
            elif "error" in message:
                raise VepycError(f"QEMU refused {command}: {message['error']['desc']}")
            else:
                return message["return"]

    def receive_event(self) -> None:
        """Wait for one event and append it to `events`."""
        self.events.append(self.lines.receive_message())

    def last_shutdown_reason(self) -> str | None:
        """Why the guest stopped: guest-reset, guest-shutdown, host-qmp-quit and so on; None while it runs."""
        reasons = [event["data"]["reason"] for event in self.events if event["event"] == "SHUTDOWN"]
        return reasons[-1] if reasons else None

    def save_state(self, target: Path) -> None:
        """Write the memory and devices of the paused machine to a file for `-incoming`."""
        self.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        # The exec form, because QEMU 7.2 cannot migrate to a file. Its working directory is the run directory.
        self.execute("migrate", uri=f"exec:cat > {target.name}")
        while (state := self.execute("query-migrate"))["status"] not in ("completed", "failed"):
            time.sleep(0.1)
        if state["status"] == "failed":
            raise VepycError(f"QEMU could not save the machine: {state.get('error-desc', 'it does not say why')}")

    def wait_until_loaded(self) -> None:
        """Wait until a machine that was started with `-incoming` has loaded its state."""
        while self.execute("query-status")["status"] == "inmigrate":
            time.sleep(0.05)
