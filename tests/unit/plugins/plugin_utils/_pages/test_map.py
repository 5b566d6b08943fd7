# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The map of a host as SVG, what marks it, and which maps are refused. tests/gates opens it in a browser."""

from __future__ import annotations

import copy
from typing import Any
from xml.etree import ElementTree

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import map_marks
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import map_drawing, map_schema
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import fleets, plans

SVG = "{http://www.w3.org/2000/svg}"


def parsed(data: dict[str, Any]) -> ElementTree.Element:
    map_schema.validate_host_map(data)
    return ElementTree.fromstring(
        str(map_drawing.render_map_svg(data)).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    )


def title(element: ElementTree.Element) -> str:
    return element.findtext(f"{SVG}title") or ""


def extent(element: ElementTree.Element, x: float = 0, y: float = 0) -> tuple[float, float]:
    """Return how far the boxes of a drawing reach to the right and down."""
    right = bottom = 0.0
    for child in element:
        there = child.get("transform", "translate(0 0)")[len("translate(") : -1].split()
        inner = extent(child, x + float(there[0]), y + float(there[1]))
        if child.tag == f"{SVG}rect":
            inner = (
                x + float(child.get("x", 0)) + float(child.get("width", 0)),
                y + float(child.get("y", 0)) + float(child.get("height", 0)),
            )
        right, bottom = max(right, inner[0]), max(bottom, inner[1])
    return right, bottom


@pytest.mark.parametrize("kind", plans.KINDS)
def test_every_cpu_node_and_domain_of_each_sku_has_its_place(kind: str) -> None:
    data = plans.result(kind)["map"]
    root = parsed(data)
    places = [one for one in root.iter() if one.get("data-at")]
    cpus = {cpu: letter for d in data["domains"] for c, r in zip(d["cores"], d["roles"]) for cpu, letter in zip(c, r)}
    cells = {one.get("data-at"): one.get("class") for one in places if one.tag == f"{SVG}rect"}
    assert cells == {f"cpu:{cpu}": letter for cpu, letter in cpus.items()}
    boxes = [one.get("data-at") for one in places if one.tag == f"{SVG}g"]
    assert sorted(map(str, boxes)) == sorted(
        [f"node:{node['id']}" for node in data["nodes"]] + [f"l3:{domain['l3']}" for domain in data["domains"]]
    )
    # The letters that stand on the cells are those of the roles: a map is read without its colours.
    letters = "".join(one.text or "" for one in root.iter(f"{SVG}text") if one.get("class") == "letters")
    assert sorted(letters) == sorted(cpus.values())
    width, height = (float(root.get(name, 0)) for name in ("width", "height"))
    right, bottom = extent(root)
    assert right <= width <= map_drawing.WIDTH and bottom <= height < 1300


def test_titles_name_cpus_and_ways() -> None:
    root = parsed(plans.result("9754 SMT")["map"])
    titles = {one.get("data-at"): title(one) for one in root.iter()}
    assert titles["cpu:16"] == "CPU 16 with 144: draft, L3 2, node 0"
    assert titles["l3:2"] == "L3 2, CCD 1, node 0, socket 0: 16 MiB, CPUs 16-23,144-151"
    assert "12 of 16 ways for draft, 12 MiB" in map(title, root.iter())
    assert "4 of 16 ways for default, 4 MiB" in map(title, root.iter())
    assert "node 0 \u00b7 188.6 GiB \u00b7 5120 huge pages of 2 MiB" in [one.text for one in root.iter(f"{SVG}text")]


def test_a_list_of_cpus_that_is_too_long_is_cut_and_whole_in_the_title() -> None:
    data = plans.result("9754")["map"]
    data["domains"] = [{**data["domains"][0], "cores": [[cpu] for cpu in range(1000, 1016, 2)]}]
    root = parsed(data)
    (shown,) = [one.text or "" for one in root.iter(f"{SVG}text") if one.get("class") == "cpus"]
    assert shown.endswith("\u2026") and len(shown) * map_drawing.LETTER_WIDTH < 8 * (map_drawing.CELL + map_drawing.GAP)
    assert "CPUs 1000,1002,1004,1006,1008,1010,1012,1014" in " ".join(map(title, root.iter()))


def test_two_sockets_of_sixteen_ccds_with_sixteen_threads() -> None:
    data = plans.result("9754")["map"]
    data["domains"] = [
        {
            "l3": number,
            "bytes": 32 << 20,
            "socket": number // 16,
            "node": number // 16,
            "ccd": number,
            "cores": [[number * 8 + core, 256 + number * 8 + core] for core in range(8)],
            "roles": ["vv"] * 8,
            "ways": "v" * 12 + "....",
        }
        for number in range(32)
    ]
    root = parsed(data)
    assert sum(one.tag == f"{SVG}rect" and (one.get("data-at") or "").startswith("cpu:") for one in root.iter()) == 512
    assert float(root.get("width", 0)) <= map_drawing.WIDTH and float(root.get("height", 0)) < 1200


