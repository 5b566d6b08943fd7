# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registers (MSRs) of the allow-list: names of their bits, CPUs that have them, and registers never to be written.

Sources: AMD's PPR for family 19h (0xC0000108, HWCR) and BKDG for families 12h to 16h (DC_CFG), LIKWID
(src/sysFeatures_amd.c) and CoreFreq (x86_64/amd_reg.h), which agree on the bits; arch/x86/include/asm/msr-index.h of
the Linux kernel for the registers that the kernel itself writes. Neither LIKWID nor CoreFreq has the bits of Zen 6 yet.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._generations import find_row
from ..._notation.numbers import parse_whole_number, parse_with_base_prefix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..._host.topology import Topology

PREFETCH_CONTROL = 0xC0000108
HWCR = 0xC0010015
DC_CFG = 0xC0011022
#: The only bit of HWCR that is written here: if it is set, core performance boost is off.
CPB_DIS = 25

#: Option -> (register, {feature that a bit switches off: bit}). The value 1 of a bit means off.
NAMED: dict[str, tuple[int, dict[str, int]]] = {
    "prefetch_control": (
        PREFETCH_CONTROL,
        {"l1_stream": 0, "l1_stride": 1, "l1_region": 2, "l2_stream": 3, "up_down": 5},
    ),
    "hwcr": (HWCR, {"boost": CPB_DIS}),
    "dc_cfg": (DC_CFG, {"hardware_prefetch": 13, "software_prefetch_assist": 15}),
}
OFF = {"enabled": 0, "disabled": 1}
#: The allow-list: register -> its known bits, which the threads of a core share.
KNOWN = {number: frozenset(bits.values()) for number, bits in NAMED.values()}

FIRST_ZEN = 0x17
#: CPU family, first and last model, and whether the register PrefetchControl has the bits of NAMED.
PREFETCH_BITS = (
    (0x17, 0x00, 0xFF, False),
    (0x19, 0x00, 0xFF, True),
    (0x1A, 0x00, 0x4F, True),
    (0x1A, 0x50, 0x57, None),
    (0x1A, 0x60, 0x77, True),
)
#: First and last register, and their content; these are refused even with allow_undocumented.
FORBIDDEN = (
    (0x10, 0x10, "the time stamp counter, by which the kernel keeps time"),
    (0x1B, 0x1B, "APIC_BASE, which places the interrupt controller"),
    (0x3B, 0x3B, "TSC_ADJUST, by which the kernel keeps time"),
    (0x48, 0x49, "SPEC_CTRL and PRED_CMD, the kernel's protection against speculation attacks"),
    (0xE7, 0xE8, "the counters by which the kernel knows its speed"),
    (0x79, 0x79, "a microcode loader"),
    (0x8B, 0x8B, "the microcode's version"),
    (0xFE, 0xFE, "MTRR, which says what memory may be cached"),
    (0x174, 0x176, "SYSENTER, an entry into the kernel"),
    (0x179, 0x17B, "the machine check's control"),
    (0x1D9, 0x1D9, "DEBUGCTL, which the kernel's debugging uses"),
    (0x200, 0x2FF, "MTRR and PAT, which say what memory may be cached"),
    (0x400, 0x47F, "the machine check's banks"),
    (0x6A0, 0x6A8, "CET, the kernel's protection of its return addresses"),
    (0x6E0, 0x6E0, "the kernel's timer"),
    (0x800, 0x8FF, "the interrupt controller"),
    (0xC80, 0xD8F, "the shares of caches; use the module resctrl_schemata"),
    (0xDA0, 0xDA0, "XSS, which says what registers the kernel saves"),
    (0xC0000080, 0xC0000084, "EFER and the system call entries of the kernel"),
    (0xC0000100, 0xC0000104, "the segment bases and the clock rate, which the kernel uses in each task switch"),
    (0xC000010E, 0xC000010F, "the control of branch records; use perf"),
    (0xC0000200, 0xC000040F, "the shares of memory bandwidth and the performance counters"),
    (0xC0002000, 0xC0002FFF, "the machine check's banks"),
    (0xC0010000, 0xC0010007, "the performance counters; use perf"),
    (0xC0010010, 0xC0010010, "SYSCFG, which holds memory encryption"),
    (0xC0010016, 0xC001001D, "the map of the memory"),
    (0xC0010020, 0xC0010020, "the microcode loader"),
    (0xC0010056, 0xC001006F, "P-states, which the cpufreq driver writes; use the module cpufreq_per_ccd"),
    (0xC0010110, 0xC001011F, "system management mode and virtual machines"),
    (0xC0010130, 0xC0010141, "memory encryption and the list of errata"),
    (0xC0010200, 0xC001029F, "the performance counters and energy meters"),
    (0xC00102B0, 0xC00102B4, "CPPC, which the cpufreq driver writes; use the module cpufreq_per_ccd"),
    (0xC0011019, 0xC001101B, "the debugger's address masks"),
    (0xC0011023, 0xC0011023, "TW_CFG, which holds workarounds of the kernel"),
    (0xC0011027, 0xC0011027, "the debugger's address mask"),
    (0xC0011028, 0xC0011029, "FP_CFG and DE_CFG, which hold workarounds of the kernel such as that for Zenbleed"),
    (0xC0011030, 0xC001103F, "the kernel's instruction sampling (IBS)"),
)


def format_address(register: int, bit: int, cpu: int) -> str:
    return f"msr:{register:#x}[{bit}]/cpu{cpu}"


