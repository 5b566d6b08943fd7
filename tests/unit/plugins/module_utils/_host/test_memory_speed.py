# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host import memory_channels, memory_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import MemorySpeed, load_memory_speed
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import MEMORY_SPEED, Store
from ansible_collections.sovereign.epyc.tests.unit.fakes import firmware, hosts

BIOS = "/sys/class/dmi/id/bios_version"


def machine(tmp_path: Path, shape: str = "9654", missing: Any = (), **fields: int) -> hosts.Host:
    host = hosts.shape(tmp_path, shape, **({"nodes": 4} if shape == "9654" else {}))
    firmware.give(host, firmware.filled(firmware.GIGABYTE, missing, **fields))
    host.put(BIOS, "1.2")
    return host


def measured(host: hosts.Host, gbps: float) -> MemorySpeed:
    """Store a measurement that is the same on each node, and return what is loaded then."""
    nodes = [node.id for node in host.topology().nodes]
    by_node = {node: gbps / len(nodes) for node in nodes}
    memory_speed.save_measured_speed(Host(host.fs), Store(str(host.root)), by_node, gbps)
    return load_memory_speed(Host(host.fs))


@pytest.mark.parametrize(
    ("shape", "changes", "gbps", "link"),
    [
        ("9754", {}, 460.8, 57.6),
        ("9654", {}, 460.8, 57.6),
        ("9354", {}, 460.8, 57.6),
        ("9655", {}, 576.0, 64.0),
        ("two 7543", {}, 409.6, 51.2),
        ("9754", {"model": "AMD EPYC 8534P 64-Core Processor", "l3_per_socket": 8, "nodes": 1}, 230.4, 57.6),
        # Four CCDs of four cores with two links each, as in two 9124, which were measured at 530 GB/s.
        (
            "9354",
            {"model": "AMD EPYC 9124 16-Core Processor", "l3_per_socket": 4, "sockets": 2, "nodes": 2},
            531.2,
            66.4,
        ),
        # Sixteen CCDs of one core: the channels limit, and not the links.
        ("9655", {"model": "AMD EPYC 9175F 16-Core Processor", "l3_per_socket": 16, "cores_per_l3": 1}, 576.0, 64.0),
        # Eight CCDs of four cores with two links each, as a 9355.
        ("9655", {"model": "AMD EPYC 9355 32-Core Processor", "l3_per_socket": 8, "cores_per_l3": 4}, 576.0, 128.0),
        # Two CCDs of a Zen 3.
        ("two 7543", {"l3_per_socket": 2, "sockets": 1, "nodes": 1, "ids": None}, 102.4, 51.2),
        # Zen 6: the sample that was seen, SKUs of both sockets, and a 9355 of Zen 5 beside the 9356 of Zen 6.
        ("9655", {"model": "AMD Eng Sample: 100-000001045-02", "number": 80, "l3_per_socket": 6}, 1638.4, None),
        ("9655", {"model": "AMD EPYC 9656 96-Core Processor", "number": 80, "l3_per_socket": 4}, 1638.4, None),
        ("9655", {"model": "AMD EPYC 9G76 96-Core Processor", "number": 87, "l3_per_socket": 8}, 1638.4, None),
        ("9655", {"model": "AMD EPYC 9356P 32-Core Processor", "number": 80, "l3_per_socket": 4}, 819.2, None),
    ],
)
def test_the_data_sheet_of_sockets(
    tmp_path: Path, shape: str, changes: dict[str, Any], gbps: float, link: float | None
) -> None:
    speed = load_memory_speed(Host(hosts.shape(tmp_path, shape, **changes).fs))
    assert (speed.theoretical_gbps, speed.theoretical_source) == (pytest.approx(gbps), "data sheet")
    assert speed.ccd_gbps == (link and pytest.approx(link))
    assert speed.socket_memory and speed.socket_memory.is_paper == (link is None)
    assert (speed.measured_gbps, speed.share_of_theoretical_bandwidth, speed.faults, speed.is_slow) == (
        None,
        None,
        [],
        False,
    )


