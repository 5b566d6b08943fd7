# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses and values in the words of the trade: what a setting is, where it is, and what its value means.

``msr:0xc0000108[1]/cpu16`` with the value 1 is "prefetcher l1_stride", "CPU" 16, "disabled".
"""

from __future__ import annotations

from .._knobs.msr.registers import NAMED
from .._notation import cpulist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Union

    Place = Union[int, str]
    Words = tuple[str, str, Union[Place, None]]

L3_DOMAIN = "L3 domain"
SYSFS = {
    "smt/control": "SMT",
    "thp/enabled": "transparent huge pages",
    "thp/defrag": "waiting for transparent huge pages",
    "numa_balancing": "NUMA balancing",
    "workqueue/cpumask": "CPUs of unbound kernel work",
    "writeback/cpumask": "CPUs of writeback",
    "nmi_watchdog": "NMI watchdog",
}
RESCTRL = {
    "L3": "L3 share",
    "L3CODE": "L3 share for code",
    "L3DATA": "L3 share for data",
    "MB": "memory bandwidth limit",
    "SMBA": "slow memory bandwidth limit",
    "cpus": "CPUs",
    "mode": "mode",
}
CPUFREQ = {
    "boost": "boost",
    "scaling_governor": "governor",
    "scaling_min_freq": "lowest frequency",
    "scaling_max_freq": "highest frequency",
    "scaling_setspeed": "fixed frequency",
    "energy_performance_preference": "energy preference",
}
IRQ = {
    "default": "CPUs of interrupts to come",
    "irqbalance/banned_cpus": "CPUs that irqbalance keeps off",
    "irqbalance/service": "service irqbalance",
}
UNITS = {
    "sovereign-epyc.service": "boot service",
    "sovereign-epyc-watch.service": "watch service",
    "sovereign-epyc-check.service": "service of the check",
    "sovereign-epyc-check.timer": "timer of the check",
}
#: What a bit of a register switches off.
BITS = {
    (register, bit): f"prefetcher {name}" if option == "prefetch_control" else name.replace("_", " ")
    for option, (register, bits) in NAMED.items()
    for name, bit in bits.items()
}
SWITCH = {"0": "enabled", "1": "disabled"}


def describe(address: str) -> Words:
    """Return what a setting is, the unit that its places are counted in, and its place; an unknown one is itself."""
    prefix, dummy, rest = address.partition(":")
    if not rest:
        return "all settings", "", None
    return TELLERS[prefix](rest) if prefix in TELLERS else (address, "", None)


def value(address: str, text: str | None) -> str:
    """Return what a value means, for people."""
    if text is None:
        return "nothing"
    if address.startswith(("engine:/", "desired:", "prerequisites:/")) and address != "desired:intent":
        return "stored"
    if address.endswith("_freq") or address.endswith("scaling_setspeed"):
        return f"{int(text) / 1e6:g} GHz" if text.isdecimal() else text
    if address.startswith("msr:0x") and _bit(address[len("msr:") :].partition("/")[0]) in BITS:
        return SWITCH.get(text, text)
    if address.startswith("llama:/"):
        # A whole unit file; its difference is in the output of --diff.
        return f"a text of {len(text.splitlines())} lines"
    if address.startswith("cmdline:"):
        return text or "a flag without a value"
    return text or "''"


def where(unit: str, places: Iterable[Place], ccds: Mapping[int, int] | None = None) -> str:
    """Return places as text: numbers as a list of the kernel, and with L3 domains the CCDs that they are on.

    Names that have a unit are too many to be told.
    """
    places = list(dict.fromkeys(places))
    if unit and any(isinstance(place, str) for place in places):
        return f"{len(places)} {_plural(unit, len(places))}"
    numbers = [place for place in places if isinstance(place, int)]
    if len(numbers) < len(places) or not places:
        return ", ".join(str(place) for place in places)
    text = f"{_plural(unit, len(numbers))} {cpulist.render(numbers)}"
    if unit == L3_DOMAIN and ccds:
        on = sorted({ccds[number] for number in numbers if number in ccds})
        text += f" ({_plural('CCD', len(on))} {cpulist.render(on)})" if on else ""
    return text


def natural(text: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a key that sorts numbers inside of texts by their value, and never takes two texts for equal."""
    key: list[tuple[int, str]] = []
    digits = ""
    for char in [*text, ""]:
        if char.isdecimal():
            digits += char
            continue
        if digits:
            key.append((int(digits), ""))
            digits = ""
        key.append((-1, char))
    return tuple(key), text


