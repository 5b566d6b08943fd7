# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import findings
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import Verdict
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.fleets import verdict

OFF = "sovereign-epyc.service is not enabled"
LOST = {"lost_with_service": True}


def governors(found: str, *policies: int) -> list[Verdict]:
    return [
        verdict("cpufreq/cpufreq", f"cpufreq:policy{number}/scaling_governor", "performance", found)
        for number in policies
    ]


def test_what_differs_in_the_same_way_is_one_finding() -> None:
    verdicts = [*governors("powersave", 0, 1, 2), *governors("performance", 3), *governors("schedutil", 4)]
    one, other = findings.group_into_findings(verdicts)
    assert (one.what, one.where, one.found, one.wanted) == ("governor", "policies 0-2", "powersave", "performance")
    assert one.addresses == [f"cpufreq:policy{number}/scaling_governor" for number in range(3)]
    assert (other.where, other.found) == ("policy 4", "schedutil")
    assert (one.role, one.repair) == ("cpufreq", "sovereign.epyc.site --tags cpufreq")


def test_boot_parameters_with_the_same_fault_are_one_finding() -> None:
    gone = [
        verdict("cmdline/cmdline", f"cmdline:{name}", value, value, at_boot=None, persistent="drift")
        for name, value in (("nohz_full", "1-15"), ("isolcpus", "managed_irq,1-15"))
    ]
    (one,) = findings.group_into_findings(gone)
    assert (one.what, one.where) == ("boot parameter", "nohz_full, isolcpus")
    assert (one.live, one.persistent, one.at_boot) == ("ok", "drift", "nothing")
    assert one.wanted == "nohz_full=1-15, isolcpus=managed_irq,1-15"
    assert (one.variables, one.repair) == (["epyc_grub_params_isolation"], "sovereign.epyc.site --tags grub_params")


def test_what_waits_for_a_reboot_is_repaired_by_one() -> None:
    waiting = verdict("cmdline/cmdline", "cmdline:quiet", "", None, pending_reboot=True)
    (one,) = findings.group_into_findings([waiting])
    assert (one.pending_reboot, one.repair) == (True, "sovereign.epyc.reboot -e epyc_reboot_ok=true")
    daemon = verdict("irq/irq", "irq:irqbalance/service", "disabled inactive", "enabled active", pending_reboot=True)
    assert findings.group_into_findings([daemon])[0].repair == "sovereign.epyc.site --tags irq", (
        "no reboot stops a daemon"
    )


def test_a_boot_service_that_is_off_is_one_finding_and_hides_none() -> None:
    fine = verdict("sysfs/numa", "sysfs:numa_balancing", "0", "0", persistent="drift", at_boot=None, reason=OFF, **LOST)
    bad = verdict(
        "sysfs/numa", "sysfs:thp/enabled", "madvise", "never", persistent="drift", at_boot=None, reason=OFF, **LOST
    )
    kernel = verdict("cmdline/cmdline", "cmdline:quiet", "", "")
    one, boot = findings.group_into_findings([fine, bad, kernel], OFF)
    assert (one.what, one.live, one.persistent) == ("transparent huge pages", "drift", "drift")
    assert (boot.layer, boot.live, boot.persistent) == ("boot", "ok", "drift")
    assert (boot.reason, boot.repair) == (
        f"{OFF}. Without it, 2 settings will not be made again at boot",
        "sovereign.epyc.site --tags base",
    )
    assert findings.count_by_layer([fine, bad, kernel], OFF) == {
        "sysfs": {"ok": 1, "unsupported": 0, "unknown": 0, "drift": 1},
        "cmdline": {"ok": 1, "unsupported": 0, "unknown": 0, "drift": 0},
        "boot": {"ok": 0, "unsupported": 0, "unknown": 0, "drift": 1},
    }


@pytest.mark.parametrize(
    ("one", "lost"),
    [
        (verdict("cmdline/cmdline", "cmdline:quiet", "", ""), 0),
        (verdict("cmdline/cmdline", "cmdline:", None, None, live="unknown", persistent="unknown"), 0),
        (verdict("irq/irq", "irq:irqbalance/service", "x", None, live="unknown", persistent="unknown"), 0),
        (verdict("msr/msr", "msr:", None, None, live="unknown", persistent="unknown", supported=False), 0),
        (verdict("irq/irq", "irq:", None, None, live="unknown", persistent="unknown"), 1),
        (verdict("irq/irq", "irq:41/affinity", "0", None, live="unknown", persistent="unknown"), 1),
        (verdict("sysfs/numa", "sysfs:numa_balancing", "0", "0", persistent="drift", reason=OFF, **LOST), 1),
    ],
)
def test_a_boot_service_that_is_off_is_drift_only_where_something_needs_it(one: Verdict, lost: int) -> None:
    found = [finding.reason for finding in findings.group_into_findings([one], OFF) if finding.what == "boot service"]
    assert found == [f"{OFF}. Without it, 1 setting will not be made again at boot"] * lost
    assert findings.count_by_layer([one], OFF)["boot"]["drift"] == lost


def test_unknown_and_unsupported_are_different_statuses_and_not_ok() -> None:
    unread = verdict("msr/msr", "msr:", None, None, live="unknown", persistent="unknown", reason="not readable")
    never = verdict("resctrl/resctrl", "resctrl:", None, None, live="unknown", persistent="unknown", supported=False)
    partition, registers = findings.group_into_findings([unread, never])
    assert (partition.status, partition.repair) == ("unsupported", ""), "no command gives a host what it cannot have"
    assert (registers.status, registers.what, registers.reason) == ("unknown", "all settings", "not readable")
    counts = findings.count_by_layer([unread, never])
    assert (counts["msr"]["unknown"], counts["resctrl"]["unsupported"]) == (1, 1)


def test_a_request_without_a_role_is_repaired_by_a_command_on_the_host() -> None:
    (one,) = findings.group_into_findings([verdict("sysfs/mine", "sysfs:nmi_watchdog", "0", "1")])
    assert (one.role, one.request, one.repair) == ("", "sysfs/mine", "sovereign-epyc apply")


def test_the_order_is_that_of_the_layers_and_of_numbers() -> None:
    verdicts = [
        verdict("irq/irq", "irq:10/affinity", "0", "1"),
        verdict("irq/irq", "irq:9/affinity", "0", "2"),
        verdict("hugepages/hugepages", "hugepages:node0/2048kB", "8", "0"),
    ]
    for order in (verdicts, verdicts[::-1]):
        wheres = [one.where for one in findings.group_into_findings(order)]
        assert wheres == ["node 0", "interrupt 9", "interrupt 10"]
