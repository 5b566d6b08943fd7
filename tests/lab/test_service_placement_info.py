# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""service_placement_info on a real service: pinned threads, bound and interleaved memory, huge pages, a cache group."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from tests.fixtures.virtual_epyc import ROOT

pytestmark = pytest.mark.slow

MIB = 1 << 20
MODEL = "/dev/shm/model.gguf"
POOL = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"

# A service that maps a model, takes memory as a server would, and has four threads that compute and one that waits.
# The threads that compute pin themselves to the CPUs that are named in the arguments.
SERVICE = """
import ctypes, mmap, os, sys, threading
model, size, hugetlb, pins = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
with open(model, "rb") as file:
    weights = mmap.mmap(file.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
sum(weights[at] for at in range(0, len(weights), 4096))
MAP_HUGETLB = 0x40000
cache = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (MAP_HUGETLB if hugetlb else 0))
for at in range(0, len(cache), 4096):
    cache[at] = 1
# Threads of Python take turns, and several processes would not be one service, so functions of C keep them busy.
libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compute(pin):
    if pin != "-":
        os.sched_setaffinity(0, [int(pin)])
    size = 1 << 20
    a, b = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    while True:
        libc.memcmp(a, b, size)
for pin in pins:
    threading.Thread(target=compute, args=(pin,), daemon=True).start()
threading.Event().wait()
"""


@pytest.fixture
def service(bare_guest):
    """Start the service with properties of its unit; gone afterwards, with its pool and its model."""
    bare_guest.machine.run("cat >/run/service.py", input=SERVICE)

    def start(*properties, pins="1,2,3,4", hugetlb=False, cache=16 * MIB, node=0):
        # The pages of a file keep the node that they got when they were filled, whoever maps them later.
        bare_guest.run(f"mount -o remount,mpol=bind:{node} /dev/shm && head -c {16 * MIB} /dev/zero >{MODEL}")
        bare_guest.run("mount -o remount,mpol=default /dev/shm")
        given = " ".join(f"-p {item}" for item in properties)
        command = f"python3 /run/service.py {MODEL} {cache} {int(hugetlb)} {pins}"
        bare_guest.run(f"systemd-run --quiet --unit=placed {given} {command}")
        for _ in range(200):
            listed = bare_guest.run("cat /sys/fs/cgroup/system.slice/placed.service/cgroup.threads", check=False)
            threads = listed.split()
            if len(threads) == 1 + len(pins.split(",")):
                return "placed.service"
            time.sleep(0.1)
        raise AssertionError(bare_guest.run("systemctl status placed.service", check=False))

    yield start
    bare_guest.run("systemctl stop placed.service; systemctl reset-failed placed.service", check=False)
    bare_guest.run(f"rm -f {MODEL}; for n in 0 1 2 3; do echo 0 >{POOL.format('$n')}; done", check=False)


@pytest.fixture
def prove(bare_guest):
    """Run the module, which must leave everything as it is, and return its result with the verdicts by name."""

    def prove(unit, **options):
        before = bare_guest.state()
        result = bare_guest.module("service_placement_info", service=unit, **options)
        assert not result.get("failed"), result["msg"]
        assert not result["changed"]
        assert bare_guest.state() == before
        result["verdict"] = {row["name"]: row["verdict"] for row in result["verdicts"]}
        result["sentence"] = {row["name"]: row["sentence"] for row in result["verdicts"]}
        return result

    return prove


def busy_threads(result):
    return [thread for thread in result["threads"] if (thread["busy"] or 0) >= 0.5]


def test_all_is_where_it_shall_be(bare_guest, service, prove):
    """Four pinned threads in a cpuset, memory bound to two nodes with pages of a pool there, all in a cache group."""
    for node in (1, 2):
        bare_guest.run(f"echo 8 >{POOL.format(node)} && test $(cat {POOL.format(node)}) = 8")
    unit = service("AllowedCPUs=0-7", "NUMAPolicy=bind", "NUMAMask=1-2", pins="4,5,6,7", hugetlb=True, node=1)
    group = {"name": "verify", "tasks_of": [unit], "l3": {"all": "8 ways"}, "monitors": [{"name": "m"}]}
    assert not bare_guest.module("resctrl_schemata", mount=True, groups=[group]).get("failed")
    result = prove(
        unit,
        window=3,
        cpus="node0,l3:1",
        busy_cpus="node1",
        spread="core",
        nodes="1-2",
        hugepages={"hugetlb": "16MiB"},
        group="verify",
    )
    assert result["verdict"] == {
        "cpus": "ok",
        "busy_cpus": "ok",
        "spread": "ok",
        "group": "ok",
        "nodes/weights": "ok",
        "nodes/anonymous": "ok",
        "hugepages/hugetlb": "ok",
    }, result["sentence"]
    assert result["clean"] and result["seconds"] >= 3
    assert {(row["allowed"], row["cpu"], row["l3"], row["node"]) for row in busy_threads(result)} == {
        (str(cpu), cpu, 1, 1) for cpu in (4, 5, 6, 7)
    }
    assert {row["allowed"] for row in result["threads"]} == {"0-7", "4", "5", "6", "7"}
    (waiting,) = (row for row in result["threads"] if row["allowed"] == "0-7")
    assert waiting["busy"] < 0.5
    (memory,) = result["memory"]
    assert memory["weights"]["nodes"] == {"1": 16 * MIB} and memory["weights"]["files"] == [MODEL]
    assert memory["anonymous"]["page_sizes"]["2048kB"] == memory["hugepages"]["hugetlb"] == 16 * MIB
    assert memory["anonymous"]["policies"] == ["bind:1-2"]
    (cache,) = result["groups"]
    assert (cache["group"], cache["monitor"], sorted(cache["l3"])) == ("verify", "", ["0", "1", "2", "3"])
    assert isinstance(cache["l3"]["1"]["occupancy"], int) and isinstance(cache["l3"]["1"]["total_bandwidth"], int)
    assert result["missing"] == []


