# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host import host
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import MemoryNeed, Placement
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory import free_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts

GIB = 1 << 30


def options(**more: Any) -> Options:
    return Options.parse({"name": "chat", "binary": "/opt/llama-server", "model": "/srv/m.gguf", "port": 8080, **more})


# What there is


@pytest.mark.parametrize(
    ("kind", "has", "isolated"),
    [
        ("root", {4, 5}, set()),
        ("isolated", {4, 5}, {4, 5}),
        ("isolated invalid (x)", set(), set()),
        (None, set(), set()),
    ],
)
def test_a_partition_for_instances(tmp_path: Path, kind: str | None, has: set[int], isolated: set[int]) -> None:
    """Before Linux 6.7 no other file tells which CPUs a partition isolates."""
    tree = hosts.small(tmp_path)
    if kind:
        tree.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.partition", kind)
        tree.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.effective", "4-5")
    free = free_memory.read_free_and_staged_memory(host.Host(tree.fs), options(), [])
    assert (free.partition, free.isolated) == (has, isolated)


@pytest.mark.parametrize("name", ["m.gguf", ".m.gguf.part"])
def test_a_copy_that_is_being_made_has_its_pages_already(tmp_path: Path, name: str) -> None:
    """So that the plan of an instance is the same while its model is copied and afterwards."""
    tree = hosts.small(tmp_path)
    model = ggufs.written(tmp_path / "m.gguf", 144)
    tree.put(f"/dev/hugepages/llama-chat/{name}", "staged")
    free = free_memory.read_free_and_staged_memory(host.Host(tree.fs), options(), [model])
    assert free.staged == {"/dev/hugepages/llama-chat/m.gguf"}


def test_what_a_host_has_left(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path)
    tree.put("/proc/meminfo", "MemTotal: 8 kB\nHugepagesize:       2048 kB")
    tree.put(
        "/sys/devices/system/node/node1/meminfo",
        "Node 1 MemFree: 1000 kB\nNode 1 Active(file): 200 kB\nNode 1 Inactive(file): 30 kB\nNode 1 SReclaimable: 4 kB",
    )
    tree.put("/sys/devices/system/cpu/isolated", "1-3")
    tree.put("/sys/fs/cgroup/cpuset.cpus.isolated", "8")
    tree.put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    tree.put("/proc/self/mounts", "dev /dev devtmpfs rw 0 0\nhuge /dev/hugepages hugetlbfs rw,pagesize=1024M 0 0")
    tree.put("/dev/hugepages/llama-chat/m.gguf", "staged")
    model = ggufs.written(tmp_path / "m.gguf", 144)
    free = free_memory.read_free_and_staged_memory(host.Host(tree.fs), options(), [model])
    assert free.available[1] == 1234 * 1024
    assert free.free == {(node, 2048): 6 for node in range(4)}
    assert (free.default_kb, free.hugetlbfs_kb, free.thp) == (2048, 1 << 20, "madvise")
    assert free.isolated == {1, 2, 3, 8}
    assert free.staged == {"/dev/hugepages/llama-chat/m.gguf"}
    free.add_free_memory({1: 1024, 7: 1}, {(0, 2048): 4})
    assert (free.available[1], free.available[7], free.free[0, 2048]) == (1235 * 1024, 1, 10)


@pytest.mark.parametrize(
    ("mounts", "kb"),
    [
        ("dev /dev devtmpfs rw 0 0", None),
        ("", None),
        ("huge /dev/hugepages hugetlbfs rw,relatime,pagesize=2M 0 0", 2048),
        ("huge /dev/hugepages hugetlbfs rw 0 0", 2048),
        ("huge /dev/huge hugetlbfs rw,pagesize=2M 0 0", None),
        ("huge /dev hugetlbfs rw,pagesize=1024M 0 0", 1 << 20),
        ("huge /dev hugetlbfs rw 0 0\nnone /dev/hugepages tmpfs rw 0 0", None),
    ],
)
def test_the_pages_of_a_mount(tmp_path: Path, mounts: str, kb: int | None) -> None:
    tree = hosts.Host(tmp_path)
    tree.put("/proc/self/mounts", mounts)
    assert free_memory._find_hugetlbfs_page_kb(tree.fs, "/dev/hugepages") == kb


