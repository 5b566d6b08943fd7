# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plain settings on a real kernel: those that it offers, those that it lacks, and those that it ignores."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

FILES = """
/sys/devices/system/cpu/smt/control /sys/devices/system/cpu/online
/sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag
/proc/sys/kernel/numa_balancing /proc/sys/kernel/nmi_watchdog
/sys/devices/virtual/workqueue/cpumask /sys/devices/virtual/workqueue/cpumask_requested
/sys/devices/virtual/workqueue/writeback/cpumask
"""
ASKED = {
    "smt": "off",
    "thp": "madvise",
    "thp_defrag": "defer+madvise",
    "numa_balancing": False,
    "workqueue_cpus": "housekeeping",
    "writeback_cpus": "housekeeping",
    "nmi_watchdog": False,
    "intent": {"housekeeping": {"cores": 1, "per": "node"}},
}
DIFF = {
    "before": {
        "sysfs:thp/enabled": "always",
        "sysfs:thp/defrag": "madvise",
        "sysfs:numa_balancing": "1",
        "sysfs:workqueue/cpumask": "0-15",
        "sysfs:writeback/cpumask": "0-15",
    },
    "after": {
        "sysfs:thp/enabled": "madvise",
        "sysfs:thp/defrag": "defer+madvise",
        "sysfs:numa_balancing": "0",
        "sysfs:workqueue/cpumask": "0,4,8,12",
        "sysfs:writeback/cpumask": "0,4,8,12",
    },
}
REFUSED = {
    "SMT that is not there": ({"smt": "on"}, ["smt", "notsupported", "BIOS"]),
    "a watchdog without a counter": ({"nmi_watchdog": True}, ["nmi_watchdog", "no performance counter", "at 0"]),
    "a mask that is ignored": (
        {"workqueue_cpus": "0-3", "writeback_cpus": "4-7"},
        ["writeback_cpus", "none in common", "Choose CPUs of 0-3"],
    ),
    "a CPU that is not there": ({"workqueue_cpus": "16"}, ["CPU 16 is not on this host", "0-15"]),
    "no CPU": ({"workqueue_cpus": "nothing"}, ["'nothing' names no CPUs"]),
    "a word that Ansible knows not": ({"thp": "sometimes"}, ["thp", "always, madvise, never"]),
}


def settings(guest):
    """Every byte of the files that the module may write, and of some that follow them."""
    return guest.run(f"grep -H '' {' '.join(FILES.split())}", check=False)


@pytest.fixture
def host(bare_guest):
    before = settings(bare_guest)
    yield bare_guest
    assert settings(bare_guest) == before


def test_settings_are_made_and_put_back(host):
    before = settings(host)
    check = host.module("sysfs_settings", _ansible_check_mode=True, **ASKED)
    assert (check["changed"], check["diff"]) == (True, DIFF)
    assert settings(host) == before
    assert host.run("ls /var/lib/sovereign-epyc", check=False) == ""

    made = host.module("sysfs_settings", **ASKED)
    assert (made["changed"], made["diff"], made["remarks"]) == (True, DIFF, [])
    after = settings(host)
    for line in (
        "enabled:always [madvise] never",
        "defrag:always defer [defer+madvise] madvise never",
        "numa_balancing:0",
        "workqueue/cpumask:1111",
        "writeback/cpumask:1111",
    ):
        assert f"{line}\n" in after
    assert host.module("sysfs_settings", **ASKED)["changed"] is False

    back = host.module("sysfs_settings", state="original")
    assert back["diff"] == {"before": DIFF["after"], "after": DIFF["before"]}
    assert settings(host) == before
    assert host.module("sysfs_settings", state="original")["changed"] is False


@pytest.mark.parametrize(("asked", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(host, asked, words):
    before = settings(host)
    result = host.module("sysfs_settings", numa_balancing=False, **asked)
    assert settings(host) == before
    assert result.get("failed"), result
    assert [word for word in words if word not in result["msg"]] == [], result["msg"]
    assert "\n" not in result["msg"]


def test_an_offline_cpu_is_refused(bare_guest):
    bare_guest.run("echo 0 >/sys/devices/system/cpu/cpu5/online")
    result = bare_guest.module("sysfs_settings", workqueue_cpus="4-6")
    assert "CPU 5 is offline" in result["msg"]
    bare_guest.run("echo 1 >/sys/devices/system/cpu/cpu5/online")


def test_what_was_written_is_undone_when_the_kernel_refuses_the_rest(host):
    """A file that became read-only stands for any refusal in the middle of a run."""
    path = "/proc/sys/kernel/numa_balancing"
    host.run(f"mount --bind {path} {path} && mount -o remount,bind,ro {path}")
    try:
        before = settings(host)
        result = host.module("sysfs_settings", thp="never", numa_balancing=False)
        assert settings(host) == before
    finally:
        host.run(f"umount {path}")
    assert "numa_balancing: Read-only file system" in result["msg"]
    assert result["msg"].endswith("What this run had changed was put back.")


def test_memory_tiering_is_kept(host):
    host.run("echo 2 >/proc/sys/kernel/numa_balancing")
    made = host.module("sysfs_settings", numa_balancing=True)
    assert made["diff"]["after"] == {"sysfs:numa_balancing": "3"}
    assert host.module("sysfs_settings", numa_balancing=True)["changed"] is False
    host.module("sysfs_settings", state="original")
    assert host.run("cat /proc/sys/kernel/numa_balancing") == "2\n"
    host.run("echo 1 >/proc/sys/kernel/numa_balancing")


def test_another_mask_that_loses_its_meaning_is_told(host):
    host.module("sysfs_settings", writeback_cpus="4-7")
    result = host.module("sysfs_settings", workqueue_cpus="0-3")
    assert result["changed"] is True
    assert result["remarks"][0].startswith("workqueue_cpus: writeback may run on CPUs 4-7")
    host.module("sysfs_settings", state="original")


def test_isolated_cpus_are_told(host):
    """The kernel takes the CPUs of an isolated partition out of the mask, and gives them back with the partition."""
    cgroup = "/sys/fs/cgroup"
    host.run(
        f"echo +cpuset >{cgroup}/cgroup.subtree_control && mkdir {cgroup}/island && cd {cgroup}/island &&"
        " echo 8-9 >cpuset.cpus && echo isolated >cpuset.cpus.partition && grep -x isolated cpuset.cpus.partition"
    )
    try:
        before = settings(host)
        assert "workqueue/cpumask:fcff\n" in before
        result = host.module("sysfs_settings", workqueue_cpus="0-3")
        assert result["diff"]["before"] == {"sysfs:workqueue/cpumask": "0-7,10-15"}
        assert result["remarks"][0].startswith("CPUs 8-9 are isolated by a cpuset partition")
        host.module("sysfs_settings", state="original")
        assert "workqueue/cpumask:fcff\n" in settings(host)
    finally:
        host.run(f"rmdir {cgroup}/island; echo -cpuset >{cgroup}/cgroup.subtree_control", check=False)
        host.run("echo ffff >/sys/devices/virtual/workqueue/cpumask")


def test_tuned_is_named(host):
    host.run("mkdir -p /run/tuned && echo 1 >/run/tuned/tuned.pid")  # A process that surely runs.
    result = host.module("sysfs_settings", thp="always")
    host.run("rm -r /run/tuned")
    assert result["changed"] is False
    assert result["remarks"][0].startswith("TuneD runs here too (process 1, profile unknown)")
