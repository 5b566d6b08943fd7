# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue: one row for each knob, in the order in which they are applied. SMT, which decides on CPUs, is first.

Check, undo, boot service, checklist and drift report use this table. docs/add-a-knob.md shows how to add a row.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Optional

    from .._host.host import Host
    from .protocol.knob import Knob, Words

    #: The role of a CPU in the plan.
    RoleOf = Callable[[int], Optional[str]]


class KnobRow:
    """The row of one knob; it decorates a function that imports the file of the knob and returns this file.

    The function's name is the name of the knob: the prefix of its addresses and stored requests, and its layer in
    reports.
    """

    def __init__(
        self,
        *,
        module: str,
        title: str,
        roles: Mapping[str, str],
        variables: Mapping[str, str],
        variable_of_removed: str = "",
        lasting: Sequence[str] = (),
        needs_reboot: bool = False,
        takes_effect: Mapping[str, str] | None = None,
        ablate_separately: bool = False,
        each_its_own_value: bool = False,
    ) -> None:
        """``module`` is the name of the Ansible module, ``title`` the name of the layer for people.

        ``roles`` maps the label of a stored request to the role that stores it. ``variables`` maps the beginning of an
        address, without the name of the knob, to the inventory variable that decides on the setting; the longest match
        counts, and {role} stands for the role of the CPU in the plan. ``variable_of_removed`` replaces the variable of
        "" for a setting that is to be removed.

        ``lasting`` are beginnings of addresses whose settings outlive a boot; ``needs_reboot`` means that they take
        effect at the next boot. ``takes_effect`` maps the beginning of an address to the time when a program notices a
        change, which is LIVE by default. With ``ablate_separately``, an ablation tries each kind of settings by itself
        instead of the whole knob. ``each_its_own_value`` means that settings are reported together though their values
        differ.
        """
        self.name = ""
        self.module = module
        self.title = title
        self.roles = roles
        self.lasting = tuple(lasting)
        self.needs_reboot = needs_reboot
        self.each_its_own_value = each_its_own_value
        self.ablate_separately = ablate_separately
        self._takes_effect = sorted(
            (takes_effect or {"": REBOOT if needs_reboot else LIVE}).items(), key=lambda row: -len(row[0])
        )
        self._variables = sorted(variables.items(), key=lambda row: -len(row[0]))
        self._variable_of_removed = variable_of_removed

    def __call__(self, load: Callable[[], Any]) -> KnobRow:
        """Decorate the function that imports the file of the knob, and add the row to the table."""
        self.name, self._load = load.__name__, load
        KNOBS[self.name] = self
        return self

    def import_knob_file(self) -> Any:
        """Return the file of the knob, imported now, because importing all of them takes too long."""
        return self._load()

    def build_knobs(self, host: Host, options: Mapping[str, Any]) -> Sequence[Knob]:
        """Return the knobs of a request with these options."""
        knobs: Sequence[Knob] = self.import_knob_file().build_knobs(host, options)
        return knobs

    def describe_setting(self, address_rest: str) -> Words:
        """Return the noun, unit and place of a setting, by its address without the name of the knob."""
        describe = getattr(self.import_knob_file(), "describe_setting", None)
        words: Words = describe(address_rest) if describe else (address_rest, "", None)
        return words

    def when_takes_effect(self, address_rest: str) -> str:
        """Return when a program notices that a setting has changed: LIVE, RESTART or REBOOT."""
        return next((when for begin, when in self._takes_effect if address_rest.startswith(begin)), LIVE)

    def outlives_boot(self, address_rest: str) -> bool:
        """Return whether a setting outlives a boot by itself, by its address without the name of the knob."""
        return address_rest.startswith(self.lasting)

    def ablation_name(self, address_rest: str) -> str:
        """Return the name under which an ablation tries a setting."""
        return self.describe_setting(address_rest)[0] if self.ablate_separately else self.title

    def format_value(self, address_rest: str, text: str) -> str:
        """Return the meaning of a value for people."""
        shown = getattr(self.import_knob_file(), "format_value", None)
        return str(shown(address_rest, text)) if shown else text

    def find_inventory_variable(self, address_rest: str, wanted: str | None, role_of: RoleOf | None = None) -> str:
        """Return the inventory variable that decides on a setting, an empty text if none does."""
        begin, name = next((row for row in self._variables if address_rest.startswith(row[0])), ("", ""))
        if not begin and wanted is None and self._variable_of_removed:
            return self._variable_of_removed
        if "{role}" not in name:
            return name
        cpu = _parse_cpu_of_address(address_rest)
        role = role_of(cpu) if role_of is not None and cpu is not None else None
        return name.format(role=role) if role in ("draft", "verify", "housekeeping") else ""


def _parse_cpu_of_address(address_rest: str) -> int | None:
    """Return the CPU in an address; the number of a policy is that of its first CPU."""
    for word in address_rest.split("/"):
        for prefix in ("cpu", "policy"):
            number = word[len(prefix) :]
            if word.startswith(prefix) and number.isdecimal():
                return int(number)
    return None


