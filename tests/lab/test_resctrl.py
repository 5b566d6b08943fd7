# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""resctrl_schemata on a real kernel: what it does when it is asked for something possible."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.slow

# A service that has six threads and starts another one when told.
THREADS = """
import signal, threading, time
def start(*_):
    threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
signal.signal(signal.SIGUSR1, start)
for _ in range(5):
    start()
while True:
    signal.pause()
"""


@pytest.fixture
def apply(bare_guest):
    """Run the module, which must do it."""

    def apply(**options):
        result = bare_guest.module("resctrl_schemata", mount=True, **options)
        assert not result.get("failed"), result["msg"]
        return result

    return apply


@pytest.fixture
def apply_thrice(bare_guest, apply):
    """Run the module three times: a check, which must tell the same diff; for real; again, with nothing to change."""

    def apply_thrice(**options):
        before = bare_guest.state()
        check = apply(**options, _ansible_check_mode=True)
        assert bare_guest.state() == before
        result = apply(**options)
        if before:  # Without a mount and the cpuid driver, a check cannot see how wide masks are.
            assert check["diff"] == result["diff"]
        assert check["diff"]["after"].keys() <= result["diff"]["after"].keys()
        after = bare_guest.state()
        assert not apply(**options)["changed"]
        assert bare_guest.state() == after
        return result

    return apply_thrice


@pytest.fixture
def service(bare_guest):
    """A running service with several threads."""
    bare_guest.machine.run("cat >/run/threads.py", input=THREADS)
    bare_guest.run("systemd-run --quiet --unit=threads python3 /run/threads.py")
    yield "threads.service"
    bare_guest.run("systemctl stop threads.service", check=False)  # a test may have done so


def threads(guest, service, number):
    """The ids of a service's threads, once there are that many."""
    for _ in range(100):
        found = set(guest.run(f"cat /sys/fs/cgroup/system.slice/{service}/cgroup.threads").split())
        if len(found) == number:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{len(found)} threads, not {number}")


def test_masks_cpus_and_default(bare_guest, apply_thrice):
    apply_thrice(
        groups=[{"name": "a", "cpus": "1-3", "l3": {"0": "8 ways", "all": "25%"}}, {"name": "b", "l3": {"1-2": "f0"}}],
        default={"l3": {"all": "1MiB"}},
    )
    assert bare_guest.masks("a") == {0: "ff00", 1: "f000", 2: "f000", 3: "f000"}
    assert bare_guest.masks("b") == {0: "ffff", 1: "f0", 2: "f0", 3: "ffff"}
    assert bare_guest.masks(".") == dict.fromkeys(range(4), "1")
    assert bare_guest.read("a", "cpus_list") == "1-3"
    assert bare_guest.read("cpus_list") == "0,4-15"


def test_bytes_that_are_no_whole_way(bare_guest, apply):
    result = apply(groups=[{"name": "a", "l3": {"all": "2500KiB"}}])
    assert set(bare_guest.masks("a").values()) == {"e000"}
    assert "2500KiB of L3 is no whole way of 1 MiB: rounded up to 3 ways, 3 MiB." in result["remarks"]
    assert any("The default group may fill ways of a" in remark for remark in result["remarks"])


def test_bandwidth(bare_guest, apply, apply_thrice):
    apply_thrice(groups=[{"name": "a", "mb": {"0": 20, "1": 20.1, "all": "max"}, "smba": {"3": 0.125}}])
    assert bare_guest.masks("a", "MB") == {0: "160", 1: "161", 2: "2048", 3: "2048"}
    assert bare_guest.masks("a", "SMBA") == {0: "2048", 1: "2048", 2: "2048", 3: "1"}
    apply(groups=[{"name": "a", "mb": {"0": "max"}}])
    assert bare_guest.masks("a", "MB") == {0: "2048", 1: "161", 2: "2048", 3: "2048"}


def test_code_and_data(bare_guest, apply, apply_thrice):
    apply_thrice(mount_options=["cdp"], groups=[{"name": "a", "l3_code": {"all": "f000"}, "l3_data": {"1": "0ff0"}}])
    assert bare_guest.masks("a", "L3CODE") == dict.fromkeys(range(4), "f000")
    assert bare_guest.masks("a", "L3DATA") == {0: "ffff", 1: "ff0", 2: "ffff", 3: "ffff"}
    apply(groups=[{"name": "a", "l3": {"all": "f"}}])
    assert bare_guest.masks("a", "L3CODE") == bare_guest.masks("a", "L3DATA") == dict.fromkeys(range(4), "f")


