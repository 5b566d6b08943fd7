# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The map of a host as an inline SVG: sockets, nodes, CCDs and L3 domains as boxes in one another, a cell for each CPU.

Each role has a letter and a colour; map_style has the colours. An element that a page may mark has the attribute
``data-at`` with its place: ``cpu:5``, ``l3:3`` or ``node:0``.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import LETTERS
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.sizes import UNITS, format_bytes
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import frame
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages.html import Html, element

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Map = dict[str, Any]

#: Lengths in pixels: the width of the map; then sizes of a CPU, a gap, the padding and the label of a box, and the bar
#: of cache ways.
WIDTH = 1200
CELL, GAP, PAD, HEAD, WAY = 20, 2, 7, 18, 14
#: The number of cores in a row, and the least width of a domain, which its label needs.
CORES_PER_ROW, MIN_DOMAIN_WIDTH = 8, 120
#: The approximate width of a letter in pixels, from which the room for a text is estimated.
LETTER_WIDTH = 6.0
ROLE_BY_LETTER = {**{letter: role for role, letter in LETTERS.items()}, ".": "default"}


class Box:
    """A part of the map with its size. Its elements are placed relative to its upper left corner."""

    __slots__ = ("height", "parts", "width")

    def __init__(self, width: float, height: float, parts: Sequence[Html]) -> None:
        self.width = width
        self.height = height
        self.parts = parts


def render_map_svg(data: Map) -> Html:
    """Return the SVG of a map that validate_host_map has accepted."""
    memory = {node["id"]: node for node in data["nodes"]}
    sockets = []
    for socket, on_socket in _group_domains_by_field(data["domains"], "socket"):
        inside = WIDTH - 2 * PAD
        nodes = []
        for node, in_node in _group_domains_by_field(on_socket, "node"):
            ccds = []
            for ccd, on_ccd in _group_domains_by_field(in_node, "ccd"):
                boxes = [_draw_l3_domain(domain) for domain in on_ccd]
                ccds.append(_frame_boxes(_format_kind_and_number("CCD", ccd), "ccd", "", boxes, inside - 4 * PAD))
            label = f"{_format_kind_and_number('node', node)}{_format_node_memory(memory.get(node, {}))}"
            nodes.append(_frame_boxes(label, "node", f"node:{node}", ccds, inside - 2 * PAD))
        sockets.append(_frame_boxes(_format_kind_and_number("socket", socket), "socket", "", nodes, inside))
    whole = _arrange_in_rows(sockets, WIDTH)
    width, height = f"{whole.width:g}", f"{whole.height:g}"
    return element(
        "svg",
        *whole.parts,
        class_="map",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=f"Map of {data['model']}, {data['parts']}",
    )


def render_scrolling_map(data: Map) -> Html:
    """Return a map in a box in which it scrolls where the window is narrower."""
    return frame.scrolling_box(render_map_svg(data), f"Map of {data['model']}")


def _group_domains_by_field(domains: Sequence[Map], key: str) -> list[tuple[int | None, list[Map]]]:
    """Return domains grouped by a field such as their node, in the order of the first domain of each group."""
    parts: dict[int | None, list[Map]] = {}
    for domain in domains:
        parts.setdefault(domain[key], []).append(domain)
    return list(parts.items())


def _frame_boxes(label: str, css_class: str, mark_name: str, children: Sequence[Box], max_width: float) -> Box:
    """Return a labelled box around boxes. ``mark_name`` is the name by which marks find the box, or ""."""
    flow = _arrange_in_rows(children, max_width)
    width = max(flow.width, len(label) * LETTER_WIDTH) + 2 * PAD
    height = flow.height + HEAD + PAD
    parts = [
        element("rect", width=f"{width:g}", height=f"{height:g}", rx=4),
        element("text", label, x=PAD, y=13),
        element("g", *flow.parts, transform=f"translate({PAD} {HEAD})"),
    ]
    return Box(width, height, [element("g", *parts, class_=css_class, data_at=mark_name or None)])


