# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.ccds import L3Domain
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import Plan, plan
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.masks import ways_in
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

RECIPE = {"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "12MiB"}}
FULL = 0xFFFF


def planned(top: Topology, **raw: Any) -> Plan:
    return plan(Intent.parse(raw), top)


def refused(top: Topology, **raw: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        planned(top, **raw)
    return str(caught.value)


def cpus_of(domains: list[L3Domain]) -> set[int]:
    return {cpu for domain in domains for cpu in domain.cpus}


@pytest.fixture(scope="module", params=list(hosts.SHAPES))
def top(request: pytest.FixtureRequest) -> Topology:
    return hosts.standing(request.param).topology()


@pytest.fixture(scope="module")
def small() -> Topology:
    return hosts.standing("small").topology()


# What holds for every intent on every machine

AMOUNTS = st.sampled_from(["1 way", "4 ways", "3MiB", "8MiB", "16MiB", "25%", "60%", "100%"])
PLACEMENTS = st.one_of(
    st.fixed_dictionaries({}, optional={"l3": AMOUNTS}),
    st.fixed_dictionaries({"ccds": st.integers(0, 3)}, optional={"l3": AMOUNTS}),
    st.fixed_dictionaries({"l3_domains": st.integers(0, 5)}, optional={"l3": AMOUNTS}),
)
INTENTS = st.fixed_dictionaries(
    {},
    optional={
        "housekeeping": st.fixed_dictionaries(
            {"cores": st.integers(0, 3), "per": st.sampled_from(["node", "socket", "host"])}
        ),
        "draft": PLACEMENTS,
        "verify": PLACEMENTS,
        "default": st.fixed_dictionaries({}, optional={"l3": AMOUNTS}),
    },
)


@settings(deadline=None)
@given(raw=INTENTS)
def test_a_plan_keeps_its_promises_or_refuses(top: Topology, raw: dict[str, Any]) -> None:
    try:
        result = planned(top, **raw)
    except BadRequest as refusal:
        assert str(refusal).endswith(".")
        return
    every_cpu_has_one_role(result, top)
    siblings_stay_together(result, top)
    draft_avoids_housekeeping(result, top, raw.get("draft", {}))
    shares_are_reserved(result, top)


def every_cpu_has_one_role(result: Plan, top: Topology) -> None:
    parts = [result.housekeeping, result.draft, result.verify, result.idle]
    assert sorted(cpu for part in parts for cpu in part) == list(top.online)
    assert all(cpu in getattr(result, result.role_of(cpu)) for cpu in top.online)


def siblings_stay_together(result: Plan, top: Topology) -> None:
    assert all(len({result.role_of(cpu) for cpu in core}) == 1 for core in top.cores)


def draft_avoids_housekeeping(result: Plan, top: Topology, draft: dict[str, Any]) -> None:
    units = [[domain] for domain in top.l3] if "l3_domains" in draft else top.ccds
    busy = sorted(len(cpus_of(unit) & set(result.housekeeping)) for unit in units)
    count = draft.get("l3_domains", draft.get("ccds", 0))
    taken = [unit for unit in units if cpus_of(unit) & set(result.draft)]
    assert len(taken) == count
    assert sum(len(cpus_of(unit) & set(result.housekeeping)) for unit in taken) == sum(busy[:count])
    assert all(cpus_of(unit) <= {*result.draft, *result.housekeeping} for unit in taken)


def shares_are_reserved(result: Plan, top: Topology) -> None:
    default = result.default.masks
    assert set(default) == {domain.id for domain in top.l3}
    assert all(0 < mask <= FULL for mask in default.values())
    for group in result.groups:
        assert set(group.masks) == set(default)
        own = {domain.id: domain for domain in group.domains}
        assert set(group.cpus) <= cpus_of(list(group.domains))
        for number, mask in group.masks.items():
            if number in own:
                assert mask & default[number] == 0
                assert group.amount is not None
                assert ways_in(mask) == group.amount.ways(16, own[number].bytes)
            else:
                assert mask == default[number]


def test_the_recipe_fits_every_machine(top: Topology) -> None:
    result = planned(top, **RECIPE)
    assert 0 in result.housekeeping
    assert result.idle == ()
    assert not result.cannot


# Some plans in full

PLANS = {
    "9754": ("0,32,64,96", "16-31", "1-15,33-63,65-95,97-127", "fff0", "f"),
    "9754 SMT": (
        "0,32,64,96,128,160,192,224",
        "16-31,144-159",
        "1-15,33-63,65-95,97-127,129-143,161-191,193-223,225-255",
        "fff0",
        "f",
    ),
    "9654": ("0,24,48,72", "8-15", "1-7,16-23,25-47,49-71,73-95", "fc00", "3ff"),
    "9354": ("0,8,16,24", "4-7", "1-3,9-15,17-23,25-31", "fc00", "3ff"),
    "two 7543": ("0,32", "4-7", "1-3,8-31,33-63", "fc00", "3ff"),
    "9655": ("0,96", "8-15,104-111", "1-7,16-95,97-103,112-191", "fc00", "3ff"),
    "small": ("0,4,8,12", "1-3,5-7", "9-11,13-15", "fff0", "f"),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_recipe_on(name: str) -> None:
    housekeeping, draft, verify, share, rest = PLANS[name]
    facts: Any = planned(hosts.standing(name).topology(), **RECIPE).to_dict()
    assert facts["cpus"] == {"housekeeping": housekeeping, "draft": draft, "verify": verify, "idle": ""}
    assert facts["resctrl"]["masks_known"] is True
    assert set(facts["resctrl"]["default"]["l3"].values()) == {rest}
    for group in facts["resctrl"]["groups"]:
        assert set(group["l3"].values()) == {share, rest}


def test_masks_go_by_the_kernels_ids(tmp_path: Path) -> None:
    facts: Any = planned(hosts.milan_pair(tmp_path).topology(), **RECIPE).to_dict()
    draft, verify = facts["resctrl"]["groups"]
    ids = [str(number) for number in (*range(8), *range(16, 24))]
    assert draft["l3"] == {number: "fc00" if number == "1" else "3ff" for number in ids}
    assert verify["l3"] == {number: "3ff" if number == "1" else "fc00" for number in ids}


def test_l3_domains_count_singly() -> None:
    result = planned(hosts.standing("9754").topology(), draft={"l3_domains": 1})
    assert result.draft == tuple(range(8, 16))


def test_nothing_asked_gives_all_but_the_housekeeping_to_verify(small: Topology) -> None:
    result = planned(small)
    assert result.housekeeping == (0, 4, 8, 12)
    assert (result.draft, result.idle, result.groups) == ((), (), [])
    assert set(result.default.masks.values()) == {FULL}


def test_what_no_role_wants_is_idle(small: Topology) -> None:
    result = planned(small, verify={"l3_domains": 1})
    assert result.verify == (1, 2, 3)
    assert result.idle == (5, 6, 7, 9, 10, 11, 13, 14, 15)
    assert [result.role_of(cpu) for cpu in (0, 1, 5)] == ["housekeeping", "verify", "idle"]


def test_housekeeping_counts_in_its_place(tmp_path: Path) -> None:
    top = hosts.milan_pair(tmp_path).topology()
    cores = {per: planned(top, housekeeping={"cores": 2, "per": per}).housekeeping for per in ("socket", "host")}
    assert cores == {"socket": (0, 1, 32, 33), "host": (0, 1)}


def test_a_node_without_cpus_needs_no_housekeeping(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/sys/devices/system/node/node4/cpulist", "")
    assert planned(host.topology()).housekeeping == (0, 4, 8, 12)


# CPUs that are offline


def test_offline_cpus_are_in_no_role(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("5")
    result = planned(host.topology(), **RECIPE)
    assert result.draft == (1, 2, 3, 6, 7)
    assert 5 not in (*result.housekeeping, *result.verify, *result.idle)


#: What is offline, and of which role it is; the first line of what the role draft has.
SHRUNK = [
    ("9754", "16-23", {"draft": (range(16, 32), range(24, 32))}),
    ("9754", "31", {"draft": (range(16, 32), range(16, 31))}),
    ("9754", "40-47", {"verify": None}),
    ("9754", "32-39", {"verify": None, "housekeeping": None}),
    ("9654", "16-23", {"verify": None}),
    ("9655", "8-11", {"draft": ([*range(8, 16), *range(104, 112)], [*range(12, 16), *range(104, 112)])}),
]


@pytest.mark.parametrize(("name", "cpus", "roles"), SHRUNK)
def test_a_role_without_some_of_its_cpus_stays_where_it_is_and_says_so(
    tmp_path: Path, name: str, cpus: str, roles: dict[str, Any]
) -> None:
    host = hosts.shape(tmp_path, name)
    before = planned(host.topology(), **RECIPE)
    host.offline(cpus)
    top = host.topology()
    result = planned(top, **RECIPE)
    every_cpu_has_one_role(result, top)
    assert set(result.draft) == set(before.draft) & set(top.online)
    assert set(result.verify) <= set(before.verify)
    assert result.meant.keys() == roles.keys()
    for role, expected in roles.items():
        assert result.meant[role] == getattr(before, role)
        assert [remark for remark in result.remarks if remark.startswith(f"{role} is without CPU ")]
        if expected:
            assert (before.draft, result.draft) == tuple(tuple(part) for part in expected)
    assert set(result.default.masks) == {domain.id for domain in top.l3}


@pytest.mark.parametrize("cpus", ["8", "24", "8,24", "4", "20", "4,20"])
def test_an_offline_housekeeping_cpu_moves_no_other_role(tmp_path: Path, cpus: str) -> None:
    """The CCD of each role has two housekeeping cores; CPU 20 and 24 are the SMT siblings of CPU 4 and 8."""
    host = hosts.small(tmp_path, smt=True)
    before = planned(host.topology(), **RECIPE)
    host.offline(cpus)
    top = host.topology()
    result = planned(top, **RECIPE)
    every_cpu_has_one_role(result, top)
    replaced = set(result.housekeeping) - set(before.housekeeping)
    assert set(result.draft) == set(before.draft) - replaced
    assert set(result.verify) == set(before.verify) - replaced
    assert result.meant == {"housekeeping": before.housekeeping}


def test_a_ccd_that_is_offline_as_a_whole_holds_no_draft(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9654")
    host.offline("8-15")
    assert planned(host.topology(), **RECIPE).draft == tuple(range(16, 24))


def test_a_node_of_which_only_the_housekeeping_is_online_is_no_reason_to_plan_nothing(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("5-7")
    result = planned(host.topology(), **RECIPE)
    assert (result.housekeeping, result.draft) == ((0, 4, 8, 12), (1, 2, 3))


def test_the_remark_says_how_to_get_a_cpu_back(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("13-14")
    assert planned(host.topology(), **RECIPE).remarks == [
        "verify is without CPU 13-14, which is offline. Bring each back with 'echo 1 "
        ">/sys/devices/system/cpu/cpu13/online', unless somebody took it away for a reason."
    ]


def test_siblings_that_smt_takes_away_are_missed_by_nobody(tmp_path: Path) -> None:
    host = hosts.shape(tmp_path, "9754 SMT")
    host.offline("128-255")
    host.put("/sys/devices/system/cpu/smt/control", "off")
    result = planned(host.topology(), **RECIPE)
    assert result.draft == tuple(range(16, 32))
    assert (result.meant, result.remarks) == ({}, [])


def test_the_default_group_may_keep_less_than_is_left(small: Topology) -> None:
    result = planned(small, verify={"l3": "4 ways"}, default={"l3": "2 ways"})
    assert set(result.default.masks.values()) == {0b11}
    assert set(result.groups[0].masks.values()) == {0xF000}


# While the width of masks is unknown


def test_amounts_stand_for_masks_of_unknown_width(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    assert planned(host.topology(), **RECIPE, default={"l3": "2 ways"}).resctrl() == {
        "masks_known": False,
        "groups": [
            {"name": "draft", "cpus": "1-3,5-7", "l3": {"0-1": "12MiB"}},
            {"name": "verify", "cpus": "9-11,13-15", "l3": {"2-3": "12MiB"}},
        ],
        "default": {"l3": {"0-3": "2 ways"}},
    }


def test_a_default_without_shares_asks_nothing_of_masks_of_unknown_width(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/dev/cpu/0/cpuid")
    assert planned(host.topology(), default={"l3": "2 ways"}).resctrl()["default"] == {"l3": {}}


# What cannot be had is named, and the rest still planned


def test_without_resctrl_the_cpus_are_still_planned(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/filesystems", "nodev\tsysfs")
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    result = planned(host.topology(), **RECIPE)
    assert result.draft == (1, 2, 3, 5, 6, 7)
    assert result.groups == []
    assert result.cannot["cat"].startswith("resctrl is absent")


def test_without_ids_no_domain_can_be_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    assert "L3 domain ids" in planned(host.topology(), **RECIPE).cannot["cat"]


def test_bandwidth_without_l3_allocation_is_named(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace("cat_l3 ", ""))
    assert planned(host.topology(), **RECIPE).cannot["cat"] == "resctrl: the CPU flags lack cat_l3."
    assert planned(host.topology()).cannot == {}


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (
            "/sys/kernel/security/lockdown",
            "none [integrity] confidentiality",
            "can be read but not written: the kernel is",
        ),
        ("/sys/module/msr/parameters/allow_writes", "off", "can be read but not written: /sys/module/msr"),
    ],
)
def test_registers_that_nobody_can_write(tmp_path: Path, file: str, text: str, words: str) -> None:
    host = hosts.small(tmp_path)
    assert "prefetch" not in planned(host.topology()).cannot
    host.put(file, text)
    assert words in planned(host.topology()).cannot["prefetch"]


def test_a_cpu_whose_prefetchers_have_no_register(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.cpuid(0x80000021, 0, 0)
    assert "Zen 3 and later have it." in planned(host.topology()).cannot["prefetch"]
    host.drop("/dev/cpu/0/cpuid")
    assert "prefetch" not in planned(host.topology()).cannot, "nobody knows yet"


def no_l3(root: Path) -> Topology:
    host = hosts.small(root)
    host.drop("/sys/devices/system/cpu/cpu*/cache/index3/level")
    return host.topology()


def test_without_l3_verify_still_gets_what_is_left(tmp_path: Path) -> None:
    result = planned(no_l3(tmp_path))
    assert len(result.verify) == 12
    assert result.idle == ()


def test_without_l3_no_verify_is_still_none(tmp_path: Path) -> None:
    result = planned(no_l3(tmp_path), verify={"ccds": 0})
    assert result.verify == ()
    assert len(result.idle) == 12


def test_without_l3_nothing_can_be_placed(tmp_path: Path) -> None:
    assert "shows no L3 domains (L3 domains: " in refused(no_l3(tmp_path), draft={"ccds": 1})


# Remarks


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"housekeeping": {"cores": 0}}, "No core is kept for the operating system"),
        ({"draft": {"l3": "2MiB"}}, "draft.l3 is without effect, because draft has no L3 domain"),
        ({"verify": {"ccds": 0, "l3": "2MiB"}}, "verify.l3 is without effect"),
        ({"default": {"l3": "2MiB"}}, "default.l3 is without effect"),
        ({"verify": {"l3": "2.5MiB"}}, "rounded up to 3 ways, 3 MiB"),
        ({"verify": {"l3": "512KiB"}}, "rounded up to 1 way, 1 MiB"),
    ],
)
def test_the_plan_remarks(small: Topology, raw: dict[str, Any], words: str) -> None:
    assert [words in remark for remark in planned(small, **raw).remarks] == [True]


@pytest.mark.parametrize(
    ("shape", "nodes", "said"),
    [
        (
            "9754",
            16,
            "housekeeping takes 16 of 128 cores, 12 percent, because the BIOS makes each L3 domain a NUMA node",
        ),
        ("9354", 8, "housekeeping takes 8 of 32 cores, 25 percent, because"),
        ("two 7543", 16, "housekeeping takes 16 of 64 cores, 25 percent, because"),
        ("9754 SMT", 16, "housekeeping takes 16 of 128 cores, 12 percent, because"),
        ("9754", 4, ""),
        ("two 7543", 8, ""),
    ],
)
def test_a_core_of_each_l3_domain_is_remarked(tmp_path: Path, shape: str, nodes: int, said: str) -> None:
    top = hosts.shape(tmp_path, shape, nodes=nodes).topology()
    remarks = planned(top).remarks
    assert [remark.startswith(said) for remark in remarks] == ([True] if said else [])
    assert planned(top, housekeeping={"cores": 4, "per": "socket"}).remarks == []


# Refusals


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"housekeeping": {"per": "core"}}, "housekeeping.per is 'core'; say one of node, socket, host."),
        ({"housekeeping": {"cores": -1}}, "housekeeping.cores must be a whole number from 0 up, not '-1'."),
        ({"housekeeping": {"cores": True}}, "not 'True'."),
        ({"draft": {"ccds": 1.5}}, "draft.ccds must be a whole number"),
        ({"draft": "one"}, "draft must be a dictionary of ccds, l3_domains, l3, not 'one'."),
        ({"draft": {"ccd": 1}}, "draft has no 'ccd'; it takes ccds, l3_domains, l3."),
        ({"draft": {"ccds": 1, "l3_domains": 1}}, "draft has both ccds and l3_domains; give one of them."),
        ({"verify": {"l3": "fff0"}}, "verify.l3 is 'fff0': say ways, bytes or a share"),
        ({"default": {"l3": 12}}, "put it in quotes"),
        ({"housekeeping": {"cores": 4}}, "housekeeping takes 4 cores of node 0, which has only 4"),
        ({"draft": {"ccds": 3}}, "draft asks for 3 ccds, but only 2 of 2 are left on this host."),
        ({"draft": {"l3_domains": 1}, "verify": {"ccds": 2}}, "verify asks for 2 ccds, but only 1 of 2 are left"),
        ({"verify": {"l3_domains": 5}}, "verify asks for 5 l3_domains, but only 4 of 4 are left"),
        ({"draft": {"ccds": 2}}, "verify: no CPU is left for it; housekeeping and the other role take all 16."),
        ({"verify": {"l3": "16 ways"}}, "L3 domain 0: verify takes all 16 ways and leaves none to the default group"),
        ({"verify": {"l3": "20MiB"}}, "verify asks for 20 MiB in each of its L3 domains, but L3 domain 0 has only 16"),
        ({"verify": {"l3": "12 ways"}, "default": {"l3": "6 ways"}}, "verify 12 + default 6 = 18 ways"),
    ],
)
def test_what_does_not_fit_is_refused(small: Topology, raw: dict[str, Any], words: str) -> None:
    assert words in refused(small, **raw)


def test_an_option_left_empty_is_not_given(small: Topology) -> None:
    result = planned(small, draft={"ccds": None, "l3_domains": 1, "l3": None}, verify=None)
    assert result.draft == (1, 2, 3)


def test_too_few_classes_of_service(tmp_path: Path) -> None:
    top = hosts.small(tmp_path, closids=2).topology()
    assert "needs 3 resctrl groups with the default one, but this host has 2 classes of service." in refused(
        top, **RECIPE
    )
    assert top.resctrl is not None
    top.resctrl.mount_options = ("cdp",)
    assert "2 classes of service (cdp halves them)." in refused(top, **RECIPE)
