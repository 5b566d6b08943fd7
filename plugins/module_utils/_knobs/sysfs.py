# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plain settings, one kernel file each: SMT, THP, NUMA balancing, work queues and the NMI watchdog.

Addresses are ``sysfs:`` and a name of SETTINGS. A value is the word or number in force; CPUs are in list notation.
Source: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/mm/transhuge.rst and
admin-guide/sysctl/kernel.rst, Documentation/core-api/workqueue.rst, kernel/{cpu,workqueue,watchdog}.c of Linux.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._notation.cpulist import format_cpulist, format_cpumask, parse_cpulist, parse_cpumask
from . import competing_programs
from .protocol.knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .._host.host import Host
    from .._io.kernelfs import KernelFS
    from .protocol.knob import Change, Settings, Words

PLAIN, BRACKETED, MASK = "plain", "bracketed", "mask"
CPUS = "/sys/devices/system/cpu"
THP = "/sys/kernel/mm/transparent_hugepage"
WORKQUEUE = "/sys/devices/virtual/workqueue"


class Setting:
    """A kernel file: its option, its path, how to read it, which value its absence equals, and why it may be absent."""

    __slots__ = ("absent", "kind", "off", "option", "path")

    def __init__(self, option: str, path: str, kind: str, off: str | None, absent: str) -> None:
        self.option = option
        self.path = path
        self.kind = kind
        self.off = off
        self.absent = absent


SETTINGS = {
    "smt/control": Setting("smt", f"{CPUS}/smt/control", PLAIN, None, "the kernel is older than 4.19"),
    "thp/enabled": Setting("thp", f"{THP}/enabled", BRACKETED, "never", "it needs CONFIG_TRANSPARENT_HUGEPAGE"),
    "thp/defrag": Setting("thp_defrag", f"{THP}/defrag", BRACKETED, None, "it needs CONFIG_TRANSPARENT_HUGEPAGE"),
    "numa_balancing": Setting(
        "numa_balancing", "/proc/sys/kernel/numa_balancing", PLAIN, "0", "it needs CONFIG_NUMA_BALANCING"
    ),
    "workqueue/cpumask": Setting("workqueue_cpus", f"{WORKQUEUE}/cpumask", MASK, None, "it needs kernel 4.2 and sysfs"),
    "writeback/cpumask": Setting(
        "writeback_cpus", f"{WORKQUEUE}/writeback/cpumask", MASK, None, "it needs kernel 4.2 and sysfs"
    ),
    "nmi_watchdog": Setting(
        "nmi_watchdog", "/proc/sys/kernel/nmi_watchdog", PLAIN, "0", "it needs CONFIG_LOCKUP_DETECTOR"
    ),
}
SMT = "sysfs:smt/control"
IRQS = "/proc/irq"
UNBOUND, WRITEBACK = "sysfs:workqueue/cpumask", "sysfs:writeback/cpumask"
#: What the kernel says of SMT where there are no threads to switch, or none that this kernel can switch.
NO_SMT = ("notsupported", "notimplemented")


