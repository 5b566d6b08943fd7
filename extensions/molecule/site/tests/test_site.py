# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself says after site.yml: one setting of each layer, and whether the next boot brings them back."""

from __future__ import annotations

SEEN = {
    "cat /proc/sys/kernel/numa_balancing": "0",
    "cat /proc/irq/default_smp_affinity": "1111",
    "cat /sys/devices/virtual/workqueue/cpumask": "1111",
    "cat /sys/devices/system/cpu/cpufreq/policy9/scaling_governor": "performance",
    "grep L3: /sys/fs/resctrl/draft/schemata": "L3:0=000f;1=000f;2=fff0;3=fff0",
    "grep -c nohz_full= /etc/default/grub.d/zzz-sovereign-epyc.cfg": "1",
    "systemctl is-enabled sovereign-epyc.service": "enabled",
}


def test_layers(host):
    assert {command: host.check_output(command).strip() for command in SEEN} == SEEN


def test_next_boot(host):
    """What is stored for the boot service is in force, but for the boot parameters, which wait for a reboot."""
    *wrong, summary = host.run("sovereign-epyc check").stdout.splitlines()
    assert {line.partition(",")[0] for line in wrong} == {"boot parameter"}, summary
