# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which node reads which bytes of a model's weights, and on which node these bytes lie.

llama-server with --numa distribute and without repacked weights cuts each matrix into one slice of rows for each
thread, the same slices for every token, and thread i runs on node i modulo the number of nodes. Of the matrices of
experts, which are one tensor, each is cut by itself. A page on the border of two slices has one node only, so that not
quite all bytes can be local; how many can is computed here too.
Source: ggml_compute_forward_mul_mat, ggml_compute_forward_mul_mat_id and set_numa_thread_affinity in ggml-cpu.c of
llama.cpp, read in build 11434.
"""

from __future__ import annotations

from .._kernel import page_cache
from .._kernel.hugepages import SMALL
from .._notation.gguf_parts import list_gguf_parts
from .gguf import read_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .gguf import Part, Tensor

#: Tensors of which a row is looked up for each token, so that no thread has a slice of its own; the first is a matrix
#: too where the model has no other at its end.
LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")
LAST = "output.weight"
#: A slice of fewer bytes has much of it on the pages of its borders, so that its tensor is not judged.
LARGE = 16 * SMALL
#: How many pages of a tensor are looked at.
SAMPLE = 64
#: Of the bytes that can be local, the share that must be.
ENOUGH = 0.98


class Matrix:
    """One tensor of a file, cut for this many threads on this many nodes; ``begin`` and ``end`` are bytes of the file.

    ``slice`` is the size of a slice in bytes, but for the last one of a matrix, which may be smaller.
    """

    __slots__ = ("_matrix", "_nodes", "begin", "end", "name", "slice")

    def __init__(self, tensor: Tensor, begin: int, threads: int, nodes: int) -> None:
        self.name = tensor.name
        self.begin = begin + tensor.offset
        self.end = self.begin + tensor.bytes
        self._nodes = nodes
        self._matrix = tensor.bytes // tensor.matrices
        self.slice = -(-tensor.rows // threads) * (self._matrix // tensor.rows)

    def reader(self, at: int) -> tuple[int, int]:
        """Return the node that reads this byte, and where the slice of it ends."""
        number, inside = divmod(at - self.begin, self._matrix)
        thread = inside // self.slice
        end = min((thread + 1) * self.slice, self._matrix)
        return thread % self._nodes, self.begin + number * self._matrix + end

    def readers(self, begin: int, end: int) -> dict[int, int]:
        """Return by node how many bytes of this part of the file it reads."""
        found: dict[int, int] = {}
        at, end = max(begin, self.begin), min(end, self.end)
        while at < end:
            node, stop = self.reader(at)
            stop = min(stop, end)
            found[node] = found.get(node, 0) + stop - at
            at = stop
        return found

    def pages(self) -> Iterator[tuple[int, int, int]]:
        """Yield node, first page and page after the last for each slice; a page goes to who reads more of it."""
        at = self.begin
        while at < self.end:
            node, stop = self.reader(at)
            first, end = _nearest(at), _nearest(stop)
            if first < end:
                yield node, first, end
            at = stop

    def sample(self) -> list[int]:
        """Return some pages that lie in this tensor as a whole, evenly over it, or all of them when they are few."""
        first, end = -(-self.begin // SMALL), self.end // SMALL
        count = min(SAMPLE, end - first)
        # A multiple of an even step would look at the same place of each slice.
        return sorted({first + int((at + at * page_cache.GOLDEN % 1) * (end - first) / count) for at in range(count)})


def _nearest(at: int) -> int:
    return (at + SMALL // 2) // SMALL


class Local:
    """How many bytes of some pages lie on the node that reads them, and how many can; ``looked`` counts all pages.

    Pages that are not in memory have no node: they are counted in ``looked`` only.
    """

    __slots__ = ("bytes", "cached", "looked", "possible", "whole")

    def __init__(self) -> None:
        self.looked = self.cached = self.bytes = self.possible = self.whole = 0

    def add(self, matrix: Matrix, page: int, node: int | None) -> None:
        """Count one page, which lies on this node; None where it is not in memory."""
        self.looked += 1
        if node is not None:
            readers = matrix.readers(page * SMALL, (page + 1) * SMALL)
            self.cached += 1
            self.bytes += readers.get(node, 0)
            self.possible += max(readers.values())
            self.whole += sum(readers.values())

    @property
    def right(self) -> bool:
        """Whether enough of what can be local is so, of the pages that are in memory."""
        return self.bytes >= ENOUGH * self.possible

    @property
    def complete(self) -> bool:
        """Whether all pages that were looked at are in memory and enough of them are local."""
        return self.cached == self.looked and self.right

    @property
    def percent(self) -> float:
        """The local bytes of those in memory."""
        return 100 * self.bytes / self.whole if self.whole else 0.0

    @property
    def best(self) -> float:
        """How many of them can be local, in percent."""
        return 100 * self.possible / self.whole if self.whole else 0.0

    @property
    def present(self) -> float:
        """The pages in memory, in percent of those that were looked at."""
        return 100 * self.cached / self.looked if self.looked else 0.0


class Locality:
    """The large tensors of a model by name, and all of them together."""

    def __init__(self) -> None:
        self.all = Local()
        self.by_tensor: dict[str, Local] = {}

    @property
    def right(self) -> bool:
        """Whether each of them is where it can be."""
        return all(local.right for local in self.by_tensor.values())

    def to_dict(self) -> dict[str, object]:
        """Return plain data, in percent."""
        return {
            "local": round(self.all.percent, 1),
            "possible": round(self.all.best, 1),
            "in_memory": round(self.all.present, 1),
            "tensors": len(self.by_tensor),
        }

    def __str__(self) -> str:
        text = (
            f"{self.all.percent:.1f} % of {len(self.by_tensor)} large tensors lie on the node of the thread that reads "
            f"them ({self.all.best:.1f} % can, with pages of 4 KiB)"
        )
        wrong = [name for name, local in self.by_tensor.items() if not local.right]
        if wrong:
            worst = min(wrong, key=lambda name: self.by_tensor[name].percent)
            text += f"; {len(wrong)} of them lie elsewhere, {worst} with {self.by_tensor[worst].percent:.1f} %"
        if self.all.cached < self.all.looked:
            text += f"; {100 - self.all.present:.1f} % are not in memory"
        return text


def matrices(part: Part, threads: int, nodes: int) -> list[Matrix]:
    """Return the matrices of a file in the order in which they lie there."""
    begin = part.size - part.data
    found = [tensor for tensor in part.tensors if tensor.known and tensor.bytes and tensor.rows > 1]
    return [Matrix(tensor, begin, threads, nodes) for tensor in sorted(found, key=lambda tensor: tensor.offset)]


def parts_at(path: str) -> list[Part]:
    """Read the headers of all files of a model."""
    return [read_part(file) for file in list_gguf_parts(path)]


def look(parts: Sequence[Part], threads: int, nodes: int) -> Locality:
    """Return where a sample of the large tensors of a model lies.

    Raises TuningError when a file cannot be read, or its place in memory not be seen, for which one must be root.
    """
    locality = Locality()
    tied = not any(tensor.name == LAST for part in parts for tensor in part.tensors)
    aside = LOOKED_UP[tied:]
    for part in parts:
        found = matrices(part, threads, nodes)
        large = [one for one in found if one.slice >= LARGE and one.name not in aside]
        samples = {one: one.sample() for one in large}
        places = page_cache.read_nodes_of_cached_pages(
            part.path, [page for pages in samples.values() for page in pages]
        )
        for one, pages in samples.items():
            local = locality.by_tensor.setdefault(one.name, Local())
            for page in pages:
                local.add(one, page, places.get(page))
                locality.all.add(one, page, places.get(page))
    return locality


def pages_by_node(found: Sequence[Matrix], nodes: int) -> list[list[tuple[int, int]]]:
    """Return for each node its pages, as first page and page after the last."""
    runs: list[list[tuple[int, int]]] = [[] for dummy in range(nodes)]
    for matrix in found:
        for node, first, end in matrix.pages():
            runs[node].append((first, end))
    return runs
