# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The walk of docs/bios.md on a whole machine: check, BIOS, boot, proof, a new plan, clean, and all of it undone.

WALK names the machine: epyc9754, which takes a quarter of an hour and more, or small. On small, parts of it are in
test_bios_play.py, which runs with all other tests.
"""

from __future__ import annotations

import json
import os
import time

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bmc import open_url
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import BmcAccess, RedfishClient
from tests.fixtures.virtual_epyc import Guest
from vepyc import start_machine
from vepyc.epyc.shapes import get_shape

pytestmark = pytest.mark.slow

SHAPE = get_shape("epyc9754")
#: With SMT on, a 9754 has 256 CPUs, and QEMU emulates 255. So half of its cores are off at first, and the BIOS is asked
#: for all of them too: 64 cores with two threads become 128 with one.
START = {"nps": 1, "smt": True, "boost": False, "cores_per_l3": SHAPE.cores_per_l3 // 2}
START["dimms"] = SHAPE.channels
WISH = {
    "epyc_bios_nps": 4,
    "epyc_bios_smt": False,
    "epyc_bios_boost": True,
    "epyc_bios_attributes": {"CcdCores": "All"},
}
PAGES = 16
TUNING = {"epyc_numa_hugepages": [{"memory": f"{PAGES * 2}MiB"}]}
#: The layers whose settings name CPUs and nodes. The others ask for boost, which the BIOS has off at first.
FIRST_STEPS = json.dumps({"epyc_steps": ["prerequisites", "base", "bios", "numa", "grub_params", "cat"]})
SITE, REBOOT, ASK = "playbooks/site.yml", "playbooks/reboot.yml", "Ask the BMC"
OK = ("-e", "epyc_reboot_ok=true")
UNDO = ("-e", "epyc_bios_state=original")
#: CPUs that compute, with one housekeeping core in each node: before, one node and two threads; after, four and one.
QUARTER = SHAPE.cpus // 4
COMPUTE = {
    1: f"2-{SHAPE.cpus - 1}",
    4: ",".join(f"{cpu + 1}-{cpu + QUARTER - 1}" for cpu in range(0, SHAPE.cpus, QUARTER)),
}


@pytest.fixture
def host(tmp_path):
    machine = start_machine(SHAPE.name, name=f"test-walk-{os.getpid()}", bmc="dell", bios=START)
    try:
        guest = Guest(machine, tmp_path)
        bmc = machine.bmc_access
        access = {"bmc": bmc["url"], "username": bmc["user"], "password": bmc["password"], "ca_path": bmc["ca"]}
        told = {**{f"epyc_bios_{name}": value for name, value in access.items()}, **WISH, **TUNING}
        (tmp_path / "host_vars").mkdir()
        (tmp_path / "host_vars" / f"{machine.name}.json").write_text(json.dumps(told))
        yield guest
        guest.programs.end()
    finally:
        machine.discard()


def at_bmc(host):
    """What the BMC has active and pending."""
    bmc = host.machine.bmc_access
    with RedfishClient(BmcAccess(bmc["url"], bmc["user"], bmc["password"], bmc["ca"]), open_url) as client:
        told = read_result_of_bios_info_module(client, None, [])
    return told["active"], told["pending"]


def read_kernel_state(host):
    """What the kernel has found: nodes, threads of the first core, boost, CPUs."""
    host.machine.disconnect()
    nodes, threads, cpus = host.run(
        "cd /sys/devices/system; cat node/online cpu/cpu0/topology/thread_siblings_list cpu/online"
    ).split()
    boost = "cpb" in host.run("grep -m1 ^flags /proc/cpuinfo").split()
    return len(parse_cpulist(nodes)), threads, boost, cpus


def require_settings_for_nodes(host, nodes):
    """Masks, pages and the boot parameters of the next boot are those of so many nodes."""
    compute = COMPUTE[nodes]
    owned = {group: parse_cpulist(host.read(group, "cpus_list")) for group in ("draft", "verify")}
    assert format_cpulist(sorted({*owned["draft"], *owned["verify"]})) == compute
    assert not {*owned["draft"]} & {*owned["verify"]}
    mine = {group: {domain for domain, mask in host.masks(group).items() if mask == "fff0"} for group in owned}
    # Each L3 domain has the share of one of the two.
    assert mine["draft"] and mine["draft"] ^ mine["verify"] == {*SHAPE.l3_ids}
    pools = host.run("cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages").split()
    assert pools == [str(PAGES)] * nodes
    assert f"isolcpus=managed_irq,{compute} " in host.run("cat /boot/grub/grub.cfg")


def count_reboots(host):
    return host.machine.run_dir.log.read_text().count("the guest reboots")


class Clock:
    """Prints how long each part took."""

    def __init__(self):
        self.since = time.monotonic()

    def __call__(self, what):
        now = time.monotonic()
        print(f"walk: {now - self.since:5.0f} s  {what}", flush=True)
        self.since = now


def test_from_one_node_to_four_and_back(host):
    lap, password = Clock(), host.machine.bmc_access["password"]
    first, bmc_first = host.untouched(), at_bmc(host)
    assert read_kernel_state(host) == (1, "0-1", False, f"0-{SHAPE.cpus - 1}")
    assert bmc_first[1] == {}
    lap("looked at the machine")

    check = host.play(SITE, "--check", "--diff", "-e", FIRST_STEPS)
    assert (check[ASK]["changed"], check[ASK]["boots"]) == (True, 1)
    assert at_bmc(host) == bmc_first
    assert host.touched_since(first) == set()
    lap("site.yml --check, and nothing is touched")

    done = host.play(SITE, "-e", FIRST_STEPS)
    assert done[ASK]["reboot_required"] is True
    assert at_bmc(host)[0] == bmc_first[0]
    require_settings_for_nodes(host, 1)
    lap("site.yml on one node; the BIOS waits")

    before = count_reboots(host)
    play = host.play(REBOOT, *OK)
    assert count_reboots(host) == before + 1
    assert read_kernel_state(host) == (4, "0", True, f"0-{SHAPE.cpus - 1}")
    active = at_bmc(host)
    assert active[1] == {}
    assert {name: active[0][name] for name in ("NumaNodesPerSocket", "LogicalProc", "ProcTurboMode", "CcdCores")} == {
        "NumaNodesPerSocket": "4",
        "LogicalProc": "Disabled",
        "ProcTurboMode": "Enabled",
        "CcdCores": "All",
    }
    assert "Run site.yml again" in play["Say what follows from another BIOS"]["msg"]
    rows = {row["name"]: row for row in play["Hold what the BMC says against the kernel"]["settings"]}
    assert rows["memory_channels"]["found"] == "all"
    assert password not in check.output + done.output + play.output
    lap("reboot.yml: one boot, proven by the BMC and by the kernel")

    done = host.play(SITE)
    assert done[ASK]["changed"] is False
    require_settings_for_nodes(host, 4)
    lap("site.yml on four nodes")
    assert host.play(SITE).changed_results == {}
    lap("site.yml once more, and nothing is left to do")

    host.play(REBOOT, *OK, "-e", "epyc_reboot_by=bmc")
    host.machine.disconnect()
    assert f"isolcpus=managed_irq,{COMPUTE[4]} " in host.run("cat /proc/cmdline").replace("\n", " ")
    require_settings_for_nodes(host, 4)
    lap("reboot.yml for the boot parameters, by the BMC")
    host.play("playbooks/drift.yml")
    lap("drift.yml is clean")

    host.play("playbooks/restore.yml")
    host.play(SITE, "--tags", "bios", *UNDO)
    lap("restore.yml, and the BIOS of before is pending")
    host.play(REBOOT, *OK, *UNDO)
    host.play(SITE, "--tags", "bios", *UNDO)
    assert read_kernel_state(host) == (1, "0-1", False, f"0-{SHAPE.cpus - 1}")
    assert at_bmc(host) == bmc_first
    assert not list((host.folder / ".bios").iterdir())
    lap("reboot.yml: the BIOS of before")
    assert host.changed_since(first[0]) == {}
    lap("and the host is as it was")
