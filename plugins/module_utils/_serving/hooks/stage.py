# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies a model to a hugetlbfs, so that a server that maps the copy gets huge pages without a setting of its own.

All pages are allocated before the first byte is copied (fallocate), under the memory policy of the process. A pool that
is too small is then an error, whereas a page fault would kill the process (SIGBUS). A file on a hugetlbfs consists of
whole pages, can only be written through a mapping, and is zero after the end of the model, which llama.cpp accepts. A
copy belongs to its model when size and time of the last change, which is copied too, are equal.

Source: Documentation/admin-guide/mm/hugetlbpage.rst and fs/hugetlbfs/inode.c of the Linux kernel.
"""

from __future__ import annotations

import mmap
import os
from contextlib import ExitStack, contextmanager, suppress

from ..._errors import Absent, BadRequest, NotApplied, TuningError
from ..._io.kernelfs import hold_file_lock
from ..._io.safe_open import OpenFolder, open_file, open_folder
from ..._kernel import memory_calls as page_memory
from ..._kernel.hugepages import read_free_and_reserved_pages, read_free_pages
from ..._kernel.numa_maps import EVEN, LARGEST_NUMA_MAPS, parse_numa_maps
from ..._notation.cpulist import format_cpulist
from ..._notation.gguf_parts import list_gguf_parts, unfinished_copy_path
from ..._notation.sizes import format_bytes_short, format_pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Optional

    from ..._io.kernelfs import KernelFS

    #: Kind and nodes of a memory policy; the kind is None where memory may come from any node.
    Policy = tuple[Optional[str], Sequence[int]]

ANY_NODE: Policy = (None, ())
CHUNK = 16 << 20
#: Another instance may be copying the same model; wait for its lock at most this many seconds.
LOCK_TIMEOUT = 3600.0


class FileCopy:
    """One file of a model, and its copy.

    The source is opened once, and the copy gets the owner and the mode of the opened file. Otherwise the owner of the
    folder could replace the file by a link to another file at any moment, and root would read that file.
    """

    def __init__(self, source: str, descriptor: int, folder: OpenFolder, page: int) -> None:
        self.source = source
        self.descriptor = descriptor
        self.folder = folder
        self.name = os.path.basename(source)
        self.temporary_name = unfinished_copy_path(self.name)
        self.source_status = os.fstat(descriptor)
        self.page_bytes = page
        self.pages = -(-self.source_status.st_size // page)
        self.size = self.pages * page
        if not self.size:
            raise BadRequest(f"{source} is empty: there is nothing to stage.")

    def status_of_existing_copy(self) -> os.stat_result | None:
        """Return the status of a file that already has the name of the copy; None where there is none."""
        return self.folder.file_status(self.name)

    def is_copy_up_to_date(self) -> bool:
        """Return whether the copy exists and is a copy of the present source."""
        status = self.status_of_existing_copy()
        wanted = (self.size, self.source_status.st_mtime_ns)
        return status is not None and (status.st_size, status.st_mtime_ns) == wanted


def stage_model(fs: KernelFS, path: str, folder: str, policy: Policy = ANY_NODE, replace: bool = False) -> str:
    """Copy a model with all its files and return a sentence on the result; does nothing when the copy is up to date.

    A complete new copy replaces an older one. With ``replace``, the older one is removed first when both do not fit.
    The last folder of the path is made when it is missing on the hugetlbfs.
    """
    try:
        _make_folder_of_instance(folder)
        page = page_memory.read_hugetlbfs_page_size(folder)
    except TuningError as error:
        raise BadRequest(f"{error} It must be a folder on a hugetlbfs.") from None
    if page is None:
        raise BadRequest(
            f"{folder} is not on a hugetlbfs. Mount one, for example with 'mount -t hugetlbfs -o pagesize=2M none "
            f"{folder}'."
        )
    with ExitStack() as stack:
        try:
            target = stack.enter_context(open_folder(folder))
        except OSError as error:
            raise TuningError(f"{folder} cannot be opened: {error.strerror}.") from None
        copies = [FileCopy(part, _open_source(part, stack), target, page) for part in list_gguf_parts(path)]
        stack.enter_context(hold_file_lock(folder, folder, LOCK_TIMEOUT))
        copies_to_make = [copy for copy in copies if not copy.is_copy_up_to_date()]
        if not copies_to_make:
            return f"{path} is staged in {folder} already."
        for copy in copies_to_make:
            with suppress(FileNotFoundError):
                target.remove_file(copy.temporary_name)  # left by a run that was killed
        _require_or_make_space_for_copies(fs, copies_to_make, page, policy, replace)
        nodes: dict[int, int] = {}
        for copy in copies_to_make:
            for node, count in _make_checked_copy(fs, copy, policy).items():
                nodes[node] = nodes.get(node, 0) + count
    shares = ", ".join(f"node {node}: {count}" for node, count in sorted(nodes.items()))
    count = sum(copy.pages for copy in copies_to_make)
    size = sum(copy.source_status.st_size for copy in copies_to_make)
    nodes_text = f" ({shares})" if shares else ""
    return f"{path} is staged in {folder}: {format_bytes_short(size)} in {format_pages(count, page >> 10)}{nodes_text}."


def _make_folder_of_instance(folder: str) -> None:
    """Make the folder of an instance when it is missing: a hugetlbfs is empty after each boot."""
    parent = os.path.dirname(folder.rstrip("/"))
    if os.path.exists(folder) or page_memory.read_hugetlbfs_page_size(parent) is None:
        return
    try:
        with open_folder(folder, make=True) as new_folder:
            # The user of the unit must reach the copy, whatever the umask is.
            os.fchmod(new_folder.descriptor, 0o755)
    except OSError as error:
        raise TuningError(f"{folder} cannot be made: {error.strerror}.") from None


def _open_source(path: str, stack: ExitStack) -> int:
    try:
        descriptor = open_file(path)
    except OSError as error:
        raise BadRequest(f"{path} cannot be staged: {error.strerror}.") from None
    stack.callback(os.close, descriptor)
    return descriptor


def _require_or_make_space_for_copies(
    fs: KernelFS, copies_to_make: Sequence[FileCopy], page_bytes: int, policy: Policy, replace: bool
) -> None:
    """Raise BadRequest for a copy that does not fit; with ``replace``, remove the older copy first if necessary."""
    needed_pages = sum(copy.pages for copy in copies_to_make)
    shortage = huge_page_shortage_message(fs, needed_pages, page_bytes >> 10, policy)
    older = [copy for copy in copies_to_make if copy.status_of_existing_copy()]
    if shortage and older and replace:
        for copy in older:
            copy.folder.remove_file(copy.name)
        shortage, older = huge_page_shortage_message(fs, needed_pages, page_bytes >> 10, policy), []
    if not shortage:
        return
    advice = "Enlarge the pool (module sovereign.epyc.hugepages)"
    if older:
        advice += ", or give --replace to remove the older copy first when no process uses it"
    raise BadRequest(
        f"{copies_to_make[0].source} needs {format_pages(needed_pages, page_bytes >> 10)}, and {shortage}. {advice}. "
        "A copy that a process still maps keeps its pages even after it was removed."
    )


def huge_page_shortage_message(fs: KernelFS, needed_pages: int, page_kb: int, policy: Policy) -> str:
    """Return how many pages are missing on which nodes; "" when there are enough."""
    kind, nodes = policy
    free, reserved = read_free_and_reserved_pages(fs, page_kb)
    shortages = []
    if needed_pages > free - reserved:
        shortages.append(
            f"{needed_pages - (free - reserved)} of them are missing in the pool, {free - reserved} are free"
        )
    free_by_node = {node: read_free_pages(fs, node, page_kb) for node in nodes}
    if kind == "bind" and needed_pages > sum(free_by_node.values()):
        shortages.append(
            f"{needed_pages - sum(free_by_node.values())} of them are missing on nodes {format_cpulist(nodes)}"
        )
    if kind == "interleave":
        each = -(-needed_pages // len(nodes))
        shortages += [
            f"{each - count} of them are missing on node {node}" for node, count in free_by_node.items() if count < each
        ]
    return "; ".join(shortages)


def _make_checked_copy(fs: KernelFS, copy: FileCopy, policy: Policy) -> dict[int, int]:
    """Make one copy under a temporary name, check its nodes, and rename it. Return its pages by node."""
    with _create_temporary_file(copy) as fd:
        os.ftruncate(fd, copy.size)
        try:
            with page_memory.memory_policy_in_block(*policy):
                os.posix_fallocate(fd, 0, copy.size)
        except OSError as error:
            raise TuningError(
                f"{copy.source} cannot be staged: {os.strerror(error.errno or 0)}. Another process took pages "
                "of the pool at this moment, or the hugetlbfs was mounted with a size limit."
            ) from None
        with mmap.mmap(fd, copy.size) as memory:
            _copy_contents(copy, memory)
            nodes = _count_copy_pages_by_node(fs, copy)
        _require_pages_on_policy_nodes(copy, policy, nodes)
        os.fchown(fd, copy.source_status.st_uid, copy.source_status.st_gid)
        os.fchmod(fd, copy.source_status.st_mode & 0o777)
        os.utime(fd, ns=(copy.source_status.st_atime_ns, copy.source_status.st_mtime_ns))
        copy.folder.rename_file(copy.temporary_name, copy.name)
    return nodes


@contextmanager
def _create_temporary_file(copy: FileCopy) -> Iterator[int]:
    """Open the copy under its temporary name; after an error, remove the copy, which frees its pages."""
    try:
        fd = copy.folder.create_file(copy.temporary_name)
    except OSError as error:
        raise TuningError(f"{copy.folder.path}/{copy.temporary_name} cannot be made: {error.strerror}.") from None
    try:
        yield fd
    except BaseException:
        with suppress(FileNotFoundError):
            copy.folder.remove_file(copy.temporary_name)
        raise
    finally:
        os.close(fd)


def _copy_contents(copy: FileCopy, memory: mmap.mmap) -> None:
    """Read the source into the mapping, and evict its pages from the page cache, which needs the same memory."""
    offset = 0
    with memoryview(memory) as view:
        while offset < copy.source_status.st_size:
            count = os.readv(copy.descriptor, [view[offset : min(offset + CHUNK, copy.source_status.st_size)]])
            if not count:
                raise TuningError(f"{copy.source} became shorter while it was staged. Stage it when it is complete.")
            os.posix_fadvise(copy.descriptor, offset, count, os.POSIX_FADV_DONTNEED)
            offset += count
    now = os.fstat(copy.descriptor)
    if (now.st_size, now.st_mtime_ns) != (copy.source_status.st_size, copy.source_status.st_mtime_ns):
        raise TuningError(f"{copy.source} changed while it was staged. Stage it when no process writes to it.")


def _count_copy_pages_by_node(fs: KernelFS, copy: FileCopy) -> dict[int, int]:
    try:
        maps = fs.read("/proc/self/numa_maps", LARGEST_NUMA_MAPS)
    except Absent:
        return {}
    temporary_path = os.path.join(os.path.realpath(copy.folder.path), copy.temporary_name)
    weights = parse_numa_maps(maps, lambda path: path == temporary_path)["weights"]
    return {node: size // copy.page_bytes for node, size in weights.nodes.items()}


def _require_pages_on_policy_nodes(copy: FileCopy, policy: Policy, pages_by_node: dict[int, int]) -> None:
    """Raise NotApplied for a copy on wrong nodes: the kernel silently takes a page of another node for a
    missing one.
    """
    kind, nodes = policy
    if kind is None or not pages_by_node:
        return
    misplaced = sum(count for node, count in pages_by_node.items() if node not in nodes)
    least = copy.pages // len(nodes) * EVEN if kind == "interleave" else 0
    if misplaced or any(pages_by_node.get(node, 0) < least for node in nodes):
        shares = ", ".join(f"node {node}: {count}" for node, count in sorted(pages_by_node.items()))
        raise NotApplied(
            f"{copy.source} was not staged as {kind} on nodes {format_cpulist(nodes)} wants it: {shares}. The copy is "
            "removed."
        )
