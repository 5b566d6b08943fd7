# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The map of a host for a terminal of 100 columns: a row for each L3 domain, with a letter for each CPU and way."""

from __future__ import annotations

from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes_short, format_pages
from .map_data import LETTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

WIDTH = 100
#: The largest number of cores in a row; a domain with more cores has several rows.
CORES = 16
#: Letter of a role -> terminal colours: black on a background that all terminals have. Other letters have no colour.
COLOURS = {"h": "30;47", "d": "30;43", "v": "30;46", "x": "31"}


def render_map(map_data: Mapping[str, Any], coloured: bool = False) -> str:
    """Return the map as text without a newline at its end. With and without colours, the letters are the same."""
    return "\n".join(line.rstrip() for line in _render_lines(map_data, coloured))


def _render_lines(map_data: Mapping[str, Any], colour: bool) -> Iterator[str]:
    yield _shorten(f"{map_data['model']}, Linux {map_data['kernel']}", WIDTH)
    yield _shorten(map_data["parts"], WIDTH)
    yield ""
    for role, cpus in map_data["roles"].items():
        yield f"{_colour_runs_of_letters(LETTERS[role], colour)} {role:<13} {_shorten(cpus, WIDTH - 16)}"
    domains = map_data["domains"]
    divided = next((domain for domain in domains if domain["ways"]), None)
    if divided:
        way_size = format_bytes_short(divided["bytes"] // len(divided["ways"]))
        yield f". {'default':<13} ways of L3 that no role has; a way is {way_size}"
    rows = [_render_core_letters(domain, colour) for domain in domains]
    letters_width = max((length for lines in rows for dummy, length in lines), default=0)
    ways_width = max((len(domain["ways"]) for domain in domains), default=0)
    memory = {node["id"]: _format_node_memory(node) for node in map_data["nodes"]}
    previous = None
    for domain, lines in zip(domains, rows):
        socket, node = domain["socket"], domain["node"]
        if (socket, node) != previous:
            previous = (socket, node)
            yield ""
            yield _shorten(f"socket {_format_number(socket)}, node {_format_number(node)}{memory.get(node, '')}", WIDTH)
        yield from _render_rows_of_domain(domain, lines, (letters_width, ways_width), colour)


def _render_rows_of_domain(
    domain: Mapping[str, Any], lines: Sequence[tuple[str, int]], column_widths: tuple[int, int], colour: bool
) -> Iterator[str]:
    """Yield the rows of a domain: the first row has its numbers, ways and CPUs, further rows have more cores."""
    first, length = lines[0]
    start = f"  CCD {_format_number(domain['ccd']):>2}  L3 {_format_number(domain['l3']):>3}  "
    ways = _colour_runs_of_letters(domain["ways"], colour) + " " * (
        column_widths[1] - len(domain["ways"]) + bool(column_widths[1]) * 2
    )
    cpus = format_cpulist(cpu for core in domain["cores"] for cpu in core)
    cpus = _shorten(cpus, WIDTH - len(start) - sum(column_widths) - 4)
    yield f"{start}{first}{' ' * (column_widths[0] - length)}  {ways}{cpus}"
    for text, dummy in lines[1:]:
        yield f"{' ' * len(start)}{text}"


def _render_core_letters(domain: Mapping[str, Any], colour: bool) -> list[tuple[str, int]]:
    """Return rows of role letters, each with its length without colour codes.

    In a row, the letters of the first threads of all cores come before those of the second threads.
    """
    rows = []
    for at in range(0, max(len(domain["roles"]), 1), CORES):
        cores = domain["roles"][at : at + CORES]
        threads = max((len(core) for core in cores), default=0)
        words = ["".join(core[thread : thread + 1] or " " for core in cores) for thread in range(threads)]
        text = " ".join(words)
        rows.append((_colour_runs_of_letters(text, colour), len(text)))
    return rows


def _format_node_memory(node: Mapping[str, Any]) -> str:
    pools = [f"{format_pages(count, int(size[: -len('kB')]))}" for size, count in node["hugepages"].items() if count]
    return "".join(f", {text}" for text in (node["memory"] and f"memory {node['memory']}", *pools) if text)


def _colour_runs_of_letters(text: str, colour: bool) -> str:
    """Return a text with a colour code for each run of equal letters."""
    if not colour:
        return text
    pieces: list[str] = []
    last = ""
    for char in text:
        if char == last:
            pieces[-1] += char
        else:
            pieces.append(char)
        last = char
    return "".join(f"\033[{COLOURS[piece[0]]}m{piece}\033[0m" if piece[0] in COLOURS else piece for piece in pieces)


def _format_number(number: object) -> str:
    return "-" if number is None else str(number)


def _shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 3, 0)]}..."
