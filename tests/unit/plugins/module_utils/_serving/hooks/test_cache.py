# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where files lie in the page cache, on the kernel below: what it caches, tells and drops is real.

It may have one node only. That another one was wanted is then what is told; tests/lab has a machine of four.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import hugepages, memory_calls, page_cache
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import cache
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks.cache import CacheSample

MIB = 1 << 20
PAGE = 4096
#: Maps half of a file until its input ends.
MAPS = """
import mmap, sys
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 4 << 20, access=mmap.ACCESS_READ) as memory:
    sum(memory[at] for at in range(0, len(memory), 4096))
    print("mapped", flush=True)
    sys.stdin.read()
"""
TMPFS = "its pages are its disk, and cannot be dropped"


@pytest.fixture
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 8 MiB and a bit, all of it in the page cache."""
    file = tmp_path_factory.mktemp("disk") / "model.gguf"
    file.write_bytes(os.urandom(8 * MIB + 5))
    if any(f" {mount} tmpfs " in Path("/proc/self/mounts").read_text() for mount in file.parents):
        pytest.fail(f"{file} is on a tmpfs: {TMPFS}. Say with --basetemp where a disk is.")
    return file


def here(file: Path) -> int:
    """The node that all of the file lies on."""
    (node,) = cache.sample_page_cache(str(file)).pages_by_node
    return node


def forget(file: Path) -> None:
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_a_file_that_is_cached(file: Path) -> None:
    cached = cache.sample_page_cache(str(file))
    assert (cached.sampled_pages, cached.cached_pages) == (2049, 2049)
    assert sum(cached.pages_by_node.values()) == 2049


def test_a_file_that_is_not_cached_is_not_read(file: Path) -> None:
    forget(file)
    for dummy in range(2):  # A look that would read it would see it the second time.
        assert cache.sample_page_cache(str(file)).cached_pages == 0
    assert cache.evict_misplaced_file(str(file), "bind", [0]) == (
        f"{file} is not in the page cache, so it will be read under the policy (bind on nodes 0)."
    )


def test_a_part_that_is_cached(file: Path) -> None:
    forget(file)
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        os.pread(opened.fileno(), 4 * MIB, 0)
    assert 1000 <= cache.sample_page_cache(str(file)).cached_pages <= 1100


@pytest.mark.parametrize("policy", cache.POLICIES)
def test_a_file_in_its_place_stays(file: Path, policy: str) -> None:
    node = here(file)
    assert cache.evict_misplaced_file(str(file), policy, [node]) == (
        f"{file}: 100 % of it is in the page cache, of that node {node} 100 %, as the policy wants it ({policy} on "
        f"nodes {node})."
    )
    assert cache.sample_page_cache(str(file)).cached_pages == 2049


@pytest.mark.parametrize("policy", cache.POLICIES)
def test_a_file_that_lies_elsewhere_is_dropped(file: Path, policy: str) -> None:
    """What was written just now is not on the disk yet, and goes all the same."""
    node = here(file)
    assert cache.evict_misplaced_file(str(file), policy, [node + 1]) == (
        f"{file}: 100 % of it is in the page cache, of that node {node} 100 %, but the policy wants {policy} on nodes "
        f"{node + 1}: dropped, it will be read again."
    )
    assert cache.sample_page_cache(str(file)).cached_pages == 0


def test_pages_that_somebody_maps_stay(file: Path) -> None:
    node = here(file)
    with subprocess.Popen([sys.executable, "-c", MAPS, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout and user.stdout.readline() == b"mapped\n"
        said = cache.evict_misplaced_file(str(file), "bind", [node + 1])
    stays, dummy, users = said.partition("dropped, except for ")[2].partition(" % that stay")
    assert 49 <= int(stays) <= 52
    assert f"process {user.pid} (" in users
    assert "dropped, it will" in cache.evict_misplaced_file(str(file), "bind", [node + 1])


def test_a_stranger_is_told_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel would tell him that all is cached, and the look would read what is not."""
    monkeypatch.setattr(cache.os, "geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(cache.os, "access", lambda *dummy: False)
    with pytest.raises(
        TuningError, match=r"only root, and users who may write .* In a unit, begin the line with '\+'\."
    ):
        cache.sample_page_cache(str(file))


def test_an_empty_file_and_none(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert "is not in the page cache" in cache.evict_misplaced_file(str(tmp_path / "empty"), "bind", [0])
    with pytest.raises(TuningError, match="cannot be read: No such file or directory"):
        cache.evict_misplaced_file(str(tmp_path / "none"), "bind", [0])


def test_the_command_places_all_files_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [tmp_path / f"model-0000{number}-of-00002.gguf" for number in (1, 2)]
    for part in parts:
        part.write_bytes(bytes(PAGE))
    assert _cli.main(["llama", "place", str(parts[0]), "--policy", "local", "--nodes", "all"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == list(map(str, parts))


@pytest.mark.parametrize(
    ("found", "policy", "nodes", "elsewhere"),
    [
        ({0: 100}, "bind", [0], 0),
        ({0: 100}, "bind", [1], 1),
        ({0: 75, 1: 25}, "bind", [0], 0.25),
        ({0: 75, 1: 25}, "local", [0, 1], 0),
        ({0: 75, 1: 25}, "bind", [0, 1], 0),
        ({0: 50, 1: 50}, "interleave", [0, 1], 0),
        ({0: 75, 1: 25}, "interleave", [0, 1], 0.25),
        ({0: 100}, "interleave", [0, 1, 2, 3], 0.75),
        ({0: 25, 1: 25, 2: 50}, "interleave", [0, 1], 0.5),
        ({}, "interleave", [0, 1], 0),
    ],
)
def test_how_much_lies_elsewhere(found: dict[int, int], policy: str, nodes: list[int], elsewhere: float) -> None:
    assert CacheSample(100, found).compute_misplaced_share(policy, nodes) == pytest.approx(elsewhere)


@pytest.mark.parametrize(("count", "least"), [(1, 1), (4096, 4096), (4097, 3000), (10_000_000, 4096)])
def test_no_more_is_looked_at_than_tells(count: int, least: int) -> None:
    pages = cache.choose_sample_pages(count)
    assert least <= len(pages) <= 4096 and pages == sorted(set(pages))
    assert pages[0] >= 0 and pages[-1] < count


@pytest.mark.parametrize("nodes", [2, 4, 8, 12])
@pytest.mark.parametrize("together", [1, 4, 16, 512])
def test_a_sample_is_fair_to_pages_that_were_dealt_out(nodes: int, together: int) -> None:
    """The stride of the sample may be a multiple of the rhythm in which the kernel deals out pages, or folios."""
    for count in (4096 * nodes * together, 4096 * nodes * 7, 10_485_760):
        dealt: dict[int, int] = {}
        for page in cache.choose_sample_pages(count):
            node = page // together % nodes
            dealt[node] = dealt.get(node, 0) + 1
        assert CacheSample(4096, dealt).compute_misplaced_share("interleave", range(nodes)) < cache.TOLERATED_SHARE / 2


class NodeFS(KernelFS):
    """A host of two nodes whose kernel reclaims on request: what is asked for, or EAGAIN where that is too much."""

    def __init__(self, root: Path, reclaims: bool = True) -> None:
        super().__init__(str(root))
        self.nodes = {0: {"free": 100, "cached": 9000, "mapped": 1000}, 1: {"free": 6000, "cached": 9000, "mapped": 0}}
        self.reclaims = reclaims
        self.asked: list[tuple[str, str]] = []

    def read_if_present(self, path: str) -> str | None:
        if path == "/proc/zoneinfo":
            return "".join(f"Node {node}, zone Normal\n  pages free 9\n low {MIB // PAGE}\n" for node in self.nodes)
        node = self.nodes[int(path.split("/node/node")[1].partition("/")[0])]
        fields = {"MemTotal:": 16000, "MemFree:": node["free"], "Active(file):": 0, "Inactive(file):": node["cached"]}
        fields |= {"Mapped:": node["mapped"], "Dirty:": 0, "Writeback:": 0}
        return " ".join(f"Node 0 {name} {mib << 10} kB" for name, mib in fields.items())

    def read_status(self, path: str) -> os.stat_result | None:
        return os.stat("/") if self.reclaims else None

    def write(self, path: str, text: str) -> None:
        self.asked.append((path, text))
        node = self.nodes[int(path.split("/node/node")[1].partition("/")[0])]
        mib = -(-int(text.split()[0]) // MIB)
        if mib > node["cached"] - node["mapped"]:
            raise Refused("Cannot write: Resource temporarily unavailable.", 11, path)
        node["free"] += mib
        node["cached"] -= mib


def test_page_cache_is_dropped_on_the_node_without_room_only(tmp_path: Path) -> None:
    fs = NodeFS(tmp_path)
    lines = cache.make_room_on_nodes(fs, 10000 * MIB, [0, 1], [])
    assert {path for path, _text in fs.asked} == {"/sys/devices/system/node/node0/reclaim"}
    assert all(text.endswith(" swappiness=0") for _path, text in fs.asked)
    assert sum(int(text.split()[0]) for _path, text in fs.asked) == (5000 + 1 - 100) * MIB
    assert lines == [
        "Node 0 has 5001 MiB free, and 5000 MiB are needed there: 4901 MiB of page cache were dropped.",
        "Node 1 has 6000 MiB free, and 5000 MiB are needed there.",
    ]


def test_pages_in_use_stay_and_are_told(tmp_path: Path) -> None:
    fs = NodeFS(tmp_path)
    lines = cache.make_room_on_nodes(fs, 24000 * MIB, [0, 1], [])
    # An eighth and more of the page cache is mapped, and a part of it is always kept.
    assert fs.nodes[0]["free"] == 100 + 9000 - 1000 - 16000 // 64
    assert "The rest is in use, so pages will come from other nodes" in lines[0]


def test_pages_of_the_model_that_are_in_place_need_no_room(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "sample_page_cache", lambda path: CacheSample(100, {0: 100, 7: 5}))
    fs = NodeFS(tmp_path)
    (line, _other) = cache.make_room_on_nodes(fs, 208 * MIB, [0, 1], [str(file)])
    assert "96.0 MiB are needed there" in line
    assert fs.asked == []


def test_an_old_kernel_is_made_to_drop_it_by_filling_the_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = NodeFS(tmp_path, reclaims=False)
    started: list[tuple[int, int]] = []
    monkeypatch.setattr(
        page_cache, "_start_filling_process", lambda fs, node, wanted: started.append((node, wanted)) or os.getpid()
    )
    monkeypatch.setattr(page_cache.os, "waitpid", lambda process, flags: (process, 0))
    cache.make_room_on_nodes(fs, 10000 * MIB, [0, 1], [])
    assert started == [(0, 5001 * MIB)]


def test_memory_of_a_node_is_filled_in_steps_until_it_is_enough() -> None:
    node = hugepages.nodes_with_memory(KernelFS())[0]
    asked: list[int] = []
    memory_calls.fill_memory_of_node(node, 40 * MIB, lambda filled: asked.append(filled) or filled < 32 * MIB)
    assert asked == [0, 16 * MIB, 32 * MIB]
    with pytest.raises(TuningError, match="mbind to node 999"):
        memory_calls.fill_memory_of_node(999, MIB, lambda filled: True)


def test_the_command_makes_room(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["llama", "room", "0", "--nodes", "all", "--files", "[]"]) == 0
    assert "0 B are needed there" in capsys.readouterr().out
