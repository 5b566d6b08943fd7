# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The requested boot parameters: roles become CPUs, and parameters that prevent a boot or mean nothing are refused.

Source: Documentation/admin-guide/kernel-parameters.txt of the Linux kernel; grub-core/script/lexer.c of GRUB.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel import hugepages
from ..._notation import cmdline
from ..._notation.cpulist import format_cpulist, parse_boot_cpulist
from ..._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..protocol.knob import Settings

#: Parameters whose value is, or ends with, a list of CPUs; True for those that must leave out CPU 0.
CPU_LISTS = {"isolcpus": True, "nohz_full": True, "rcu_nocbs": False, "irqaffinity": False, "kthread_cpus": False}
ISOLCPUS_FLAGS = ("domain", "managed_irq", "nohz")
#: Parameters that boot loaders write themselves, so that a second one would contradict the first.
NOT_OURS = ("root", "ro", "rw", "initrd", "BOOT_IMAGE", "__")
#: Characters that a shell or a boot loader would interpret.
SPECIAL = "'\\$`\""
#: More such characters, which are harmless in a value in quotes.
SPECIAL_BARE = "|&;<>"
BRACES = "Put CPUs in braces, such as {draft,verify}."
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
ISOLATED = (
    "isolcpus takes CPUs out of load balancing (its flag domain, which holds when no flag is given): a program with "
    "many threads that is started on several of them runs all its threads on one. Pin every thread by itself, or leave "
    "isolcpus out and keep others away by systemd's AllowedCPUs."
)


class BootRequest:
    """The wanted settings by name, in the spelling of the user, and remarks about them."""

    def __init__(self, host: Host, parameters: Sequence[str], absent: Sequence[str]) -> None:
        self.host = host
        words = [self._expand_roles_in_braces(text) for text in parameters]
        pairs = [cmdline.split_kernel_parameter(word) for word in words]
        for word, (name, value) in zip(words, pairs):
            _refuse_invalid_parameter_word(word, name, value)
        self.remarks: list[str] = []
        texts = cmdline.parameters_to_settings(words)
        self.settings: Settings = {}
        for name, dummy in pairs:
            setting = cmdline.setting_name_of_parameter(name)
            self.settings[setting if setting in cmdline.FAMILIES else name] = texts[setting]
        for name in absent:
            self._add_parameter_removal(name, texts)
        self._validate_cpu_parameters(pairs)
        self._hugepages_bytes = self._parse_bytes_of_all_pools(pairs) if cmdline.HUGEPAGES in texts else 0
        if self._hugepages_bytes:
            self.refuse_hugepages_beyond(_parse_total_memory(host.fs.read("/proc/meminfo")))

    def _expand_roles_in_braces(self, text: str) -> str:
        """Replace roles and places in braces, such as {draft,verify}, by CPUs in the kernel's notation."""
        expanded = ""
        rest = text.strip()
        while rest:
            before, brace, rest = rest.partition("{")
            expanded += before
            if brace:
                inside, closed, rest = rest.partition("}")
                if not closed:
                    raise BadRequest(f"'{text}': a brace is not closed. {BRACES}")
                expanded += format_cpulist(self.host.parse_cpus(inside))
        if "}" in expanded:
            raise BadRequest(f"'{text}': a brace is not opened. {BRACES}")
        return expanded

    def _add_parameter_removal(self, name: str, texts: dict[str, str]) -> None:
        _refuse_invalid_parameter_word(name, *cmdline.split_kernel_parameter(name))
        if "=" in name:
            raise BadRequest(f"absent: '{name}' must be a name without a value; all parameters of a name are removed.")
        setting = cmdline.setting_name_of_parameter(name)
        if setting in texts:
            raise BadRequest(f"{name} is in parameters and in absent. Take it out of one of them.")
        self.settings[setting if setting in cmdline.FAMILIES else name] = None

    def _validate_cpu_parameters(self, pairs: Sequence[tuple[str, str | None]]) -> None:
        for name, value in pairs:
            spelled = cmdline.canonical_parameter_name(name)
            if spelled not in CPU_LISTS or (spelled == "rcu_nocbs" and value is None):
                continue
            if [cmdline.canonical_parameter_name(other) for other, dummy in pairs].count(spelled) > 1:
                raise BadRequest(f"{name} is given more than once; the kernel uses only one of them.")
            items = (value or "").split(",")
            flags: list[str] = []
            while spelled == "isolcpus" and items and items[0] in ISOLCPUS_FLAGS:
                flags.append(items.pop(0))
            self._validate_cpu_list(name, ",".join(items), leave_first=CPU_LISTS[spelled])
            if spelled == "isolcpus" and (not flags or "domain" in flags):
                self.remarks.append(ISOLATED)

    def _validate_cpu_list(self, name: str, text: str, leave_first: bool) -> None:
        top = self.host.topology
        try:
            cpus = parse_boot_cpulist(text, max((*top.online, *top.offline)))
        except ValueError as error:
            raise BadRequest(
                f"{name}: {error}. Say CPU numbers, or roles and places in braces, such as {name}={{draft,verify}}."
            ) from None
        if not cpus:
            raise BadRequest(f"{name} names no CPU. Say {name}={{draft,verify}} or the like.")
        if "all" not in text.lower():
            self.host.parse_cpus(format_cpulist(cpus))  # Refuses CPUs that are offline or do not exist.
        if leave_first and 0 in cpus:
            raise BadRequest(
                f"{name}={text} takes CPU 0 away from the system, which boots on it and keeps time there. Leave it out."
            )

    def refuse_hugepages_beyond_held_memory(self) -> None:
        """Refuse huge pages that leave too little for a boot beside what kernel, drivers and services hold now."""
        memory = hugepages.read_host_memory(self.host.fs)
        if memory is not None and self._hugepages_bytes:
            self.refuse_hugepages_beyond(memory.total, hugepages.read_bytes_held_by_system(self.host.fs))

    def refuse_hugepages_beyond(self, memory: int, held: int = 0) -> None:
        """Refuse huge pages that leave less than the floor of a boot of this memory, of which some is held."""
        keep = max(512 << 20, memory >> 5)
        most = max(0, memory - keep - held)
        if self._hugepages_bytes > most:
            holders = f", of which kernel, drivers and running services hold {held >> 20} MiB" if held else ""
            raise BadRequest(
                f"The huge pages would take {self._hugepages_bytes >> 20} MiB of the {memory >> 20} MiB of this host"
                f"{holders}, and less than {keep >> 20} MiB would be left to boot with. Ask for fewer, at most "
                f"{most >> 20} MiB."
            )

    def _parse_bytes_of_all_pools(self, pairs: Sequence[tuple[str, str | None]]) -> int:
        """Return the bytes of all huge pages, refusing page sizes that the CPU lacks, and pages beyond a node."""
        fs = self.host.fs
        sizes = {int(name[len("hugepages-") : -len("kB")]) << 10 for name in fs.list_names("/sys/kernel/mm/hugepages")}
        defaults = [value for name, value in pairs if cmdline.canonical_parameter_name(name) == "default_hugepagesz"]
        size = _parse_page_size(defaults[0]) if defaults else 2 << 20
        seen: list[int] = []
        total = 0
        for name, value in pairs:
            spelled = cmdline.canonical_parameter_name(name)
            if spelled in ("default_hugepagesz", "hugepagesz"):
                if _parse_page_size(value) not in sizes:
                    offered = ", ".join(f"{number >> 20}M" for number in sorted(sizes)) or "none"
                    raise BadRequest(f"{name}={value}: this host has no pages of that size; it has {offered}.")
                size = _parse_page_size(value)
                if spelled == "hugepagesz" and size in seen:
                    raise BadRequest(f"hugepagesz={value} is given twice; the kernel ignores the second.")
                seen += [size] if spelled == "hugepagesz" else []
            elif spelled == "hugepages":
                total += self._parse_hugepages_as_bytes(value or "", size)
        return total

    def _parse_hugepages_as_bytes(self, value: str, size: int) -> int:
        """Return the bytes of a hugepages=, which is a count, or counts by node such as 0:4,1:4."""
        total = 0
        for item in value.split(","):
            node, colon, text = item.rpartition(":")
            count = parse_whole_number(text)
            if count is None or (colon and parse_whole_number(node) is None) or (not colon and "," in value):
                raise BadRequest(f"hugepages={value}: say a count, or counts by node such as 0:4,1:4.")
            total += count * size
            if colon:
                meminfo = self.host.fs.read_if_present(f"/sys/devices/system/node/node{node}/meminfo")
                if meminfo is None:
                    raise BadRequest(f"hugepages={value}: this host has no node {node}.")
                if count * size > _parse_total_memory(meminfo):
                    raise BadRequest(
                        f"hugepages={value}: node {node} has {_parse_total_memory(meminfo) >> 20} MiB, and "
                        f"{count * size >> 20} MiB of it were asked for."
                    )
        return total


