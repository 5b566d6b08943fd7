# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run is killed, the power is cut, the disk is full, or two runs meet.

Faults of one knob are tested with it: a CPU that leaves between reading and writing, no module msr and a locked-down
kernel in test_msr_bits, too little memory in test_hugepages, an interrupt that vanishes in test_irq_affinity,
irqbalance in test_irqbalance, TuneD in test_sysfs and test_cpufreq. test_whole_host kills a run amid 128 registers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

import pytest

STORE = "/var/lib/sovereign-epyc"
DROP_IN = "/etc/default/grub.d/95-sovereign-epyc.cfg"
INTENT = {"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "12MiB"}, "default": {"l3": "4MiB"}}

OFF = {"settings": [{"cpus": "all", "prefetch_control": {"l1_stream": "disabled"}}], "load_module": True}
KILLED = {
    # module, what it asks for, the call that is its last, and which of those calls
    "before the ledger is renamed": ("sysfs_settings", {"thp": "never"}, "os.rename", 1),
    "between ledger and write": ("sysfs_settings", {"thp": "never", "numa_balancing": False}, "KernelFS.write", 1),
    "in the middle of the plain ones": (
        "sysfs_settings",
        {"thp": "never", "numa_balancing": False, "workqueue_cpus": "0"},
        "KernelFS.write",
        2,
    ),
    "with some of the pools": ("hugepages", {"pools": [{"pages": 5}]}, "KernelFS.write", 3),
    "with a group that is not marked as ours": (
        "resctrl_schemata",
        {"mount": True, "from_plan": True, "intent": INTENT},
        "KernelFS.label",
        2,
    ),
    "in the middle of the groups": (
        "resctrl_schemata",
        {"mount": True, "from_plan": True, "intent": INTENT},
        "KernelFS.write",
        2,
    ),
    "with some of the policies": (
        "cpufreq_per_ccd",
        {"settings": [{"cpus": "all", "governor": "performance", "max": "1900MHz"}]},
        "KernelFS.write",
        20,
    ),
    "before the modules are loaded": ("msr_bits", OFF, "KernelFS.load_module", 2),
    "before the first register": ("msr_bits", OFF, "KernelFS.patch_words", 1),
    "in the middle of the registers": ("msr_bits", OFF, "KernelFS.patch_words", 9),
    "with some of the interrupts": ("irq_affinity", {"cpus": "4-5", "default": True}, "KernelFS.write", 4),
}
# Kills the process at the Nth call of a function.
KILL = """
import os, signal
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
def fatal(real, calls=iter(range(1, {turn}))):
    return lambda *args, **more: real(*args, **more) if next(calls, 0) else os.kill(os.getpid(), signal.SIGKILL)
{call} = fatal({call})
"""
# Before a write, which is when it holds the locks, the process makes a file, and waits until another one is there.
WAIT = """
import os, time
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
def slowly(*args, real=KernelFS.write):
    open("/run/writing", "w").close()
    while not os.path.exists("/run/go"):
        time.sleep(0.1)
    real(*args)
KernelFS.write = slowly
"""
# Before it asks for the lock, the process makes a file.
KNOCK = """
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.ledger import Ledger
def lock(self, real=Ledger.lock):
    open("/run/knocking", "w").close()
    return real(self)
Ledger.lock = lock
"""


def until(guest, path):
    guest.run(f"timeout 30 sh -c 'until [ -e {path} ]; do sleep 0.1; done' && rm {path}")


@pytest.fixture
def host(own_guest):
    """A host. After each test it must be as it was before, except for the taint flag and the folder of the ledger."""
    guest = own_guest
    first = guest.everything()
    guest.left = lambda: guest.changed_since(first).keys() - {"/proc/sys/kernel/tainted", f"{STORE}/"}
    yield guest
    assert guest.left() == set()


@pytest.mark.parametrize(("name", "asked", "call", "turn"), KILLED.values(), ids=KILLED)
def test_killed(host, name, asked, call, turn):
    """Afterwards the same run can be repeated, and everything can be put back."""
    for then in ("again", "back"):
        died = host.run_module(name, KILL.format(call=call, turn=turn), **asked)
        assert died.returncode == 137, died
        if then == "again":
            done = host.module(name, **asked)
            assert done["changed"], done
            assert not host.module(name, **asked)["changed"]
            assert host.run(f"ls {STORE}").split() == ["ledger.json"]
        back = host.module(name, state="original")
        assert not back.get("failed"), back


def test_registers_that_a_killed_run_had_written_are_not_written_again(host):
    """Only those that it had not written yet are written."""
    host.run_module("msr_bits", KILL.format(call="KernelFS.patch_words", turn=9), **OFF)
    done = host.module("msr_bits", **OFF)
    assert list(done["diff"]["before"]) == [f"msr:0xc0000108[0]/cpu{cpu}" for cpu in range(8, 16)]
    host.module("msr_bits", state="original")


def test_no_room_for_the_ledger(host):
    """What cannot be remembered is not changed."""
    host.run(f"mkdir {STORE} && mount -t tmpfs -o size=4k none {STORE} && head -c 4096 /dev/zero >{STORE}/other")
    try:
        result = host.module("sysfs_settings", thp="never")
        assert result["msg"] == f"{STORE}/ledger.json cannot be written: No space left on device. It is as it was."
        assert host.left() == {f"mount {STORE}"}
        host.run(f"rm {STORE}/other && mount -o remount,size=64k {STORE}")
        assert host.module("sysfs_settings", thp="never")["changed"] is True
        assert host.module("sysfs_settings", state="original")["changed"] is True
    finally:
        host.run(f"umount {STORE}")


def test_no_room_for_the_request(host):
    """The ledger fills the disk. What was set before the request could not be stored is undone."""
    host.run(f"mkdir {STORE} && mount -t tmpfs -o size=4k none {STORE}")
    try:
        result = host.module("sysfs_settings", thp="never", persistent=True)
        assert result["failed"] and f"{STORE}/desired.json cannot be written: No space left" in result["msg"]
        assert result["msg"].endswith("What this run had changed was put back.")
        assert host.run("cat /sys/kernel/mm/transparent_hugepage/enabled") == "[always] madvise never\n"
        host.run(f"mount -o remount,size=64k {STORE}")
        assert host.module("sysfs_settings", thp="never", persistent=True)["changed"] is True
        assert host.module("sysfs_settings", state="original")["changed"] is True
    finally:
        host.run(f"umount {STORE}")


def test_two_at_once(host):
    """The second waits for the first and finds what that one has set; the ledger holds the values before both."""
    with ThreadPoolExecutor() as pool:
        one = pool.submit(host.module, "sysfs_settings", WAIT, thp="never", label="one", persistent=True)
        until(host, "/run/writing")
        other = {"thp": "madvise", "numa_balancing": False, "label": "two", "persistent": True}
        two = pool.submit(host.module, "sysfs_settings", KNOCK, **other)
        until(host, "/run/knocking")
        ran_ahead = wait([two], timeout=3).done
        host.run("touch /run/go")
    assert not ran_ahead
    first, second = one.result()["diff"]["before"], two.result()["diff"]["before"]
    host.run("rm /run/go")
    assert first["sysfs:thp/enabled"] == "always"
    assert second["sysfs:thp/enabled"] == "never"
    assert second.keys() >= {"sysfs:numa_balancing", "desired:sysfs/two"}
    back = host.module("sysfs_settings", state="original")
    assert {key: text for key, text in back["diff"]["after"].items() if text} == {
        "sysfs:thp/enabled": "always",
        "sysfs:numa_balancing": "1",
    }
    assert back["diff"]["after"].keys() >= {"desired:sysfs/one", "desired:sysfs/two"}


def cut_power_amid(guest, *asked, **options):
    """Cut the power of a guest while a module writes."""
    with ThreadPoolExecutor() as pool:
        run = pool.submit(guest.run_module, *asked, **options)
        until(guest, "/run/writing")
        guest.machine.kill()
        assert run.exception() is not None


def test_power_cut(boot):
    """Once before a write and once during update-grub: the ledger is on the disk, and the host boots as before.

    What a run before that reported as done is what GRUB reads, which does not replay the journal of the file system.
    """
    guest = boot("small", "power-cut")
    guest.carry_modules()
    first = guest.everything()
    # Now only what a program flushes gets to the disk; otherwise the file system writes everything within seconds.
    guest.run("mount -o remount,commit=600 / && sysctl -q vm.dirty_writeback_centisecs=0 && sync")
    assert guest.module("kernel_cmdline", parameters=["sovereign.done=1"])["remarks"] == []
    cut_power_amid(guest, "sysfs_settings", WAIT, thp="never")
    assert "sovereign.done=1" in guest.run("cat /proc/cmdline")
    guest.run(f"grep -q thp/enabled {STORE}/ledger.json")
    guest.carry_modules()
    assert guest.module("kernel_cmdline", state="original")["changed"] is True
    slow = "/etc/grub.d/09_slow"
    guest.run(f"printf '#!/bin/sh\ntouch /run/writing; sleep 600\n' >{slow}; chmod 755 {slow}; sync")
    cut_power_amid(guest, "kernel_cmdline", parameters=["sovereign.test=1"])
    guest.run(f"rm {slow}; grep -q sovereign.test=1 {DROP_IN}; grep -q cmdline:sovereign.test {STORE}/ledger.json")
    assert "sovereign.test" not in guest.run("cat /proc/cmdline /boot/grub/grub.cfg")
    guest.carry_modules()
    # Originals of the boot before are in the ledger too, and do not count.
    assert guest.module("sysfs_settings", state="original")["changed"] is False
    made = guest.module("kernel_cmdline", parameters=["sovereign.test=1"])
    assert (made["changed"], made["reboot_required"]) == (True, True)
    assert guest.module("kernel_cmdline", state="original")["reboot_required"] is False
    left = guest.changed_since(first)
    assert left.keys() == {f"{STORE}/", "driver dm_mod"}, left  # update-grub loads it
