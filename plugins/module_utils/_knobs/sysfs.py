# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plain settings, one kernel file each: SMT, THP, NUMA balancing, cache-aware scheduling and others.

Addresses are ``sysfs:`` and a name of SETTINGS. A value is the word or number in force; CPUs are in list notation.
Source: Documentation/ABI/testing/sysfs-devices-system-cpu, Documentation/admin-guide/mm/transhuge.rst and
admin-guide/sysctl/kernel.rst, Documentation/core-api/workqueue.rst, kernel/{cpu,workqueue,watchdog}.c and
kernel/sched/{debug,fair,topology}.c of Linux.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._io.paths import CACHE_AWARE, SCHEDULER, SYSCTL
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
NEEDS_THP, NEEDS_WORKQUEUE = "it needs CONFIG_TRANSPARENT_HUGEPAGE", "it needs kernel 4.2 and sysfs"


class Setting:
    """A kernel file: title, option, path, notation, the value that a missing file equals, and why it may be missing.

    A missing file says nothing where the folder ``shown_in`` is missing too.
    """

    def __init__(
        self, title: str, option: str, path: str, kind: str, off: str | None, absent: str, shown_in: str = ""
    ) -> None:
        self.title = title
        self.option = option
        self.path = path
        self.kind = kind
        self.off = off
        self.absent = absent
        self.shown_in = shown_in


SETTINGS = {
    "smt/control": Setting("SMT", "smt", f"{CPUS}/smt/control", PLAIN, None, "the kernel is older than 4.19"),
    "thp/enabled": Setting("transparent huge pages", "thp", f"{THP}/enabled", BRACKETED, "never", NEEDS_THP),
    "thp/defrag": Setting(
        "waiting for transparent huge pages", "thp_defrag", f"{THP}/defrag", BRACKETED, None, NEEDS_THP
    ),
    "numa_balancing": Setting(
        "NUMA balancing", "numa_balancing", f"{SYSCTL}/numa_balancing", PLAIN, "0", "it needs CONFIG_NUMA_BALANCING"
    ),
    "cache_aware_scheduling": Setting(
        *("cache-aware scheduling", "cache_aware_scheduling", CACHE_AWARE, PLAIN, "0"),
        "it needs kernel 7.2 with CONFIG_SCHED_CACHE",
        shown_in=SCHEDULER,
    ),
    "workqueue/cpumask": Setting(
        "CPUs of unbound kernel work", "workqueue_cpus", f"{WORKQUEUE}/cpumask", MASK, None, NEEDS_WORKQUEUE
    ),
    "writeback/cpumask": Setting(
        "CPUs of writeback", "writeback_cpus", f"{WORKQUEUE}/writeback/cpumask", MASK, None, NEEDS_WORKQUEUE
    ),
    "nmi_watchdog": Setting(
        "NMI watchdog", "nmi_watchdog", f"{SYSCTL}/nmi_watchdog", PLAIN, "0", "it needs CONFIG_LOCKUP_DETECTOR"
    ),
}
SMT = "sysfs:smt/control"
IRQS = "/proc/irq"
UNBOUND, WRITEBACK = "sysfs:workqueue/cpumask", "sysfs:writeback/cpumask"
#: The kernel's words for SMT that the CPU or the BIOS does not offer, and for SMT that this kernel cannot switch.
NO_SMT = ("notsupported", "notimplemented")


def build_knobs(host: Host, options: Mapping[str, Any]) -> list[Knob]:
    """Return SMT first, which decides on the online CPUs, then the other settings, then a forced SMT."""
    knobs: list[Knob] = [Smt(host, options), PlainSettings(host, options)]
    return [*knobs, ForcedSmt(host, options)] if options.get("smt") == "forceoff" else knobs


def describe_setting(address_rest: str) -> Words:
    return SETTINGS[address_rest].title if address_rest in SETTINGS else address_rest, "", None


def find_setting(name: str) -> Setting:
    return SETTINGS[name[len("sysfs:") :]]


def parse_bracketed(text: str) -> tuple[str | None, list[str]]:
    """Return the word in brackets, None without one, and all words of a text such as 'always [madvise] never'."""
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]") and len(word) > 2]
    return (chosen[0] if chosen else None), [word.strip("[]") for word in words]


