# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The memory of a process: bytes by node of the model's mapping and of anonymous memory, and huge pages.

Two files per process are read. For each, the kernel walks the page tables once; asking for single pages would need a
hundred million calls for a model of hundreds of gigabytes. Huge pages shorten the walk.
Source: Documentation/filesystems/proc.rst and show_numa_map() in fs/proc/task_mmu.c of the Linux kernel.
"""

from __future__ import annotations

from .._errors import Absent, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .._io.kernelfs import KernelFS

#: Larger than the file of a process with as many mappings as the kernel allows by default.
LARGEST_NUMA_MAPS = 16 << 20
#: The part of its even share of interleaved pages that a node must have. The kernel places them in turn, so only
#: small mappings and pages shared with other programs make a difference.
EVEN = 0.9
KINDS = ("weights", "anonymous", "other")
#: Names in the file column that are no files: huge pages from a pool, and shared anonymous memory.
NO_FILES = ("/anon_hugepage", "/dev/zero")
DELETED = " (deleted)"
#: Huge pages by kind, and the lines of smaps_rollup that count them.
HUGE = {
    "hugetlb": ("Private_Hugetlb", "Shared_Hugetlb"),
    "thp": ("AnonHugePages",),
    "thp_shmem": ("ShmemPmdMapped",),
    "thp_file": ("FilePmdMapped",),
}
OTHER_SIZES = {"resident": "Rss", "swapped": "Swap", "locked": "Locked"}


class MemoryKind:
    """One kind of memory of a process: bytes by node, bytes by page size, the files and the memory policies seen."""

    def __init__(self) -> None:
        self.nodes: dict[int, int] = {}
        self.page_sizes: dict[int, int] = {}
        self.files: list[str] = []
        self.policies: list[str] = []

    @property
    def bytes(self) -> int:
        """The sum of the bytes on all nodes."""
        return sum(self.nodes.values())

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON, with nodes and page sizes as texts."""
        return {
            "bytes": self.bytes,
            "nodes": {str(node): self.nodes[node] for node in sorted(self.nodes)},
            "page_sizes": {f"{kb}kB": self.page_sizes[kb] for kb in sorted(self.page_sizes)},
            "files": self.files,
            "policies": self.policies,
        }


class ProcessMemory:
    """The memory of a process; an attribute that could not be read is None, and ``missing`` has the reason."""

    def __init__(self, process: int) -> None:
        self.process = process
        self.kinds: dict[str, MemoryKind] | None = None
        self.huge: dict[str, int] | None = None
        self.sizes: dict[str, int] = {}
        self.missing: dict[str, str] = {}

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        kinds = {name: self.kinds[name].to_dict() if self.kinds else None for name in KINDS}
        return {"process": self.process, **kinds, "hugepages": self.huge, **self.sizes}


def read_process_memory(fs: KernelFS, process: int, model_paths: Iterable[str]) -> ProcessMemory:
    """Read the memory of a process; without paths of models, mapped files named .gguf count as its weights."""
    memory = ProcessMemory(process)
    models = frozenset(model_paths)

    def is_model(path: str) -> bool:
        path = path[: -len(DELETED)] if path.endswith(DELETED) else path
        return path in models if models else path.lower().endswith(".gguf")

    try:
        memory.kinds = parse_numa_maps(fs.read(f"/proc/{process}/numa_maps", LARGEST_NUMA_MAPS), is_model)
    except (Absent, Refused) as error:
        memory.missing["kinds"] = f"the nodes of the pages of process {process}: {error}{_unreadable_hint(error)}"
    try:
        table = parse_smaps_rollup(fs.read(f"/proc/{process}/smaps_rollup"))
        memory.huge = {kind: sum(table[line] for line in lines) for kind, lines in HUGE.items()}
        memory.sizes = {name: table[line] for name, line in OTHER_SIZES.items()}
    except (Absent, Refused) as error:
        memory.missing["huge"] = f"the huge pages of process {process}: {error}{_unreadable_hint(error)}"
    except KeyError as error:
        memory.missing["huge"] = f"the huge pages of process {process}: this kernel counts no {error.args[0]}."
    return memory


def _unreadable_hint(error: Absent | Refused) -> str:
    if isinstance(error, Refused):
        return " Only root may read it."
    return " The process has ended, or this kernel does not have the file."


def parse_numa_maps(text: str, is_model: Callable[[str], bool]) -> dict[str, MemoryKind]:
    """Return the kinds of memory in a numa_maps file, which has only pages that the process has touched.

    Each line has an address, a policy, and words such as file=PATH, N0=PAGES and kernelpagesize_kB=SIZE.
    """
    kinds = {name: MemoryKind() for name in KINDS}
    for line in text.splitlines():
        dummy, policy, *words = line.split(" ")
        values = dict(word.partition("=")[::2] for word in words)
        path = unescape_path(values.get("file", ""))
        if path and is_model(path):
            kind = kinds["weights"]
        elif not path or path.startswith(NO_FILES):
            kind = kinds["anonymous"]
        else:
            kind = kinds["other"]
        if kind is kinds["weights"] and path not in kind.files:
            kind.files.append(path)
        kb = int(values.get("kernelpagesize_kB", 0))
        counts = {int(key[1:]): int(n) for key, n in values.items() if key[:1] == "N" and key[1:].isdecimal()}
        for node, count in counts.items():
            size = count * kb * 1024
            kind.nodes[node] = kind.nodes.get(node, 0) + size
            kind.page_sizes[kb] = kind.page_sizes.get(kb, 0) + size
        if counts and policy not in kind.policies:
            kind.policies.append(policy)
    return kinds


def unescape_path(text: str) -> str:
    r"""Return a path without the kernel's escapes, such as \040 (backslash and three octal digits) for a blank."""
    first, *rest = text.split("\\")
    plain = first.encode()
    for part in rest:
        digits = part[:3]
        if len(digits) == 3 and set(digits) <= set("01234567"):
            plain += bytes([int(digits, 8) & 0xFF]) + part[3:].encode()
        else:
            plain += b"\\" + part.encode()
    return plain.decode("utf-8", "replace")


def parse_smaps_rollup(text: str) -> dict[str, int]:
    """Return the sizes in a smaps_rollup file: name -> bytes."""
    table = {}
    for line in text.splitlines():
        name, dummy, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB":
            table[name] = int(words[0]) * 1024
    return table
