# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run is killed, the power is cut, the disk is full, or two runs meet.

Faults of one knob are tested with it: a CPU that leaves between reading and writing, no module msr and a locked-down
kernel in test_msr_bits, too little memory in test_hugepages, an interrupt that vanishes in test_irq_affinity,
irqbalance in test_irqbalance, TuneD in test_sysfs and test_cpufreq. test_whole_host kills a run amid 128 registers.
"""

from __future__ import annotations

import random
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
            assert host.run(f"ls {STORE}").split() == ["ledger.copy.json", "ledger.json"]
        back = host.module(name, state="original")
        assert not back.get("failed"), back


#: What site.yml stores, one request a layer; boot parameters have a test of their own below, as each takes seconds.
STORED = {
    "sysfs/numa": {"thp": "never", "numa_balancing": False},
    "hugepages/hugepages": {"pools": [{"pages": 5}]},
    "resctrl/resctrl": {"mount": True, "from_plan": True},
    "cpufreq/cpufreq": {"settings": [{"cpus": "all", "governor": "performance", "max": "1900MHz"}]},
    "msr/msr": OFF,
    "irq/irq": {"cpus": "4-5", "default": True},
    "sysfs/irq": {"workqueue_cpus": "4-5"},
}
#: Runs a command of the host and kills it at the Nth call of all that changes anything, files of ours included.
AMID = """
import os, signal
from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.ledger import Ledger
left = iter(range({turn}))
def fatal(real):
    return lambda *args, **more: real(*args, **more) if next(left, None) is not None else os.kill(os.getpid(), 9)
for name in ("write", "patch_words", "mkdir", "rmdir", "label", "mount", "unmount", "load_module"):
    setattr(KernelFS, name, fatal(getattr(KernelFS, name)))
store = Store()
if "{verb}" == "apply" and not store.has("desired.json"):
    Ledger(store, KernelFS()).begin()
    store.save("desired.json", {stored})
os.rename, os.unlink = fatal(os.rename), fatal(os.unlink)
raise SystemExit(_cli.main(["{verb}"]))
"""


def test_killed_at_thirty_random_moments(host):
    """Whatever a kill has left, the next run converges, and an undo gives back what was there before the first."""
    moments = random.Random(42)
    kept = {"intent": INTENT, "requests": STORED}
    ends = []
    for dummy in range(30):
        verb, turn = moments.choice(["apply", "apply", "restore"]), moments.randrange(1, 70)
        ends.append(host.programs.run(AMID.format(verb=verb, turn=turn, stored=kept)).returncode)
    assert ends.count(137) >= 15, f"most runs are to be killed before their end: {ends}"
    assert set(ends) <= {0, 137}, f"and no run fails by what a kill has left: {ends}"
    host.run(f"rm -f {STORE}/desired.json")
    done = host.programs.run(AMID.format(verb="apply", turn=10**9, stored=kept))
    assert done.returncode == 0, done.stderr
    seen = host.programs.run(AMID.format(verb="check", turn=0, stored=kept))
    assert seen.stdout.endswith(" 0 not as configured\n") or "not enabled" in seen.stdout, seen.stdout
    assert host.programs.run(AMID.format(verb="restore", turn=10**9, stored=kept)).returncode == 0


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
    host.run(f"mkdir {STORE} && mount -t tmpfs -o size=8k none {STORE}")
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


PARTITION = {"from_plan": True, "intent": INTENT}
MOUNT = "/sys/fs/resctrl"


def restored(host):
    """Restore, which must say it has put everything back; return what it remarks."""
    done = host.module("epyc_restore")
    assert not done.get("failed"), done["msg"]
    assert host.run(f"ls {STORE}", check=False) == "", "nothing is remembered any more"
    return done["remarks"]


def test_resctrl_was_unmounted(host):
    host.module("resctrl_schemata", mount=True, **PARTITION)
    host.module("sysfs_settings", thp="never")
    host.run(f"umount {MOUNT}")
    (remark,) = restored(host)
    assert remark.startswith("resctrl was unmounted meanwhile")


def test_resctrl_was_mounted_by_another_with_cdp_and_is_not_any_more(host):
    """Their masks are of a mount that has ended: no restore could put them back, and none must be held up by them."""
    host.run(f"mount -t resctrl -o cdp none {MOUNT} && mkdir {MOUNT}/theirs")
    made = host.module("resctrl_schemata", **PARTITION)
    assert any("L3CODE" in address for address in made["diff"]["before"]), made
    host.run(f"umount {MOUNT} && mount -t resctrl none {MOUNT}")
    try:
        assert [remark.partition(" meanwhile")[0] for remark in restored(host)] == [
            "resctrl was mounted anew with other options",
        ]
    finally:
        host.run(f"umount {MOUNT}")


def test_a_whole_l3_domain_is_offline_during_an_undo(host):
    """What can be put back is, the rest is named, and the same command finishes it when the CPUs are back."""
    host.run(f"mount -t resctrl none {MOUNT}")
    host.module("resctrl_schemata", **PARTITION)
    host.module("sysfs_settings", thp="never")
    cpus = "for cpu in 12 13 14 15; do echo {} >/sys/devices/system/cpu/cpu$cpu/online; done"
    host.run(cpus.format(0))
    failed = host.module("epyc_restore")
    assert failed["failed"] and "L3 domain 3 are offline" in failed["msg"], failed
    assert failed["diff"]["after"]["sysfs:thp/enabled"] == "always"
    host.run(cpus.format(1))
    restored(host)
    host.run(f"umount {MOUNT}")
    # With a mount of our own all masks end, and nothing is left for later.
    host.module("resctrl_schemata", mount=True, **PARTITION)
    host.run(cpus.format(0))
    restored(host)
    host.run(cpus.format(1))


@pytest.mark.parametrize("content", ["", '{"running": {"boot_id"', "\\0\\0\\0", "[]"])
def test_a_file_of_the_record_is_damaged(host, content):
    """One of the two is enough; without both nothing is done until somebody decides what is lost."""
    host.module("sysfs_settings", thp="never", persistent=True)
    host.run(f"printf '{content}' >{STORE}/ledger.json")
    assert "ledger.json is damaged" in str(host.module("epyc_drift")["findings"])
    assert host.module("sysfs_settings", thp="never", numa_balancing=False, persistent=True)["changed"]
    host.run(f"cmp {STORE}/ledger.json {STORE}/ledger.copy.json")
    host.run(f"printf '{content}' | tee {STORE}/ledger.json >{STORE}/ledger.copy.json")
    for refused in (host.module("sysfs_settings", thp="madvise"), host.module("epyc_restore")):
        assert refused["failed"] and "restore --without-originals" in refused["msg"], refused
    lost = host.module("epyc_restore", without_originals=True)
    assert "which no longer sets it: kernel settings." in lost["remarks"][0]
    host.run("echo always >/sys/kernel/mm/transparent_hugepage/enabled; sysctl -qw kernel.numa_balancing=1")
    host.run(f"rm -r {STORE}")


def test_etc_is_read_only(host):
    host.run("mount --bind /etc /etc && mount -o remount,ro,bind /etc")
    try:
        refused = host.module("kernel_cmdline", parameters=["sovereign.test=1"])
        assert refused["failed"] and "Read-only file system. It is as it was." in refused["msg"], refused
    finally:
        host.run("umount /etc")
    assert host.module("kernel_cmdline", parameters=["sovereign.test=1"])["changed"]
    restored(host)
    host.run("rm -f /run/sovereign-epyc/waits-for-reboot; rmmod dm_mod", check=False)


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
