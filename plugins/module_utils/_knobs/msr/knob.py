# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob for single bits of model-specific registers (MSRs).

Addresses: ``msr:0xc0000108[1]/cpu16`` with the values 0 and 1. Each bit has its own address, so that requests for
overlapping fields do not spoil each other's originals. The kernel module that shows registers is ``msr:module/msr``.
Source: arch/x86/kernel/msr.c of the Linux kernel: the file offset is the register's number, a write taints the kernel.
"""

from __future__ import annotations

import errno

from ..._errors import Absent, BadRequest, Refused, Unsupported
from ..._kernel import lockdown
from ..._notation.cpulist import format_cpulist
from ..protocol.converge import find_differences
from ..protocol.knob import Knob
from . import registers
from .kernel_modules import MODULE, MsrModules, first_online_cpu, has_device, read_online_cpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..protocol.knob import Change, Settings, Words

TAINTED = "/proc/sys/kernel/tainted"
#: TAINT_CPU_OUT_OF_SPEC.
TAINT_BIT = 2

#: (register, bit) -> the noun for the feature that the bit switches off.
TITLES = {
    (register, bit): f"prefetcher {name}" if option == "prefetch_control" else name.replace("_", " ")
    for option, (register, bits) in registers.NAMED.items()
    for name, bit in bits.items()
}


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    settings = options.get("settings") or []
    return [
        MsrModules(host, bool(options.get("load_module")), lambda: _needs_cpuid(settings)),
        Msr(host, settings, bool(options.get("load_module")), bool(options.get("allow_undocumented"))),
    ]


def describe_setting(address_rest: str) -> Words:
    name = f"msr:{address_rest}"
    if name.startswith(MODULE):
        return f"kernel module {name[len(MODULE) :]}", "", None
    register, bit, cpu = split_address(name)
    return TITLES.get((register, bit), f"bit {bit} of register {register:#x}"), "CPU", cpu


def format_value(address_rest: str, text: str) -> str:
    """Return "enabled" or "disabled" for a bit with a name, any other value as it is."""
    name = f"msr:{address_rest}"
    named = not name.startswith(MODULE) and split_address(name)[:2] in TITLES
    return {"0": "enabled", "1": "disabled"}.get(text, text) if named else text


def _needs_cpuid(settings: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the request has a register that exists only on CPUs with a bit of CPUID."""
    return any(
        item.register == registers.PREFETCH_CONTROL
        for setting in settings
        for item in registers.parse_bit_requests(setting)
    )


def split_address(address: str) -> tuple[int, int, int]:
    """Return the register, the bit and the CPU of an address."""
    field, dummy, cpu = address[len("msr:") :].partition("]/cpu")
    register, dummy, bit = field.partition("[")
    return int(register, 16), int(bit), int(cpu)


