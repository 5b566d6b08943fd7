# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything at once on a virtual EPYC: made, kept over a reboot, and put back to the last byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from vepyc.epyc.shapes import get_shape

pytestmark = pytest.mark.slow

SHAPE = get_shape("epyc9754")
LAST, LAST_NODE = SHAPE.cpus - 1, SHAPE.nodes - 1
#: The CPUs that compute: all of a node but its first.
NODE_CPUS = SHAPE.cpus // SHAPE.nodes
COMPUTE = ",".join(f"{first + 1}-{first + NODE_CPUS - 1}" for first in range(0, SHAPE.cpus, NODE_CPUS))
PLAYBOOK = Path(__file__).with_name("every_module.yml")
#: Its tasks that go to the background of the host.
HOURS = "hours"
PENDING = ["cmdline:isolcpus", "cmdline:quiet", "cmdline:sovereign.test"]
STORE = "/var/lib/sovereign-epyc"
# One address of each kind that the playbook changes, so that a comparison that misses a kind is found out.
TOUCHED = {
    "/proc/sys/kernel/numa_balancing",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/virtual/workqueue/writeback/cpumask",
    f"/sys/devices/system/node/node{LAST_NODE}/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/fs/cgroup/llama.slice/cpuset.cpus.partition",
    "/sys/fs/resctrl/schemata",
    "/sys/fs/resctrl/verify/cpus_list",
    f"/sys/devices/system/cpu/cpufreq/policy{LAST}/scaling_governor",
    f"/sys/devices/system/cpu/cpufreq/policy{LAST}/scaling_min_freq",
    f"/sys/devices/system/cpu/cpu{LAST}/cpuidle/state2/disable",
    f"/dev/cpu/{LAST}/msr 0xc0000108",
    f"/dev/cpu/{LAST}/msr 0xc0010015",
    "/proc/irq/default_smp_affinity",
    "/proc/irq/9/smp_affinity",
    "/boot/grub/grub.cfg",
    "/etc/default/grub.d/zzz-sovereign-epyc.cfg",
    "/etc/systemd/system/sovereign-epyc.service",
    "/etc/systemd/system/multi-user.target.wants/sovereign-epyc.service",
    "/usr/lib/",
    "/usr/sbin/",
    f"{STORE}/",
    "driver msr",
    "mount /sys/fs/resctrl",
}
# Kills the process before the register of the 64th CPU is written.
KILL = """
import os, signal
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
def patch_words(*args, real=KernelFS.patch_words, calls=iter(range(1, 64))):
    return real(*args) if next(calls, 0) else os.kill(os.getpid(), signal.SIGKILL)
KernelFS.patch_words = patch_words
"""


def run_host_check(guest):
    """The exit code of the host's own check, how much it looked at, and what of that is not as configured."""
    done = guest.machine.run("sovereign-epyc check --json", check=False)
    settings = json.loads(done.stdout)["settings"]
    wrong = [row for row in settings if (row["live"], row["persistent"]) != ("ok", "ok")]
    return done.returncode, len(settings), wrong


def refuse_what_may_take_hours(guest):
    """Run these modules as the playbook would, but without the background."""
    (play,) = yaml.safe_load(PLAYBOOK.read_text())
    (tasks,) = [task["block"] for task in play["tasks"] if task.get("tags") == HOURS]
    for task in tasks:
        ((name, options),) = [(key, value) for key, value in task.items() if key.startswith("sovereign.epyc.")]
        refused = guest.module(name.rpartition(".")[2], **(options or {}))
        (words,) = re.findall(r"^'(.+)' not in ", task["failed_when"])
        assert refused.get("failed") and words in refused["msg"], refused


def test_everything(boot_guest):
    guest = boot_guest(SHAPE.name, "whole-host")
    guest.carry_modules()
    first = guest.everything()
    guest.play(PLAYBOOK, "--skip-tags", HOURS)
    refuse_what_may_take_hours(guest)
    made = guest.changed_since(first)
    assert made.keys() >= TOUCHED, TOUCHED - made.keys()
    code, number, wrong = run_host_check(guest)
    assert (code, sorted(row["address"] for row in wrong)) == (2, PENDING), wrong
    assert all(row["pending_reboot"] for row in wrong)

    guest.machine.reboot()
    booted = guest.run("cat /proc/cmdline").strip()
    assert booted.endswith(f'isolcpus=managed_irq,{COMPUTE} "sovereign.test=a b"') and "quiet" not in booted
    assert guest.run("systemctl is-active sovereign-epyc").strip() == "active"
    assert run_host_check(guest) == (0, number, [])
    kept = guest.changed_since(first)
    assert kept.keys() >= TOUCHED, TOUCHED - kept.keys()

    guest.play("playbooks/restore.yml")
    left = guest.changed_since(first)
    # What changes back at a boot: "quiet" sets printk, and update-grub loads dm_mod.
    settled = {"/proc/cmdline", "/proc/sys/kernel/printk", "/proc/sys/kernel/tainted", "driver dm_mod"}
    assert left.keys() == settled, left
    # Though nothing of ours is on the host any more, the reboot that ends the undo is made, and ends clean.
    reboot = guest.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true")
    message = reboot["Say whether the host waits"]["msg"]
    assert "is to be rebooted: " in message and "cmdline:isolcpus was put back" in message
    guest.machine.disconnect()
    assert guest.changed_since(first) == {}
    assert "waits for" not in guest.play("playbooks/reboot.yml")["Say whether the host waits"]["msg"]


def test_killed_amid_128_registers(boot_guest):
    guest = boot_guest("epyc9754", "whole-host-killed")
    guest.carry_modules()
    guest.run("modprobe msr; modprobe cpuid")
    first = guest.everything()
    asked = {"settings": [{"cpus": "all", "prefetch_control": {"l1_stream": "disabled"}}]}

    assert guest.run_module("msr_bits", KILL, **asked).returncode == 137
    written = [key for key in guest.changed_since(first) if key.startswith("/dev/cpu/")]
    assert sorted(written) == sorted(f"/dev/cpu/{cpu}/msr 0xc0000108" for cpu in range(63))
    done = guest.module("msr_bits", **asked)
    assert list(done["diff"]["changes"]["after"]) == [f"msr:0xc0000108[0]/cpu{cpu}" for cpu in range(63, 128)]

    guest.module("msr_bits", state="original")
    left = guest.changed_since(first)
    assert left.keys() == {f"{STORE}/", "/proc/sys/kernel/tainted"}, left
