# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Registers without a CPU; tests/lab/test_msr_bits.py has the driver of a real kernel."""

from __future__ import annotations

import os
from typing import Any

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts


def give_registers(tree: hosts.Host, cpus: Any) -> None:
    """Put sparse files where the msr driver has its devices: an offset in them is a register, as it is there."""
    for cpu in cpus:
        tree.put(f"/dev/cpu/{cpu}/msr", "")
        tree.put(f"/dev/cpu/{cpu}/cpuid", "answers come from TreeFS")
        os.truncate(tree.root / f"dev/cpu/{cpu}/msr", 0xC0012000)
