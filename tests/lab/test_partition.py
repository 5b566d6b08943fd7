# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A CPU partition on a real kernel: made, proven, repaired and undone while the machine runs.

tests/lab/test_whole_host.py has one that outlives a reboot.
"""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

SLICE = "/sys/fs/cgroup/llama.slice"
CPUS = "1-3,5-7"
#: Three tasks that compute a little and sleep, outside of the partition, where they may be on any CPU, and three inside
#: it. Ones that never sleep would leave an emulated processor little time for the tests.
TASKS = """
cat >/run/tasks.py <<'END'
import os, time
any(os.fork() == 0 for task in range(2))
while True:
    sum(range(20000))
    time.sleep(0.05)
END
run() { systemd-run --quiet --collect "$@" python3 /run/tasks.py; }
run --unit foreign && run --unit own -p Slice=llama.slice -p AllowedCPUs=1-3
cd /sys/fs/cgroup
until [ $(cat llama.slice/own.service/cgroup.procs system.slice/foreign.service/cgroup.procs | wc -l) -ge 6 ]
do sleep 0.2; done
sleep 2
"""
END = "systemctl kill -s KILL foreign own; until ! systemctl is-active -q foreign own; do sleep 0.2; done"
#: Prints each task that ran within two seconds: its CPU then, its control group, and whether it is the kernel's.
WHO_RAN = """
import glob, json, os, time

def look():
    tasks = {}
    for path in glob.glob("/proc/[0-9]*/task/*"):
        try:
            fields = open(path + "/stat").read().rpartition(")")[2].split()
            ran = int(open(path + "/schedstat").read().split()[0])
            kernel = bool(int(fields[6]) & 0x200000)
            tasks[path, fields[19]] = int(fields[36]), open(path + "/cgroup").read(), kernel, ran
        except (FileNotFoundError, ProcessLookupError):
            pass
    return tasks

before = look()
time.sleep(2)
print(json.dumps([task[:3] for key, task in look().items() if task[3] > before.get(key, (0, 0, 0, 0))[3]]))
"""
#: In how many windows of two seconds each CPU has to be seen at work.
WINDOWS = 6


@pytest.fixture
def host(tuned_guest):
    before = tuned_guest.everything()
    yield tuned_guest
    tuned_guest.run(END, check=False)
    undone = tuned_guest.module("cpuset_partition", state="original")
    assert undone["diff"]["changes"]["after"]["partition:llama.slice/type"] is None
    assert tuned_guest.changed_since(before) == {}
    assert tuned_guest.run(f"ls -d {SLICE} /run/systemd/system.control/llama.slice.d", check=False) == ""


def find_busy_cpus(host, expected=frozenset()):
    """Return the CPUs on which tasks of programs ran, those in the slice and the others.

    Look again until tasks of the slice were seen on all that are expected: where this machine has other work, some of
    its loops may not run within one window.
    """
    inside, outside = set(), set()
    for dummy in range(WINDOWS):
        tasks = [(cpu, group) for cpu, group, kernel in json.loads(host.python(WHO_RAN)) if not kernel]
        inside |= {cpu for cpu, group in tasks if "/llama.slice/" in group}
        outside |= {cpu for cpu, group in tasks if "/llama.slice/" not in group}
        if outside and inside and inside >= expected:
            break
    return inside, outside


def checklist_items(host):
    found = host.module("epyc_verify", units={"own.service": "1-3"}, services=False, allow_pending_reboot=True)
    return {item["name"]: (item["verdict"], item["sentence"]) for item in found["checklist"]}


def test_the_role_asks_for_what_the_plan_has(tuned_guest):
    """Without boot parameters, of which the module refuses to set none."""
    asked = ("--tags", "grub_params", "--check", "-e", "epyc_grub_params_isolation=partition")
    play = tuned_guest.play("playbooks/site.yml", *asked)
    assert (
        play["Give the CPUs that compute to the instances alone"]["diff"]["changes"]["after"].items()
        >= {
            "partition:llama.slice/cpus": "1-3,5-7,9-11,13-15",
            "partition:llama.slice/type": "root",
        }.items()
    )
    assert play["Set the boot parameters"]["diff"]["changes"]["after"]["cmdline:nohz_full"] is None


def test_only_its_own_tasks_run_there_and_they_are_spread(host):
    check = host.module("cpuset_partition", _ansible_check_mode=True, cpus=CPUS)
    assert check["changed"] is True
    assert host.run(f"ls -d {SLICE}", check=False) == ""
    made = host.module("cpuset_partition", cpus=CPUS, persistent=True)
    assert (
        made["diff"]["changes"]["after"].items()
        >= {
            "partition:llama.slice/cpus": CPUS,
            "partition:llama.slice/type": "root",
        }.items()
    )
    assert host.module("cpuset_partition", cpus=CPUS, persistent=True)["changed"] is False

    host.run(TASKS)
    own, foreign = find_busy_cpus(host, expected={1, 2, 3})
    assert own == {1, 2, 3}
    assert foreign and not foreign & {1, 2, 3, 5, 6, 7}
    checked = checklist_items(host)
    assert checked["partition"][0] == checked["threads/own.service"][0] == "ok"
    assert checked["isolation"][1].startswith(f"llama.slice is a partition (root) of CPUs {CPUS}: ")

    # Without balancing, tasks that are not pinned stay where they began, and the checklist says so.
    host.run(END)
    host.module("cpuset_partition", cpus=CPUS, type="isolated", persistent=True)
    host.run(TASKS)
    own, foreign = find_busy_cpus(host)
    assert len(own) == 1
    assert foreign and not foreign & {1, 2, 3, 5, 6, 7}
    assert checklist_items(host)["threads/own.service"][0] == "wrong"

    # Whatever takes it away shows, with the reason of the kernel, and is repaired as at a boot.
    host.run("systemctl set-property --runtime user.slice AllowedCPUs=0-7 && systemctl start user.slice")
    try:
        drift = checklist_items(host)["partition"]
        assert drift[0] == "unsupported" and "user.slice was given 1-3,5-7 of these CPUs" in drift[1]
        refused = host.module("cpuset_partition", cpus="1-3")
        assert refused["msg"].startswith("cpus: user.slice was given 1-3 of these CPUs, and would lose them.")
    finally:
        host.run("systemctl revert user.slice && systemctl stop user.slice")
    assert "isolated invalid" in host.run(f"cat {SLICE}/cpuset.cpus.partition")
    assert "partition of llama.slice: found isolated invalid, wanted isolated." in checklist_items(host)["partition"][1]
    host.run(f"{END}; systemctl stop llama.slice; rm -r /run/systemd/system.control/llama.slice.d")
    host.run("systemctl daemon-reload && systemctl restart sovereign-epyc.service")
    assert host.run(f"cat {SLICE}/cpuset.cpus {SLICE}/cpuset.cpus.partition").split() == [CPUS, "isolated"]
    assert checklist_items(host)["partition"][0] == "ok"
