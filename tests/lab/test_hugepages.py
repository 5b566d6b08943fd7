# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools of huge pages on a real kernel: what it gives, what it holds back, and what happens to pages in use."""

from __future__ import annotations

import contextlib
import os

import pytest

from tests.fixtures.virtual_epyc import Guest
from vepyc import up

pytestmark = pytest.mark.slow

POOL = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
# A process on node 2 that maps ten pages and touches five of them, so that five are in use and five are promised.
HOLDER = r"""
import mmap, os, time
os.sched_setaffinity(0, [8])
memory = mmap.mmap(-1, 10 << 21, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x40000)
for page in range(5):
    memory[page << 21] = 1
open("/run/holder.ready", "w").close()
time.sleep(600)
"""


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
    bare_guest.run(
        "rm -f /run/holder.* /run/model*; for pool in /sys/devices/system/node/node*/hugepages/*/nr_hugepages; do"
        " echo 0 >$pool; done"
    )
    assert pages(bare_guest) == [0, 0, 0, 0]


@pytest.fixture
def holder(host):
    """Pages in use and pages promised, on node 2."""
    host.run(f"echo 20 >{POOL.format(2)}")

    @contextlib.contextmanager
    def hold():
        host.run(
            f"cat >/run/holder.py <<'END'\n{HOLDER}\nEND\nsystemd-run --quiet --unit holder python3 /run/holder.py"
        )
        try:
            host.run("timeout 60 sh -c 'until [ -e /run/holder.ready ]; do sleep 0.2; done'")
            yield
        finally:
            host.run("systemctl stop holder; rm -f /run/holder.ready", check=False)

    return hold


def test_pools_are_made_and_put_back(host):
    before = pools(host)
    asked = {"pools": [{"node": "0,2", "pages": 7}, {"node": "1", "memory": "11MiB"}]}
    diff = {
        "before": {"hugepages:node0/2048kB": "0", "hugepages:node1/2048kB": "3", "hugepages:node2/2048kB": "0"},
        "after": {"hugepages:node0/2048kB": "7", "hugepages:node1/2048kB": "6", "hugepages:node2/2048kB": "7"},
    }
    check = host.module("hugepages", _ansible_check_mode=True, **asked)
    assert (check["changed"], check["diff"]) == (True, diff)
    assert pools(host) == before
    assert host.run("ls /var/lib/sovereign-epyc", check=False) == ""

    made = host.module("hugepages", **asked)
    assert (made["changed"], made["diff"]) == (True, diff)
    assert made["remarks"] == ["pools[1]: 11MiB is no whole number of pages: rounded up to 6 pages of 2 MiB each."]
    assert pages(host) == [7, 6, 7, 0]
    assert host.module("hugepages", **asked)["changed"] is False

    back = host.module("hugepages", state="original")
    assert back["diff"] == {"before": diff["after"], "after": diff["before"]}
    assert pools(host) == before
    assert host.module("hugepages", state="original")["changed"] is False


def test_a_pool_can_be_given_back(host):
    assert host.module("hugepages", pools=[{"node": "1", "pages": 0}])["changed"] is True
    assert pages(host) == [0, 0, 0, 0]
    host.module("hugepages", state="original")
    assert pages(host) == [0, 3, 0, 0]


def test_pools_for_a_model_in_parts(host):
    host.run("truncate -s 21M /run/model-00001-of-00002.gguf; truncate -s 4M /run/model-00002-of-00002.gguf")
    result = host.module("hugepages", for_file="/run/model-00001-of-00002.gguf", headroom=10)
    assert pages(host) == [4, 4, 4, 4]
    assert result["remarks"] == [
        "/run/model-00001-of-00002.gguf has 25 MiB, with 10 % headroom 27.5 MiB: rounded up to 4 pages of 2 MiB on "
        "each of the nodes 0-3, 32 MiB in all."
    ]
    host.run("rm /run/model-00002-of-00002.gguf")
    refused(host, "no file /run/model-00002-of-00002.gguf", for_file="/run/model-00001-of-00002.gguf")


@pytest.mark.parametrize("drop_caches", [False, True])
def test_too_few_pages_are_told_and_given_back(host, drop_caches):
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
        drop_caches=drop_caches,
    )
    assert f"Node 2 gave {result['given']['hugepages:node2/2048kB']} of {most}" in result["msg"]
    assert result["given"]["hugepages:node1/2048kB"] == 5
    assert 0 < int(result["found"]) < most
    assert host.module("hugepages", pools=[{"node": "1-2", "pages": 4}])["changed"] is True
    assert pages(host) == [0, 4, 4, 0]