class KernelFiles(Knob):
    """Reads and writes the files of SETTINGS; the classes below own different addresses."""

    prefix = "sysfs"

    def __init__(self, host: Host, options: Mapping[str, Any]) -> None:
        self.host = host
        self.fs: KernelFS = host.fs
        self.options = options
        self._remarks: list[str] = []

    def read_settings(self, addresses: Iterable[str]) -> Settings:
        return {name: self._read_value(find_setting(name)) for name in addresses}

    def _read_value(self, setting: Setting) -> str | None:
        text = self.fs.read_if_present(setting.path)
        if text is None:
            return None
        if setting.kind == BRACKETED:
            return parse_bracketed(text)[0]
        return format_cpulist(parse_cpumask(text)) if setting.kind == MASK else text.strip()

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write each setting, as a mask if the kernel requires one."""
        for change in changes:
            setting, value = find_setting(change.address), change.after or ""
            if setting.kind == MASK:
                # The kernel refuses a mask with more bits than possible CPUs.
                possible = parse_cpulist(self.fs.read(f"{CPUS}/possible"))
                value = format_cpumask(parse_cpulist(value), possible[-1] + 1)
            self.fs.write(setting.path, value)

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two values are equal; a missing file equals the value that switches the feature off."""
        return wanted == found or (found is None and wanted == find_setting(address).off)

    def unreachable_reason(self, address: str) -> str | None:
        """Return why a setting has no file, None if it has one or if a missing file means off."""
        setting = find_setting(address)
        if self.fs.read_status(setting.path) is not None:
            return None
        if setting.shown_in and not self.fs.is_dir(setting.shown_in):
            return f"{setting.shown_in} is not there, so nothing shows it: mount debugfs on /sys/kernel/debug"
        return f"{setting.path} is not there: {setting.absent}" if setting.off is None else None


