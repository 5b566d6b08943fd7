# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two threads on a core: SMT is really switched, by a run, by the boot service before all else, and back."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

ASKED = {"epyc_steps": ["prerequisites", "base", "numa", "irq"], "epyc_numa_smt": "off"}
CONTROL, ONLINE = "/sys/devices/system/cpu/smt/control", "/sys/devices/system/cpu/online"
FIRST_THREADS, ALL = "0,2,4,6,8,10,12,14", "0-15"
MOVABLE = "grep -l virtio /sys/kernel/irq/*/actions | cut -d/ -f5"


def read_smt_state(guest):
    return guest.run(f"cat {CONTROL} {ONLINE}").split()


def test_smt_is_off_after_a_boot_and_all_comes_back(boot_guest):
    guest = boot_guest("smt", "smt")
    guest.carry_modules()
    for number in guest.run(MOVABLE).split():
        # Both threads of one core, and one that is the second of its core: only the latter loses all of its CPUs.
        guest.run(f"echo $(({number} % 2 * 2 + 1)) >/proc/irq/{number}/smp_affinity_list", check=False)
    before = guest.everything()

    guest.module("sysfs_settings", smt="off")
    guest.module("irq_affinity", cpus="0", default=True)
    assert read_smt_state(guest) == ["off", FIRST_THREADS]
    assert guest.changed_since(before)
    guest.module("epyc_restore")
    assert read_smt_state(guest) == ["on", ALL]
    assert guest.changed_since(before) == {}

    guest.play("playbooks/site.yml", "-e", json.dumps(ASKED))
    assert read_smt_state(guest) == ["off", FIRST_THREADS]
    guest.machine.reboot()
    assert guest.run("systemctl is-active sovereign-epyc.service", check=False).strip() == "active"
    assert read_smt_state(guest) == ["off", FIRST_THREADS]
    assert guest.run("sovereign-epyc check").endswith(" 0 not as configured\n"), "all is about the CPUs that are left"
    guest.run("sovereign-epyc restore")
    assert read_smt_state(guest) == ["on", ALL]
