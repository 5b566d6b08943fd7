# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A real llama-server on the virtual 9354: one instance on all of it, one whose weights are on the nodes of their
threads, one whose draft has a CCD, and two that share it.

The two are proven on isolated CPUs too.
"""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import jitter
from tests.fixtures.saved_states import after_site
from tests.fixtures.virtual_epyc import guest_of
from vepyc.llama.delivery import PROGRAMS, write_guest_file
from vepyc.llama.llama_cpp import GUEST, ensure_llama

from . import small_instance
from .random_model import blank_model, random_model
from .small_instance import ASK_FEW

pytestmark = pytest.mark.slow

MODEL = "/srv/model.gguf"
ROWS = "/srv/rows.gguf"
#: All CPUs but the housekeeping, which is the first one of each node.
BUSY = {0: "1-7", 1: "9-15", 2: "17-23", 3: "25-31"}
#: In how many windows of two seconds a task that disturbs an instance has to be seen once.
WINDOWS = 6
#: Makes the model large enough to see its shares of four nodes: these are 13 MiB of weights.
WORDS = 27_000
#: What the next boot brings: isolated CPUs that the kernel spreads no threads over, and pages for the model on a node.
SITE = {
    "epyc_steps": ["base", "numa", "grub_params"],
    "epyc_plan_housekeeping": {"cores": 1, "per": "node"},
    "epyc_grub_params_isolation": "full",
    "epyc_numa_hugepages": [{"node": "3", "size": "2MiB", "pages": 8}],
}

# Asks for more tokens than anybody waits for, and prints each as it comes.
ASK = """
import sys, urllib.request
body = b'{"prompt": "a", "n_predict": 400, "ignore_eos": true, "stream": true}'
asked = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/completion", body, {"Content-Type": "application/json"})
with urllib.request.urlopen(asked) as answer:
    for line in answer:
        print(line.decode(), end="", flush=True)
"""
# Comes back when the second token has come, and leaves the server at work.
BEGIN = """
cat >/run/ask.py
setsid python3 /run/ask.py {port} >/run/answer 2>&1 </dev/null &
echo $! >/run/asking
until [ $(grep -c '"content"' /run/answer) -ge 2 ]; do
    kill -0 $! || {{ cat /run/answer; exit 1; }}
    sleep 0.2