class Smt(KernelFiles):
    """Simultaneous multithreading, two threads on a core. Switching it takes CPUs offline or brings them online."""

    #: True after this run has switched SMT.
    _switched = False

    def owns_address(self, address: str) -> bool:
        return address == SMT

    def wanted_settings(self) -> Settings:
        """Return the wanted state of SMT. Raises BadRequest for one that kernel or CPU do not support."""
        word = self.options.get("smt")
        if word is None:
            return {}
        word = {True: "on", False: "off"}.get(word, word)  # YAML reads an unquoted on and off as truth values.
        state = self.read_settings([SMT])[SMT]
        if word not in ("on", "off", "forceoff"):
            raise BadRequest(f"smt: '{word}' is not one of on, off and forceoff.")
        if state is None:
            raise BadRequest(f"smt: {self.unreachable_reason(SMT)}.")
        if word == "on" and state == "notsupported":
            raise BadRequest(
                "smt: cannot be on here: the kernel says notsupported, so SMT is off in the BIOS or the CPU has one "
                "thread per core. Switch on SMT control in the BIOS."
            )
        if state == "notimplemented" and (word == "on" or self.fs.read_if_present(f"{CPUS}/smt/active") != "0"):
            raise BadRequest(
                "smt: this kernel cannot switch SMT while it runs (it was built without CONFIG_HOTPLUG_SMT). Switch it "
                "in the BIOS."
            )
        if word == "on" and state == "forceoff":
            raise BadRequest(
                "smt: was forced off, by forceoff or the boot parameter nosmt=force, and the kernel takes no other "
                "word until it boots again. Reboot, without nosmt=force."
            )
        if word == "on" and state == "off":
            self._remarks = [
                "CPUs that come online start with the kernel's defaults: set registers, frequency limits and resctrl "
                "groups for them after this."
            ]
        return {SMT: "off" if word == "forceoff" else word}

    def values_equal(self, address: str, wanted: str | None, found: str | None) -> bool:
        """Return whether two states are equal; every state with one thread per core counts as off."""
        if wanted == "off" and found == "forceoff":
            return True
        return wanted == found or (wanted in ("off", "forceoff") and found in NO_SMT)

    def unreachable_reason(self, address: str) -> str | None:
        """Return the reason if another state is wanted but SMT is forced off until the next boot; else None."""
        is_forced = self.fs.read_if_present(find_setting(SMT).path) == "forceoff"
        is_met = self.options.get("smt") in ("off", False, "forceoff")
        if is_forced and (self._switched or not is_met):  # After the switch only a rollback asks.
            return "SMT was forced off, which the kernel keeps until it boots again"
        return super().unreachable_reason(address)

    def settings_of_other_knobs_lost_by(self, changes: Sequence[Change]) -> Settings:
        """Return the affinity of interrupts whose CPUs all go offline.

        The kernel moves such an interrupt to any CPU, and does not move it back later.
        """
        if all(change.after == "on" for change in changes):
            return {}
        going_offline = {cpu for core in self.host.topology.cores for cpu in sorted(core)[1:]}
        lost: Settings = {}
        for number in filter(str.isdecimal, self.fs.list_names(IRQS)):
            cpus = self.fs.read_if_present(f"{IRQS}/{number}/smp_affinity_list") or ""
            if cpus and going_offline.issuperset(parse_cpulist(cpus)):
                lost[f"irq:{number}/affinity"] = cpus
        return lost

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Switch SMT, and forget the topology that was read before."""
        self._switched = True
        super().write_changes(changes)
        self.host.forget_topology()


class ForcedSmt(Smt):
    """The last step of forceoff. SMT is only off until all else is done, so that a failure can still be undone."""

    def owns_address(self, address: str) -> bool:
        """Return False, because Smt owns the address."""
        return False

    def wanted_settings(self) -> Settings:
        super().wanted_settings()
        return {SMT: "forceoff"}


class PlainSettings(KernelFiles):
    """All settings except SMT."""

    def owns_address(self, address: str) -> bool:
        return super().owns_address(address) and address != SMT

    def wanted_settings(self) -> Settings:
        """Return the options in the kernel's words, refusing words that the kernel does not offer."""
        wanted: Settings = {}
        for name, setting in SETTINGS.items():
            value = self.options.get(setting.option)
            if value is not None and self.owns_address(f"sysfs:{name}"):
                wanted[f"sysfs:{name}"] = self._to_kernel_word(setting, value)
        self._remarks = competing_programs.running_tuned_remarks(self.fs, "some of these settings") if wanted else []
        if UNBOUND in wanted or WRITEBACK in wanted:
            self._refuse_disjoint_work_queue_masks(wanted)
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
        if text is None and setting.shown_in and not self.fs.is_dir(setting.shown_in):
            raise BadRequest(
                f"{setting.option}: {setting.shown_in} is not there, so nothing shows whether the kernel has it. Mount "
                "debugfs on /sys/kernel/debug, or leave the option out on this host."
            )
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
        present = self.fs.read_if_present(setting.path)
        if setting.option == "numa_balancing" and on and (present or "").isdecimal():
            # Bit 1 is memory tiering, which stays as it is.
            return str(int(present or "0") | 1)
        if setting.option == "nmi_watchdog" and on and present == "0" and self._lacks_watchdog_counter(setting.path):
            raise BadRequest(
                "nmi_watchdog: the kernel has found no performance counter for it, as in most guests, and keeps "
                f"{setting.path} at 0. Leave the option out on this host."
            )
        return str(int(on))

    def _lacks_watchdog_counter(self, path: str) -> bool:
        """Return whether the kernel has no counter for the watchdog: its file is read-only, or refuses any write."""
        status = self.fs.read_status(path)
        read_only = status is not None and not status.st_mode & 0o222
        # 524 is ENOTSUPP, which Python has no name for. The kernel returns it before it reads the written text, so an
        # invalid text has no effect. Check mode writes not even that, so it does not detect this case.
        return read_only or (not self.fs.read_only and self.fs.write_refusal_errno(path, "x") == 524)

    def _refuse_disjoint_work_queue_masks(self, wanted: Settings) -> None:
        """Refuse a mask of writeback that has no CPU of the mask of all unbound work: the kernel would ignore it."""
        after = {**self.read_settings([UNBOUND, WRITEBACK]), **wanted}
        unbound, writeback = after[UNBOUND], after[WRITEBACK]
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