# Whether it fits

NEED = MemoryNeed(40 * GIB, 2 * GIB, GIB, 2 * GIB, GIB)
#: An instance whose weights are those of the tiny file that is staged.
TINY = MemoryNeed(10 << 20, 5 * GIB, GIB)


def checked(
    nodes: list[int], policy: str, free: FreeMemory, models: list[gguf_model.Model] | None = None, **more: Any
) -> None:
    place = Placement((), (), nodes, policy, "strict")
    free_memory.require_enough_memory(options(**more), TINY if models else NEED, place, free, models or [])


@pytest.mark.parametrize(
    ("policy", "available", "fits"),
    [
        ("bind", [46, 0], True),
        ("bind", [45, 0], False),
        ("interleave", [23, 23], True),
        ("interleave", [100, 22], False),
        ("local", [40, 6], True),
    ],
)
def test_memory_of_the_nodes(policy: str, available: list[int], fits: bool) -> None:
    free = FreeMemory({node: size * GIB for node, size in enumerate(available)})
    if fits:
        checked([0, 1], policy, free)
        return
    with pytest.raises(BadRequest) as caught:
        checked([0, 1], policy, free)
    assert "The instance needs 46 GiB (40 GiB weights, 2 GiB KV cache, 1 GiB compute buffers, 2 GiB prompt " in str(
        caught.value
    )
    assert str(caught.value).endswith(
        "Take a smaller context or model, a quantized KV cache, a smaller prompt_cache, fewer checkpoints, or more "
        "nodes."
    )


def test_pages_of_a_pool() -> None:
    pages = 23 * 1024
    free = FreeMemory({}, {(0, 2048): pages - 1, (1, 2048): 100})
    with pytest.raises(
        BadRequest, match=r"cache, 1 GiB checkpoints\) need 23552 pages of 2 MiB on nodes 0, and 23551 are"
    ):
        checked([0], "bind", free, hugepages="pool")
    checked([0, 1], "bind", free, hugepages="pool")
    with pytest.raises(BadRequest, match=r"200 are free there evenly\. Make the pool larger .* 11776 pages for each"):
        checked([0, 1], "interleave", free, hugepages="pool")
    with pytest.raises(BadRequest, match=r"pages of 1 GiB, and the server takes"):
        checked([0], "bind", FreeMemory({}, {(0, 1 << 20): 100}, default_kb=1 << 20), hugepages="pool")


def test_pages_of_staged_files(tmp_path: Path) -> None:
    model = ggufs.written(tmp_path / "m.gguf", 10 << 20)
    free = FreeMemory({0: 7 * GIB}, {(0, 2048): 5}, hugetlbfs_kb=2048)
    with pytest.raises(BadRequest, match=r"the staged files need 6 pages of 2 MiB on nodes 0, and 5 are free"):
        checked([0], "bind", free, [model], hugepages="hugetlbfs")
    staged = FreeMemory({0: 7 * GIB}, {}, hugetlbfs_kb=2048, staged=["/dev/hugepages/llama-chat/m.gguf"])
    checked([0], "bind", staged, [model], hugepages="hugetlbfs")
    with pytest.raises(BadRequest, match=r"needs 6\.0 GiB .* have 5 GiB available"):
        small = FreeMemory({0: 5 * GIB}, {(0, 2048): 6}, hugetlbfs_kb=2048)
        checked([0], "bind", small, [model], hugepages="hugetlbfs")
    with pytest.raises(BadRequest, match=r"/dev/hugepages is not on a hugetlbfs"):
        checked([0], "bind", FreeMemory({0: 99 * GIB}), [model], hugepages="hugetlbfs")
