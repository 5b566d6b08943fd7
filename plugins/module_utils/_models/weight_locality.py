# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Computes which NUMA node reads which bytes of a model's weights, and measures on which node these bytes are.

llama-server with --numa distribute and without repacked weights cuts each matrix into one slice of rows for each
thread, the same slices for every token, and thread i runs on node i modulo the number of nodes. Several matrices of
experts form one tensor, but each matrix is cut separately. A page on the border of two slices is on one node only, so
that not all bytes can be local. This file also computes how many bytes can be local.
Source: ggml_compute_forward_mul_mat, ggml_compute_forward_mul_mat_id and set_numa_thread_affinity in ggml-cpu.c of
llama.cpp, read in build 11434.
"""

from __future__ import annotations

from .._kernel import page_cache
from .._kernel.hugepages import SMALL
from .._notation.gguf_parts import list_gguf_parts
from .gguf import read_file_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .gguf import GgufFile, Tensor

#: Tensors in which the server looks up one row for each token, so that no thread has a slice. The first of these is
#: also cut into slices where the model has no separate output matrix.
LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")
OUTPUT_TENSOR = "output.weight"
#: Tensors with smaller slices get no verdict, because most bytes of such slices are on pages that two slices share.
LEAST_SLICE = 16 * SMALL
#: The number of pages in the sample of a tensor.
PAGES_PER_TENSOR = 64
#: A tensor counts as local if this share of the bytes that can be local is local.
LEAST_LOCAL_SHARE = 0.98


class MatrixSlices:
    """A tensor that is cut into slices for a number of threads and nodes.

    ``begin`` and ``end`` are offsets in the file, and ``slice`` is the size of a slice, all in bytes. The last slice of
    a matrix may be smaller.
    """

    __slots__ = ("_matrix", "_nodes", "begin", "end", "name", "slice")

    def __init__(self, tensor: Tensor, begin: int, threads: int, nodes: int) -> None:
        self.name = tensor.name
        self.begin = begin + tensor.offset
        self.end = self.begin + tensor.bytes
        self._nodes = nodes
        self._matrix = tensor.bytes // tensor.matrices
        self.slice = -(-tensor.rows // threads) * (self._matrix // tensor.rows)

    def find_reading_node_and_slice_end(self, offset: int) -> tuple[int, int]:
        """Return the node that reads the byte at an offset of the file, and the offset at which its slice ends."""
        number, inside = divmod(offset - self.begin, self._matrix)
        thread = inside // self.slice
        end = min((thread + 1) * self.slice, self._matrix)
        return thread % self._nodes, self.begin + number * self._matrix + end

    def bytes_by_reading_node(self, begin: int, end: int) -> dict[int, int]:
        """Return how many bytes each node reads between two offsets of the file, by node."""
        counts: dict[int, int] = {}
        at, end = max(begin, self.begin), min(end, self.end)
        while at < end:
            node, stop = self.find_reading_node_and_slice_end(at)
            stop = min(stop, end)
            counts[node] = counts.get(node, 0) + stop - at
            at = stop
        return counts

    def list_page_range_of_each_slice(self) -> Iterator[tuple[int, int, int]]:
        """Yield the node, the first page, and the page after the last of each slice.

        A page that two slices share belongs to the slice that has more bytes of the page.
        """
        at = self.begin
        while at < self.end:
            node, stop = self.find_reading_node_and_slice_end(at)
            first, end = _round_to_page(at), _round_to_page(stop)
            if first < end:
                yield node, first, end
            at = stop

    def sample_pages_of_tensor(self) -> list[int]:
        """Return an even sample of the pages that belong to this tensor only, or all such pages of a small tensor."""
        first, end = -(-self.begin // SMALL), self.end // SMALL
        count = min(PAGES_PER_TENSOR, end - first)
        # With equal steps, all pages could be at the same place of their slices, so steps vary by the golden ratio.
        return sorted({first + int((at + at * page_cache.GOLDEN % 1) * (end - first) / count) for at in range(count)})


def _round_to_page(offset: int) -> int:
    return (offset + SMALL // 2) // SMALL


class LocalBytes:
    """Counts of a sample of pages: ``bytes`` on the node that reads these bytes, and ``possible``, which can be there.

    ``looked`` is the number of pages, ``cached`` is the number of pages in memory, and ``whole`` their size in bytes.
    """

    __slots__ = ("bytes", "cached", "looked", "possible", "whole")

    def __init__(self) -> None:
        self.looked = self.cached = self.bytes = self.possible = self.whole = 0

    def count_page(self, matrix: MatrixSlices, page: int, node: int | None) -> None:
        """Count a page; ``node`` is the node of its memory, None for a page that is not in memory."""
        self.looked += 1
        if node is not None:
            readers = matrix.bytes_by_reading_node(page * SMALL, (page + 1) * SMALL)
            self.cached += 1
            self.bytes += readers.get(node, 0)
            self.possible += max(readers.values())
            self.whole += sum(readers.values())

    @property
    def is_local_enough(self) -> bool:
        """Whether LEAST_LOCAL_SHARE of the bytes that can be local are local, counting pages in memory only."""
        return self.bytes >= LEAST_LOCAL_SHARE * self.possible

    @property
    def is_in_memory_and_local(self) -> bool:
        """Whether all pages are in memory, and enough of their bytes are local."""
        return self.cached == self.looked and self.is_local_enough

    @property
    def local_percent(self) -> float:
        """The local bytes, in percent of the bytes in memory."""
        return 100 * self.bytes / self.whole if self.whole else 0.0

    @property
    def possibly_local_percent(self) -> float:
        """The bytes that can be local, in percent of the bytes in memory."""
        return 100 * self.possible / self.whole if self.whole else 0.0

    @property
    def cached_percent(self) -> float:
        """The pages in memory, in percent of all counted pages."""
        return 100 * self.cached / self.looked if self.looked else 0.0


class Locality:
    """The locality of the large tensors of a model, for each tensor by name and for all together."""

    def __init__(self) -> None:
        self.all = LocalBytes()
        self.by_tensor: dict[str, LocalBytes] = {}

    @property
    def is_local_enough(self) -> bool:
        """Whether each large tensor is on the nodes that read it, as far as the page size allows."""
        return all(local.is_local_enough for local in self.by_tensor.values())

    def to_dict(self) -> dict[str, object]:
        """Return the percentages for all tensors together as plain data, and the number of tensors."""
        return {
            "local": round(self.all.local_percent, 1),
            "possible": round(self.all.possibly_local_percent, 1),
            "in_memory": round(self.all.cached_percent, 1),
            "tensors": len(self.by_tensor),
        }

    def __str__(self) -> str:
        text = (
            f"{self.all.local_percent:.1f} % of {len(self.by_tensor)} large tensors lie on the node of the thread that "
            f"reads them ({self.all.possibly_local_percent:.1f} % can, with pages of 4 KiB)"
        )
        wrong = [name for name, local in self.by_tensor.items() if not local.is_local_enough]
        if wrong:
            worst = min(wrong, key=lambda name: self.by_tensor[name].local_percent)
            text += f"; {len(wrong)} of them lie elsewhere, {worst} with {self.by_tensor[worst].local_percent:.1f} %"
        if self.all.cached < self.all.looked:
            text += f"; {100 - self.all.cached_percent:.1f} % are not in memory"
        return text


def slice_matrices_for_threads(part: GgufFile, threads: int, nodes: int) -> list[MatrixSlices]:
    """Return the matrices of a GGUF file, cut into slices for the threads, in the order of the file."""
    begin = part.size - part.data_bytes
    tensors = [tensor for tensor in part.tensors if tensor.has_known_type and tensor.bytes and tensor.rows > 1]
    return [MatrixSlices(tensor, begin, threads, nodes) for tensor in sorted(tensors, key=lambda tensor: tensor.offset)]


def read_headers_of_all_files(path: str) -> list[GgufFile]:
    """Return the headers of all files of a model; ``path`` is one of the files."""
    return [read_file_header(file) for file in list_gguf_parts(path)]


def measure_locality(parts: Sequence[GgufFile], threads: int, nodes: int) -> Locality:
    """Return the locality of the large tensors of a model, measured with a sample of their pages.

    TuningError where a file cannot be read, or without the rights of root, which alone can see the nodes of pages.
    """
    locality = Locality()
    tied = not any(tensor.name == OUTPUT_TENSOR for part in parts for tensor in part.tensors)
    aside = LOOKED_UP[tied:]
    for part in parts:
        slices = slice_matrices_for_threads(part, threads, nodes)
        large = [matrix for matrix in slices if matrix.slice >= LEAST_SLICE and matrix.name not in aside]
        samples = {matrix: matrix.sample_pages_of_tensor() for matrix in large}
        places = page_cache.read_nodes_of_cached_pages(
            part.path, [page for pages in samples.values() for page in pages]
        )
        for matrix, pages in samples.items():
            local = locality.by_tensor.setdefault(matrix.name, LocalBytes())
            for page in pages:
                local.count_page(matrix, page, places.get(page))
                locality.all.count_page(matrix, page, places.get(page))
    return locality


def list_page_ranges_by_node(matrices: Sequence[MatrixSlices], nodes: int) -> list[list[tuple[int, int]]]:
    """Return, for each node, the ranges of pages that the node reads, as first page and page after the last."""
    runs: list[list[tuple[int, int]]] = [[] for dummy in range(nodes)]
    for matrix in matrices:
        for node, first, end in matrix.list_page_range_of_each_slice():
            runs[node].append((first, end))
    return runs