KNOBS: dict[str, KnobRow] = {}
#: The times when a program notices a change: at once, when the program restarts, or after the next boot.
LIVE, RESTART, REBOOT = "live", "restart", "reboot"


@KnobRow(
    module="sysfs_settings",
    title="kernel settings",
    roles={"numa": "numa", "irq": "irq"},
    variables={
        "smt/control": "epyc_numa_smt",
        "thp/enabled": "epyc_numa_thp",
        "thp/defrag": "epyc_numa_thp_defrag",
        "numa_balancing": "epyc_numa_balancing",
        "cache_aware_scheduling": "epyc_numa_cache_aware_scheduling",
        "workqueue/cpumask": "epyc_irq_workqueue_cpus",
        "writeback/cpumask": "epyc_irq_workqueue_cpus",
    },
    takes_effect={"smt/": RESTART, "thp/": RESTART, "numa_balancing": RESTART},
    ablate_separately=True,
)
def sysfs() -> Any:
    from . import sysfs

    return sysfs


@KnobRow(
    module="hugepages",
    title="huge pages",
    roles={"hugepages": "numa"},
    variables={"mount/": "epyc_numa_hugepages_mount", "": "epyc_numa_hugepages"},
    # A kernel that gave pages back may get as many again only at the next boot.
    takes_effect={"": REBOOT},
)
def hugepages() -> Any:
    from .hugepages import knob

    return knob


@KnobRow(
    module="resctrl_schemata",
    title="L3 partition",
    roles={"resctrl": "cat"},
    variables={
        "mount": "epyc_cat_mount_options",
        "draft": "epyc_plan_draft",
        "verify": "epyc_plan_verify",
        "default": "epyc_plan_default",
        "": "epyc_cat_purge",
    },
)
def resctrl() -> Any:
    from .resctrl import knob

    return knob


@KnobRow(
    module="cpufreq_per_ccd",
    title="frequencies",
    roles={"cpufreq": "cpufreq"},
    variables={"policy": "epyc_cpufreq_{role}"},
    ablate_separately=True,
)
def cpufreq() -> Any:
    from .cpufreq import knob

    return knob


@KnobRow(
    module="cpuidle_states",
    title="idle states",
    roles={"cpuidle": "cpuidle"},
    variables={"": "epyc_cpuidle_{role}"},
)
def cpuidle() -> Any:
    from . import cpuidle

    return cpuidle


@KnobRow(
    module="msr_bits",
    title="prefetchers",
    roles={"msr": "prefetch"},
    variables={"": "epyc_prefetch_{role}"},
)
def msr() -> Any:
    from .msr import knob

    return knob


@KnobRow(
    module="irq_affinity",
    title="interrupts",
    roles={"irq": "irq"},
    variables={"default": "epyc_irq_default", "irqbalance/": "epyc_irq_irqbalance", "": "epyc_irq_cpus"},
    lasting=("irqbalance/",),
)
def irq() -> Any:
    from .irq import knob

    return knob


@KnobRow(
    module="cpuset_partition",
    title="CPU partition",
    roles={"partition": "grub_params"},
    variables={"llama.slice/type": "epyc_grub_params_partition", "": "epyc_grub_params_isolation"},
    # An instance joins the partition when the instance starts.
    takes_effect={"": RESTART},
)
def partition() -> Any:
    from . import partition

    return partition


@KnobRow(
    module="kernel_cmdline",
    title="boot parameters",
    roles={"cmdline": "grub_params"},
    variables={
        "nohz_full": "epyc_grub_params_isolation",
        "rcu_nocbs": "epyc_grub_params_isolation",
        "isolcpus": "epyc_grub_params_isolation",
        "irqaffinity": "epyc_grub_params_isolation",
        "hugepages": "epyc_grub_params_hugepages",
        "": "epyc_grub_params_extra",
    },
    variable_of_removed="epyc_grub_params_remove",
    lasting=("",),
    needs_reboot=True,
    each_its_own_value=True,
)
def cmdline() -> Any:
    from .boot import knob

    return knob


#: Stored request of a role of this collection -> the role.
ROLES = {f"{row.name}/{label}": role for row in KNOBS.values() for label, role in row.roles.items()}


def find_knob_row(address: str) -> KnobRow | None:
    """Return the catalogue row of the knob that an address belongs to, None without one."""
    return KNOBS.get(address.partition(":")[0])


def sort_requests(requests: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """Return requests by "KNOB/LABEL" as (knob, label, options), in the order to apply them.

    The requests of a knob that switch SMT come first, because the other requests are about the CPUs that are left.
    """
    names = list(KNOBS)
    rows = [(key.partition("/")[0], key.partition("/")[2], options) for key, options in requests.items()]
    return sorted(
        rows, key=lambda row: (names.index(row[0]) if row[0] in KNOBS else len(names), "smt" not in row[2], row[1])
    )