class BitRequest:
    """One bit requested on some CPUs; ``source`` is the text of the entry for messages."""

    def __init__(self, cpus: str, register: int, bit: int, value: int, source: str) -> None:
        self.cpus = cpus
        self.register = register
        self.bit = bit
        self.value = value
        self.source = source


def parse_bit_requests(setting: Mapping[str, Any]) -> Iterator[BitRequest]:
    """Yield the bits that one entry of the option ``settings`` requests. Raises BadRequest for an invalid entry."""
    cpus = str(setting["cpus"])
    count = 0
    for option, (register, bits) in NAMED.items():
        for name, word in (setting.get(option) or {}).items():
            if word is None:
                continue
            if name not in bits or word not in OFF:
                raise BadRequest(
                    f"{option}: '{name}: {word}' has no meaning; names are {', '.join(bits)}; values are enabled and "
                    "disabled."
                )
            count += 1
            yield BitRequest(cpus, register, bits[name], OFF[word], f"{option}.{name}={word} for {cpus}")
    field = {key: setting[key] for key in ("register", "bits", "value") if setting.get(key) is not None}
    if field:
        if len(field) != 3:
            raise BadRequest(f"A register needs all of register, bits and value; for cpus '{cpus}' there is {field}.")
        register = _parse_number(field["register"], "register", 0xFFFFFFFF)
        high, low = _parse_bit_range(str(field["bits"]))
        value = _parse_number(field["value"], "value", (1 << high - low + 1) - 1)
        source = f"register={register:#x} bits={field['bits']} value={field['value']} for {cpus}"
        for bit in range(low, high + 1):
            count += 1
            yield BitRequest(cpus, register, bit, value >> bit - low & 1, source)
    if not count:
        raise BadRequest(
            f"The entry for cpus '{cpus}' sets no bit; say {', '.join(NAMED)}, or register, bits and value."
        )


def _parse_number(text: object, option: str, largest: int) -> int:
    number = parse_with_base_prefix(str(text).strip())
    if number is None or number > largest:
        raise BadRequest(f"{option}: '{text}' is no number from 0 to {largest:#x}; write it as 25 or 0x19.")
    return number


def _parse_bit_range(text: str) -> tuple[int, int]:
    """Return the highest and the lowest bit of "13" or "15:13"."""
    high, colon, low = text.strip().partition(":")
    first, last = parse_whole_number(high), parse_whole_number(low if colon else high)
    if first is not None and last is not None and 63 >= first >= last:
        return first, last
    raise BadRequest(
        f"bits: '{text}' is no bit from 0 to 63 and no range such as '15:13', the higher bit first. Quote a range: "
        "YAML reads 15:13 as the number 913."
    )


def has_known_prefetch_bits(top: Topology) -> bool:
    """Return whether it is published for this CPU what the bits of PrefetchControl switch."""
    row = find_row(PREFETCH_BITS, top.family, top.model_number)
    return bool(row and row[3])


def require_writable_bit(register: int, bit: int, top: Topology, allow_undocumented: bool) -> None:
    """Raise BadRequest for a bit that this collection does not write on this host."""
    name = f"bit {bit} of register {register:#x}"
    if not top.is_amd:
        raise BadRequest(f"{name} has its meaning on AMD only; this CPU is {top.vendor or 'unknown'} {top.model}.")
    for first, last, owner in FORBIDDEN:
        if first <= register <= last:
            raise BadRequest(
                f"Register {register:#x} is in the hands of the kernel: it holds {owner}. This module never writes it, "
                "whatever is allowed."
            )
    if register == HWCR and bit != CPB_DIS:
        raise BadRequest(
            f"{name} (HWCR) is not CpbDis, bit 25. The other bits of HWCR lock firmware memory and change how the "
            "kernel runs; this module never writes them, whatever is allowed."
        )
    if register == HWCR and "cpb" not in top.flags:
        raise BadRequest(
            f"{name} (HWCR, CpbDis) switches core performance boost, which this CPU does not show (no flag cpb in "
            "/proc/cpuinfo). Enable it in the BIOS."
        )
    if register == PREFETCH_CONTROL and top.prefetch_control is False:
        raise BadRequest(
            f"This CPU (family {top.family:X}h) has no register {register:#x}, PrefetchControl: CPUID 0x80000021 EAX "
            "bit 13 is 0. Zen 3 and later have it. The BIOS may offer the same switches for the whole machine."
        )
    if allow_undocumented:
        return
    if register == DC_CFG and bit in KNOWN[DC_CFG] and top.family >= FIRST_ZEN:
        raise BadRequest(
            f"{name} (DC_CFG) is documented for AMD families before 17h only; this CPU is of family {top.family:X}h, "
            "where its meaning is unknown. Use prefetch_control where the CPU has it (Zen 3 and later), or set "
            "allow_undocumented and measure."
        )
    if register == PREFETCH_CONTROL and not has_known_prefetch_bits(top):
        raise BadRequest(
            f"What {name} (PrefetchControl) switches is not published for this CPU (family {top.family:X}h, model "
            f"{top.model_number:X}h). Switch prefetchers in its BIOS, or set allow_undocumented and measure."
        )
    if bit not in KNOWN.get(register, ()):
        raise BadRequest(
            f"{name} is not on the list of documented bits. A wrong bit can hang the machine or spoil its results "
            "silently. Set allow_undocumented when you know what it does on this CPU."
        )
