# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
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
    assert top.missing == {}


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


@pytest.mark.parametrize("name", hosts.ZEN6_SHAPES)
def test_each_l3_domain_of_a_zen_6_is_its_own_ccd_and_the_host_says_that_it_does_not_know(name: str) -> None:
    top = hosts.standing(name).topology()
    assert top.ccds == [[domain] for domain in top.l3]
    assert top.ccd_source.endswith("how many Zen 6 has on a CCD is not published")
    assert top.cores == tuple((core, core + len(top.cores)) for core in range(len(top.cores)))


def test_the_kernels_die_id_tells_the_ccds_of_a_zen_6(tmp_path: Path) -> None:
    host = hosts.build(tmp_path, **{**hosts.ZEN6_SHAPES["Zen 6 sample"], "cores_per_l3": 4})
    for cpu in range(48):
        host.put(f"/sys/devices/system/cpu/cpu{cpu}/topology/die_id", cpu % 24 // 8)
    top = host.topology()
    assert [[domain.id for domain in ccd] for ccd in top.ccds] == [[0, 1], [2, 3], [4, 5]]
    assert top.ccd_source == "the kernel's die_id"


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
    assert any("CPUs 5" in item for item in top.missing.values())


def numbers(top: Topology) -> dict[tuple[int, ...], tuple[int, int | None, int | None]]:
    """CCD, node and socket of each L3 domain, by its CPUs."""
    return {domain.present: (domain.ccd, domain.node, domain.socket) for domain in top.domains}


#: A domain in the middle, the first of a CCD, two of one CCD, a whole node, single CPUs here and there; with SMT off.
OFFLINE = {
    "9754": ["16-23", "40-47", "16-31", "32-63", "5,16-23,77", "9-15"],
    "9754 SMT": ["16-23,144-151", "128-255", "128-255,16-23", "3,131,200"],
    "9654": ["24-31", "8-15,40-47", "88-95"],
    "two 7543": ["4-7", "32-35", "28-31,60-63"],
    "9655": ["8-15,104-111", "96-191,8-15"],
    "small": ["4-7", "12-15", "5,9-11"],
}


@pytest.mark.parametrize(("name", "cpus"), [(name, cpus) for name, rows in OFFLINE.items() for cpus in rows])
def test_nothing_is_numbered_anew_when_cpus_go_offline(tmp_path: Path, name: str, cpus: str) -> None:
    host = hosts.shape(tmp_path, name)
    before = host.topology()
    host.offline(cpus)
    if cpus.startswith(("128-", "96-")):
        host.put("/sys/devices/system/cpu/smt/control", "off")
    top = host.topology()
    cores = len(before.cores)
    first = {tuple(cpu for cpu in present if cpu < cores): where for present, where in numbers(before).items()}
    assert numbers(top) == (first if top.smt == "off" else numbers(before))
    assert "odd number" not in top.ccd_source
    assert [domain for domain in top.domains if domain.cpus] == sorted(top.l3, key=lambda domain: domain.present)
    assert [[domain.cpus for domain in ccd] for ccd in top.ccds] == [
        [tuple(cpu for cpu in domain.cpus if cpu in top.online) for domain in ccd] for ccd in before.ccds
    ]


def test_die_ids_are_of_no_use_offline_and_the_numbers_stay(tmp_path: Path) -> None:
    host = hosts.build(tmp_path)
    for cpu in range(128):
        host.put(f"/sys/devices/system/cpu/cpu{cpu}/topology/die_id", cpu // 16)
    before = numbers(host.topology())
    host.offline("40-47,64-79")
    top = host.topology()
    assert top.ccd_source == "the kernel's die_id"
    assert numbers(top) == before


def test_siblings_that_are_numbered_one_after_the_other(tmp_path: Path) -> None:
    """As a virtual machine numbers them."""
    host = hosts.small(tmp_path)
    host.put("/sys/devices/system/cpu/smt/control", "on")
    for cpu in range(16):
        host.put(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu & 14}-{cpu | 1}")
    host.offline("4-7")
    top = host.topology()
    assert top.present_cores == tuple((cpu, cpu + 1) for cpu in range(0, 16, 2))
    assert [domain.present for domain in top.domains] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)]
    assert [[domain.id for domain in ccd] for ccd in top.ccds] == [[0, None], [2, 3]]


def test_half_of_every_domain_offline_is_no_domain_offline(tmp_path: Path) -> None:
    """Ids that follow on one another leave no room for domains in between."""
    host = hosts.small(tmp_path)
    host.offline("2-3,6-7,10-11,14-15")
    top = host.topology()
    assert [domain.present for domain in top.domains] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15)]


