# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The prefetchers as the firmware has set them at boot, in the bits of their register.

For a bit that this collection has changed, the original in the ledger counts.
"""

from __future__ import annotations

from ..._errors import Absent, Refused, TuningError
from ..._knobs.msr.registers import NAMED, PREFETCH_CONTROL, format_address, has_known_prefetch_bits
from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading


def read_prefetchers(view: KernelView) -> Reading:
    """Return "on", "off", "mixed", or the prefetchers that are off, read on one core of each L3 domain."""
    top = view.top
    if not top.prefetch_control:
        reason = "this CPU has no register for them" if top.prefetch_control is False else "the driver cpuid is needed"
        return None, f"{reason} (CPUID 0x80000021 says whether register {PREFETCH_CONTROL:#x} is there)"
    if not has_known_prefetch_bits(top):
        return None, f"what the bits of register {PREFETCH_CONTROL:#x} switch is not published for this CPU"
    try:
        originals = view.ledger.load_originals() if view.ledger else {}
    except TuningError as error:
        return None, f"the original value of the register is lost: {error}"
    dummy, bits = NAMED["prefetch_control"]
    states, touched = set(), False
    for cpu in [domain.cpus[0] for domain in top.l3] or top.online[:1]:
        try:
            (word,) = view.fs.read_words(f"/dev/cpu/{cpu}/msr", [PREFETCH_CONTROL])
        except Absent:
            return None, f"there is no /dev/cpu/{cpu}/msr: load the driver with modprobe msr"
        except Refused as error:
            return None, str(error).rstrip(".")
        off = []
        for name, bit in bits.items():
            original = originals.get(format_address(PREFETCH_CONTROL, bit, cpu))
            touched = touched or original is not None
            if (original or str(word >> bit & 1)) == "1":
                off.append(name)
        states.add(tuple(off))
    source = f"register {PREFETCH_CONTROL:#x}" + (", with its values from before this collection wrote it" * touched)
    if len(states) > 1:
        return "mixed", f"{source} differs between L3 domains"
    (off_everywhere,) = states
    if not off_everywhere:
        return ON, f"{source} has none switched off"
    if len(off_everywhere) == len(bits):
        return OFF, f"{source} has all {len(bits)} switched off"
    return f"{', '.join(off_everywhere)} off", source