def test_only_the_generation_without_measurements_is_paper(tmp_path: Path) -> None:
    papers = [memory.is_paper for *_models, memory in memory_channels.SOCKETS]
    assert papers == [False] * 6 + [True]


def test_an_unknown_cpu_has_no_data_sheet(tmp_path: Path) -> None:
    speed = load_memory_speed(Host(hosts.small(tmp_path, family=99).fs))
    assert (speed.theoretical_gbps, speed.theoretical_source) == (None, "unknown")
    assert speed.gbps_for([0, 1, 2, 3]) == (pytest.approx(82.0), "paper")


def test_modules_of_the_highest_speed_on_each_channel(tmp_path: Path) -> None:
    speed = load_memory_speed(Host(machine(tmp_path).fs))
    assert (speed.theoretical_gbps, speed.theoretical_source, speed.faults) == (pytest.approx(460.8), "dimms", [])


def test_slow_modules_lower_what_is_possible(tmp_path: Path) -> None:
    speed = load_memory_speed(Host(machine(tmp_path, rated=4800, configured=4000).fs))
    assert speed.theoretical_gbps == pytest.approx(384.0)


def test_one_module_of_twelve_is_a_fault(tmp_path: Path) -> None:
    missing = [name for name, _bank in firmware.GIGABYTE[1:]]
    speed = load_memory_speed(Host(machine(tmp_path, missing=missing).fs))
    assert speed.theoretical_gbps == pytest.approx(38.4)
    assert speed.is_slow
    assert "Only 1 of 12 memory channels have a module, so at most 38.4 of 460.8 GB/s" in speed.faults[0]


def test_one_missing_module_is_told_and_is_not_slow(tmp_path: Path) -> None:
    speed = load_memory_speed(Host(machine(tmp_path, missing=["DIMM_P0_L0"]).fs))
    assert "11 of 12" in speed.faults[0]
    assert not speed.is_slow


def test_the_modules_of_a_virtual_machine_are_no_fault(tmp_path: Path) -> None:
    host = machine(tmp_path, missing=[name for name, _bank in firmware.GIGABYTE[1:]])
    text = (host.root / "proc/cpuinfo").read_text()
    host.put("/proc/cpuinfo", text.replace("flags\t\t: ", "flags\t\t: hypervisor "))
    speed = load_memory_speed(Host(host.fs))
    assert (speed.theoretical_source, speed.faults) == ("data sheet", [])
    # Its bandwidth is a part of that of its host.
    slow = measured(host, 50.0)
    assert (slow.measured_gbps, slow.is_slow, slow.faults) == (50.0, False, [])


def test_modules_without_a_speed_are_no_fault(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9654")
    firmware.give(host, firmware.QEMU)
    speed = load_memory_speed(Host(host.fs))
    assert (speed.theoretical_source, speed.faults) == ("data sheet", [])


def test_a_third_of_the_bandwidth_is_the_first_fault(tmp_path: Path) -> None:
    speed = measured(machine(tmp_path, missing=["DIMM_P0_L0"]), 150.0)
    assert speed.is_slow
    assert speed.share_of_theoretical_bandwidth == pytest.approx(150 / 422.4)
    slow, empty = speed.faults
    assert "reads 150 of 422 GB/s" in slow
    assert "36%" in slow
    assert slow.index("interleave is off") < slow.index("missing or slow") < slow.index("page cache")
    assert "CCDs" not in slow
    assert "11 of 12" in empty


def test_suspects_that_the_firmware_rules_out_are_left_out(tmp_path: Path) -> None:
    slow = measured(machine(tmp_path), 150.0).faults[0]
    assert "missing or slow" not in slow


def test_few_ccds_are_a_suspect(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "two 7543", l3_per_socket=2, sockets=1, nodes=1, ids=None)
    assert "only 2 CCDs to read through" in measured(host, 50.0).faults[0]


def test_enough_bandwidth_is_no_fault(tmp_path: Path) -> None:
    speed = measured(machine(tmp_path), 400.0)
    assert (speed.faults, speed.is_slow, speed.stale_reason) == ([], False, "")
    assert speed.measured_at.endswith("Z")
    assert speed.to_dict()["share"] == 0.868


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (BIOS, "1.3", "another BIOS"),
        ("/proc/sys/kernel/osrelease", "6.13.0", "another kernel"),
        ("/sys/devices/system/node/node3/cpulist", "", "other NUMA nodes"),
    ],
)
def test_a_measurement_ends_with_what_it_was_measured_on(tmp_path: Path, path: str, text: str, words: str) -> None:
    host = machine(tmp_path)
    measured(host, 150.0)
    host.put(path, text)
    speed = load_memory_speed(Host(host.fs))
    assert (speed.measured_gbps, speed.is_slow, speed.faults) == (None, False, [])
    assert words in speed.stale_reason
    assert memory_speed.MEASURE_COMMAND in speed.stale_reason
    assert speed.gbps_for([0])[1] == "paper"


