# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module hugepages on fake pools, which tests/lab holds against those of a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import NODES
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HOME
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import request
from ansible_collections.sovereign.epyc.tests.unit.fakes.page_pools import PagePools


class Machine:
    """The small machine with pools of 2 MiB, to whose node 1 somebody has given three pages."""

    def __init__(self, root: Path) -> None:
        self.kernel = Kernel(root)
        self.pools = PagePools(self.kernel)
        self.resize(1, 3)

    def resize(self, node: int, pages: int) -> None:
        self.kernel.fs.write(f"{NODES}/node{node}/hugepages/hugepages-2048kB/nr_hugepages", str(pages))

    def ask(self, **options: Any) -> dict[str, Any]:
        return request(self.kernel.fs, "hugepages", **options)

    def pages(self) -> list[int]:
        return [self.pools.pools[node, 2048].pages for node in range(4)]

    def refusal(self, **options: Any) -> str:
        before = self.pages()
        answer = self.ask(**options)
        assert answer["failed"] and self.pages() == before
        assert "\n" not in answer["msg"]
        return str(answer["msg"])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_pools_are_made_and_put_back(machine: Machine) -> None:
    asked = {"pools": [{"node": "0,2", "pages": 7}, {"node": "1", "memory": "11MiB"}]}
    diff = {
        "before": {"hugepages:node0/2048kB": "0", "hugepages:node1/2048kB": "3", "hugepages:node2/2048kB": "0"},
        "after": {"hugepages:node0/2048kB": "7", "hugepages:node1/2048kB": "6", "hugepages:node2/2048kB": "7"},
    }
    checked = machine.ask(check=True, **asked)
    assert (checked["changed"], checked["diff"]["changes"], machine.pages()) == (True, diff, [0, 3, 0, 0])
    assert not (machine.kernel.host.root / HOME[1:]).exists()

    made = machine.ask(**asked)
    assert (made["changed"], made["diff"]["changes"], machine.pages()) == (True, diff, [7, 6, 7, 0])
    assert made["remarks"] == ["pools[1]: 11MiB is no whole number of pages: rounded up to 6 pages of 2 MiB each."]
    assert machine.ask(**asked)["changed"] is False

    assert machine.ask(state="original")["diff"]["changes"] == {"before": diff["after"], "after": diff["before"]}
    assert machine.pages() == [0, 3, 0, 0]
    assert machine.ask(state="original")["changed"] is False


def test_a_pool_can_be_given_back(machine: Machine) -> None:
    assert machine.ask(pools=[{"node": "1", "pages": 0}])["changed"] is True
    assert machine.pages() == [0, 0, 0, 0]
    machine.ask(state="original")
    assert machine.pages() == [0, 3, 0, 0]


def test_pools_for_a_model_in_parts(machine: Machine) -> None:
    root = machine.kernel.host.root
    for number, size in ((1, 21), (2, 4)):
        (root / f"model-0000{number}-of-00002.gguf").write_bytes(bytes(size << 20))
    made = machine.ask(for_file="/model-00001-of-00002.gguf", headroom=10)
    assert machine.pages() == [4, 4, 4, 4]
    assert made["remarks"] == [
        "/model-00001-of-00002.gguf has 25 MiB, with 10 % headroom 27.5 MiB: rounded up to 4 pages of 2 MiB on "
        "each of the nodes 0-3, 32 MiB in all."
    ]
    (root / "model-00002-of-00002.gguf").unlink()
    assert "no file /model-00002-of-00002.gguf" in machine.refusal(for_file="/model-00001-of-00002.gguf")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"pools": [{"node": "2", "pages": 1000}]},
            ["Node 2 has 1 GiB", "5 % are left to the system", "1000 pages"],
        ),
        ({"pools": [{"size": "1GiB", "pages": 1}]}, ["Node 0 has 1 GiB", "1 page of 1 GiB would take 1 GiB"]),
        ({"pools": [{"node": "7", "pages": 1}]}, ["no node 7 with memory", "0-3", "NPS"]),
        ({"pools": [{"pages": 1}, {"node": "1", "pages": 2}]}, ["node 1 is asked for twice"]),
        ({"for_file": "/absent"}, ["no file /absent"]),
    ],
)
def test_what_no_node_has_is_refused(machine: Machine, asked: dict[str, Any], words: list[str]) -> None:
    message = machine.refusal(**asked)
    assert [word for word in words if word not in message] == []


def test_pages_in_use_and_pages_promised_are_not_taken(machine: Machine) -> None:
    machine.resize(2, 20)
    with machine.pools.use(2, touched=5, mapped=10):
        message = machine.refusal(pools=[{"node": "2", "pages": 4}])
        assert "20 pages of 2 MiB, of which 5 are in use" in message and "smaps_rollup" in message
        message = machine.refusal(pools=[{"node": "2", "pages": 9}, {"node": "1", "pages": 0}])
        assert "14 pages of 2 MiB cannot be taken away" in message and "5 of these are promised" in message
        assert machine.ask(pools=[{"node": "2", "pages": 12}])["changed"] is True
        assert machine.pages() == [0, 3, 12, 0]
        assert machine.ask(pools=[{"node": "2", "pages": 30}])["changed"] is True


def test_a_pool_in_use_is_not_put_back_and_said(machine: Machine) -> None:
    machine.ask(pools=[{"node": "2", "pages": 20}, {"node": "3", "pages": 2}])
    with machine.pools.use(2, touched=5, mapped=10):
        back = machine.ask(state="original")
        assert list(back["diff"]["changes"]["after"]) == ["hugepages:node3/2048kB"]
        (remark,) = back["remarks"]
        assert remark.startswith("hugepages:node2/2048kB was not put back: ")
        assert "of which 5 are in use, so it cannot shrink to 0" in remark
        assert machine.pages() == [0, 3, 20, 0]
    assert machine.ask(state="original")["changed"] is True
    assert machine.pages() == [0, 3, 0, 0]
