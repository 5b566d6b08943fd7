# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model files on a machine of four nodes: copies in huge pages of chosen nodes, and page cache on the wrong ones."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.slow

MIB = 1 << 20
PACKAGE = "ansible_collections.sovereign.epyc.plugins.module_utils._cli"
MODEL = "/var/tmp/model.gguf"
FOLDER = "/run/staged"
POOL = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/{}_hugepages"
#: By node, a CPU of it.
CPU = {0: 0, 1: 4, 2: 8, 3: 12}

#: Maps a model and reads it, as a server does.
SERVER = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
    sum(memory[at] for at in range(0, len(memory), 4096))
    open("/run/mapped", "w").close()
    time.sleep(600)
"""


@pytest.fixture
def host(bare_guest):
    """A host with a model of 16 MiB and a bit on its disk, and a hugetlbfs without a page."""
    bare_guest.run(f"head -c {16 * MIB + 5} /dev/urandom >{MODEL} && sync {MODEL}")
    bare_guest.run(f"mkdir -p {FOLDER} && mount -t hugetlbfs -o pagesize=2M none {FOLDER}")
    yield bare_guest
    bare_guest.run(f"umount {FOLDER}; rm -rf {FOLDER} {MODEL}", check=False)
    bare_guest.run("for pool in /sys/devices/system/node/node*/hugepages/*/nr_hugepages; do echo 0 >$pool; done")


def llama(guest, command, succeeds=True):
    """Run the host's command; return the sentence that it says."""
    arguments = ["llama", *command.split()]
    done = guest.programs.run(f"import sys; from {PACKAGE} import main; sys.exit(main({arguments!r}))", [PACKAGE])
    assert done.returncode == (0 if succeeds else 1), done.stdout + done.stderr
    said, empty = (done.stdout, done.stderr) if succeeds else (done.stderr, done.stdout)
    assert empty == "" and said.count("\n") == 1, (said, empty)
    return said.strip()


def reserve_pool(guest, *pages):
    for node, count in enumerate(pages):
        guest.run(f"echo {count} >{POOL.format(node, 'nr')} && test $(cat {POOL.format(node, 'nr')}) = {count}")


def free_pages_by_node(guest):
    return [int(guest.run(f"cat {POOL.format(node, 'free')}")) for node in range(4)]


def parse_node_shares(said):
    return {int(node): int(share) for node, share in re.findall(r"node (\d) (\d+) %", said)}


def drop_model_from_cache(guest):
    guest.run(f"sync {MODEL}; dd if={MODEL} iflag=nocache count=0 status=none")


# Staging


def test_staged_on_chosen_nodes(host):
    """The pools of other nodes have pages enough, and keep them."""
    reserve_pool(host, 20, 10, 20, 20)
    assert llama(host, f"stage {MODEL} {FOLDER} --nodes 1").endswith("16.0 MiB in 9 pages of 2 MiB (node 1: 9).")
    assert free_pages_by_node(host) == [20, 1, 20, 20]
    host.run(f"cmp -n {16 * MIB + 5} {MODEL} {FOLDER}/model.gguf")
    assert llama(host, f"stage {MODEL} {FOLDER} --nodes 1").endswith("already.")
    host.run(f"touch {MODEL}")
    said = llama(host, f"stage {MODEL} {FOLDER} --nodes 0,3 --policy interleave")
    assert sorted(re.findall(r"node (\d): (\d)", said)) in ([("0", "4"), ("3", "5")], [("0", "5"), ("3", "4")])
    assert free_pages_by_node(host)[1:3] == [10, 20]


def test_interleaved_over_all_nodes(host):
    reserve_pool(host, 3, 3, 3, 3)
    said = llama(host, f"stage {MODEL} {FOLDER} --policy interleave")
    assert sorted(count for dummy, count in re.findall(r"node (\d): (\d)", said)) == ["2", "2", "2", "3"], said


