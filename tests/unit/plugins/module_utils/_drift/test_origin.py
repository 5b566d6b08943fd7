# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import origin
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.catalogue import ROLES

ROOT = Path(__file__).parents[5]
MODULES = {
    "sysfs_settings": "sysfs",
    "hugepages": "hugepages",
    "kernel_cmdline": "cmdline",
    "irq_affinity": "irq",
    "resctrl_schemata": "resctrl",
    "cpufreq_per_ccd": "cpufreq",
    "cpuidle_states": "cpuidle",
    "msr_bits": "msr",
    "cpuset_partition": "partition",
}


def role_of(cpu: int) -> str:
    return "draft" if cpu < 16 else "idle"


def test_every_request_that_a_role_stores_is_in_the_catalogue() -> None:
    stored = {}
    for tasks in (ROOT / "roles").glob("*/tasks/*.yml"):
        for task in tasks.read_text().split("\n- name:"):
            module = re.search(r"sovereign\.epyc\.(\w+):", task)
            if module and module[1] in MODULES and "persistent:" in task:
                knob = MODULES[module[1]]
                label = re.search(r"\n    label: (\w+)", task)
                stored[f"{knob}/{label[1] if label else knob}"] = (
                    tasks.parts[-3].removeprefix("epyc_").removeprefix("epyc_")
                )
    assert stored == ROLES


@pytest.mark.parametrize(
    ("request_", "address", "variable"),
    [
        ("sysfs/numa", "sysfs:thp/enabled", "epyc_numa_thp"),
        ("sysfs/numa", "sysfs:thp/defrag", "epyc_numa_thp_defrag"),
        ("sysfs/numa", "sysfs:smt/control", "epyc_numa_smt"),
        ("sysfs/numa", "sysfs:numa_balancing", "epyc_numa_balancing"),
        ("sysfs/irq", "sysfs:workqueue/cpumask", "epyc_irq_workqueue_cpus"),
        ("hugepages/hugepages", "hugepages:node2/2048kB", "epyc_numa_hugepages"),
        ("irq/irq", "irq:41/affinity", "epyc_irq_cpus"),
        ("irq/irq", "irq:default", "epyc_irq_default"),
        ("irq/irq", "irq:irqbalance/service", "epyc_irq_irqbalance"),
        ("resctrl/resctrl", "resctrl:mount", "epyc_cat_mount_options"),
        ("resctrl/resctrl", "resctrl:draft/L3/0", "epyc_plan_draft"),
        ("resctrl/resctrl", "resctrl:stranger", "epyc_cat_purge"),
        ("partition/partition", "partition:llama.slice/cpus", "epyc_grub_params_isolation"),
        ("partition/partition", "partition:llama.slice/type", "epyc_grub_params_partition"),
        ("cmdline/cmdline", "cmdline:isolcpus", "epyc_grub_params_isolation"),
        ("cmdline/cmdline", "cmdline:hugepagesz=2M", "epyc_grub_params_hugepages"),
        ("cmdline/cmdline", "cmdline:quiet", "epyc_grub_params_extra"),
        ("cpufreq/cpufreq", "cpufreq:policy3/scaling_governor", "epyc_cpufreq_draft"),
        ("cpuidle/cpuidle", "cpuidle:cpu3/C2", "epyc_cpuidle_draft"),
        ("msr/msr", "msr:0xc0000108[1]/cpu3", "epyc_prefetch_draft"),
    ],
)
def test_the_variable_that_decides(request_: str, address: str, variable: str) -> None:
    assert origin.find_deciding_variable(request_, address, "x", role_of) == variable
    specs = "".join(file.read_text() for file in (ROOT / "roles").glob("*/meta/main.yml"))
    assert f"\n      {variable}:" in specs, "no role has the variable"


def test_settings_without_a_variable() -> None:
    assert origin.find_deciding_variable("cmdline/cmdline", "cmdline:quiet", None) == "epyc_grub_params_remove"
    assert origin.find_deciding_variable("msr/msr", "msr:0xc0000108[1]/cpu16", "1", role_of) == "", "an idle CPU"
    assert origin.find_deciding_variable("msr/msr", "msr:0xc0000108[1]/cpu3", "1") == "", "nobody knows its role"
    assert origin.find_deciding_variable("resctrl/resctrl", "resctrl:", None) == "", "all of a request"
    assert origin.find_deciding_variable("msr/msr", "msr:module/msr", "loaded", role_of) == ""
    assert origin.find_deciding_variable("sysfs/mine", "sysfs:thp/enabled", "never") == ""
    assert (ROLES.get("sysfs/mine", ""), ROLES.get("msr/msr", "")) == ("", "prefetch")