TITLES = {
    "smt/control": "SMT",
    "thp/enabled": "transparent huge pages",
    "thp/defrag": "waiting for transparent huge pages",
    "numa_balancing": "NUMA balancing",
    "workqueue/cpumask": "CPUs of unbound kernel work",
    "writeback/cpumask": "CPUs of writeback",
    "nmi_watchdog": "NMI watchdog",
}


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return SMT first, which decides which CPUs there are, then the rest, and last what cannot be taken back."""
    knobs: list[Knob] = [Smt(host, options), PlainSettings(host, options)]
    return [*knobs, ForcedSmt(host, options)] if options.get("smt") == "forceoff" else knobs


def describe_setting(rest: str) -> Words:
    """Return what a setting is, for people."""
    return TITLES.get(rest, rest), "", None


def find_setting(name: str) -> Setting:
    """Return the setting at an address."""
    return SETTINGS[name[len("sysfs:") :]]


def parse_bracketed(text: str) -> tuple[str | None, list[str]]:
    """Return the word in brackets, None where none is, and all words offered, of a text as 'always [madvise] never'."""
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]") and len(word) > 2]
    return (chosen[0] if chosen else None), [word.strip("[]") for word in words]


class KernelFiles(Knob):
    """Reads and writes the files; which of them it owns is told by those below."""

    prefix = "sysfs"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.host = host
        self.fs: KernelFS = host.fs
        self.options = options
        self._remarks: list[str] = []

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        """Return each setting's value, None where the kernel has no such file."""
        return {name: self._read_value(find_setting(name)) for name in addresses}

    def _read_value(self, setting: Setting) -> str | None:
        text = self.fs.read_if_present(setting.path)
        if text is None:
            return None
        if setting.kind == BRACKETED:
            return parse_bracketed(text)[0]
        return format_cpulist(parse_cpumask(text)) if setting.kind == MASK else text.strip()

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write each setting, as a mask where the kernel wants one."""
        for change in changes:
            setting, value = find_setting(change.address), change.after or ""
            if setting.kind == MASK:
                # The kernel refuses a mask that is longer than the CPUs it could have.
                possible = parse_cpulist(self.fs.read(f"{CPUS}/possible"))
                value = format_cpumask(parse_cpulist(value), possible[-1] + 1)
            self.fs.write(setting.path, value)

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """What is not there is off."""
        return wanted == found or (found is None and wanted == find_setting(address).off)

    def unreachable_reason(self, address: str) -> str | None:
        """Tell of a setting whose file is not there, where that is not the same as off."""
        setting = find_setting(address)
        if setting.off is None and self.fs.read_status(setting.path) is None:
            return f"{setting.path} is not there: {setting.absent}"
        return None

    def list_remarks(self) -> list[str]:
        """Return what the person should know though nothing failed."""
        return self._remarks


class Smt(KernelFiles):
    """Simultaneous multithreading, two threads on a core: switching it takes CPUs away or brings them back."""

    #: Whether this run has switched it.
    _switched = False

    def owns_address(self, address: str) -> bool:
        """Only SMT."""
        return address == SMT

    def wanted_settings(self) -> Settings:
        """Refuse what neither this kernel nor this CPU can do."""
        word = self.options.get("smt")
        if word is None:
            return {}
        word = {True: "on", False: "off"}.get(word, word)  # YAML reads an unquoted on and off as truth values.
        found = self.read_settings([SMT])[SMT]
        if word not in ("on", "off", "forceoff"):
            raise BadRequest(f"smt: '{word}' is not one of on, off and forceoff.")
        if found is None:
            raise BadRequest(f"smt: {self.unreachable_reason(SMT)}.")
        if word == "on" and found == "notsupported":
            raise BadRequest(
                "smt: cannot be on here: the kernel says notsupported, so SMT is off in the BIOS or the CPU has one "
                "thread per core. Switch on SMT control in the BIOS."
            )
        if found == "notimplemented" and (word == "on" or self.fs.read_if_present(f"{CPUS}/smt/active") != "0"):
            raise BadRequest(
                "smt: this kernel cannot switch SMT while it runs (it was built without CONFIG_HOTPLUG_SMT). Switch it "
                "in the BIOS."
            )
        if word == "on" and found == "forceoff":
            raise BadRequest(
                "smt: was forced off, by forceoff or the boot parameter nosmt=force, and the kernel takes no other "
                "word until it boots again. Reboot, without nosmt=force."
            )
        if word == "on" and found == "off":
            self._remarks = [
                "CPUs that come online start with the kernel's defaults: set registers, frequency limits and resctrl "
                "groups for them after this."
            ]
        return {SMT: "off" if word == "forceoff" else word}

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Every state with one thread per core counts as off."""
        if wanted == "off" and found == "forceoff":
            return True
        return wanted == found or (wanted in ("off", "forceoff") and found in NO_SMT)

    def unreachable_reason(self, address: str) -> str | None:
        """Tell that a forced SMT stays off until the next boot, where something else is wanted of it."""
        forced = self.fs.read_if_present(find_setting(SMT).path) == "forceoff"
        met = self.options.get("smt") in ("off", False, "forceoff")
        if forced and (self._switched or not met):  # Once switched, only an undo asks.
            return "SMT was forced off, which the kernel keeps until it boots again"
        return super().unreachable_reason(address)

    def companion_settings(self, changes: Sequence[Change]) -> Settings:
        """An interrupt whose CPUs all go is sent anywhere by the kernel, and has forgotten them when they come back."""
        if all(change.after == "on" for change in changes):
            return {}
        going = {cpu for core in self.host.topology.cores for cpu in sorted(core)[1:]}
        lost: Settings = {}
        for number in filter(str.isdecimal, self.fs.list_names(IRQS)):
            cpus = self.fs.read_if_present(f"{IRQS}/{number}/smp_affinity_list") or ""
            if cpus and going.issuperset(parse_cpulist(cpus)):
                lost[f"irq:{number}/affinity"] = cpus
        return lost

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Switch SMT, and have the topology read again."""
        self._switched = True
        super().write_changes(changes)
        self.host.forget_topology()


class ForcedSmt(Smt):
    """The last step of forceoff: until all else is done, SMT is only off, so that a failure can still be undone."""

    def owns_address(self, address: str) -> bool:
        """Nothing: the address is that of Smt."""
        return False

    def wanted_settings(self) -> Settings:
        """The word that was asked for."""
        super().wanted_settings()
        return {SMT: "forceoff"}


class PlainSettings(KernelFiles):
    """Everything but SMT."""

    def owns_address(self, address: str) -> bool:
        """All but SMT."""
        return super().owns_address(address) and address != SMT

    def wanted_settings(self) -> Settings:
        """Turn the options into the kernel's words, refusing those that it does not offer."""
        wanted: Settings = {}
        for name, setting in SETTINGS.items():
            value = self.options.get(setting.option)
            if value is not None and self.owns_address(f"sysfs:{name}"):
                wanted[f"sysfs:{name}"] = self._to_kernel_word(setting, value)
        self._remarks = competing_programs.tuned_remarks(self.fs, "some of these settings") if wanted else []
        if UNBOUND in wanted or WRITEBACK in wanted:
            self._check_work_queue_masks(wanted)
        return wanted

    def _to_kernel_word(self, setting: Setting, value: Any) -> str:
        if setting.kind == MASK:
            word = format_cpulist(self.host.parse_cpus(str(value)))
        elif setting.kind == PLAIN:
            if not isinstance(value, bool):
                raise BadRequest(f"{setting.option}: '{value}' is neither true nor false.")
            word = self._to_kernel_number(setting, value)
        else:
            word = str(value)
        text = self.fs.read_if_present(setting.path)
        if text is None and word != setting.off:
            raise BadRequest(
                f"{setting.option}: cannot be '{word}' here, {setting.path} is not there: {setting.absent}. Leave the "
                "option out on this host."
            )
        if setting.kind == BRACKETED and text is not None and word not in parse_bracketed(text)[1]:
            offers = ", ".join(parse_bracketed(text)[1])
            raise BadRequest(f"{setting.option}: this kernel does not offer '{word}', only {offers}.")
        return word

    def _to_kernel_number(self, setting: Setting, on: bool) -> str:
        found = self.fs.read_if_present(setting.path)
        if setting.option == "numa_balancing" and on and (found or "").isdecimal():
            # Bit 1 is memory tiering, which is somebody else's wish.
            return str(int(found or "0") | 1)
        if setting.option == "nmi_watchdog" and on and found == "0" and self._lacks_watchdog(setting.path):
            raise BadRequest(
                "nmi_watchdog: the kernel has found no performance counter for it, as in most guests, and keeps "
                f"{setting.path} at 0. Leave the option out on this host."
            )
        return str(int(on))

    def _lacks_watchdog(self, path: str) -> bool:
        """Return whether the kernel has no counter: newer ones make the file read-only, older ones refuse any write."""
        status = self.fs.read_status(path)
        read_only = status is not None and not status.st_mode & 0o222
        # ENOTSUPP, which no C library has a name for; it comes before the kernel looks at what is written. A check does
        # not write even what has no meaning, and leaves this refusal to the run.
        return read_only or (not self.fs.read_only and self.fs.write_refusal_errno(path, "x") == 524)

    def _check_work_queue_masks(self, wanted: Settings) -> None:
        """Where a work queue's own mask has no CPU in common with that of all, the kernel silently takes the latter."""
        now = {**self.read_settings([UNBOUND, WRITEBACK]), **wanted}
        unbound, writeback = now[UNBOUND], now[WRITEBACK]
        if writeback and unbound and not set(parse_cpulist(unbound)) & set(parse_cpulist(writeback)):
            sentence = (
                f"writeback may run on CPUs {writeback} and unbound work in general on CPUs {unbound}, which have none "
                "in common: the kernel ignores the former then."
            )
            if WRITEBACK in wanted:
                raise BadRequest(f"writeback_cpus: {sentence} Choose CPUs of {unbound}, or widen workqueue_cpus.")
            self._remarks.append(f"workqueue_cpus: {sentence} Set writeback_cpus too.")
        isolated = parse_cpumask(self.fs.read_if_present(f"{WORKQUEUE}/cpumask_isolated") or "0")
        if UNBOUND in wanted and isolated:
            self._remarks.append(
                f"CPUs {format_cpulist(isolated)} are isolated by a cpuset partition: the kernel sets the mask of "
                "unbound work anew whenever such a partition comes or goes."
            )