class Msr(Knob):
    """The bits of registers."""

    prefix = "msr"
    outlives_kexec = True

    def __init__(self, host: Host, settings: Sequence[Mapping[str, Any]], load: bool, allow_undocumented: bool) -> None:
        self.host = host
        self.fs = host.fs
        self.settings = settings
        self.load = load
        self.allow_undocumented = allow_undocumented
        self._remarks: list[str] = []
        self._tainted_before: bool | None = None

    def owns_address(self, address: str) -> bool:
        return super().owns_address(address) and not address.startswith(MODULE)

    def wanted_settings(self) -> Settings:
        """Return the wanted bits of CPUs, refusing bits that the allow-list, the CPU or the kernel do not permit."""
        self._remarks = []
        items = [item for setting in self.settings for item in registers.parse_bit_requests(setting)]
        for register, bit in dict.fromkeys((item.register, item.bit) for item in items):
            registers.require_writable_bit(register, bit, self.host.topology, self.allow_undocumented)
        requested = self._requested_bits_by_cpu(items)
        self._refuse_differing_threads_of_core(requested)
        if registers.HWCR in {item.register for item in items} and self.host.topology.cpufreq_driver == "acpi-cpufreq":
            self._remarks.append(
                "The driver acpi-cpufreq writes the boost bit too, and would undo this silently. Prefer the boost of "
                "cpufreq_per_ccd, and never use both: each of them stores an original of its own."
            )
        wanted: Settings = {
            registers.format_address(*key): str(item.value)
            for key, item in sorted(requested.items(), key=lambda entry: (entry[0][2], *entry[0][:2]))
        }
        if (
            wanted
            and self._can_read_registers(requested)
            and find_differences(self, wanted, self.read_settings(wanted))
        ):
            self._refuse_read_only_registers()
            if not self._was_tainted_before_run():
                self._remarks.append(
                    "Writing a register sets the kernel's taint flag 4 (CPU out of specification) until the next boot. "
                    "The flag only appears in the kernel's error reports."
                )
        return wanted

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return bits, None for a CPU without the device; each CPU's device is opened once, each register read once."""
        addresses = list(addresses)
        self._was_tainted_before_run()
        found: Settings = dict.fromkeys(addresses)
        for cpu, by_register in _group_by_cpu(addresses).items():
            path = f"/dev/cpu/{cpu}/msr"
            try:
                words = self.fs.read_words(path, by_register)
            except Absent:
                continue
            except Refused as error:
                raise Refused(self._refusal_message(error, cpu), error.errno, path) from None
            for word, bits in zip(words, by_register.values()):
                found.update({name: str(word >> bit & 1) for bit, name in bits.items()})
        return found

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write bits, with one open per CPU and one read and write per register; other bits stay as they are."""
        self._was_tainted_before_run()
        after = {change.address: change.after for change in changes}
        for cpu, by_register in _group_by_cpu(after).items():
            path = f"/dev/cpu/{cpu}/msr"
            edits = []
            for register, bits in by_register.items():
                mask = sum(1 << bit for bit in bits)
                value = sum(1 << bit for bit, name in bits.items() if after[name] == "1")
                edits.append((register, mask, value))
            try:
                self.fs.patch_words(path, edits)
            except Absent as error:
                reason = self.unreachable_reason(next(iter(next(iter(by_register.values())).values())))
                raise Absent(
                    f"{error} {_capitalize_first(reason or 'it came back meanwhile')}.", **error.details
                ) from None
            except Refused as error:
                raise Refused(self._refusal_message(error, cpu), error.errno, path) from None

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if a CPU is offline or the kernel module msr is not loaded, else None."""
        cpu = split_address(address)[2]
        if has_device(self.fs, cpu, "msr"):
            return None
        if cpu not in read_online_cpus(self.fs):
            return f"CPU {cpu} is offline"
        return "the kernel module msr is not loaded (modprobe msr)"

    def list_remarks(self) -> list[str]:
        """Return remarks for the user on the consequences of the written bits."""
        return self._remarks

    def module_facts(self) -> dict[str, object]:
        """Return whether register writes of any program had tainted the kernel before the run, and have now."""
        before = self._was_tainted_before_run()
        return {"tainted_before": before, "tainted": self._is_tainted()}

    def _requested_bits_by_cpu(
        self, items: Sequence[registers.BitRequest]
    ) -> dict[tuple[int, int, int], registers.BitRequest]:
        requested: dict[tuple[int, int, int], registers.BitRequest] = {}
        for item in items:
            for cpu in self.host.parse_cpus(item.cpus):
                other = requested.setdefault((item.register, item.bit, cpu), item)
                if other.value != item.value:
                    raise BadRequest(
                        f"CPU {cpu} is asked for two values of bit {item.bit} in register {item.register:#x}: "
                        f"{other.source}, and {item.source}. Let the sets of CPUs not overlap."
                    )
        return requested

    def _refuse_differing_threads_of_core(self, requested: Mapping[tuple[int, int, int], registers.BitRequest]) -> None:
        """Refuse different values for the threads of a core, which share the registers of the allow-list."""
        core_of = {cpu: core for core in self.host.topology.cores for cpu in core}
        siblings: dict[int, set[int]] = {}
        for (register, bit, cpu), item in requested.items():
            if bit not in registers.KNOWN.get(register, ()):
                continue
            for sibling in core_of.get(cpu, ()):
                other = requested.get((register, bit, sibling))
                if other is None:
                    siblings.setdefault(register, set()).add(sibling)
                elif other.value != item.value:
                    raise BadRequest(
                        f"CPUs {cpu} and {sibling} are threads of one core and share register {register:#x}, but "
                        f"{item.source}, and {other.source}. Ask the same of both, or switch SMT off."
                    )
        for register, cpus in siblings.items():
            self._remarks.append(
                f"CPUs {format_cpulist(cpus)} were not asked for, but share register {register:#x} with threads of "
                "the same cores that were: their bits change too."
            )

    def _can_read_registers(self, requested: Iterable[tuple[int, int, int]]) -> bool:
        """Return whether registers can be read; False in check mode if kernel modules would be loaded first."""
        needs_cpuid = registers.PREFETCH_CONTROL in {register for register, dummy, dummy in requested}
        lacks_cpuid = needs_cpuid and self.host.topology.prefetch_control is None
        has_msr = has_device(self.fs, first_online_cpu(self.fs), "msr")
        if has_msr and not lacks_cpuid:
            return True
        names = [*([] if has_msr else ["msr"]), *(["cpuid"] if lacks_cpuid else [])]
        missing = f"The kernel module{'s' * (len(names) > 1)} {' and '.join(names)} {'are' if len(names) > 1 else 'is'}"
        if not self.load:
            raise BadRequest(
                f"{missing} not loaded, so {'it is unknown which' if has_msr else 'no'} registers can be reached. Set "
                "load_module, or name them in a file in /etc/modules-load.d."
            )
        self._refuse_read_only_registers(
            f" {missing} not loaded, so it cannot be seen whether they have the wanted bits already; 'modprobe -a "
            f"{' '.join(names)}' loads what shows it."
        )
        if not self.fs.read_only:
            raise BadRequest(f"{missing} loaded, yet /dev/cpu/{first_online_cpu(self.fs)} has no device of that name.")
        self._remarks.append(f"{missing} not loaded: what the registers hold is not known yet.")
        return False

    def _refuse_read_only_registers(self, more_text: str = "") -> None:
        """Raise Unsupported, with the reason, if the kernel refuses writes to registers."""
        reason = lockdown.registers_read_only_reason(self.fs)
        if reason:
            raise Unsupported(f"{lockdown.READ_ONLY}{reason}{more_text}")

    def _refusal_message(self, error: Refused, cpu: int) -> str:
        if error.errno == errno.EIO:
            return (
                f"{error} The hardware of CPU {cpu} does not know this register, or refuses this value because of bits "
                "that are reserved."
            )
        if error.errno in (errno.EPERM, errno.EACCES):
            reason = (
                lockdown.registers_read_only_reason(self.fs)
                or "this needs root with CAP_SYS_RAWIO, which containers usually lack."
            )
            return f"{error} {_capitalize_first(reason)}"
        return str(error)

    def _was_tainted_before_run(self) -> bool:
        """Return whether the kernel was tainted when this run began."""
        if self._tainted_before is None:
            self._tainted_before = self._is_tainted()
        return self._tainted_before

    def _is_tainted(self) -> bool:
        return bool(int(self.fs.read_if_present(TAINTED) or 0) >> TAINT_BIT & 1)


def _group_by_cpu(addresses: Iterable[str]) -> dict[int, dict[int, dict[int, str]]]:
    """Return CPU -> register -> bit -> address for the addresses."""
    groups: dict[int, dict[int, dict[int, str]]] = {}
    for name in addresses:
        register, bit, cpu = split_address(name)
        groups.setdefault(cpu, {}).setdefault(register, {})[bit] = name
    return groups


def _capitalize_first(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
