# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run is killed, or the power is cut. test_site kills site.yml, and test_whole_host a run amid 128 registers."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.fixtures.virtual_epyc import INTENT, STORE

pytestmark = pytest.mark.slow

DROP_IN = "/etc/default/grub.d/zzz-sovereign-epyc.cfg"
#: How often the power is cut at a random moment.
CUTS = 9
#: Now only what a program flushes gets to the disk; otherwise the file system writes everything within seconds.
UNFLUSHED = "mount -o remount,commit=600 / && sysctl -q vm.dirty_writeback_centisecs=0 && sync"

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
        "KernelFS.set_trusted_attribute",
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


@pytest.fixture
def host(unchanged_own_guest):
    return unchanged_own_guest


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
            assert host.run(f"ls -A {STORE}").split() == ["ledger.copy.json", "ledger.json"]
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
#: Runs a command of the host until the Nth call of all that changes anything, files of ours included.
AMID = """
import os, time
from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
left = iter(range({turn}))
def last(real):
    return lambda *args, **more: real(*args, **more) if next(left, None) is not None else {last}
NAMES = "write patch_words mkdir rmdir set_trusted_attribute mount_filesystem unmount_filesystem load_module".split()
for name in NAMES:
    setattr(KernelFS, name, last(getattr(KernelFS, name)))
store = Store()
if "{verb}" == "apply" and not store.has_file("desired.json"):
    Ledger(store, KernelFS()).ensure_files()
    store.save_document("desired.json", {stored})
os.rename, os.unlink = last(os.rename), last(os.unlink)
raise SystemExit(_cli.main(["{verb}"]))
"""
DIE = "os.kill(os.getpid(), 9)"
STAND = "(open('/run/writing', 'w').close(), time.sleep(600))"
NEVER = 10**9


def amid(guest, verb, turn=NEVER, last=DIE):
    """Run a command on a guest that has the stored requests; end it before its change number ``turn``."""
    stored = {"intent": INTENT, "requests": STORED}
    return guest.programs.run(AMID.format(verb=verb, turn=turn, last=last, stored=stored))


def test_killed_at_thirty_random_moments(host):
    """Whatever a kill has left, the next run converges, and an undo gives back what was there before the first."""
    moments = random.Random(42)
    ends = []
    for dummy in range(30):
        verb, turn = moments.choice(["apply", "apply", "restore"]), moments.randrange(1, 70)
        done = amid(host, verb, turn)
        assert done.returncode in (0, 137), f"a run fails by what a kill has left: {done.stderr}"
        ends.append(done.returncode)
    assert ends.count(137) >= 15, f"most runs are to be killed before their end: {ends}"
    host.run(f"rm -f {STORE}/desired.json")
    done = amid(host, "apply")
    assert done.returncode == 0, done.stderr
    seen = amid(host, "check", turn=0)
    assert seen.stdout.endswith(" 0 not as configured\n") or "not enabled" in seen.stdout, seen.stdout
    assert amid(host, "restore").returncode == 0


def test_registers_that_a_killed_run_had_written_are_not_written_again(host):
    """Only those that it had not written yet are written."""
    host.run_module("msr_bits", KILL.format(call="KernelFS.patch_words", turn=9), **OFF)
    done = host.module("msr_bits", **OFF)
    assert list(done["diff"]["changes"]["before"]) == [f"msr:0xc0000108[0]/cpu{cpu}" for cpu in range(8, 16)]
    host.module("msr_bits", state="original")


def cut_power_amid(guest, *run, **options):
    """Cut the power of a guest while a run stands at a change."""
    with ThreadPoolExecutor() as pool:
        run = pool.submit(*run, **options)
        guest.wait_for("/run/writing")
        guest.machine.power_cycle()
        assert run.exception() is not None


def test_power_cut(boot_guest):
    """At changes of all kinds, and during update-grub: the ledger is on the disk, and the host boots as before.

    What a run before that reported as done is what GRUB reads, which does not replay the journal of the file system.
    """
    guest = boot_guest("small", "power-cut")
    guest.carry_modules()
    first = guest.everything()
    guest.run(UNFLUSHED)
    assert guest.module("kernel_cmdline", parameters=["sovereign.done=1"])["remarks"] == []
    for turn in random.Random(42).sample(range(20, 60), CUTS):
        cut_power_amid(guest, amid, guest, "apply", turn, last=STAND)
        assert "sovereign.done=1" in guest.run("cat /proc/cmdline")
        guest.run(f"grep -q thp/enabled {STORE}/ledger.json; {UNFLUSHED}")
        guest.carry_modules()
    guest.run(f"rm {STORE}/desired.json")
    assert guest.module("kernel_cmdline", state="original")["changed"] is True
    slow = "/etc/grub.d/09_slow"
    guest.run(f"printf '#!/bin/sh\ntouch /run/writing; sleep 600\n' >{slow}; chmod 755 {slow}; sync")
    cut_power_amid(guest, guest.run_module, "kernel_cmdline", parameters=["sovereign.test=1"])
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
