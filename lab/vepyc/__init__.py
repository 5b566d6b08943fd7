# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual EPYC servers: stock Debian kernels in QEMU that see the CPUID leaves, MSRs and topology of a real EPYC."""

from __future__ import annotations

from .epyc.shapes import SHAPES, Shape
from .errors import GuestError, VepycError
from .machine.running import Machine
from .machine.saved_states import Preparation
from .machine.start import start_machine

__all__ = ["SHAPES", "GuestError", "Machine", "Preparation", "Shape", "VepycError", "start_machine"]