def test_texts_of_a_host_are_escaped_on_the_map() -> None:
    data = plans.result("9354")["map"]
    data["model"] = '"><script>alert(1)</script>'
    data["nodes"][0]["memory"] = "<b>much</b>"
    root = parsed(data)
    assert {one.tag for one in root.iter()} == {f"{SVG}{name}" for name in ("svg", "g", "rect", "text", "title")}
    assert data["model"] in root.get("aria-label", "")


def marks(*faults: str) -> list[tuple[str, int, int]]:
    found = [{"id": number, **one} for number, one in enumerate(fleets.answer(*faults)[0], 1)]
    return [(kind, first, last) for dummy, kind, first, last in map_marks.find_map_marks(found)]


def finding(*addresses: str, wanted: str = "", found: str = "") -> dict[str, Any]:
    return {"id": 7, "addresses": list(addresses), "wanted": wanted, "found": found}


def test_findings_are_marked_at_their_places() -> None:
    assert marks("mask", "msr", "pages", "grub") == [("node", 2, 2), ("l3", 3, 3), ("cpu", 5, 5)]
    cells = [f"msr:0xc0000108[1]/cpu{cpu}" for cpu in (3, 1, 2, 9)]
    assert map_marks.find_map_marks([finding(*cells)]) == [(7, "cpu", 1, 3), (7, "cpu", 9, 9)]
    assert map_marks.find_map_marks([finding("cpufreq:policy4/scaling_max_freq")]) == [(7, "cpu", 4, 4)]
    assert map_marks.find_map_marks([finding("plan:draft", wanted="1-4", found="1,4")]) == [(7, "cpu", 2, 3)]
    assert map_marks.find_map_marks([finding("resctrl:draft/cpus", wanted="1-2", found="''")]) == [(7, "cpu", 1, 2)]


@pytest.mark.parametrize(
    "address",
    [
        "cmdline:nohz_full", "sysfs:thp/enabled", "irq:41/affinity", "boot:x", "resctrl:", "x", "", "task:a/b/c",
        # None of these is an address of any setting, which a host may answer all the same.
        "msr:0xzz[1]/cpux", "hugepages:nodex/kB", "cpufreq:policyx/y", "llama:", "llama:/etc/x", "resctrl:draft/cpus",
    ],
)  # fmt: skip
def test_a_finding_without_a_place_is_not_marked(address: str) -> None:
    assert map_marks.find_map_marks([finding(address, wanted="none", found="x")]) == []


def changed(path: str, value: Any) -> dict[str, Any]:
    """A good map with one thing of another shape; the last word of a path is a key or a number."""
    data: Any = copy.deepcopy(plans.result("9354", 1)["map"])
    *way, last = path.split("/")
    place = data
    for word in way:
        place = place[int(word) if isinstance(place, list) else word]
    place[int(last) if isinstance(place, list) else last] = value
    return dict(data)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", None),
        ("more", 1),
        ("notes", "x"),
        ("roles/emperor", "0"),
        ("roles/draft", 3),
        ("nodes/0", []),
        ("nodes/0/id", "0"),
        ("nodes/0/memory", 3),
        ("nodes/0/hugepages/<b>", 1),
        ("nodes/0/hugepages/2048kB", -1),
        ("domains", {}),
        ("domains/0/l3", "0"),
        ("domains/0/bytes", 1 << 60),
        ("domains/0/node", True),
        ("domains/0/cores", []),
        ("domains/0/cores/0", ["0"]),
        ("domains/0/cores/0", []),
        ("domains/0/cores/0/0", 99999),
        ("domains/0/cores/0/0", 1),
        ("domains/0/roles", ["v"]),
        ("domains/0/roles/0", "<"),
        ("domains/0/roles/0", "vv"),
        ("domains/0/ways", "q"),
        ("domains/0/ways", "." * 65),
        ("instances/0/name", None),
        ("instances/0/more", ""),
    ],
)
def test_a_malformed_map_is_refused(path: str, value: Any) -> None:
    map_schema.validate_host_map(plans.result("9354", 1)["map"])
    with pytest.raises(Malformed):
        map_schema.validate_host_map(changed(path, value))


@pytest.mark.parametrize("data", [None, [], "map", {}])
def test_what_is_no_map_is_refused(data: object) -> None:
    with pytest.raises(Malformed):
        map_schema.validate_host_map(data)