def test_exclusive_and_back(bare_guest, apply, apply_thrice):
    group = {"name": "a", "l3": {"all": "12 ways"}, "mode": "exclusive"}
    apply(groups=[group], default={"l3": {"all": "4 ways"}})
    assert bare_guest.read("a", "mode") == "exclusive"
    # No two masks may overlap even on the way to the other split.
    apply_thrice(groups=[{**group, "l3": {"all": "4 ways"}}], default={"l3": {"all": "12 ways"}})
    assert (bare_guest.masks("a")[0], bare_guest.masks(".")[0]) == ("f000", "fff")
    apply(groups=[{"name": "a", "mode": "shareable"}])
    assert bare_guest.read("a", "mode") == "shareable"


def test_monitors(bare_guest, apply_thrice):
    apply_thrice(groups=[{"name": "a", "cpus": "1-3", "monitors": [{"name": "one", "cpus": "1"}, {"name": "all"}]}])
    assert bare_guest.read("a", "mon_groups", "one", "cpus_list") == "1"
    assert bare_guest.run("ls /sys/fs/resctrl/a/mon_groups").split() == ["all", "one"]


def test_monitors_keep_their_cpus_when_those_of_the_group_change(bare_guest, apply, apply_thrice):
    """The kernel clears them all. Those of others too get back what is still the group's, and at an undo the rest."""
    group = {"name": "a", "cpus": "1-3", "monitors": [{"name": "one", "cpus": "1"}]}
    bare_guest.run("mount -t resctrl resctrl /sys/fs/resctrl")
    apply(groups=[group])
    root = "/sys/fs/resctrl"
    bare_guest.run(f"mkdir {root}/a/mon_groups/theirs && echo 2-3 >{root}/a/mon_groups/theirs/cpus_list")
    bare_guest.run(f"mkdir {root}/mon_groups/base && echo 4,8 >{root}/mon_groups/base/cpus_list")
    result = apply_thrice(groups=[{**group, "cpus": "1-2,4"}])
    assert result["diff"]["after"] == {
        "resctrl:a/cpus": "1-2,4",
        "resctrl:a/mon/theirs/cpus": "2",
        "resctrl:default/mon/base/cpus": "8",
    }
    assert bare_guest.read("a", "mon_groups", "one", "cpus_list") == "1"
    assert not bare_guest.module("resctrl_schemata", state="original").get("failed")
    assert bare_guest.read("mon_groups", "base", "cpus_list") == "4,8"
    bare_guest.run(f"rmdir {root}/mon_groups/base")


def test_all_threads_of_a_service(bare_guest, apply, apply_thrice, service):
    before = threads(bare_guest, service, 6)
    apply_thrice(groups=[{"name": "a", "tasks_of": [service]}])
    assert set(bare_guest.read("a", "tasks").split()) == before
    bare_guest.run(f"systemctl kill --signal=USR1 {service}")
    after = threads(bare_guest, service, 7)
    assert set(bare_guest.read("a", "tasks").split()) == after, "a new thread is where its parent is"
    astray = (after - before).pop()
    bare_guest.run(f"echo {astray} >/sys/fs/resctrl/tasks")
    result = apply(groups=[{"name": "a", "tasks_of": [service]}])
    assert result["diff"]["before"] == {"resctrl:a/tasks_of/threads.service": "6 of 7 threads"}
    assert set(bare_guest.read("a", "tasks").split()) == after


@pytest.mark.parametrize(
    ("purge", "left"), [("none", {"old", "new", "foreign"}), ("own", {"new", "foreign"}), ("all", {"new"})]
)
def test_purge(bare_guest, apply, purge, left):
    apply(groups=[{"name": "old", "cpus": "4"}])
    bare_guest.run("mkdir /sys/fs/resctrl/foreign")
    apply(groups=[{"name": "new"}], purge=purge)
    found = set(bare_guest.run("cd /sys/fs/resctrl && ls -d */").replace("/", "").split())
    assert found - {"info", "mon_data", "mon_groups"} == left


def test_absent(bare_guest, apply, apply_thrice):
    apply(groups=[{"name": "a", "cpus": "4", "monitors": [{"name": "one"}]}, {"name": "b"}])
    result = apply_thrice(groups=[{"name": "a", "state": "absent"}])
    assert result["diff"]["before"]["resctrl:a"] == "present" and result["diff"]["after"]["resctrl:a"] is None
    bare_guest.run("test ! -e /sys/fs/resctrl/a -a -d /sys/fs/resctrl/b")
    assert bare_guest.read("cpus_list") == "0-15"


def test_offline_cpu_leaves_the_others_alone(bare_guest, apply):
    """A group loses a CPU that goes offline. To ask for the rest is no change."""
    apply(groups=[{"name": "a", "cpus": "4-7"}])
    bare_guest.run("echo 0 >/sys/devices/system/cpu/cpu5/online")
    assert not apply(groups=[{"name": "a", "cpus": "4,6-7"}])["changed"]


