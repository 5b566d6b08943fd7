# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server that a BMC stands in front of: its power, its POST, its settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .faults import Faults
from .personality import Personality
from .state import Bios

#: The reset types that make a running machine boot, and those that switch it off; others do nothing.
RESTARTING_RESETS = ("ForceRestart", "GracefulRestart", "PowerCycle")
SWITCHING_OFF_RESETS = ("ForceOff", "GracefulShutdown")


class Host:
    """A machine, real or not: it has new settings only after a boot."""

    def __init__(
        self,
        personality: Personality,
        faults: Faults,
        active: Mapping[str, Any],
        power: Callable[[str], None] | None = None,
        post_seconds: float = 0,
    ) -> None:
        self.lock = threading.RLock()
        self.personality = personality
        self.faults = faults
        self.bios = Bios(personality, faults, active)
        self.on = True
        self.boots = 0
        self.cold = False  # True if it was without power since its last boot
        self.post_seconds = post_seconds
        self.hung = False
        self._post_until = 0.0
        self._busy_until = 0.0
        # Called with "on", "off" or "cycle". A real machine then calls `boot_machine` when it starts.
        self._power = power or self._switch_without_machine

    def _switch_without_machine(self, action: str) -> None:
        if action == "off":
            self.note_power_loss()
        else:
            self.boot_machine()

    def switch_power(self, action: str, cold: bool = False) -> None:
        """Switch the power of the machine; without the lock, because a real machine calls `boot_machine`."""
        with self.lock:
            self.cold |= cold
            self._busy_until = time.monotonic() + self.faults.busy_after_reset
        self._power(action)

    def boot_machine(self) -> dict[str, Any]:
        """Record a boot, in whose POST pending settings are applied; return what the machine has then."""
        with self.lock:
            self.on, self.boots = True, self.boots + 1
            self._post_until = time.monotonic() + self.post_seconds
            self.hung = self.faults.hung_posts > 0
            if self.hung:
                self.faults.hung_posts -= 1
            else:
                self.bios.apply_at_boot(self.cold)
            self.cold = False
            return dict(self.bios.machine_state)

    def note_power_loss(self) -> None:
        """Record that the machine has lost its power."""
        with self.lock:
            self.on = self.hung = False
            self.cold = True

    @property
    def is_in_post(self) -> bool:
        """True while the machine is in its POST, or hangs there."""
        return self.on and (self.hung or time.monotonic() < self._post_until)

    @property
    def busy_seconds(self) -> float:
        """For how many seconds more the BMC answers 503; 0 if it does not."""
        return max(0.0, self._busy_until - time.monotonic())
