# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many cores a host keeps for its operating system by default, and what is said of many and of none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.housekeeping import default_housekeeping_share
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpu_plans import EACH_NODE, planned
from ansible_collections.sovereign.epyc.tests.unit.fakes.random_hosts import Shape, topology_of_shape

#: Shape of a host -> the share that it keeps, and its housekeeping CPUs.
DEFAULTS = [
    ("2 CPUs", Shape(ccds=1, cores_per_l3=2), (0, "host"), ()),
    ("4 CPUs with SMT", Shape(ccds=1, cores_per_l3=2, smt=True), (0, "host"), ()),
    ("7 cores", Shape(ccds=1, cores_per_l3=7), (0, "host"), ()),
    ("8 cores", Shape(ccds=1), (1, "host"), (0,)),
    ("9175F", Shape(ccds=16, cores_per_l3=1), (1, "node"), (0,)),
    ("9124 NPS4", Shape(nodes=4, ccds=4, cores_per_l3=4), (1, "socket"), (0,)),
    ("9354 NPS4", Shape(nodes=4, ccds=8, cores_per_l3=4), (1, "socket"), (0,)),
    ("9754 NPS4", Shape(nodes=4, ccds=8, l3_per_ccd=2), (1, "node"), (0, 32, 64, 96)),
    ("9754, L3 domains as nodes", Shape(nodes=0, ccds=8, l3_per_ccd=2), (1, "socket"), (0,)),
    ("2 x 7543", Shape(sockets=2, ccds=8, cores_per_l3=4), (1, "node"), (0, 32)),
    ("2 x 7543 NPS4", Shape(sockets=2, nodes=4, ccds=8, cores_per_l3=4), (1, "socket"), (0, 32)),
    ("2 x 8 cores", Shape(sockets=2, ccds=2, cores_per_l3=4), (1, "host"), (0,)),
    ("2 x 9755 NPS4 SMT", Shape(sockets=2, nodes=4, ccds=16, smt=True), (1, "node"), (0, 32, 64, 96)),
    ("9006 sample", Shape(ccds=6, cores_per_l3=24, smt=True), (1, "node"), (0, 144)),
    ("2 x 9996 SMT", Shape(sockets=2, cores_per_l3=32, smt=True), (1, "node"), (0, 256, 512, 768)),
    ("2 x 9996, L3 domains as nodes", Shape(sockets=2, nodes=0, cores_per_l3=32), (1, "node"), (0, 32, 64, 96)),
]


@pytest.mark.parametrize(("name", "shape", "share", "cpus"), DEFAULTS, ids=[row[0] for row in DEFAULTS])
def test_the_default_follows_from_the_size_of_nodes_and_sockets(
    name: str, shape: Shape, share: tuple[int, str], cpus: tuple[int, ...]
) -> None:
    top = topology_of_shape(shape)
    found = default_housekeeping_share(top)
    assert (found.cores, found.per) == share
    assert planned(top).housekeeping[: len(cpus)] == cpus and bool(planned(top).housekeeping) == bool(cpus)


def test_the_default_takes_no_more_than_a_tenth_without_a_remark() -> None:
    for name, shape, dummy, cpus in DEFAULTS:
        top = topology_of_shape(shape)
        result = planned(top)
        cores = [core for core in top.cores if set(core) & set(result.housekeeping)]
        assert bool(result.remarks) == (not cpus or 10 * len(cores) > len(top.cores)), name


def test_an_offline_cpu_changes_no_default(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9754")
    host.offline("1-31")
    assert planned(host.topology()).housekeeping == (0, 32, 64, 96)


def test_a_host_that_keeps_none_says_what_that_means() -> None:
    top = topology_of_shape(Shape(ccds=1, cores_per_l3=4))
    assert planned(top).remarks == [
        "No core is kept for the operating system, because this host has only 4: interrupts and daemons run among the "
        "threads that compute, and the layer irq and the isolation safe set nothing. 'epyc_plan_housekeeping: {cores: "
        "1, per: host}' keeps one."
    ]
    assert planned(top, housekeeping={"cores": 1}).housekeeping == (0,), "what is requested stays"


@pytest.mark.parametrize(
    ("shape", "nodes", "words"),
    [
        (
            "9754",
            16,
            "housekeeping takes 16 of 128 cores, 12 percent, because the BIOS makes each L3 domain a NUMA node (ACPI "
            "SRAT L3 cache as NUMA domain), of which there are 16: prompts are read slower by this share. "
            "'epyc_plan_housekeeping: {cores: 1, per: socket}' takes 1.",
        ),
        ("9354", 8, "housekeeping takes 8 of 32 cores, 25 percent, because"),
        ("9354", 4, "housekeeping takes 4 of 32 cores, 12 percent: prompts"),
        ("two 7543", 16, "housekeeping takes 16 of 64 cores, 25 percent, because"),
        ("9754 SMT", 16, "housekeeping takes 16 of 128 cores, 12 percent, because"),
        ("9754", 4, ""),
    ],
)
def test_more_than_a_tenth_is_remarked(tmp_path: Path, shape: str, nodes: int, words: str) -> None:
    top = hosts.shape(tmp_path, shape, nodes=nodes).topology()
    remarks = planned(top, housekeeping=EACH_NODE).remarks
    assert [remark.startswith(words) for remark in remarks] == ([True] if words else [])
    assert planned(top).remarks == []


def test_a_share_that_no_default_makes_smaller() -> None:
    (remark,) = planned(topology_of_shape(Shape(ccds=1))).remarks
    assert remark == (
        "housekeeping takes 1 of 8 cores, 12 percent: prompts are read slower by this share. 'epyc_plan_housekeeping: "
        "{cores: 0, per: host}' takes none, and interrupts and daemons then run among the threads that compute."
    )


def test_ccds_that_compute_nothing_are_named() -> None:
    top = topology_of_shape(Shape(nodes=4, ccds=16, cores_per_l3=1))
    (remark,) = planned(top, housekeeping=EACH_NODE).remarks
    assert "25 percent: prompts are read slower by this share, and 4 of 16 CCDs with their links to memory" in remark
