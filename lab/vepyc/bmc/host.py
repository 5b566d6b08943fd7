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

#: What a ResetType makes of a machine that is on: a new boot, no power, or nothing.
CYCLES = ("ForceRestart", "GracefulRestart", "PowerCycle")
OFFS = ("ForceOff", "GracefulShutdown")


class Host:
    """One machine, real in the sense that a boot has to happen before it has other settings."""

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
        self.cold = False  # whether it had no power since its last boot
        self.post_seconds = post_seconds
        self.hung = False
        self._post_until = 0.0
        self._busy_until = 0.0
        # Switches the machine: "on", "off" or "cycle". A machine that is there calls `boot` itself when it starts.
        self._power = power or self._pretend

    def _pretend(self, what: str) -> None:
        if what == "off":
            self.went_off()
        else:
            self.boot()

    def switch(self, what: str, cold: bool = False) -> None:
        """Have the machine switched. Without the lock, because a machine that starts calls `boot`."""
        with self.lock:
            self.cold |= cold
            self._busy_until = time.monotonic() + self.faults.busy_after_reset
        self._power(what)

    def boot(self) -> dict[str, Any]:
        """The machine starts, for whatever reason: its POST applies what is pending. What it has then (`truth`)."""
        with self.lock:
            self.on, self.boots = True, self.boots + 1
            self._post_until = time.monotonic() + self.post_seconds
            self.hung = self.faults.hung_posts > 0
            if self.hung:
                self.faults.hung_posts -= 1
            else:
                self.bios.boot(self.cold)
            self.cold = False
            return dict(self.bios.kernel)

    def went_off(self) -> None:
        """The machine has no power any more."""
        with self.lock:
            self.on = self.hung = False
            self.cold = True

    @property
    def in_post(self) -> bool:
        """Whether the machine is in its POST, or hangs there."""
        return self.on and (self.hung or time.monotonic() < self._post_until)

    @property
    def busy(self) -> float:
        """For how many seconds the BMC still answers 503."""
        return max(0.0, self._busy_until - time.monotonic())
