# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who asked for a setting: the role that stored its request, and the variables of the inventory that say what it wants.

A request of a task outside of our roles has a label of its own, and no role here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Optional

    RoleOf = Callable[[int], Optional[str]]

#: Request -> role.
ROLES = {
    "sysfs/numa": "numa",
    "hugepages/hugepages": "numa",
    "cmdline/cmdline": "grub_params",
    "irq/irq": "irq",
    "sysfs/irq": "irq",
    "resctrl/resctrl": "cat",
    "cpufreq/cpufreq": "cpufreq",
    "msr/msr": "prefetch",
}
#: Addresses that one variable decides on.
FIXED = {
    "sysfs:smt/control": "numa_smt",
    "sysfs:thp/enabled": "numa_thp",
    "sysfs:thp/defrag": "numa_thp_defrag",
    "sysfs:numa_balancing": "numa_balancing",
    "sysfs:workqueue/cpumask": "irq_workqueue_cpus",
    "sysfs:writeback/cpumask": "irq_workqueue_cpus",
    "irq:default": "irq_default",
    "irq:irqbalance/banned_cpus": "irq_irqbalance",
    "irq:irqbalance/service": "irq_irqbalance",
    "resctrl:mount": "cat_mount_options",
    "cmdline:nohz_full": "grub_params_isolation",
    "cmdline:rcu_nocbs": "grub_params_isolation",
    "cmdline:isolcpus": "grub_params_isolation",
    "cmdline:irqaffinity": "grub_params_isolation",
}
#: Groups of resctrl that the plan makes.
PLANNED = {"draft": "plan_draft", "verify": "plan_verify", "default": "plan_default"}


def role(request: str) -> str:
    """Return the role that stored a request, an empty text for none of ours."""
    return ROLES.get(request, "")


def variable(request: str, address: str, wanted: str | None, role_of: RoleOf | None = None) -> str:
    """Return the variable that decides on a setting, an empty text where none of ours does.

    ``role_of`` tells the role of a CPU in the plan, which the variables of frequencies and prefetchers are named after.
    """
    prefix, dummy, rest = address.partition(":")
    if not role(request) or not rest:
        return ""
    if address in FIXED:
        return FIXED[address]
    if prefix == "hugepages":
        return "numa_hugepages"
    if prefix == "irq":
        return "irq_cpus"
    if prefix == "resctrl":
        return PLANNED.get(rest.partition("/")[0], "cat_purge")
    if prefix == "cmdline":
        if rest.startswith("hugepages"):
            return "grub_params_hugepages"
        return "grub_params_remove" if wanted is None else "grub_params_extra"
    cpu = _cpu_of(rest)
    member = role_of(cpu) if role_of is not None and cpu is not None else None
    return f"{role(request)}_{member}" if member in ("draft", "verify", "housekeeping") else ""


def _cpu_of(rest: str) -> int | None:
    """Return the CPU that an address is about: a policy has the number of its first one."""
    for word in rest.split("/"):
        for prefix in ("cpu", "policy"):
            number = word[len(prefix) :]
            if word.startswith(prefix) and number.isdecimal():
                return int(number)
    return None
