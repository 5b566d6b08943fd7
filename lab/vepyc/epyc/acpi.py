# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ACPI table that gives every processor its P-states and C-states, for the kernel's acpi-cpufreq and acpi_idle.

The firmware of an EPYC offers C1 by MWAIT and C2 by a read of an I/O port. QEMU's emulation sleeps in neither: it would
spin, on the one host CPU that all CPUs of the guest share. So every state here has the type C1 without MWAIT, which the
driver enters by HLT. The kernel names states by their place in the list, so it still shows POLL, C1 and C2.
"""

from __future__ import annotations

from pathlib import Path

from ..paths import run_tool
from .shapes import Shape

#: The exit latency of each C-state in microseconds, as the firmware of many EPYC boards states it.
EXIT_LATENCIES = (1, 800)


def render_ssdt(shape: Shape) -> str:
    """Return the table's source in ASL. Frequencies change through the P-state control MSR, as on real hardware."""
    states = ",\n      ".join(
        f"Package () {{ {mhz}, {watts}, 1, 1, {index}, {index} }}"
        for index, (mhz, watts) in enumerate(zip(shape.pstates_mhz, (2000, 1500, 1000), strict=True))
    )
    sleeps = ",\n      ".join(
        f"Package () {{ ResourceTemplate () {{ Register (FFixedHW, 0, 0, 0) }}, 1, {latency}, 0 }}"
        for latency in EXIT_LATENCIES
    )
    cpus = "\n".join(_render_processor(index) for index in range(shape.possible_cpus))
    return f"""\
DefinitionBlock ("", "SSDT", 2, "VEPYC", "CPUFREQ", 1)
{{
  Name (\\_SB.PPCT, Package () {{
    ResourceTemplate () {{ Register (FFixedHW, 0, 0, 0) }},
    ResourceTemplate () {{ Register (FFixedHW, 0, 0, 0) }} }})
  Name (\\_SB.PPSS, Package () {{
      {states} }})
  Name (\\_SB.PCST, Package () {{ {len(EXIT_LATENCIES)},
      {sleeps} }})
{cpus}
}}
"""


def _render_processor(index: int) -> str:
    """Return the ASL of one processor, which QEMU names by its position among all possible processors."""
    return f"""\
  External (\\_SB.CPUS.C{index:03X}, DeviceObj)
  Scope (\\_SB.CPUS.C{index:03X}) {{
    Method (_PCT) {{ Return (\\_SB.PPCT) }}
    Method (_PSS) {{ Return (\\_SB.PPSS) }}
    Method (_CST) {{ Return (\\_SB.PCST) }}
    Name (_PPC, 0)
    Name (_PSD, Package () {{ Package () {{ 5, 0, {index}, 0xFC, 1 }} }})
  }}"""


def compile_ssdt(shape: Shape, folder: Path) -> Path:
    """Compile the table for this shape into ``folder`` and return its path."""
    source = folder / "ssdt.asl"
    source.write_text(render_ssdt(shape))
    run_tool(["iasl", "-p", str(folder / "ssdt"), str(source)])
    return folder / "ssdt.aml"
