# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which thread reads which rows, to which pages that comes, and what is said of pages that lie elsewhere.

That llama-server divides its work so is seen with the real one, in tests/lab/test_llama.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import page_cache
from ansible_collections.sovereign.epyc.plugins.module_utils._models import weight_locality
from ansible_collections.sovereign.epyc.plugins.module_utils._models.gguf import Tensor, read_file_header
from ansible_collections.sovereign.epyc.plugins.module_utils._models.weight_locality import MatrixSlices
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

PAGE = 4096
Q8_0 = 8
#: A row of 4096 weights of Q8_0.
ROW = 4096 // 32 * 34


def matrix(height: int, threads: int, nodes: int, experts: int = 1, begin: int = 0, row: int = ROW) -> MatrixSlices:
    shape = (4096, height, experts)
    return MatrixSlices(Tensor("weights", "Q8_0", 0, shape, row * height * experts), begin, threads, nodes)


def by_hand(one: MatrixSlices, height: int, threads: int, nodes: int, row: int = ROW) -> list[int]:
    """The node of each row, as llama.cpp counts: thread i has rows i * dr up to (i + 1) * dr."""
    dr = (height + threads - 1) // threads
    return [(number // dr) % nodes for number in range(height)]


@pytest.mark.parametrize(("height", "threads", "nodes"), [(64, 8, 4), (70, 8, 4), (5, 8, 4), (1024, 62, 2), (9, 4, 3)])
def test_each_row_has_the_node_of_its_thread(height: int, threads: int, nodes: int) -> None:
    one = matrix(height, threads, nodes, begin=96)
    assert [one.find_reading_node_and_slice_end(96 + number * ROW)[0] for number in range(height)] == by_hand(
        one, height, threads, nodes
    )
    assert one.find_reading_node_and_slice_end(96 + ROW - 1) == one.find_reading_node_and_slice_end(96)
    assert sum(one.bytes_by_reading_node(0, one.end).values()) == height * ROW


def test_each_expert_is_cut_by_itself() -> None:
    one = matrix(10, 4, 2, experts=3)
    nodes = [one.find_reading_node_and_slice_end(number * ROW)[0] for number in range(30)]
    assert nodes == [0, 0, 0, 1, 1, 1, 0, 0, 0, 1] * 3
    assert one.find_reading_node_and_slice_end(9 * ROW) == (1, 10 * ROW)  # its last slice ends with the matrix


def test_a_page_belongs_to_who_reads_more_of_it() -> None:
    one = matrix(64, 8, 4, begin=100)
    pages: dict[int, int] = {}
    for node, first, end in one.list_page_range_of_each_slice():
        for page in range(first, end):
            assert page not in pages
            pages[page] = node
    for page, node in list(pages.items())[1:-1]:
        readers = one.bytes_by_reading_node(page * PAGE, (page + 1) * PAGE)
        assert readers[node] == max(readers.values())
    assert set(pages) >= set(one.sample_pages_of_tensor())


def test_slices_smaller_than_a_page_leave_no_page_twice() -> None:
    one = matrix(64, 64, 4, row=272)
    pages = [page for dummy, first, end in one.list_page_range_of_each_slice() for page in range(first, end)]
    assert pages == sorted(set(pages)) and len(pages) == 64 * 272 // PAGE


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model with a table of tokens, one matrix of 1 MiB and a bit, one that is too small to be judged, and an end."""
    shapes = [
        ("token_embd.weight", 256),
        ("blk.0.ffn_up.weight", 256),
        ("blk.0.attn_k.weight", 8),
        ("output.weight", 512),
    ]
    tensors, end = [], 0
    for name, height in shapes:
        tensors.append(ggufs.tensor(name, (4096, height), Q8_0, end))
        end += height * ROW
    path = tmp_path / "model.gguf"
    path.write_bytes(ggufs.gguf([*ggufs.model(block_count=1)], tensors, end))
    return path


def lying(monkeypatch: pytest.MonkeyPatch, node_of: dict[int, int]) -> None:
    """Have the page cache say that these pages lie on these nodes."""
    monkeypatch.setattr(
        page_cache, "read_nodes_of_cached_pages", lambda dummy, pages: {p: node_of[p] for p in pages if p in node_of}
    )


def right(model: Path) -> dict[int, int]:
    found = weight_locality.list_page_ranges_by_node(
        weight_locality.slice_matrices_for_threads(read_file_header(str(model)), 8, 4), 4
    )
    return {page: node for node, runs in enumerate(found) for first, end in runs for page in range(first, end)}


def test_all_of_it_where_it_can_be(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lying(monkeypatch, right(model))
    found = weight_locality.measure_locality(weight_locality.read_headers_of_all_files(str(model)), 8, 4)
    assert list(found.by_tensor) == ["blk.0.ffn_up.weight", "output.weight"]
    assert (
        found.is_local_enough
        and found.all.is_in_memory_and_local
        and found.all.bytes == found.all.possible < found.all.whole
    )
    best = f"{found.all.local_percent:.1f} %"
    assert str(found) == (
        f"{best} of 2 large tensors lie on the node of the thread that reads them ({best} can, with pages of 4 KiB)"
    )


def test_one_tensor_that_lies_elsewhere_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = right(model)
    output = weight_locality.slice_matrices_for_threads(read_file_header(str(model)), 8, 4)[-1]
    places.update(dict.fromkeys(range(output.begin // PAGE + 1, output.end // PAGE), 0))
    lying(monkeypatch, places)
    found = weight_locality.measure_locality(weight_locality.read_headers_of_all_files(str(model)), 8, 4)
    assert not found.is_local_enough and not found.all.is_in_memory_and_local
    percent = found.by_tensor["output.weight"].local_percent
    assert 20 < percent < 30 and f"1 of them lie elsewhere, output.weight with {percent:.1f} %" in str(found)


def test_pages_that_are_not_in_memory_are_told_and_not_judged(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lying(monkeypatch, {page: node for page, node in right(model).items() if page % 2})
    found = weight_locality.measure_locality(weight_locality.read_headers_of_all_files(str(model)), 8, 4)
    assert found.is_local_enough and not found.all.is_in_memory_and_local
    assert "% are not in memory" in str(found)
    lying(monkeypatch, {})
    assert weight_locality.measure_locality(weight_locality.read_headers_of_all_files(str(model)), 8, 4).all.cached == 0


def test_a_table_that_is_the_end_too_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tied.gguf"
    tensors = [ggufs.tensor("token_embd.weight", (4096, 256), Q8_0, 0)]
    path.write_bytes(ggufs.gguf([*ggufs.model(block_count=1)], tensors, 256 * ROW))
    lying(monkeypatch, {})
    assert list(
        weight_locality.measure_locality(weight_locality.read_headers_of_all_files(str(path)), 8, 4).by_tensor
    ) == ["token_embd.weight"]


def test_every_thread_count_gives_each_node_its_share(model: Path) -> None:
    header = read_file_header(str(model))
    for threads in (4, 8, 12):
        ranges = weight_locality.list_page_ranges_by_node(
            weight_locality.slice_matrices_for_threads(header, threads, 4), 4
        )
        shares = [sum(end - first for first, end in pages) for pages in ranges]
        assert max(shares) < 1.1 * min(shares)
