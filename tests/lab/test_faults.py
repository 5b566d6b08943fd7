# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk is full, two runs meet, others took resctrl away, a file of the record is damaged, or an interpreter moved.

Runs that are killed are in test_killed. Faults of one knob are tested with it: a CPU that leaves between reading and
writing, no module msr and writes that fail half way in the conformance tests and the unit tests of the knobs, a
locked-down kernel in test_msr_bits, too little memory in test_hugepages, an interrupt that vanishes in
test_irq_affinity, irqbalance in test_irqbalance.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from tests.fixtures.virtual_epyc import INTENT, PAYLOAD, STORE

pytestmark = pytest.mark.slow

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
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
def hold_lock(self, real=Ledger.hold_lock):
    open("/run/knocking", "w").close()
    return real(self)
Ledger.hold_lock = hold_lock
"""


#: By default anybody may write there, and such a folder is refused.
TMPFS = "mount -t tmpfs -o mode=700"


@pytest.fixture
def host(unchanged_own_guest):
    return unchanged_own_guest


def test_no_room_for_the_ledger(host):
    """What cannot be remembered is not changed."""
    host.run(f"mkdir {STORE} && {TMPFS},size=4k none {STORE} && head -c 4096 /dev/zero >{STORE}/other")
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
    host.run(f"mkdir {STORE} && {TMPFS},size=8k none {STORE}")
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
        host.wait_for("/run/writing")
        other = {"thp": "madvise", "numa_balancing": False, "label": "two", "persistent": True}
        two = pool.submit(host.module, "sysfs_settings", KNOCK, **other)
        host.wait_for("/run/knocking")
        ran_ahead = wait([two], timeout=3).done
        host.run("touch /run/go")
    assert not ran_ahead
    first, second = one.result()["diff"]["changes"]["before"], two.result()["diff"]["changes"]["before"]
    host.run("rm /run/go")
    assert first["sysfs:thp/enabled"] == "always"
    assert second["sysfs:thp/enabled"] == "never"
    assert second.keys() >= {"sysfs:numa_balancing", "desired:sysfs/two"}
    back = host.module("sysfs_settings", state="original")
    assert {key: text for key, text in back["diff"]["changes"]["after"].items() if text} == {
        "sysfs:thp/enabled": "always",
        "sysfs:numa_balancing": "1",
    }
    assert back["diff"]["changes"]["after"].keys() >= {"desired:sysfs/one", "desired:sysfs/two"}


PARTITION = {"from_plan": True, "intent": INTENT}
MOUNT = "/sys/fs/resctrl"


def restore_all(host):
    """Restore, which must say it has put everything back; return what it remarks."""
    done = host.module("epyc_restore")
    assert not done.get("failed"), done["msg"]
    assert host.run(f"ls -I history.jsonl {STORE}", check=False) == "", (
        "no original and no request is remembered any more"
    )
    return done["remarks"]


def test_resctrl_was_unmounted(host):
    host.module("resctrl_schemata", mount=True, **PARTITION)
    host.module("sysfs_settings", thp="never")
    host.run(f"umount {MOUNT}")
    (remark,) = restore_all(host)
    assert remark.startswith("resctrl was unmounted meanwhile")


def test_resctrl_was_mounted_by_another_with_cdp_and_is_not_any_more(host):
    """Their masks are of a mount that has ended: no restore could put them back, and none must be held up by them."""
    host.run(f"mount -t resctrl -o cdp none {MOUNT} && mkdir {MOUNT}/theirs")
    made = host.module("resctrl_schemata", **PARTITION)
    assert any("L3CODE" in address for address in made["diff"]["changes"]["before"]), made
    host.run(f"umount {MOUNT} && mount -t resctrl none {MOUNT}")
    try:
        assert [remark.partition(" meanwhile")[0] for remark in restore_all(host)] == [
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
    assert failed["diff"]["changes"]["after"]["sysfs:thp/enabled"] == "always"
    host.run(cpus.format(1))
    restore_all(host)
    host.run(f"umount {MOUNT}")
    # With a mount of our own all masks end, and nothing is left for later.
    host.module("resctrl_schemata", mount=True, **PARTITION)
    host.run(cpus.format(0))
    restore_all(host)
    host.run(cpus.format(1))


@pytest.mark.parametrize("content", ["", '{"running": {"boot_id"', "\\0\\0\\0", "[]"])
def test_a_file_of_the_record_is_damaged(host, content):
    """One of the two is enough; without both nothing is done until somebody decides what is lost."""
    host.module("sysfs_settings", thp="never", persistent=True)
    host.run(f"printf '{content}' >{STORE}/ledger.json")
    assert "ledger.json is damaged" in str(host.module("epyc_drift_info")["findings"])
    assert host.module("sysfs_settings", thp="never", numa_balancing=False, persistent=True)["changed"]
    host.run(f"cmp {STORE}/ledger.json {STORE}/ledger.copy.json")
    host.run(f"printf '{content}' | tee {STORE}/ledger.json >{STORE}/ledger.copy.json")
    for refused in (host.module("sysfs_settings", thp="madvise"), host.module("epyc_restore")):
        assert refused["failed"] and "restore --without-originals" in refused["msg"], refused
    lost = host.module("epyc_restore", without_originals=True)
    assert "which no longer sets it: kernel settings." in lost["remarks"][0]
    host.run("echo always >/sys/kernel/mm/transparent_hugepage/enabled; sysctl -qw kernel.numa_balancing=1")
    host.run(f"rm -r {STORE}")


#: Runs a module in a new Python, as Ansible does where it is told which one.
IN_A_NEW_PYTHON = """
import json
from ansible.module_utils import basic
from ansible_collections.sovereign.epyc.plugins.modules.{name} import main
basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = json.dumps({{"ANSIBLE_MODULE_ARGS": {options}}}).encode(), "legacy"
main()
"""


def test_the_interpreter_has_another_path(host):
    """What runs at boot is run by the Python that has installed it."""
    python = host.run("readlink -f /usr/bin/python3").strip()
    host.run("rm /usr/bin/python3")

    def module(name, **options):
        program = IN_A_NEW_PYTHON.format(name=name, options=options)
        return json.loads(host.machine.run(f"PYTHONPATH={PAYLOAD} {python} -", input=program).stdout)

    try:
        assert module("epyc_host_tool")["changed"]
        assert module("sysfs_settings", thp="never", persistent=True)["changed"]
        host.run("echo always >/sys/kernel/mm/transparent_hugepage/enabled; systemctl start sovereign-epyc.service")
        assert "[never]" in host.run("cat /sys/kernel/mm/transparent_hugepage/enabled")
        assert host.run("sovereign-epyc check").endswith(" 0 not as configured\n")
        assert host.run("systemctl is-active sovereign-epyc.service sovereign-epyc-watch.service") == "active\n" * 2
        assert module("epyc_restore")["changed"]
        assert module("epyc_host_tool", state="absent")["changed"]
    finally:
        host.run(f"ln -s {python.rpartition('/')[2]} /usr/bin/python3")


def test_etc_is_read_only(host):
    host.run("mount --bind /etc /etc && mount -o remount,ro,bind /etc")
    try:
        refused = host.module("kernel_cmdline", parameters=["sovereign.test=1"])
        assert refused["failed"] and "Read-only file system. It is as it was." in refused["msg"], refused
    finally:
        host.run("umount /etc")
    assert host.module("kernel_cmdline", parameters=["sovereign.test=1"])["changed"]
    restore_all(host)
    host.run("rm -f /run/sovereign-epyc/waits-for-reboot; rmmod dm_mod", check=False)
