# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

GENOA = {"model": "AMD EPYC 9654 96-Core Processor", "number": 17, "l3_per_socket": 12, "l3_mib": 32}


def test_a_9754_has_two_l3_domains_on_each_ccd(tmp_path: Path) -> None:
    top = hosts.build(tmp_path).topology()
    assert top.sku == "9754"
    assert [domain.id for domain in top.l3] == list(range(16))
    assert {domain.bytes for domain in top.l3} == {16 << 20}
    assert [[d.id for d in ccd] for ccd in top.ccds][:2] == [[0, 1], [2, 3]]
    assert "Zen 4c" in top.ccd_source
    assert [node.cpus[0] for node in top.nodes] == [0, 32, 64, 96]
    assert top.nodes[0].bytes == 1 << 30
    assert top.nodes[0].hugepages == {2048: (8, 6)}
    assert top.l3[5].node == 1
    assert top.prefetch_control is True
    assert top.missing == []


def test_a_9654_has_one_l3_domain_on_each_ccd(tmp_path: Path) -> None:
    top = hosts.build(tmp_path, **GENOA).topology()
    assert len(top.ccds) == 12
    assert all(len(ccd) == 1 for ccd in top.ccds)


def test_ids_with_a_hole_are_kept(tmp_path: Path) -> None:
    top = hosts.milan_pair(tmp_path).topology()
    assert [domain.id for domain in top.l3] == [*range(8), *range(16, 24)]
    assert top.sockets == {0: tuple(range(32)), 1: tuple(range(32, 64))}
    assert {domain.socket for domain in top.ccds[8]} == {1}


def test_the_kernels_die_id_wins_over_our_table(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    for cpu in range(16):
        host.put(f"/sys/devices/system/cpu/cpu{cpu}/topology/die_id", cpu // 4 * 3)
    top = host.topology()
    assert top.ccd_source == "the kernel's die_id"
    assert [[d.id for d in ccd] for ccd in top.ccds] == [[0], [1], [2], [3]]


def test_an_unknown_family_gets_one_ccd_for_each_l3_domain(tmp_path: Path) -> None:
    top = hosts.small(tmp_path, family=27).topology()
    assert len(top.ccds) == 4
    assert "not in our table" in top.ccd_source


def test_smt_siblings_are_one_core(tmp_path: Path) -> None:
    top = hosts.small(tmp_path, smt=True).topology()
    assert top.cores[0] == (0, 16)
    assert len(top.cores) == 16
    assert top.l3[1].cpus == (4, 5, 6, 7, 20, 21, 22, 23)


def test_offline_cpus_are_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/sys/devices/system/cpu/online", "0-4,6-15")
    host.put("/sys/devices/system/cpu/cpu4/cache/index3/shared_cpu_list", "4,6-7")
    top = host.topology()
    assert top.offline == (5,)
    assert top.l3[1].cpus == (4, 6, 7)
    assert any("CPUs 5" in item for item in top.missing)


def test_l3_domains_without_ids(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    top = host.topology()
    assert [domain.id for domain in top.l3] == [None] * 4
    assert any("L3 domain ids" in item for item in top.missing)


def test_no_l3_at_all(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/level")
    top = host.topology()
    assert top.l3 == []
    assert any("no cache of level 3" in item for item in top.missing)


def test_no_numa(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/node/node*/cpulist")
    host.drop("/sys/devices/system/node/node*/meminfo")
    for node in range(4):
        (host.root / f"sys/devices/system/node/node{node}").rename(host.root / f"gone{node}")
    top = host.topology()
    assert [(node.id, len(node.cpus)) for node in top.nodes] == [(0, 16)]
    assert any("NUMA nodes" in item for item in top.missing)


@pytest.mark.parametrize(
    ("flags", "words"), [("fpu", "the CPU shows no cache allocation"), (hosts.FLAGS, "CONFIG_X86_CPU_RESCTRL")]
)
def test_no_resctrl_says_whose_fault_it_is(tmp_path: Path, flags: str, words: str) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/filesystems", "nodev\tsysfs")
    cpuinfo = host.fs.read("/proc/cpuinfo").replace(hosts.FLAGS, flags)
    host.put("/proc/cpuinfo", cpuinfo)
    top = host.topology()
    assert top.resctrl is None
    assert any(words in item for item in top.missing)


def test_without_the_cpuid_driver_nothing_is_assumed(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    top = host.topology()
    assert top.resctrl is not None
    assert (top.resctrl.cbm_mask, top.resctrl.closids, top.resctrl.throttle_max) == (None, None, {})
    assert top.prefetch_control is None
    assert any("mask's width" in item for item in top.missing)


def test_abilities_come_from_cpuid_while_resctrl_is_not_mounted(tmp_path: Path) -> None:
    able = hosts.small(tmp_path).topology().resctrl
    assert able is not None
    assert (able.cbm_mask, able.closids, able.throttle_max) == (0xFFFF, 16, {"MB": 2048, "SMBA": 2048})


def test_a_container_and_another_vendor_are_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/run/systemd/container", "systemd-nspawn")
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace("AuthenticAMD", "GenuineIntel"))
    missing = " ".join(host.topology().missing)
    assert "this is a container" in missing
    assert "an AMD CPU" in missing