@pytest.mark.parametrize("how", ["an odd number of threads", "siblings that fit no numbering"])
def test_numbers_that_tell_nothing_are_not_guessed_at(tmp_path: Path, how: str) -> None:
    host = hosts.small(tmp_path, smt=how.startswith("siblings"))
    if how.startswith("siblings"):
        host.put("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,7")
    else:
        host.put("/sys/devices/system/cpu/smt/control", "on")
        host.put("/sys/devices/system/cpu/present", "0-16")
    host.offline("4-7" if how.startswith("an") else "4-6,20-23")
    top = host.topology()
    assert top.domains == top.l3
    assert any("they are offline" in item for item in top.missing.values())


def test_l3_domains_without_ids(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    top = host.topology()
    assert [domain.id for domain in top.l3] == [None] * 4
    assert any("L3 domain ids" in item for item in top.missing.values())


def test_no_l3_at_all(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/level")
    top = host.topology()
    assert top.l3 == []
    assert any("no cache of level 3" in item for item in top.missing.values())


def test_no_numa(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/node/node*/cpulist")
    host.drop("/sys/devices/system/node/node*/meminfo")
    for node in range(4):
        (host.root / f"sys/devices/system/node/node{node}").rename(host.root / f"gone{node}")
    top = host.topology()
    assert [(node.id, len(node.cpus)) for node in top.nodes] == [(0, 16)]
    assert any("NUMA nodes" in item for item in top.missing.values())


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
    assert any(words in item for item in top.missing.values())


def test_without_the_cpuid_driver_nothing_is_assumed(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    top = host.topology()
    assert top.resctrl is not None
    assert (top.resctrl.cbm_mask, top.resctrl.closids, top.resctrl.throttle_max) == (None, None, {})
    assert top.prefetch_control is None
    assert any("mask's width" in item for item in top.missing.values())


def test_abilities_come_from_cpuid_while_resctrl_is_not_mounted(tmp_path: Path) -> None:
    able = hosts.small(tmp_path).topology().resctrl
    assert able is not None
    assert (able.cbm_mask, able.closids, able.throttle_max) == (0xFFFF, 16, {"MB": 2048, "SMBA": 2048})


def test_a_container_and_another_vendor_are_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/run/systemd/container", "systemd-nspawn")
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace("AuthenticAMD", "GenuineIntel"))
    missing = " ".join(host.topology().missing.values())
    assert "this is a container" in missing
    assert "an AMD CPU" in missing


def test_a_host_of_one_cpu_has_one_socket(tmp_path: Path) -> None:
    top = hosts.build(tmp_path, l3_per_socket=1, cores_per_l3=1, nodes=1).topology()
    assert (top.online, top.sockets) == ((0,), {0: (0,)})


def two_domains_of_one_id(root: Path) -> hosts.Host:
    """As a virtual machine shows it: an id counts within a virtual socket only."""
    return hosts.build(root, sockets=2, l3_per_socket=1, nodes=2, ids=[0, 0])


def test_one_l3_id_of_two_domains_is_no_id(tmp_path: Path) -> None:
    top = two_domains_of_one_id(tmp_path).topology()
    assert [(domain.id, domain.node, domain.cpus[0]) for domain in top.l3] == [(None, 0, 0), (None, 1, 8)]
    assert top.missing["l3_ids"] == (
        "L3 domain ids: the kernel gives the id 0 to CPUs 0-7 and to CPUs 8-15, so resctrl domains cannot be "
        "distinguished"
    )


@pytest.mark.parametrize(
    ("model", "number", "kind", "generation"),
    [
        ("AMD Eng Sample: 100-000001045-02", 17, "an engineering sample", "EPYC 9004 (Genoa, Zen 4)"),
        ("EPYC-Genoa Processor", 17, "a virtual machine", "EPYC 9004 (Genoa, Zen 4)"),
        ("AMD EPYC-Milan Processor", 1, "a virtual machine", "EPYC 7003 (Milan, Zen 3)"),
        ("AMD EPYC Processor", 33, "a virtual machine", "of a generation that is not in our table"),
    ],
)
def test_a_cpu_without_a_sku_is_of_the_generation_of_its_family(
    tmp_path: Path, model: str, number: int, kind: str, generation: str
) -> None:
    top = hosts.small(tmp_path, model=model, number=number).topology()
    assert top.sku == ""
    assert top.missing == {
        "sku": f"the SKU: the CPU calls itself '{model}', as {kind} does. By CPUID family 25 model {number} it is "
        f"{generation}"
    }


def test_a_cpu_that_is_no_epyc_is_named_as_that(tmp_path: Path) -> None:
    top = hosts.small(tmp_path, model="AMD Ryzen 9 7950X 16-Core Processor", number=97).topology()
    assert top.missing == {"epyc": "an EPYC: the CPU calls itself 'AMD Ryzen 9 7950X 16-Core Processor'"}