def test_what_no_node_has_is_refused(host):
    refused(host, "Node 2 has 6", "5 % are left to the system", "1000 pages", pools=[{"node": "2", "pages": 1000}])
    refused(host, "Node 0 has ", "1 page of 1 GiB would take 1 GiB", pools=[{"size": "1GiB", "pages": 1}])
    refused(host, "no node 7 with memory", "0-3", "NPS", pools=[{"node": "7", "pages": 1}])
    refused(host, "node 1 is asked for twice", pools=[{"pages": 1}, {"node": "1", "pages": 2}])
    refused(host, "no file /run/absent", for_file="/run/absent")


def test_pages_in_use_and_pages_promised_are_not_taken(host, holder):
    """The kernel would take both, and keep the pages as surplus that belong to no pool."""
    with holder():
        refused(host, "20 pages of 2 MiB, of which 5 are in use", "smaps_rollup", pools=[{"node": "2", "pages": 4}])
        refused(
            host,
            "14 pages of 2 MiB cannot be taken away",
            "5 of these are promised",
            pools=[{"node": "2", "pages": 9}, {"node": "1", "pages": 0}],
        )
        assert host.module("hugepages", pools=[{"node": "2", "pages": 12}])["changed"] is True
        assert pages(host) == [0, 3, 12, 0]
        assert host.module("hugepages", pools=[{"node": "2", "pages": 30}])["changed"] is True


def test_a_pool_in_use_is_not_put_back_and_said(host, holder):
    """The rest is; the pool's turn comes when its pages are free."""
    host.run(f"echo 0 >{POOL.format(2)}")
    before = pools(host)
    host.module("hugepages", pools=[{"node": "2", "pages": 20}, {"node": "3", "pages": 2}])
    with holder():
        back = host.module("hugepages", state="original")
        assert list(back["diff"]["after"]) == ["hugepages:node3/2048kB"]
        (remark,) = back["remarks"]
        assert remark.startswith("hugepages:node2/2048kB was not put back: ")
        assert "of which 5 are in use, so it cannot shrink to 0" in remark
        assert pages(host) == [0, 3, 20, 0]
    assert host.module("hugepages", state="original")["changed"] is True
    assert pools(host) == before


@pytest.fixture(scope="module")
def one_node(tmp_path_factory):
    """The small machine as one node: a quarter of it has no room for a page of 1 GiB."""
    machine = up("small", name=f"test-one-node-{os.getpid()}", bios={"nps": 1})
    try:
        guest = Guest(machine, tmp_path_factory.mktemp("node"))
        guest.carry_modules()
        yield guest
        guest.programs.end()
    finally:
        machine.down()


MOUNT, PLACE = "hugepages:mount/1048576kB", "/dev/hugepages-1GiB"


def test_a_model_in_a_page_of_1_gib(one_node):
    """From the pool and its mount to a copy of a model in it, and back."""
    before = one_node.everything()
    asked = {"pools": [{"size": "1GiB", "pages": 1}], "mount": True, "persistent": True}
    check = one_node.module("hugepages", **asked, _ansible_check_mode=True)
    made = one_node.module("hugepages", **asked)
    assert made["diff"] == check["diff"] and made["diff"]["after"][MOUNT] == PLACE, made
    assert one_node.run(f"findmnt -no FSTYPE,OPTIONS {PLACE}").split()[1].endswith("pagesize=1024M")
    assert not one_node.module("hugepages", **asked)["changed"]
    (row,) = [one for one in one_node.module("epyc_drift")["settings"] if one["address"] == MOUNT]
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
    assert one_node.module("hugepages", state="original")["diff"]["after"][MOUNT] is None
    assert one_node.changed_since(before).keys() <= {"/var/lib/sovereign-epyc/"}
    one_node.run(f"test ! -e {PLACE}")


def test_one_that_is_mounted_already_is_enough(one_node):
    one_node.run("mkdir /run/theirs && mount -t hugetlbfs -o pagesize=1G none /run/theirs")
    made = one_node.module("hugepages", pools=[{"size": "1GiB", "pages": 1}], mount=True)
    assert list(made["diff"]["after"]) == ["hugepages:node0/1048576kB"]
    one_node.module("hugepages", state="original")
    one_node.run("umount /run/theirs && rmdir /run/theirs")