def _refuse_invalid_parameter_word(word: str, name: str, value: str | None) -> None:
    """Raise BadRequest for a word that is no single parameter, or that the boot loader would alter."""
    if not name or not all(c.isascii() and (c.isalnum() or c in "_-.") for c in name):
        raise BadRequest(f"{word!r} is no kernel parameter: say NAME or NAME=VALUE, one parameter in each text.")
    if cmdline.canonical_parameter_name(name) in NOT_OURS or name in NOT_OURS:
        raise BadRequest(f"{name} is written by the boot loader itself, so it is left to its own configuration.")
    if len(cmdline.split_kernel_command_line(word)) != 1:
        raise BadRequest(f"{word!r} is more than one parameter. Give each its own text, or put its value in quotes.")
    bare = SPECIAL_BARE if " " not in (value or "") else ""
    bad = [c for c in value or "" if c in SPECIAL + bare or not c.isprintable() or not c.isascii()]
    if bad:
        raise BadRequest(
            f"{word!r} holds {bad[0]!r}, which a shell or the boot loader on the way interprets; it would not reach "
            "the kernel as written."
        )


def _parse_page_size(value: str | None) -> int:
    """Return a page size such as 1G in bytes, 0 for anything else."""
    number, unit = parse_whole_number((value or "")[:-1]), (value or "")[-1:].upper()
    return (number or 0) * UNITS.get(unit, 0)


def _parse_total_memory(text: str) -> int:
    row = next(row for row in text.splitlines() if "MemTotal:" in row)
    return int(row.split()[-2]) << 10
