# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans an instance beside others: those that end before it starts, those that start before it, and those that stay."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from ..._errors import BadRequest
from ..._kernel import numa_maps
from ..._kernel.cgroups import list_processes
from ..._kernel.hugepages import default_page_kb
from ..._knobs.managed_units import show
from ..._models import model as gguf_model
from ..._notation.cpulist import format_cpulist
from ..hooks import keys
from ..options.unit_names import rpc_unit_of, unit_of
from ..plan import free_memory as memory_plan
from ..plan import planner
from . import corpus
from .pending import model_files
from .refusals import identity, refuse_one_file_in_two_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from ..._host.host import Host
    from ..._models.model import Model
    from ..options.options import Options
    from ..plan.free_memory import FreeMemory
    from ..plan.instance_plan import Service
    from ..plan.placement import Capabilities

    #: Bytes by node, and huge pages by node and size in kB.
    Held = tuple[dict[int, int], dict[tuple[int, int], int]]

#: Options that name a file which is no model; the server starts anew when it changes.
OTHER_FILES = ("chat_template", "suffix_corpus")


def plan_beside(
    host: Host,
    options: Options,
    server: Capabilities,
    held: Sequence[Held],
    before: Sequence[Service],
    staying: Sequence[Mapping[str, Any]] = (),
) -> Service:
    """Plan an instance in what the host has left: ``held`` is free before it starts, ``before`` are planned already.

    ``staying`` are the plans of units that are on the host and are not asked for.
    """
    model, *more = [gguf_model.read(path) for path in options.paths]
    draft = gguf_model.read(options.draft_model) if options.drafts and options.draft_model else None
    projector = gguf_model.read(options.projector) if options.projector else None
    adapters = [gguf_model.read(path) for path in options.adapters]
    weights = [one for one in (model, draft, *more) if one]
    free = memory_plan.read_free_memory(host, options, weights)
    for memory, pages in held:
        free.release(memory, pages)
    for other in before:
        _reserve(free, other)
    if options.hugepages == "none" and not options.lock:
        _share(free, weights, before)
    service = planner.plan_service(options, host, server, model, draft, free, projector, adapters, more)
    service.files.update(_read_other_files(options))
    others = [(other.name, other.expect, other.mapped) for other in before]
    for seat in [*others, *((other["name"], other["expect"], other["mapped"]) for other in staying)]:
        refuse_one_file_in_two_places((service.name, service.expect, service.mapped), seat)
    for other in before:
        shared = set(service.placement.busy_cpus) & set(other.placement.busy_cpus)
        if shared:
            service.remarks.append(
                f"CPUs {format_cpulist(shared)} compute for {other.name} and for {options.name}: each is slower while "
                "the other works. Say with cpus which ones each shall have."
            )
    return service


def refuse_damaged_files(options: Options, pending: Collection[str]) -> None:
    """Raise BadRequest for a file of an instance that is no model or cannot be read; those that are pending may be."""
    for path in model_files(options):
        if path not in pending:
            gguf_model.read(path)
    _read_other_files(options)
    if options.api_key_file:
        keys.read_keys(options.api_key_file)


def _read_other_files(options: Options) -> dict[str, list[int]]:
    """Return size and time of each file that is no model, by its path; BadRequest for one that cannot be used."""
    paths = {option: getattr(options, option) for option in OTHER_FILES}
    files = {path: _file(option, path) for option, path in paths.items() if path}
    if options.suffix_corpus:
        corpus.refuse(options.suffix_corpus)
    return files


def _file(option: str, path: str) -> list[int]:
    """Return the size of a file, and the time of its last change in nanoseconds."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise BadRequest(f"{option}: {path} cannot be read ({error.strerror}). Bring it to the host first.") from None
    if not found.st_size or not stat.S_ISREG(found.st_mode):
        raise BadRequest(f"{option}: {path} is no file with something in it.")
    return [found.st_size, found.st_mtime_ns]


def running(names: Sequence[str]) -> list[str]:
    """Return which of these instances run."""
    shown = show([unit_of(name) for name in names]) if names else {}
    return [name for name in names if shown.get(unit_of(name), {}).get("ActiveState") == "active"]


def held_by(host: Host, name: str) -> Iterator[Held]:
    """Yield what the processes of a running instance hold, its draft's too: they end before the new one starts."""
    yield from _held_by_unit(host, unit_of(name))
    # Only few have one.
    with suppress(BadRequest):
        yield from _held_by_unit(host, rpc_unit_of(name))


def _held_by_unit(host: Host, unit: str) -> Iterator[Held]:
    """Yield what each process of a unit holds."""
    default_kb = default_page_kb(host.fs)
    for process in list_processes(host.fs, unit):
        anonymous = (numa_maps.read_process_memory(host.fs, process, ()).kinds or {}).get("anonymous")
        if anonymous is None:
            continue
        huge = sum(size for kb, size in anonymous.page_sizes.items() if kb >= default_kb)
        share = 1 - huge / anonymous.bytes if anonymous.bytes else 0
        nodes = anonymous.nodes.items()
        yield (
            {node: int(size * share) for node, size in nodes},
            {(node, default_kb): int(size * (1 - share)) // (default_kb << 10) for node, size in nodes},
        )


def _share(free: FreeMemory, models: Sequence[Model], before: Sequence[Service]) -> None:
    """Count as free the weights that an instance maps which is planned already: those files are in memory once."""
    sizes = {identity(part.path): part.data for one in models for part in one.parts}
    for other in before:
        nodes = other.placement.nodes
        shared = sum(sizes.get(identity(path), 0) for path in other.mapped)
        free.release(dict.fromkeys(nodes, shared // len(nodes)), {})


def _reserve(free: FreeMemory, service: Service) -> None:
    """Count as taken what an instance will hold that starts before this one, evenly on its nodes."""
    nodes, need, kb = service.placement.nodes, service.need, free.default_kb
    memory, huge = need.total, 0
    if service.rpc:
        free.take(service.rpc.need.total, service.rpc.placement.nodes)
    if service.options.hugepages == "pool":
        memory, huge = 0, need.total
    elif service.staged:
        # What lies there already is not free any more.
        memory = need.total - need.weights
        huge = sum(os.path.getsize(source) for source, path in service.staged.items() if not os.path.exists(path))
        kb = free.hugetlbfs_kb or kb
    free.take(memory, nodes, memory_plan.pages_for(huge // len(nodes), kb), kb)
