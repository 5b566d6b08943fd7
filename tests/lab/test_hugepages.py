# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools of huge pages on a real kernel: what it gives, and pages of 1 GiB with a model in one.

What is asked of pools, refused and put back, also where pages are in use, is in test_hugepages_conformance.
"""

from __future__ import annotations

import os

import pytest

from tests.fixtures.virtual_epyc import Guest
from vepyc import start_machine

pytestmark = pytest.mark.slow

POOL = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"


def pools(guest):
    """Every number that the kernel shows about pools."""
    return guest.run(
        "grep -H '' /sys/devices/system/node/node*/hugepages/*/*_hugepages /sys/kernel/mm/hugepages/*/*_hugepages"
        " /sys/kernel/mm/hugepages/*/nr_hugepages_mempolicy"
    )


def pages(guest):
    """The pages of 2 MiB on each node."""
    return [int(guest.run(f"cat {POOL.format(node)}")) for node in range(4)]


def refused(guest, *words, **asked):
    """Run the module, which must refuse in one sentence with these words and change nothing."""
    before = pools(guest)
    result = guest.module("hugepages", **asked)
    assert result.get("failed"), result
    assert [word for word in words if word not in result["msg"]] == [], result["msg"]
    assert "\n" not in result["msg"]
    assert pools(guest) == before
    return result


@pytest.fixture
def host(bare_guest):
    """A host that somebody has given three pages on node 1."""
    bare_guest.run(f"echo 3 >{POOL.format(1)}")
    yield bare_guest
    bare_guest.run("for pool in /sys/devices/system/node/node*/hugepages/*/nr_hugepages; do echo 0 >$pool; done")
    assert pages(bare_guest) == [0, 0, 0, 0]


def test_too_few_pages_are_told_and_given_back(host):
    """The kernel takes any number and says nothing of what it lacks."""
    total = int(host.run("awk '/MemTotal/ {print $4}' /sys/devices/system/node/node2/meminfo"))
    most = total // 2048
    host.run(f"echo {most} >{POOL.format(2)}")  # That the kernel accepts this is the reason for all of it.
    given = pages(host)[2]
    host.run(f"echo 0 >{POOL.format(2)}")
    assert 0 < given < most

    result = refused(
        host,
        f"of {most} pages of 2 MiB: ",
        "Node 1 gave all 5 pages",
        "The kernel was asked 5 times, with compaction between",
        "What this run had changed was put back.",
        pools=[{"node": "2", "pages": most}, {"node": "1", "pages": 5}],
        reserve=0,
        drop_caches=True,
    )
    assert f"Node 2 gave {result['given']['hugepages:node2/2048kB']} of {most}" in result["msg"]
    assert result["given"]["hugepages:node1/2048kB"] == 5
    assert 0 < int(result["found"]) < most
    assert host.module("hugepages", pools=[{"node": "1-2", "pages": 4}])["changed"] is True
    assert pages(host) == [0, 4, 4, 0]


@pytest.fixture(scope="module")
def one_node(tmp_path_factory):
    """The small machine as one node: a quarter of it has no room for a page of 1 GiB."""
    machine = start_machine("small", name=f"test-one-node-{os.getpid()}", bios={"nps": 1})
    try:
        guest = Guest(machine, tmp_path_factory.mktemp("node"))
        guest.carry_modules()
        yield guest
        guest.programs.end()
    finally:
        machine.discard()


MOUNT, PLACE = "hugepages:mount/1048576kB", "/dev/hugepages-1GiB"


def test_a_model_in_a_page_of_1_gib(one_node):
    """From the pool and its mount to a copy of a model in it, and back."""
    before = one_node.everything()
    asked = {"pools": [{"size": "1GiB", "pages": 1}], "mount": True, "persistent": True}
    check = one_node.module("hugepages", **asked, _ansible_check_mode=True)
    made = one_node.module("hugepages", **asked)
    assert made["diff"] == check["diff"] and made["diff"]["changes"]["after"][MOUNT] == PLACE, made
    assert one_node.run(f"findmnt -no FSTYPE,OPTIONS {PLACE}").split()[1].endswith("pagesize=1024M")
    assert not one_node.module("hugepages", **asked)["changed"]
    (row,) = [one for one in one_node.module("epyc_drift_info")["settings"] if one["address"] == MOUNT]
    assert row["live"] == "ok", row

    stage = "from ansible_collections.sovereign.epyc.plugins.module_utils._cli import main\n"
    stage += f"main(['llama', 'stage', '/var/tmp/m.gguf', '{PLACE}/llama-chat', '--nodes', '0'])"
    one_node.run("head -c 4194304 /dev/urandom >/var/tmp/m.gguf")
    assert "in 1 page of 1 GiB (node 0: 1)." in one_node.python(stage)
    back = one_node.module("hugepages", state="original")
    assert [remark.partition(" was not put back: ")[0] for remark in sorted(back["remarks"])] == [
        MOUNT,
        "hugepages:node0/1048576kB",
    ]
    one_node.run(f"rm -r {PLACE}/llama-chat /var/tmp/m.gguf")
    assert one_node.module("hugepages", state="original")["diff"]["changes"]["after"][MOUNT] is None
    assert one_node.changed_since(before).keys() <= {"/var/lib/sovereign-epyc/"}
    one_node.run(f"test ! -e {PLACE}")
