# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of the pools, and what is said when it cannot be had; the kernel's own answers are in tests/lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NotApplied, Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import NODES
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import hugepages
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.hugepages import knob as hugepages_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

GIB_IN_KB = 1 << 20
BUDDYINFO = """\
Node 0, zone  DMA32    5   0   0   0   0   0   0   0   0   3   13
Node 3, zone Normal  100   0   0   0   0   0   0   0   0   0    0
"""


class Kernel(KernelFS):
    """A tree whose nodes give at most ``most`` pages each, and whose writes are listed."""

    def __init__(self, root: str, most: int | None = None) -> None:
        super().__init__(root)
        self.most = most
        self.refuse = False
        self.writes: list[tuple[str, str]] = []

    def write(self, path: str, text: str) -> None:
        self.writes.append((path, text))
        if self.refuse:
            raise Refused(f"Cannot write '{text}' to {path}: Invalid argument.", 22, path)
        if path.endswith("nr_hugepages"):
            got = int(text) if self.most is None else min(int(text), self.most)
            for name in ("nr_hugepages", "free_hugepages"):
                Path(self._real_path(path)).with_name(name).write_text(f"{got}\n")


class Machine:
    """Four nodes of 10 GiB, with pools of both sizes, 8 pages of 2 MiB on each node of which 2 are in use."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.Host(root)
        self.fs = Kernel(str(root))
        self.tree.put(f"{NODES}/has_memory", "0-3")
        self.tree.put("/proc/buddyinfo", BUDDYINFO)
        for kb in (2048, GIB_IN_KB):
            self.tree.put(f"{hugepages.SIZES}/hugepages-{kb}kB/free_hugepages", 24)
            self.tree.put(f"{hugepages.SIZES}/hugepages-{kb}kB/resv_hugepages", 0)
            for node in range(4):
                pages = 8 if kb == 2048 else 0
                self.pool(node, kb, pages, max(pages - 2, 0))
        for node in range(4):
            self.tree.put(
                f"{NODES}/node{node}/meminfo",
                f"Node {node} MemTotal: {10 << 20} kB\nNode {node} MemFree: {1 << 20} kB",
            )

    def pool(self, node: int, kb: int, pages: int, free: int, surplus: int = 0) -> None:
        for name, value in (("nr", pages), ("free", free), ("surplus", surplus)):
            self.tree.put(hugepages.pool_file_path(node, kb, f"{name}_hugepages"), value)

    def knob(self, **options: Any) -> hugepages_knob.HugePages:
        return hugepages_knob.HugePages(Host(self.fs), options)

    def write(self, changes: dict[tuple[int, int], int], **options: Any) -> None:
        found = {key: hugepages.read_pool_size_and_use(self.fs, *key) for key in changes}
        self.knob(**options).write_changes(
            [
                Change(hugepages_knob.pool_address(*key), str((found[key] or (0,))[0]), str(pages))
                for key, pages in changes.items()
            ]
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(hugepages_knob.time, "sleep", lambda seconds: None)
    return Machine(tmp_path)


# What is asked


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"pools": [{"pages": 20}]}, {(node, 2048): 20 for node in range(4)}),
        ({"pools": [{"node": "1,3", "pages": 20}]}, {(1, 2048): 20, (3, 2048): 20}),
        ({"pools": [{"node": 2, "size": "1GiB", "pages": 3}]}, {(2, GIB_IN_KB): 3}),
        ({"pools": [{"node": "0", "memory": "1GiB"}]}, {(0, 2048): 512}),
        ({"pools": [{"node": "0", "memory": "1.5 GiB", "size": "1GiB"}]}, {(0, GIB_IN_KB): 2}),
        (
            {"pools": [{"node": "0", "pages": 9}, {"node": "0", "size": "1GiB", "pages": 1}]},
            {(0, 2048): 9, (0, GIB_IN_KB): 1},
        ),
    ],
)
def test_pools_expand_to_pages_per_node(machine: Machine, options: Any, wanted: dict[tuple[int, int], int]) -> None:
    assert machine.knob(**options).wanted_settings() == {
        hugepages_knob.pool_address(*key): str(pages) for key, pages in wanted.items()
    }


def test_addresses_split_back() -> None:
    assert hugepages_knob.pool_address(2, 2048) == "hugepages:node2/2048kB"
    assert hugepages_knob.split_pool_address("hugepages:node12/1048576kB") == (12, GIB_IN_KB)


def test_nothing_asked_is_nothing_wanted_so_that_undo_can_use_the_knob(machine: Machine) -> None:
    knob, mounts = hugepages_knob.build_knobs(Host(machine.fs), {})
    assert knob.wanted_settings() == mounts.wanted_settings() == {}
    assert knob.read_settings(["hugepages:node1/2048kB", "hugepages:node9/2048kB"]) == {
        "hugepages:node1/2048kB": "8",
        "hugepages:node9/2048kB": None,
    }
    assert knob.unreachable_reason("hugepages:node1/2048kB") is None
    assert "node 9" in (knob.unreachable_reason("hugepages:node9/2048kB") or "")


def test_a_file_is_spread_evenly_and_rounding_is_told(machine: Machine) -> None:
    (machine.tree.root / "model.gguf").write_bytes(bytes(9 << 20))
    knob = machine.knob(for_file="/model.gguf", headroom=10)
    assert knob.wanted_settings() == {f"hugepages:node{node}/2048kB": "2" for node in range(4)}
    assert knob.list_remarks() == [
        "/model.gguf has 9 MiB, with 10 % headroom 9.9 MiB: rounded up to 2 pages of 2 MiB on each of the nodes 0-3, "
        "16 MiB in all."
    ]
    one_node = machine.knob(for_file="/model.gguf", nodes="2")
    assert one_node.wanted_settings() == {"hugepages:node2/2048kB": "5"}


def test_all_parts_of_a_model_count(machine: Machine) -> None:
    for number in (1, 2, 3):
        (machine.tree.root / f"model-{number:05d}-of-00003.gguf").write_bytes(bytes(8 << 20))
    assert machine.knob(for_file="/model-00001-of-00003.gguf", nodes="0").wanted_settings() == {
        "hugepages:node0/2048kB": "12"
    }
    (machine.tree.root / "model-00003-of-00003.gguf").unlink()
    with pytest.raises(BadRequest, match=r"no file /model-00003-of-00003\.gguf"):
        machine.knob(for_file="/model-00001-of-00003.gguf").wanted_settings()


# What is refused


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pools": [{"pages": 5, "memory": "1GiB"}]}, r"pools\[0\]: say either pages or memory"),
        ({"pools": [{}]}, "either pages or memory"),
        ({"pools": [{"pages": -1}]}, "'-1' is no whole number"),
        ({"pools": [{"memory": "40GB"}]}, "'40GB' is no amount of memory"),
        ({"pools": [{"memory": "-1GiB"}]}, "no amount"),
        ({"pools": [{"pages": 1, "size": "4MiB"}]}, "'4MiB' is no size of a huge page; say 2MiB or 1GiB"),
        ({"pools": [{"pages": 1, "node": "4"}]}, "no node 4 with memory on this host, only 0-3"),
        ({"pools": [{"pages": 1, "node": "here"}]}, "'here' names no node"),
        ({"pools": [{"pages": 1}, {"pages": 2, "node": "3"}]}, "node 3 is asked for twice"),
        (
            {"pools": [{"pages": 5000, "node": "1"}]},
            r"10 GiB of memory, of which 5 % .* 5000 pages of 2 MiB would",
        ),
        ({"pools": [{"pages": 4000, "node": "1"}], "reserve": 30}, "of which 30 % are left"),
        ({"pools": [{"pages": 9, "node": "1"}], "reserve": 200}, "0 B can be huge pages"),
        ({"pools": [{"pages": 10, "node": "1", "size": "1GiB"}]}, "8 pages of 2 MiB and 10 pages of 1 GiB would take"),
        ({"pools": [{"pages": 1, "node": "1"}]}, "8 pages of 2 MiB, of which 2 are in use, so it cannot shrink to 1"),
        ({"for_file": "/absent"}, "no file /absent"),
        ({"for_file": "/proc/buddyinfo", "headroom": -5}, "headroom: '-5'"),
    ],
)
def test_what_cannot_be_had_is_refused_before_any_write(machine: Machine, options: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        machine.knob(**options).wanted_settings()
    assert machine.fs.writes == []


def test_an_empty_file_is_refused(machine: Machine) -> None:
    (machine.tree.root / "empty").touch()
    with pytest.raises(BadRequest, match="/empty is empty"):
        machine.knob(for_file="/empty").wanted_settings()


def test_a_kernel_without_pools_and_one_without_large_pages(machine: Machine) -> None:
    machine.tree.drop(f"{hugepages.SIZES}/hugepages-{GIB_IN_KB}kB/*")
    (machine.tree.root / hugepages.SIZES[1:] / f"hugepages-{GIB_IN_KB}kB").rmdir()
    with pytest.raises(BadRequest, match=r"no pages of 1GiB, only of 2 MiB.*pdpe1gb"):
        machine.knob(pools=[{"size": "1GiB", "pages": 1}]).wanted_settings()
    machine.tree.drop(f"{hugepages.SIZES}/hugepages-2048kB/*")
    (machine.tree.root / hugepages.SIZES[1:] / "hugepages-2048kB").rmdir()
    with pytest.raises(BadRequest, match="CONFIG_HUGETLB_PAGE"):
        machine.knob(pools=[{"pages": 1}]).wanted_settings()


def test_a_full_node_that_asks_for_no_more_is_left_in_peace(machine: Machine) -> None:
    machine.pool(1, 2048, 5100, 5100)
    assert machine.knob(pools=[{"node": "1", "pages": 5100}]).wanted_settings() == {"hugepages:node1/2048kB": "5100"}


def test_promised_pages_are_not_taken(machine: Machine) -> None:
    machine.tree.put(f"{hugepages.SIZES}/hugepages-2048kB/resv_hugepages", 20)
    machine.knob(pools=[{"node": "1", "pages": 4}]).wanted_settings()
    with pytest.raises(BadRequest, match="8 pages of 2 MiB cannot be taken away: 24 are free, and 20 of these"):
        machine.knob(pools=[{"node": "1-2", "pages": 4}]).wanted_settings()


def test_a_restore_keeps_pools_whose_pages_are_in_use(machine: Machine) -> None:
    machine.tree.put(f"{hugepages.SIZES}/hugepages-2048kB/resv_hugepages", 20)
    kept = machine.knob().unrestorable_reasons(
        {f"hugepages:node{node}/2048kB": pages for node, pages in enumerate("1458")}
    )
    assert list(kept) == ["hugepages:node0/2048kB", "hugepages:node2/2048kB"]
    assert "of which 2 are in use" in kept["hugepages:node0/2048kB"]
    assert "20 of these are promised" in kept["hugepages:node2/2048kB"]


def test_putting_back_takes_no_pages_in_use_either(machine: Machine) -> None:
    with pytest.raises(BadRequest, match="of which 2 are in use"):
        machine.write({(1, 2048): 0})
    assert machine.fs.writes == []


def test_surplus_pages_are_no_part_of_a_pool(machine: Machine) -> None:
    machine.pool(1, 2048, 8, 0, surplus=3)
    assert machine.knob().read_settings(["hugepages:node1/2048kB"]) == {"hugepages:node1/2048kB": "5"}
    assert hugepages.read_pool_size_and_use(machine.fs, 1, 2048) == (5, 8)


# Writing


def test_pools_shrink_before_others_grow_and_large_pages_grow_first(machine: Machine) -> None:
    machine.write({(0, 2048): 9, (1, 2048): 3, (1, GIB_IN_KB): 1})
    assert [(path.split("/")[5], path.split("/")[7], text) for path, text in machine.fs.writes] == [
        ("node1", "hugepages-2048kB", "3"),
        ("node1", "hugepages-1048576kB", "1"),
        ("node0", "hugepages-2048kB", "9"),
    ]


def test_too_few_pages_are_asked_for_again_and_then_told(machine: Machine) -> None:
    machine.fs.most = 50
    machine.tree.put("/proc/sys/vm/compact_memory", "")
    machine.tree.put(f"{NODES}/node3/compact", "")
    with pytest.raises(NotApplied) as caught:
        machine.write({(0, 2048): 60, (2, 2048): 50, (3, 2048): 3000}, drop_caches=True)
    assert str(caught.value) == (
        "Node 0 gave 50 of 60 pages of 2 MiB: the kernel keeps the rest for itself, see vm.min_free_kbytes (1 GiB of "
        "10 GiB free, 58 MiB of that in blocks of 2 MiB or more). Node 3 gave 50 of 3000 pages of 2 MiB: its memory "
        "is in use (1 GiB of 10 GiB free, 0 B of that in blocks of 2 MiB or more). Node 2 gave all 50 pages of 2 MiB. "
        "The kernel was asked 5 times, with compaction between. Ask for less, stop what uses the memory, or set "
        "drop_caches to true; memory is least fragmented soon after a boot."
    )
    assert caught.value.details["given"] == {
        "hugepages:node0/2048kB": 50,
        "hugepages:node2/2048kB": 50,
        "hugepages:node3/2048kB": 50,
    }
    paths = [path for path, dummy in machine.fs.writes]
    assert paths.count(f"{NODES}/node3/compact") == len(hugepages_knob.WAITS)
    assert paths.count("/proc/sys/vm/compact_memory") == len(hugepages_knob.WAITS)
    assert paths.count("/proc/sys/vm/drop_caches") == 1
    assert paths.count(hugepages.pool_file_path(2, 2048, "nr_hugepages")) == 1


def test_caches_are_dropped_only_when_told(machine: Machine) -> None:
    machine.fs.most = 50
    with pytest.raises(NotApplied):
        machine.write({(0, 2048): 60})
    assert "/proc/sys/vm/drop_caches" not in [path for path, dummy in machine.fs.writes]


def test_large_pages_that_cannot_be_had_name_the_boot_parameters(machine: Machine) -> None:
    machine.pool(1, GIB_IN_KB, 2, 2)
    machine.fs.most = 1
    with pytest.raises(
        NotApplied, match=r"Node 3 gave 1 of 2 pages of 1 GiB: no more .* in one piece of 1 GiB"
    ) as short:
        machine.write({(3, GIB_IN_KB): 2})
    assert "'hugepagesz=1G hugepages=1:2,3:2'" in str(short.value)
    machine.fs.refuse = True
    with pytest.raises(Refused, match=r"Invalid argument.*'hugepagesz=1G hugepages=1:2,3:4'"):
        machine.write({(3, GIB_IN_KB): 4})
    with pytest.raises(Refused) as caught:
        machine.write({(3, 2048): 40})
    assert "hugepagesz" not in str(caught.value)


ONE = {"pools": [{"size": "1GiB", "pages": 1}, {"pages": 4}], "mount": True}
GIANT, USUAL = "hugepages:mount/1048576kB", "hugepages:mount/2048kB"


@pytest.mark.parametrize(
    ("mounted", "lacking"),
    [
        ("", [USUAL, GIANT]),
        ("hugetlbfs /dev/hugepages hugetlbfs rw,pagesize=2M 0 0", [GIANT]),
        ("none /mnt/giant hugetlbfs rw,pagesize=1024M 0 0", [USUAL]),
        ("hugetlbfs /dev/hugepages-1GiB hugetlbfs rw,pagesize=1024M 0 0", [USUAL, GIANT]),
    ],
)
def test_what_nobody_has_mounted_is_mounted(machine: Machine, mounted: str, lacking: list[str]) -> None:
    """Ours too: what is wanted is the same before and after."""
    machine.tree.put("/proc/self/mounts", mounted)
    dummy, mounts = hugepages_knob.build_knobs(Host(machine.fs), ONE)
    assert list(mounts.wanted_settings()) == lacking
    ours = mounts.read_settings([GIANT])[GIANT]
    assert ours == ("/dev/hugepages-1GiB" if "hugepages-1GiB" in mounted else None)


def test_a_mount_stays_while_its_pages_are_in_use(machine: Machine) -> None:
    dummy, mounts = hugepages_knob.build_knobs(Host(machine.fs), ONE)
    machine.tree.put("/proc/self/mounts", "none /dev/hugepages-2MiB hugetlbfs rw,pagesize=2M 0 0")
    assert mounts.unrestorable_reasons({USUAL: None}) == {
        USUAL: "8 pages of 2 MiB are in use, by files there or by programs; stop these first"
    }
    assert mounts.unrestorable_reasons({GIANT: None}) == {}


def test_a_mount_in_words() -> None:
    assert hugepages_knob.describe_setting("mount/1048576kB") == ("mount for huge pages of 1 GiB", "", None)