def test_nothing_is_where_it_shall_be(bare_guest, service, prove):
    """The same questions about a service that nobody placed: its threads crowd on one CPU, as isolcpus makes them."""
    unit = service("NUMAPolicy=bind", "NUMAMask=0", pins="3,3,3,-")
    bare_guest.run("mount -t resctrl resctrl /sys/fs/resctrl && mkdir /sys/fs/resctrl/verify")
    result = prove(
        unit,
        window=4,
        cpus="node1",
        busy_cpus="node1",
        spread="cpu",
        nodes="1-2",
        hugepages={"hugetlb": "2MiB", "thp": "1GiB"},
        group="verify",
    )
    sentence = result["sentence"]
    names = {"cpus", "busy_cpus", "spread", "group", "nodes/anonymous", "nodes/weights"}
    assert result["verdict"].items() >= dict.fromkeys(names, "drift").items(), sentence
    assert result["verdict"]["hugepages/hugetlb"] == result["verdict"]["hugepages/thp"] == "drift"
    assert not result["clean"]
    assert len(busy_threads(result)) == 4, "threads that wait for the same CPU are busy"
    assert "Busy threads share a CPU. CPU 3: thread " in sentence["spread"]
    assert "5 of 5 threads may run outside 4-7" in sentence["cpus"]
    assert (
        "Only 0.0 % of anonymous memory" in sentence["nodes/anonymous"]
        and "node 0 100.0 %" in sentence["nodes/anonymous"]
    )
    assert "5 of 5 threads do not have the limits of the resctrl group verify" in sentence["group"]
    bare_guest.run("echo 0-15 >/sys/fs/resctrl/verify/cpus_list")
    assert prove(unit, group="verify")["clean"], "a group of all CPUs holds for threads that are in none"


def test_interleaved(bare_guest, service, prove):
    """Memory that nobody mapped, over all nodes, and the same held against a half of them."""
    unit = service("NUMAPolicy=interleave", "NUMAMask=0-3", cache=64 * MIB)
    bare_guest.run(f"rm {MODEL}")
    asked = prove(unit, model=["/srv/none.gguf"], nodes="all", interleaved=True)
    assert asked["verdict"] == {"nodes/weights": "unknown", "nodes/anonymous": "ok"}, asked["sentence"]
    assert "no process maps the model file" in asked["sentence"]["nodes/weights"] and not asked["clean"]
    mapped = prove(unit, nodes="0-3")
    assert mapped["memory"][0]["weights"]["files"] == [f"{MODEL} (deleted)"]
    half = prove(unit, model=["/srv/none.gguf"], nodes="0-1", interleaved=True)
    assert half["verdict"]["nodes/anonymous"] == "drift"
    assert len(asked["memory"][0]["anonymous"]["nodes"]) == 4


def test_what_cannot_be_told_is_unknown(bare_guest, service, prove):
    """Without a window no thread is known to be busy, and without resctrl no group is known."""
    unit = service()
    result = prove(unit, busy_cpus="1-4", spread="cpu", group="verify")
    assert result["verdict"] == dict.fromkeys(("busy_cpus", "spread", "group"), "unknown")
    assert "resctrl is not mounted" in result["sentence"]["group"]
    assert {row["voluntary"] for row in result["threads"]} == {row["busy"] for row in result["threads"]} == {None}
    bare_guest.run("systemctl stop placed.service")
    gone = bare_guest.module("service_placement_info", service=unit)
    assert gone["failed"] and "it does not run" in gone["msg"]


def test_a_process_that_waits(bare_guest, prove):
    """A process by its number. Where no thread was busy, the verdict is unknown and not ok."""
    pid = bare_guest.run("sleep 1000 >/dev/null 2>&1 & echo $!").strip()
    try:
        result = prove(pid, window=0.5, spread="cpu", cpus="all", hugepages={"thp": "2MiB"})
    finally:
        bare_guest.run(f"kill {pid}")
    assert result["verdict"] == {"cpus": "ok", "spread": "unknown", "hugepages/thp": "drift"}
    assert "no thread was busy" in result["sentence"]["spread"]
    assert [row["involuntary"] for row in result["threads"]] == [0]


def test_the_example_of_the_documents_with_a_server_of_another_kind(bare_guest, service, tmp_path):
    """docs/engines.md has one for a host of 32 CPUs: its drop-in places the server, and its tasks prove it or fail."""
    text = (ROOT / "docs/engines.md").read_text(encoding="utf-8").replace("31", "4").replace("other.", "placed.")
    drop_in, tasks = (text.partition(begin)[2].partition("```")[0] for begin in ("```ini\n", "```yaml\n- name: Prove"))
    playbook = tmp_path / "prove.yml"
    play = {"hosts": "all", "gather_facts": False, "become": True, "tasks": yaml.safe_load(f"- name: Prove{tasks}")}
    playbook.write_text(json.dumps([play]))
    properties = [line for line in drop_in.splitlines() if "=" in line]
    assert len(properties) == 3
    service(*properties)
    bare_guest.play(playbook)
    bare_guest.run("systemctl stop placed.service")
    service(*properties, pins="1,1,2,3")
    failed = bare_guest.play(playbook, succeeds=False)
    assert failed.returncode == 2
    assert failed["Fail where it is elsewhere"]["msg"].startswith("Busy threads share a core. core 1: ")
