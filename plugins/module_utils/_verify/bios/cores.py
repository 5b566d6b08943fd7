# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cores that the BIOS has switched off, and SMT."""

from __future__ import annotations

import re

from .setting import OFF, ON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .setting import KernelView, Reading

CPUS = "/sys/devices/system/cpu"
ALL = "all"
#: Boot parameters that hide CPUs. The parameter maxcpus hides none: CPUs beyond its number are offline.
LIMITING_PARAMETERS = ("nr_cpus=", "possible_cpus=")


def read_share_of_present_cores(view: KernelView) -> Reading:
    """Return "all" if as many cores are present as the name of the CPU says, else a text such as "88 of 96"."""
    top = view.top
    named = re.search(r"\b(\d+)-Core\b", top.model)
    if not named:
        return None, f"the name of the CPU, '{top.model}', does not say how many cores it has"
    if word := view.find_first_boot_parameter(*LIMITING_PARAMETERS):
        return None, f"the kernel was started with {word}"
    if sum(len(core) for core in top.present_cores) != len(top.online) + len(top.offline):
        return None, "CPUs are offline, and the kernel does not show their cores"
    present, promised = len(top.present_cores), int(named.group(1)) * len(top.sockets)
    how = f"{present} of {promised} cores, on {len(top.ccds)} CCDs with {len(top.domains)} L3 domains"
    return ALL if present == promised else f"{present} of {promised}", how


def read_smt_and_its_source(view: KernelView) -> Reading:
    """Return whether cores have two active threads, and whether the kernel or the BIOS decided that."""
    control = view.top.smt
    if view.fs.read_if_present(f"{CPUS}/smt/active") == "1":
        return ON, f"{CPUS}/smt/active is 1"
    if control in ("off", "forceoff"):
        return OFF, f"the kernel turned it off, {CPUS}/smt/control is {control}; the BIOS has it on"
    if control in ("on", "notsupported"):
        return OFF, f"{CPUS}/smt/active is 0"
    return None, f"{CPUS}/smt/control is {control}"