def _plural(unit: str, number: int) -> str:
    if number == 1:
        return unit
    return f"{unit[:-1]}ies" if unit.endswith("cy") else f"{unit}s"


def _bit(text: str) -> tuple[int, int]:
    register, dummy, bit = text.partition("[")
    return int(register, 16), int(bit.rstrip("]"))


def _sysfs(rest: str) -> Words:
    return SYSFS.get(rest, rest), "", None


def _hugepages(rest: str) -> Words:
    node, dummy, size = rest.partition("/")
    kb = int(size[: -len("kB")])
    amount = f"{kb >> 20} GiB" if kb >= 1 << 20 else f"{kb >> 10} MiB"
    return f"huge pages of {amount}", "node", int(node[len("node") :])


def _resctrl(rest: str) -> Words:
    group, dummy, more = rest.partition("/")
    kind, dummy, key = more.partition("/")
    if rest == "mount":
        return "mount of resctrl", "", None
    if not kind:
        return f"group {group}", "", None
    if kind == "tasks_of":
        return f"threads of {key} in group {group}", "", None
    if kind == "mon":
        return f"monitor group {key} of group {group}", "", None
    what = f"{RESCTRL.get(kind, kind)} of group {group}"
    return (what, L3_DOMAIN, int(key)) if key.isdecimal() else (what, "", None)


def _cpufreq(rest: str) -> Words:
    policy, dummy, file = rest.rpartition("/")
    what = CPUFREQ.get(file, file)
    return (what, "policy", int(policy[len("policy") :])) if policy else (f"{what} of the machine", "", None)


def _msr(rest: str) -> Words:
    field, dummy, cpu = rest.partition("/cpu")
    if not cpu:
        return f"kernel module {rest.rpartition('/')[2]}", "", None
    register, bit = _bit(field)
    return BITS.get((register, bit), f"bit {bit} of register {register:#x}"), "CPU", int(cpu)


def _irq(rest: str) -> Words:
    number = rest.partition("/")[0]
    return ("CPUs", "interrupt", int(number)) if number.isdecimal() else (IRQ.get(rest, rest), "", None)


def _cmdline(rest: str) -> Words:
    return "boot parameter", "", rest


def _desired(rest: str) -> Words:
    return ("stored intent", "", None) if rest == "intent" else ("stored request", "", rest)


def _engine(rest: str) -> Words:
    name, dummy, kind = rest.rpartition("/")
    if name in UNITS:
        return UNITS[name] if kind == "enabled" else f"run of the {UNITS[name]}", "", name
    return "engine on the host", "file", rest


def _prerequisites(rest: str) -> Words:
    if rest.startswith("/"):
        return "kernel modules to load at boot", "", rest
    return f"kernel module {rest.rpartition('/')[2]}", "", None


def _llama(rest: str) -> Words:
    folder, dummy, last = rest.rpartition("/")
    unit = next(word for word in (*folder.split("/"), last) if word.startswith("llama-"))
    name = unit[len("llama-") :].partition(".service")[0]
    if not rest.startswith("/"):
        return f"instance {name}" if last == "enabled" else f"run of instance {name}", "", None
    return (f"unit of instance {name}" if unit == last else f"drop-in {last} of instance {name}"), "", None


TELLERS = {
    "sysfs": _sysfs,
    "hugepages": _hugepages,
    "resctrl": _resctrl,
    "cpufreq": _cpufreq,
    "msr": _msr,
    "irq": _irq,
    "cmdline": _cmdline,
    "desired": _desired,
    "engine": _engine,
    "llama": _llama,
    "prerequisites": _prerequisites,
}