done
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A 9354 with the host tool, the servers, and a model that knows nothing."""
    programs = ensure_llama(GUEST) / "bin"
    state = after_site("llama", "-e", json.dumps(SITE))
    with guest_of("epyc9354", "llama", tmp_path_factory.mktemp("llama"), prepared=state) as guest:
        guest.carry_modules()
        for name in ("llama-server", "ggml-rpc-server"):
            write_guest_file(guest.machine, f"{PROGRAMS}/{name}", (programs / name).read_bytes(), mode=755)
        write_guest_file(guest.machine, MODEL, blank_model(WORDS))
        yield guest


def serve(guest, *instances):
    """Have these instances of the model that knows nothing, unless one names another; return their plans."""
    return small_instance.serve_instances(guest, *({"model": MODEL, **one} for one in instances))


@contextmanager
def working(guest, plan):
    """Have an instance make tokens as long as the block lasts."""
    guest.machine.run(BEGIN.format(port=plan["wants"]["port"]), input=ASK)
    try:
        yield
    finally:
        guest.run("kill $(cat /run/asking)", check=False)


def prove(guest, plan, threads):
    """Compare an instance at work, and the process that drafts for it, with its plan; so many threads must compute.

    Return what came between its threads meanwhile.
    """
    units = {plan["unit"]: {"busy_threads": threads, **plan["expect"]}}
    if plan["rpc"]:
        units[plan["rpc"]["unit"]] = plan["rpc"]["expect"]
    noise = {}
    with working(guest, plan):
        for unit, expect in units.items():
            found = guest.module("service_placement_info", service=unit, window=2, **expect)
            assert found.get("clean"), found.get("msg") or [row["sentence"] for row in found["verdicts"]]
            names = {row["name"] for row in found["verdicts"]}
            assert names >= {"cpus", "busy_cpus", "nodes/anonymous"}
            assert unit != plan["unit"] or names >= {"busy_threads", "spread", "nodes/weights"}
            noise[unit] = found["noise"]
    return noise[plan["unit"]]


def test_one_instance_on_all_cpus(host):
    """A thread on each CPU but four, and the weights evenly on four nodes."""
    plan = serve(host, {"name": "all", "port": 8080})["all"]
    assert plan["expect"] == {
        "cpus": "0-31",
        "busy_cpus": ",".join(BUSY.values()),
        "spread": "core",
        "nodes": "0-3",
        "interleaved": True,
    }
    prove(host, plan, 28)


def test_rows_lie_on_the_nodes_of_the_threads_that_read_them(host):
    """A file that was downloaded lies on the node of the program that did it, and stays there for all that follows."""
    write_guest_file(host.machine, ROWS, random_model(WORDS))

    def answer(memory):
        plan = serve(host, {"name": "rows", "port": 8085, "model": ROWS, "memory": memory})["rows"]
        said = json.loads(host.machine.run("python3 - 8085", input=ASK_FEW).stdout)
        found = host.module("service_placement_info", service=plan["unit"], nodes="0-3", rows={ROWS: 28})
        (verdict,) = [row["verdict"] for row in found["verdicts"] if row["name"] == "rows"]
        return said["tokens"], verdict, found["rows"][ROWS]

    serve(host)
    host.run(f"echo 3 >/proc/sys/vm/drop_caches; taskset -c 24 cat {ROWS} >/dev/null")
    tokens, verdict, found = answer("distribute")
    assert verdict == "drift" and 20 < found["local"] < 30
    placed = answer("rows")
    assert placed[0] == tokens and placed[1] == "ok"
    assert placed[2]["local"] == placed[2]["possible"] >= 98 and placed[2]["in_memory"] == 100
    host.run("systemctl restart llama-rows")
    said = host.run("journalctl -u llama-rows -o cat")
    assert f"{ROWS}: 100 % of " in said and f"{ROWS} is where its threads read it already: " in said

    # Where nothing is cached, the threads themselves bring their rows to their nodes: it is these that we know.
    serve(host)
    host.run("echo 3 >/proc/sys/vm/drop_caches")
    assert answer("distribute")[1] == "ok"


def test_a_draft_on_a_ccd_of_its_own(host):
    """The model on one CCD of a node, and on the other one a server of its own that drafts for it."""
    asked = {"speculation": "draft", "draft_model": MODEL, "draft_placement": "own_ccd", "rpc_port": 8084}
    one = {"name": "drafted", "port": 8083, "cpus": "node0", "draft_max": 1, "draft_p_min": 0, **asked}
    plan = serve(host, one)["drafted"]
    assert plan["expect"]["busy_cpus"] == "1-3"
    assert plan["rpc"]["expect"]["cpus"] == "4-7"
    # The other server drafts one token at a time, with a model as large as this one: so these two threads compute for
    # more than half of the time. The third starts them, and sleeps on the socket meanwhile.
    prove(host, plan, 2)
    times = json.loads(host.machine.run(f"python3 - {plan['wants']['port']}", input=ASK_FEW).stdout)["timings"]
    # Which of its guesses are right is up to chance: to a model that knows nothing, all words are equally probable.
    assert times.get("draft_n", 0) > 0


def test_two_instances_on_isolated_cpus(host):
    """Neither has threads on the other's CPUs. One's weights are on two nodes, the other's in huge pages of one."""
    left = {"name": "left", "port": 8081, "nodes": "0-1"}
    right = {"name": "right", "port": 8082, "cpus": "node2,node3", "nodes": "3", "hugepages": "hugetlbfs"}
    plans = serve(host, left, right)
    host.machine.reboot()
    host.carry_modules()
    isolated = host.run("cat /sys/devices/system/cpu/isolated").strip()
    assert isolated == ",".join(BUSY.values())
    assert plans["left"]["expect"] == {
        "cpus": "0-15",
        "busy_cpus": f"{BUSY[0]},{BUSY[1]}",
        "spread": "core",
        "nodes": "0-1",
        "interleaved": True,
    }
    assert plans["right"]["expect"] == {
        "cpus": "16-31",
        "busy_cpus": f"{BUSY[2]},{BUSY[3]}",
        "spread": "core",
        "nodes": "3",
        "interleaved": False,
        "hugepages": {"hugetlb": "12MiB"},
    }
    quiet = {name: prove(host, plan, 14) for name, plan in plans.items()}
    for noise in quiet.values():
        assert noise["devices"] <= jitter.MAX_DEVICE_INTERRUPTS and noise["involuntary"] <= jitter.MAX_SWITCHES, noise
        # How long it waited depends on what else this machine does, which emulates the CPUs.
        assert noise["ticks"] <= jitter.MAX_TICKS, noise
    # Somebody else's task on one of these CPUs, which brings its tick back too. Threads that wait for one that is held
    # up sleep after a while, and so may that one when it waits for them: such a window shows nothing.
    host.run("systemd-run --quiet --unit=loud --property=CPUAffinity=1 sh -c 'while :; do :; done'")
    waited, seen = max(jitter.MAX_WAITED, 3 * quiet["left"]["waited"]), []
    with working(host, plans["left"]):
        while not any(one and one["waited"] > waited and one["ticks"] > jitter.MAX_TICKS for one in seen):
            assert len(seen) < WINDOWS, seen
            seen.append(host.module("service_placement_info", service=plans["left"]["unit"], window=2)["noise"])
    host.run("systemctl stop loud")


def test_an_undo_takes_no_command_away_that_an_instance_calls(host):
    """It refuses, with nothing changed, until it is told to remove the instances too."""
    units = "systemctl is-active llama-left llama-right sovereign-epyc"
    refused = host.play("playbooks/restore.yml", succeeds=False)
    (said,) = [result["msg"] for result in refused.results if result["status"] == "failed"]
    assert "llama-left.service, llama-right.service call /usr/sbin/sovereign-epyc" in said
    assert "-e epyc_restore_instances=true" in said
    assert (refused.changed_results, host.run(units)) == ({}, "active\n" * 3)
    host.play("playbooks/restore.yml", "-e", "epyc_restore_instances=true")
    assert host.run(units, check=False) == "inactive\n" * 3
    assert (
        host.run("ls /etc/systemd/system | grep -e llama -e sovereign; ls /usr/sbin/sovereign-epyc", check=False) == ""
    )