def _arrange_in_rows(boxes: Sequence[Box], max_width: float) -> Box:
    """Return one box with boxes side by side, in rows of equal length that are at most ``max_width`` wide.

    A box that is wider than that gets a row by itself.
    """
    parts: list[Html] = []
    x = y = width = height = 0.0
    fits = max(int((max_width + PAD) // (max((box.width for box in boxes), default=1) + PAD)), 1)
    rows = -(-len(boxes) // fits)
    for number, box in enumerate(boxes):
        if number and number % -(-len(boxes) // rows) == 0:
            x, y, height = 0, y + height + PAD, 0
        parts.append(element("g", *box.parts, transform=f"translate({x:g} {y:g})"))
        height = max(height, box.height)
        width = max(width, x + box.width)
        x += box.width + PAD
    return Box(width, y + height, parts)


def _draw_l3_domain(domain: Map) -> Box:
    """Return the box of an L3 domain: a column of CPUs for each core, and the bar of cache ways below."""
    cores: list[list[int]] = domain["cores"]
    columns = min(len(cores), CORES_PER_ROW) or 1
    width = max(columns * (CELL + GAP) - GAP + 2 * PAD, MIN_DOMAIN_WIDTH)
    step = (width - 2 * PAD + GAP) / columns
    parts: list[Html] = []
    y = float(HEAD)
    for at in range(0, len(cores), CORES_PER_ROW):
        threads = max(len(core) for core in cores[at : at + CORES_PER_ROW])
        for thread in range(threads):
            parts += _draw_thread_of_cores(domain, range(at, min(at + CORES_PER_ROW, len(cores))), thread, y, step)
            y += CELL + GAP
        y += GAP
    if domain["ways"]:
        parts += _draw_cache_ways(domain, y, width - 2 * PAD)
        y += WAY + GAP
    title = f"{_format_domain_location(domain)}: {_format_cache_size(domain)}CPUs {_format_domain_cpus(domain)}"
    room = int((width - 2 * PAD - 7 * len(_format_l3_name(domain))) / LETTER_WIDTH) - 1
    cpus = _format_domain_cpus(domain)
    cpus = cpus if len(cpus) <= room else f"{cpus[: max(room - 1, 0)]}\u2026"
    height = y + PAD - GAP
    head = [
        element("title", title),
        element("rect", width=f"{width:g}", height=f"{height:g}", rx=3),
        element("text", _format_l3_name(domain), x=PAD, y=13),
        element("text", cpus, class_="cpus", x=f"{width - PAD:g}", y=13),
    ]
    place = None if domain["l3"] is None else f"l3:{domain['l3']}"
    return Box(width, height, [element("g", *head, *parts, class_="l3", data_at=place)])


def _draw_thread_of_cores(domain: Map, numbers: range, thread: int, y: float, step: float) -> list[Html]:
    """Return the elements for one thread of each core in a row."""
    parts, places, letters = [], [], ""
    for column, number in enumerate(numbers):
        core, roles = domain["cores"][number], domain["roles"][number]
        if thread >= len(core):
            continue
        x = PAD + column * step
        siblings = f" with {format_cpulist(set(core) - {core[thread]})}" if len(core) > 1 else ""
        place = f"{_format_l3_name(domain)}, {_format_kind_and_number('node', domain['node'])}"
        title = f"CPU {core[thread]}{siblings}: {ROLE_BY_LETTER[roles[thread]]}, {place}"
        parts.append(
            element(
                "rect",
                element("title", title),
                class_=roles[thread],
                data_at=f"cpu:{core[thread]}",
                x=f"{x:g}",
                y=f"{y:g}",
                width=f"{step - GAP:g}",
                height=CELL,
            )
        )
        places.append(f"{x + (step - GAP) / 2:g}")
        letters += roles[thread]
    if letters:
        parts.append(element("text", letters, class_="letters", x=" ".join(places), y=f"{y + CELL - 6:g}"))
    return parts


def _draw_cache_ways(domain: Map, y: float, width: float) -> list[Html]:
    """Return the bar of the cache ways of a domain, from the highest way down; ways of one role are one part."""
    way = domain["bytes"] // len(domain["ways"])
    step = width / len(domain["ways"])
    parts = []
    x = float(PAD)
    for letter, run in groupby(domain["ways"]):
        count = len(list(run))
        size = format_bytes(count * way)
        title = f"{count} of {len(domain['ways'])} ways for {ROLE_BY_LETTER[letter]}, {size}"
        kind = "rest" if letter == "." else letter
        parts.append(
            element(
                "rect",
                element("title", title),
                class_=kind,
                x=f"{x:g}",
                y=f"{y:g}",
                width=f"{count * step:g}",
                height=WAY,
            )
        )
        words = next((text for text in (f"{letter} {size}", letter) if len(text) * LETTER_WIDTH < count * step), "")
        if words:
            middle = x + count * step / 2
            parts.append(element("text", words, class_="way", x=f"{middle:g}", y=f"{y + WAY - 4:g}"))
        x += count * step
    return parts


def _format_node_memory(node: Mapping[str, Any]) -> str:
    pools = node.get("hugepages", {}).items()
    pages = [f"{count} huge pages of {format_bytes(int(size[:-2]) * UNITS['KiB'])}" for size, count in pools if count]
    return "".join(f" \u00b7 {text}" for text in [node.get("memory", ""), *pages] if text)


def _format_kind_and_number(kind: str, number: object) -> str:
    return f"{kind} unknown" if number is None else f"{kind} {number}"


def _format_l3_name(domain: Map) -> str:
    return "no L3 known" if domain["l3"] is None else f"L3 {domain['l3']}"


def _format_cache_size(domain: Map) -> str:
    return f"{format_bytes(domain['bytes'])}, " if domain["bytes"] else ""


def _format_domain_cpus(domain: Map) -> str:
    return format_cpulist(cpu for core in domain["cores"] for cpu in core) or "none"


def _format_domain_location(domain: Map) -> str:
    places = [
        _format_l3_name(domain),
        *(_format_kind_and_number(kind, domain[kind.lower()]) for kind in ("CCD", "node", "socket")),
    ]
    return ", ".join(places)
