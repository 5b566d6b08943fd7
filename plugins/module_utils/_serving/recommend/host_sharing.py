# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Assigns parts of a host to several instances: first models to sockets, then parts of each socket to its models.

A socket is divided into its nodes where there are enough nodes, or else into CCDs, or else into cores. So no instance
reads memory over the link between sockets, unless its model is larger than the memory of each socket, no CCD is cut
while there are enough of them, and no core works for two instances.
"""

from __future__ import annotations

from itertools import accumulate, combinations

from ..._errors import BadRequest
from ..._host.node_memory import unused_memory_sentences
from ..._notation.sizes import format_bytes_short
from .host_parts import format_cpus_option_of_parts, list_socket_parts
from .largest_fit import choose_best_levels_that_fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..._host.host import Host
    from ..plan.instance_plan import InstancePlan
    from ..plan.memory.free_memory import FreeMemory
    from .host_parts import HostPart
    from .largest_fit import Candidate

    #: The parts of each model, by its number.
    Assignment = dict[int, list[HostPart]]


#: How many packings are tried whose parts cannot be divided. More would take long, and hardly one of them fits.
MOST_FAILED_PACKINGS = 4
#: The largest number of parts for which every division is tried. A socket has at most 16 CCDs.
MOST_PARTS_TO_TRY = 16


class ModelLoad:
    """What a model needs of its parts of a host: bytes of memory, and bytes that are read for each token.

    ``number`` is its place in the list of candidates. A model that spans sockets has a load on each of them.
    """

    __slots__ = ("bytes_per_token", "memory", "number")

    def __init__(self, number: int, memory: float, bytes_per_token: float) -> None:
        self.number = number
        self.memory = memory
        self.bytes_per_token = bytes_per_token


def assign_host_parts(host: Host, free: FreeMemory, candidates: Sequence[Candidate]) -> list[InstancePlan]:
    """Assign parts of the host to each candidate, and return all plans; BadRequest where the instances do not fit."""
    sockets = list_socket_parts(host)
    loads = [
        ModelLoad(number, candidate.bytes_needed_at_level(), candidate.bytes_per_token)
        for number, candidate in enumerate(candidates)
    ]
    cores = sum(socket.cores for socket in sockets)
    if cores < len(candidates):
        raise BadRequest(
            f"{len(candidates)} models need a core each, and this host has {cores} that compute. Leave some out. "
            "Nothing is recommended."
        )
    assignment = assign_models_to_sockets(sockets, loads, free.available)
    if assignment is None:
        raise BadRequest(_too_little_memory_message(host, free, sockets, candidates))
    for number, candidate in enumerate(candidates):
        candidate.fixed["cpus"] = format_cpus_option_of_parts(assignment[number])
    return choose_best_levels_that_fit(host, free, candidates)


def assign_models_to_sockets(
    sockets: Sequence[HostPart], loads: Sequence[ModelLoad], available: Mapping[int, int]
) -> Assignment | None:
    """Return parts for each model, or None where the models do not fit; ``available`` has the free bytes by node.

    A model that fits into the memory of no socket gets parts of all sockets, in which its memory is spread evenly.
    """
    spanning = [
        load for load in loads if all(_memory_left([(load, [socket])], available) is None for socket in sockets)
    ]
    shares = [
        ModelLoad(load.number, load.memory / len(sockets), load.bytes_per_token / len(sockets)) for load in spanning
    ]
    return _pack_and_divide_parts(sockets, [load for load in loads if load not in spanning], available, shares)


def _divide_part(part: HostPart, loads: Sequence[ModelLoad], available: Mapping[int, int]) -> Assignment | None:
    """Return the parts of a socket or of a smaller part for each of its models; None where they do not fit."""
    if len(loads) < 2:
        return {load.number: [part] for load in loads}
    for smaller in part.levels:
        if len(smaller) >= len(loads):
            divided = _divide_parts_in_order(smaller, loads, available)
        else:
            divided = _pack_and_divide_parts(smaller, loads, available)
        if divided is not None:
            return divided
    return None


def _pack_and_divide_parts(
    parts: Sequence[HostPart],
    loads: Sequence[ModelLoad],
    available: Mapping[int, int],
    shares: Sequence[ModelLoad] = (),
) -> Assignment | None:
    """Return a part for each model, divided where several models get the same part; None where they do not fit.

    As few models as possible share a link to memory. Then the slowest part reads as few bytes as possible for each of
    its links, then the next slowest, so that no part is left without a model. ``shares`` are loads that every part has.
    """
    best: Assignment | None = None
    lowest_cost = [float("inf")]
    failed = 0
    # The largest models come first, so that a good packing is found early, and worse ones are not followed.
    order = sorted(loads, key=lambda load: (-load.memory, load.number))
    packed: list[list[ModelLoad]] = [[*shares] for part in parts]

    def pack_next(at: int) -> None:
        nonlocal best, lowest_cost, failed
        left = {part.words: _bytes_left_in_part(part, members, available) for part, members in zip(parts, packed)}
        sharing = sum(max(0, len(members) - part.links) for part, members in zip(parts, packed))
        seconds = _sort_token_times_slowest_first(
            sum(load.bytes_per_token for load in members) / part.links for part, members in zip(parts, packed)
        )
        cost = [sharing, *seconds]
        if min(left.values()) < 0 or cost >= lowest_cost or failed == MOST_FAILED_PACKINGS:
            return
        if at == len(order):
            assignment = _divide_packed_parts(parts, packed, available)
            if assignment is None:
                failed += 1
            else:
                best, lowest_cost = assignment, cost
            return
        tried = []
        for part, members in zip(parts, packed):
            # A part that is like another one, and as empty, would give the same packings again.
            alike = (part.links, part.cores, [available.get(node, 0) for node in part.nodes], list(members))
            if _count_cores_needed_at_least([*members, order[at]], part, available) > part.cores or alike in tried:
                continue
            tried.append(alike)
            members.append(order[at])
            pack_next(at + 1)
            members.remove(order[at])

    pack_next(0)
    return best


def _count_cores_needed_at_least(loads: Sequence[ModelLoad], part: HostPart, available: Mapping[int, int]) -> float:
    """Return how many cores these models need at least: one each, and one on each of the nodes of their memory."""
    largest = max((available.get(node, 0) for node in part.nodes), default=0)
    return sum(max(1, -(-load.memory // largest)) for load in loads) if largest > 0 else len(loads)


def _bytes_left_in_part(part: HostPart, loads: Sequence[ModelLoad], available: Mapping[int, int]) -> float:
    """Return the bytes that are left on all nodes of a part, of which each model may get those that suit it."""
    return sum(available.get(node, 0) for node in part.nodes) - sum(load.memory for load in loads)


def _divide_packed_parts(
    parts: Sequence[HostPart], packed: Sequence[Sequence[ModelLoad]], available: Mapping[int, int]
) -> Assignment | None:
    assignment: Assignment = {}
    pairs = []
    for part, members in zip(parts, packed):
        divided = _divide_part(part, sorted(members, key=lambda load: load.number), available)
        if divided is None:
            return None
        pairs += [(load, divided[load.number]) for load in members]
        for number, smaller in divided.items():
            assignment.setdefault(number, []).extend(smaller)
    return assignment if _memory_left(pairs, available) is not None else None


def _divide_parts_in_order(
    parts: Sequence[HostPart], loads: Sequence[ModelLoad], available: Mapping[int, int]
) -> Assignment | None:
    """Return neighbouring parts for each model, so that the slowest model is as fast as possible; None if none fit.

    The models are in their order, or from the largest to the smallest or the other way round where that is faster,
    as on a host of which some nodes have no memory.
    """
    nodes = {node for part in parts for node in part.nodes}
    if sum(load.memory for load in loads) > sum(available.get(node, 0) for node in nodes):
        return None
    by_memory = sorted(loads, key=lambda load: load.memory)
    best, best_seconds = None, [float("inf")]
    for order in (list(loads), by_memory[::-1], by_memory):
        for counts in _list_part_counts(order, parts):
            seconds = _sort_token_times_slowest_first(
                load.bytes_per_token / count for load, count in zip(order, counts)
            )
            if seconds >= best_seconds:
                continue
            ends = [sum(counts[: number + 1]) for number in range(len(counts))]
            pairs = [(load, list(parts[end - count : end])) for load, count, end in zip(order, counts, ends)]
            if _memory_left(pairs, available) is not None:
                best, best_seconds = pairs, seconds
    return {load.number: members for load, members in best} if best else None


def _sort_token_times_slowest_first(seconds: Iterable[float]) -> list[float]:
    """Return the times of parts for a token, up to a constant factor, in an order in which lists can be compared."""
    return sorted(seconds, reverse=True)


def _list_part_counts(loads: Sequence[ModelLoad], parts: Sequence[HostPart]) -> Iterator[list[int]]:
    """Yield numbers of parts for the models, at least one each.

    Of very many parts these are the fastest division, and those that also divide where the memory becomes another.
    """
    places = list(range(1, len(parts)))
    if len(parts) > MOST_PARTS_TO_TRY:
        fastest = list(accumulate(count_parts_by_bytes_read(loads, len(parts))))[:-1]
        places = sorted({*fastest, *(place for place in places if parts[place - 1].nodes != parts[place].nodes)})
        if len(places) >= MOST_PARTS_TO_TRY:
            places = fastest
    for cuts in combinations(places, len(loads) - 1):
        yield [end - begin for begin, end in zip([0, *cuts], [*cuts, len(parts)])]


def count_parts_by_bytes_read(loads: Sequence[ModelLoad], parts: int) -> list[int]:
    """Return how many of equal parts each model gets: one, and each part that is left goes to the slowest model."""
    counts = [1] * len(loads)
    for dummy in range(parts - len(loads)):
        slowest = max(range(len(counts)), key=lambda number: loads[number].bytes_per_token / counts[number])
        counts[slowest] += 1
    return counts


def _memory_left(
    pairs: Sequence[tuple[ModelLoad, Sequence[HostPart]]], available: Mapping[int, int]
) -> dict[int, float] | None:
    """Return the bytes that are left on each node, with the memory of each model evenly on the nodes of its parts.

    None where a node has too little memory, or no part of a model has memory.
    """
    left: dict[int, float] = dict(available)
    for load, parts in pairs:
        nodes = {node for part in parts for node in part.nodes}
        for node in nodes:
            left[node] = left.get(node, 0) - load.memory / len(nodes)
            if left[node] < 0:
                return None
        if not nodes:
            return None
    return left


def _too_little_memory_message(
    host: Host, free: FreeMemory, sockets: Sequence[HostPart], candidates: Sequence[Candidate]
) -> str:
    needs = ", ".join(
        f"{format_bytes_short(candidate.bytes_needed_at_level())} for {candidate.model.path}"
        for candidate in candidates
    )
    by_socket = ", ".join(
        f"{format_bytes_short(max(sum(free.available.get(node, 0) for node in socket.nodes), 0))} on {socket.words} "
        f"({'nodes' if len(socket.nodes) > 1 else 'node'} {', '.join(map(str, socket.nodes)) or 'none'})"
        for socket in sockets
    )
    return (
        f"These models do not fit beside each other: they need at least {needs}, each in the memory of its own CPUs, "
        f"and available are {by_socket}.{unused_memory_sentences(host.topology)} Leave one out, or take smaller files. "
        "Nothing is recommended."
    )