def test_a_node_without_enough_pages_is_named(host):
    """Its neighbours have pages, and the kernel would take those silently."""
    reserve_pool(host, 20, 8, 20, 1)
    said = llama(host, f"stage {MODEL} {FOLDER} --nodes 1", succeeds=False)
    assert "needs 9 pages of 2 MiB, and 1 of them are missing on nodes 1. Enlarge the pool" in said
    said = llama(host, f"stage {MODEL} {FOLDER} --policy interleave", succeeds=False)
    assert "and 2 of them are missing on node 3. Enlarge the pool" in said
    assert free_pages_by_node(host) == [20, 8, 20, 1]
    assert host.run(f"ls -A {FOLDER}") == ""


# The page cache


def test_a_model_in_the_cache_of_the_wrong_node(host):
    drop_model_from_cache(host)
    host.run(f"taskset -c {CPU[2]} cat {MODEL} >/dev/null")
    said = llama(host, f"place {MODEL} --policy bind --nodes 2")
    assert parse_node_shares(said)[2] >= 95 and "as the policy wants it" in said
    assert "as the policy wants it" in llama(host, f"place {MODEL} --policy local --nodes 2-3")
    said = llama(host, f"place {MODEL} --policy interleave --nodes 0-3")
    assert said.endswith("dropped, it will be read again.")
    assert "is not in the page cache" in llama(host, f"place {MODEL} --policy bind --nodes 0")


def test_a_model_that_was_read_interleaved(host):
    """What a service reads under its policy is found where the policy wants it, by the same policy only."""
    drop_model_from_cache(host)
    host.run(f"numactl --interleave=0-3 md5sum {MODEL}")
    said = llama(host, f"place {MODEL} --policy interleave --nodes 0-3")
    assert "as the policy wants it" in said and set(parse_node_shares(said)) == {0, 1, 2, 3}
    assert llama(host, f"place {MODEL} --policy bind --nodes 0-1").endswith("dropped, it will be read again.")


def test_a_model_in_use_stays(host):
    """The pages of a running server are not taken from it, and the sentence names it."""
    drop_model_from_cache(host)
    host.machine.run("cat >/run/server.py", input=SERVER)
    host.run(
        f"taskset -c {CPU[1]} setsid python3 /run/server.py {MODEL} >/dev/null 2>&1 </dev/null & echo $! >/run/pid"
    )
    try:
        host.run("for i in $(seq 300); do test -e /run/mapped && exit 0; sleep 0.1; done; exit 1")
        said = llama(host, f"place {MODEL} --policy bind --nodes 0")
    finally:
        host.run("kill $(cat /run/pid); rm -f /run/mapped /run/pid /run/server.py")
    assert parse_node_shares(said)[1] >= 95 and "dropped, except for" in said and "(python3)" in said


def read_node_memory(guest, node):
    """Return the MiB of a node that are free, and those that hold pages of files."""
    text = guest.run(f"cat /sys/devices/system/node/node{node}/meminfo")
    fields = {name: int(kib) >> 10 for name, kib in re.findall(r"(\S+): +(\d+) kB", text)}
    return fields["MemFree"], fields["FilePages"]


def test_a_node_full_of_page_cache_makes_room_and_its_neighbours_keep_theirs(host):
    """The kernel of the guest cannot reclaim a node on request, so a process fills the node instead."""
    large = "/var/tmp/large"
    host.run("sync; echo 3 >/proc/sys/vm/drop_caches")
    free, _cached = read_node_memory(host, 1)
    try:
        # Half of what is free on node 1, and some on node 2, is page cache of a file that nobody maps.
        host.run(f"head -c {free // 2}M /dev/zero >{large}; sync; echo 3 >/proc/sys/vm/drop_caches")
        host.run(f"numactl --membind=1 cat {large} >/dev/null")
        host.run(f"numactl --membind=2 cat {MODEL} >/dev/null")
        before = {node: read_node_memory(host, node) for node in (1, 2)}
        assert before[1][1] > free // 3
        wanted = before[1][0] + free // 4
        said = llama(host, f"room {wanted * MIB} --nodes 1 --files []")
        after = {node: read_node_memory(host, node) for node in (1, 2)}
        assert "of page cache were dropped" in said and "from other nodes" not in said, said
        assert after[1][0] >= wanted
        assert abs(after[2][1] - before[2][1]) <= 8
        assert host.run("grep -c oom_kill /proc/vmstat && grep '^oom_kill ' /proc/vmstat").split()[-1] == "0"
    finally:
        host.run(f"rm -f {large}", check=False)