def test_other_modules_end_a_measurement_and_unreadable_ones_do_not(tmp_path: Path) -> None:
    host = machine(tmp_path)
    measured(host, 400.0)
    firmware.give(host, firmware.filled(firmware.GIGABYTE, ["DIMM_P0_L0"]))
    assert "other memory modules" in load_memory_speed(Host(host.fs)).stale_reason
    (host.root / firmware.TABLE).unlink()
    assert load_memory_speed(Host(host.fs)).measured_gbps == 400.0


def test_a_damaged_file_counts_as_none(tmp_path: Path) -> None:
    host = machine(tmp_path)
    measured(host, 400.0)
    path = Path(Store(str(host.root)).file_path(MEMORY_SPEED))
    path.write_text(path.read_text().replace("400.0", '"fast"'))
    assert load_memory_speed(Host(host.fs)).measured_gbps is None


def test_what_nodes_give_to_ccds(tmp_path: Path) -> None:
    host = machine(tmp_path)
    paper = load_memory_speed(Host(host.fs))
    assert paper.gbps_for([0]) == (pytest.approx(0.82 * 115.2), "paper")
    assert paper.gbps_for([0, 1, 2, 3], range(12)) == (pytest.approx(0.82 * 460.8), "paper")
    assert paper.gbps_for([0, 1, 2, 3], [0]) == (57.6, "paper")
    speed = measured(host, 400.0)
    assert speed.gbps_for([0, 1]) == (200.0, "measured")
    assert speed.gbps_for([0, 1], [0, 1]) == (115.2, "measured")


def test_nodes_of_memory_expanders_give_nothing(tmp_path: Path) -> None:
    host = machine(tmp_path)
    host.put("/sys/devices/system/node/node4/cpulist", "")
    host.put("/sys/devices/system/node/node4/meminfo", "Node 4 MemTotal: 1048576 kB")
    assert load_memory_speed(Host(host.fs)).gbps_for([3, 4]) == (pytest.approx(0.82 * 115.2), "paper")


def test_some_measured_nodes_are_held_against_their_own_share(tmp_path: Path) -> None:
    host = machine(tmp_path)
    memory_speed.save_measured_speed(Host(host.fs), Store(str(host.root)), {1: 40.0}, 40.0)
    speed = load_memory_speed(Host(host.fs))
    assert (speed.measured_gbps, speed.measured_by_node) == (None, {1: 40.0})
    assert "reads 40 of 115 GB/s" in speed.faults[0]
    assert speed.gbps_for([1]) == (40.0, "measured")
    assert speed.gbps_for([0, 1])[1] == "paper"


def test_nodes_together_give_no_more_than_was_measured_of_all(tmp_path: Path) -> None:
    host = machine(tmp_path)
    memory_speed.save_measured_speed(Host(host.fs), Store(str(host.root)), dict.fromkeys(range(4), 100.0), 350.0)
    speed = load_memory_speed(Host(host.fs))
    assert [speed.gbps_for(nodes)[0] for nodes in ([0], [0, 1], [0, 1, 2, 3])] == [100.0, 200.0, 350.0]
