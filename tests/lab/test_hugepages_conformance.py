# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake pools of huge pages answer the module hugepages as those of a real kernel do."""

from __future__ import annotations

import contextlib

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, check, put_back, write
from ansible_collections.sovereign.epyc.tests.unit.fakes.page_pools import PagePools

from .conformance import compare_with_kernel, left_changed

pytestmark = pytest.mark.slow

MODULE = "hugepages"
NODES, SIZES = "/sys/devices/system/node", "/sys/kernel/mm/hugepages"
SHOWN = [
    f"{place}/hugepages-2048kB/{name}_hugepages"
    for place in (f"{NODES}/node*/hugepages", SIZES)
    for name in ("nr", "free", "surplus")
] + [f"{SIZES}/hugepages-2048kB/resv_hugepages", f"{NODES}/node*/hugepages/hugepages-1048576kB/nr_hugepages"]
#: The memory of the nodes, which refusals tell.
RECORDED = [f"{NODES}/node*/meminfo"]


def pool(node):
    """The file that resizes the pool of a node."""
    return f"{NODES}/node{node}/hugepages/hugepages-2048kB/nr_hugepages"


ASKED = {"pools": [{"node": "0,2", "pages": 7}, {"node": "1", "memory": "11MiB"}]}
STEPS = [
    check(**ASKED),
    ask(**ASKED),
    ask(**ASKED),
    put_back(),
    put_back(),
    ask(pools=[{"node": "1", "pages": 0}]),
    put_back(),
    *(
        ask(**refused)
        for refused in (
            {"pools": [{"node": "2", "pages": 1000}]},
            {"pools": [{"size": "1GiB", "pages": 1}]},
            {"pools": [{"node": "7", "pages": 1}]},
            {"pools": [{"pages": 1}, {"node": "1", "pages": 2}]},
            {"for_file": "/run/absent"},
        )
    ),
    write(pool(3), "many"),
    write(pool(3), 5),
    write(pool(3), 0),
]
#: Before a program uses pages of node 2, while it does, and after it has ended.
BEFORE = [ask(pools=[{"node": "2", "pages": 20}, {"node": "3", "pages": 2}])]
HELD = [
    ask(pools=[{"node": "2", "pages": 4}]),
    ask(pools=[{"node": "2", "pages": 9}, {"node": "1", "pages": 0}]),
    ask(pools=[{"node": "2", "pages": 12}]),
    ask(pools=[{"node": "2", "pages": 30}]),
    # The kernel takes what the module refuses, and keeps the pages as surplus.
    write(pool(2), 4),
    write(pool(2), 20),
    put_back(),
]
AFTER = [put_back()]
#: A program on node 2 that maps ten pages and touches five of them, so that five are in use and five are promised.
HOLDER = r"""
import mmap, os, time
os.sched_setaffinity(0, [8])
memory = mmap.mmap(-1, 10 << 21, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | 0x40000)
for page in range(5):
    memory[page << 21] = 1
open("/run/holder.ready", "w").close()
time.sleep(600)
"""


def make(folder):
    """The small machine with pools, to whose node 1 somebody has given three pages."""
    kernel = Kernel(folder)
    kernel.pools = PagePools(kernel)
    kernel.fs.write(pool(1), "3")
    return kernel


@contextlib.contextmanager
def pages_in_use(guest):
    """Have the program run in the guest."""
    guest.run(f"cat >/run/holder.py <<'END'\n{HOLDER}\nEND\nsystemd-run --quiet --unit holder python3 /run/holder.py")
    guest.wait_for("/run/holder.ready")
    try:
        yield
    finally:
        guest.run("systemctl stop holder; rm /run/holder.py")


@pytest.fixture
def host(guest_of_each_kernel):
    """The small machine, to whose node 1 somebody has given three pages; its pools are empty again after a test."""
    guest_of_each_kernel.run(f"echo 3 >{pool(1)}")
    yield guest_of_each_kernel
    guest_of_each_kernel.run("for node in 0 1 2 3; do echo 0 >" + pool("$node") + "; done")


def test_the_fake_answers_as_the_kernel(host, tmp_path):
    answers = compare_with_kernel(host, make(tmp_path), MODULE, STEPS, SHOWN, RECORDED)
    assert left_changed(answers) == set()


def test_the_fake_keeps_pages_in_use_and_promised_as_the_kernel_does(host, tmp_path):
    kernel = make(tmp_path)
    compare_with_kernel(host, kernel, MODULE, BEFORE, SHOWN, RECORDED)
    with pages_in_use(host), kernel.pools.use(2, touched=5, mapped=10):
        compare_with_kernel(host, kernel, MODULE, HELD, SHOWN)
    compare_with_kernel(host, kernel, MODULE, AFTER, SHOWN)
