# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""resctrl_schemata on a real kernel: threads of a service, and an L3 domain that goes offline.

What is asked of groups, refused and put back is in test_resctrl_conformance.
"""

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
def service(bare_guest):
    """A running service with several threads."""
    bare_guest.machine.run("cat >/run/threads.py", input=THREADS)
    bare_guest.run("systemd-run --quiet --unit=threads python3 /run/threads.py")
    yield "threads.service"
    bare_guest.run("systemctl stop threads.service", check=False)  # a test may have done so


def wait_for_threads(guest, service, number):
    """The ids of a service's threads, once there are that many."""
    for _ in range(100):
        found = set(guest.run(f"cat /sys/fs/cgroup/system.slice/{service}/cgroup.threads").split())
        if len(found) == number:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{len(found)} threads, not {number}")


def test_all_threads_of_a_service(bare_guest, apply, service):
    before = wait_for_threads(bare_guest, service, 6)
    apply(groups=[{"name": "a", "tasks_of": [service]}])
    assert set(bare_guest.read("a", "tasks").split()) == before
    bare_guest.run(f"systemctl kill --signal=USR1 {service}")
    after = wait_for_threads(bare_guest, service, 7)
    assert set(bare_guest.read("a", "tasks").split()) == after, "a new thread is where its parent is"
    astray = (after - before).pop()
    bare_guest.run(f"echo {astray} >/sys/fs/resctrl/tasks")
    result = apply(groups=[{"name": "a", "tasks_of": [service]}])
    assert result["diff"]["changes"]["before"] == {"resctrl:a/tasks_of/threads.service": "6 of 7 threads"}
    assert set(bare_guest.read("a", "tasks").split()) == after


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
    ids = sorted(wait_for_threads(bare_guest, service, 6))
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
    asked = {"draft": {"ccds": 1}, "housekeeping": {"cores": 1, "per": "node"}}
    before = bare_guest.module("epyc_plan", **asked)["ansible_facts"]["epyc"]
    bare_guest.run("for cpu in 12 13 14 15; do echo 0 >/sys/devices/system/cpu/cpu$cpu/online; done")
    after = bare_guest.module("epyc_plan", **asked)["ansible_facts"]["epyc"]
    assert before["topology"]["ccds"] == [[0, 1], [2, 3]]
    assert after["topology"]["ccds"] == [[0, 1], [2]]
    assert before["plan"]["cpus"] == {
        "housekeeping": "0,4,8,12",
        "draft": "9-11,13-15",
        "verify": "1-3,5-7",
        "idle": "",
    }
    assert after["plan"]["cpus"] == {"housekeeping": "0,4,8", "draft": "9-11", "verify": "1-3,5-7", "idle": ""}
    assert [remark.partition(", which")[0] for remark in after["plan"]["remarks"][1:]] == [
        "draft is without CPU 13-15",
        "housekeeping is without CPU 12",
    ]


def test_mask_that_yaml_took_for_a_number(bare_guest, tmp_path):
    playbook = tmp_path / "play.yml"
    playbook.write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Ask\n      sovereign.epyc.resctrl_schemata:\n"
        "        mount: true\n        groups: [{name: new, l3: {all: 0010}}]\n"
    )
    play = bare_guest.play(playbook, succeeds=False)
    assert play["Ask"]["status"] == "failed"
    assert "not the number 8" in play["Ask"]["msg"] and "quotes" in play["Ask"]["msg"]
    assert bare_guest.state() == ""
