# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is said of nodes with memory and no CPU, and of nodes with CPUs and no memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpu_plans import planned
from ansible_collections.sovereign.epyc.tests.unit.fakes.random_hosts import Shape, host_of_shape, topology_of_shape


def test_a_node_without_cpus_is_named_with_its_size() -> None:
    assert planned(topology_of_shape(Shape(cxl_gib=256))).remarks == [
        "Node 1 has 256 GiB of memory and no CPU, as is usual for memory on a CXL device: no model and no pool of huge "
        "pages is put there, unless an instance names the node in nodes, or a pool in node."
    ]


def test_nodes_without_memory_are_named() -> None:
    assert planned(topology_of_shape(Shape(nodes=4, bare_nodes=(1, 3)))).remarks == [
        "Nodes 1,3 have CPUs and no memory: these CPUs read all memory from other nodes. Put modules into the memory "
        "channels there."
    ]
    assert planned(topology_of_shape(Shape(node_gib=(0,)))).remarks == [], "the memory of no node is known"


def test_a_node_without_cpus_has_none_to_compute_on() -> None:
    host = host_of_shape(Shape(cxl_gib=256))
    with pytest.raises(BadRequest, match=r"Node 1 has 256 GiB of memory and no CPU, .*: name a node with CPUs, and"):
        host.parse_cpus("node1")


def test_a_node_whose_cpus_are_offline_has_some(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("4-7")
    assert not [remark for remark in planned(host.topology()).remarks if "no CPU" in remark]