def test_original(bare_guest):
    """What was there before us comes back, to the byte."""
    bare_guest.run("mount -t resctrl resctrl /sys/fs/resctrl && mkdir /sys/fs/resctrl/foreign")
    bare_guest.run("cd /sys/fs/resctrl && echo L3:2=f0 >foreign/schemata && echo 12-15 >foreign/cpus_list")
    before = bare_guest.state()
    asked = {"groups": [{"name": "a", "cpus": "1-3"}, {"name": "foreign", "cpus": "12", "l3": {"all": "f"}}]}
    assert bare_guest.module("resctrl_schemata", **asked, default={"l3": {"all": "ff00"}})["changed"]
    assert bare_guest.state() != before
    assert bare_guest.module("resctrl_schemata", state="original")["changed"]
    assert bare_guest.state() == before


def test_original_of_threads(bare_guest, apply, service):
    """Threads go back to the default group, and a service that has ended does not stop the rest."""
    bare_guest.run("mount -t resctrl resctrl /sys/fs/resctrl && mkdir /sys/fs/resctrl/foreign")
    before = bare_guest.state()
    asked = {"groups": [{"name": "foreign", "tasks_of": [service], "l3": {"all": "f"}}]}
    apply(**asked)
    assert bare_guest.module("resctrl_schemata", state="original")["changed"]
    assert bare_guest.state() == before
    apply(**asked)
    bare_guest.run(f"systemctl stop {service}")
    result = bare_guest.module("resctrl_schemata", state="original")
    assert any(service in remark and "does not run" in remark for remark in result["remarks"])
    assert bare_guest.state() == before


def test_original_of_purged_groups(bare_guest, apply, service):
    """A group of somebody else comes back with its monitors and its threads, and is still nobody's of ours."""
    bare_guest.run("mount -t resctrl resctrl /sys/fs/resctrl && mkdir /sys/fs/resctrl/foreign")
    ids = sorted(threads(bare_guest, service, 6))
    bare_guest.run("mkdir /sys/fs/resctrl/foreign/mon_groups/look && echo 12-15 >/sys/fs/resctrl/foreign/cpus_list")
    bare_guest.run(f"cd /sys/fs/resctrl/foreign; for id in {' '.join(ids)}; do echo $id >tasks; done")
    bare_guest.run(f"echo {ids[0]} >/sys/fs/resctrl/foreign/mon_groups/look/tasks")
    before = bare_guest.state()
    apply(groups=[{"name": "new", "cpus": "1-3"}], purge="all")
    bare_guest.run("test ! -e /sys/fs/resctrl/foreign")
    assert not bare_guest.module("resctrl_schemata", state="original").get("failed")
    assert bare_guest.state() == before
    assert set(bare_guest.read("foreign", "tasks").split()) == set(ids)
    assert bare_guest.read("foreign", "mon_groups", "look", "tasks").split() == [ids[0]]
    apply(groups=[{"name": "new", "cpus": "1-3"}], purge="own")
    bare_guest.run("test -d /sys/fs/resctrl/foreign")


def test_plan_without_an_intent(bare_guest):
    """No option has to be given; L3 amounts come only where they are asked for."""
    result = bare_guest.module("epyc_plan")
    assert not result.get("failed"), result["msg"]
    assert result["ansible_facts"]["epyc"]["plan"]["resctrl"]["groups"] == []


def test_an_l3_domain_that_goes_offline_moves_no_role(bare_guest):
    """The kernel shows nothing of it any more but the node of its CPUs. What is there keeps its CCD and its role."""
    asked = {"draft": {"ccds": 1}}
    before = bare_guest.module("epyc_plan", **asked)["ansible_facts"]["epyc"]
    bare_guest.run("for cpu in 4 5 6 7; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done")
    after = bare_guest.module("epyc_plan", **asked)["ansible_facts"]["epyc"]
    assert before["topology"]["ccds"] == [[0, 1], [2, 3]]
    assert after["topology"]["ccds"] == [[0], [2, 3]]
    assert before["plan"]["cpus"] == {
        "housekeeping": "0,4,8,12",
        "draft": "1-3,5-7",
        "verify": "9-11,13-15",
        "idle": "",
    }
    assert after["plan"]["cpus"] == {"housekeeping": "0,8,12", "draft": "1-3", "verify": "9-11,13-15", "idle": ""}
    assert [remark.partition(", which")[0] for remark in after["plan"]["remarks"]] == [
        "draft is without CPU 5-7",
        "housekeeping is without CPU 4",
    ]
