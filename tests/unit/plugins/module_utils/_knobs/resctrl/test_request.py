# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.request import (
    GroupRequest,
    ResctrlRequest,
    parse_resctrl_request,
    validate_group_name,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import format_cpulist, parse_cpulist

IDS = [*range(8), *range(16, 24)]


def group(**options: Any) -> GroupRequest:
    return parse_resctrl_request([{"name": "draft", **options}], None, "none").groups[0]


def refused(*groups: dict[str, Any], default: dict[str, Any] | None = None) -> str:
    with pytest.raises(BadRequest) as caught:
        parse_resctrl_request(groups, default, "none")
    return str(caught.value)


# What was left out stays as it is


def test_a_bare_name_asks_for_nothing_but_the_group() -> None:
    bare = group()
    assert bare.present
    assert (bare.cpus, bare.mode, bare.l3, bare.throttle) == (None, None, {}, {})
    assert (bare.tasks_of, bare.monitors) == ((), {})


def test_options_that_ansible_leaves_empty_are_not_given() -> None:
    empty = dict.fromkeys(("state", "cpus", "mode", "l3", "l3_code", "l3_data", "mb", "smba", "tasks_of", "monitors"))
    assert vars(group(**empty)) == vars(group())


def test_no_cpus_at_all_is_something_else_than_cpus_left_out() -> None:
    assert group(cpus="").cpus == ()


def test_every_option_is_read() -> None:
    full = group(
        cpus="0-1",
        mode="exclusive",
        l3={"all": "4 ways"},
        mb={0: 2},
        tasks_of=["llama.service", 42],
        monitors=[{"name": "watch", "cpus": "1"}, {"name": "threads", "cpus": None}],
    )
    assert (full.cpus, full.mode, full.tasks_of) == ((0, 1), "exclusive", ("llama.service", "42"))
    assert full.l3["l3"].rest.to_ways(16, 0) == 4
    assert full.throttle["MB"].by_id == {0: 16}
    assert full.monitors == {"watch": (1,), "threads": None}


def test_absent_groups_are_not_named_among_those_that_shall_be_there() -> None:
    request: ResctrlRequest = parse_resctrl_request([{"name": "old", "state": "absent"}, {"name": "new"}], None, "own")
    assert request.wanted_group_names() == {"new"}
    assert [one.present for one in request.groups] == [False, True]
    assert (request.purge, request.default.name) == ("own", "default")


# Values per L3 domain


@given(st.sets(st.sampled_from(IDS), min_size=1), st.booleans())
def test_a_key_names_the_domains_of_its_list_and_all_names_the_others(ids: set[int], rest: bool) -> None:
    raw = {format_cpulist(ids): 2, **({"all": 1} if rest else {})}
    table = group(mb=raw).throttle["MB"].values_by_domain(IDS, "here")
    assert table == {**(dict.fromkeys(IDS, 8) if rest else {}), **dict.fromkeys(ids, 16)}


@given(st.dictionaries(st.text(alphabet="0123456789,-al ", max_size=8), st.just(1), max_size=3))
def test_any_key_is_understood_or_refused_with_a_sentence(raw: dict[str, int]) -> None:
    try:
        table = group(mb=raw)
    except BadRequest as refusal:
        assert str(refusal).startswith("group draft: mb: ")
        assert str(refusal).endswith(".")
    else:
        named = set(table.throttle["MB"].by_id) if raw else set()
        assert named == {cpu for key in raw if key != "all" for cpu in parse_cpulist(key)}


def test_yaml_may_make_numbers_of_keys() -> None:
    assert group(l3={0: "1 way", "1": "2 ways"}).l3["l3"].by_id.keys() == {0, 1}


def test_an_id_this_host_does_not_have_is_refused_with_those_it_has() -> None:
    table = group(mb={"8": 1}).throttle["MB"]
    with pytest.raises(BadRequest, match=r"here: there is no L3 domain 8 on this host, only 0-7,16-23; ids have holes"):
        table.values_by_domain(IDS, "here")


@pytest.mark.parametrize("key", ["", ",", "ALL", "0-", "3-1", "a", None, False])
def test_a_key_that_names_no_domain_is_refused(key: object) -> None:
    assert f"group draft: l3: '{key}' names no L3 domain; say 'all', an id" in refused(
        {"name": "draft", "l3": {key: "1 way"}}
    )


def test_a_domain_named_twice_is_refused() -> None:
    assert "group draft: l3: L3 domain 3 is named twice, by '0-3' and '3'." in refused(
        {"name": "draft", "l3": {"0-3": "1 way", "3": "2 ways"}}
    )


def test_a_bad_amount_says_where_it_stands() -> None:
    assert refused(default={"l3_data": {"all": "12MB"}}).startswith("group default: l3_data: '12MB' is no amount of L3")


# Bandwidth


@pytest.mark.parametrize(
    ("value", "steps"), [(20, 160), ("20", 160), (0.125, 1), (0.13, 2), ("12.3", 99), (1e-6, 1), ("max", -1)]
)
def test_gigabytes_become_eighths_rounded_up(value: object, steps: int) -> None:
    assert group(mb={"all": value}).throttle["MB"].rest == steps


@given(st.floats(1e-3, 1e5))
def test_a_limit_is_never_below_what_was_asked_nor_an_eighth_above(rate: float) -> None:
    steps = group(smba={"all": rate}).throttle["SMBA"].rest
    assert rate <= steps / 8 < rate + 0.125


@pytest.mark.parametrize("value", [0, -1, "0", "nan", "inf", "20 GB/s", "MAX", True, None, "", 1e6])
def test_what_is_no_bandwidth_is_refused(value: object) -> None:
    assert f"group draft: mb: '{value}' is no bandwidth; say a number of GB/s" in refused(
        {"name": "draft", "mb": {"all": value}}
    )


# Names


@pytest.mark.parametrize("name", ["draft", "odd:name", "draft-2", "ä", ".hidden", "x" * 200])
def test_names_the_kernel_takes(name: str) -> None:
    assert validate_group_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "info", "mon_data", "mon_groups", "default", "mount", "a/b", "a\nb", " a", "a ", "x" * 201],
)
def test_names_that_would_mean_something_else(name: str) -> None:
    with pytest.raises(BadRequest, match="is no name for a resctrl group"):
        validate_group_name(name)


# What is wrong in itself


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([{"name": "a"}, {"name": "a"}], "The group a is named twice"),
        ([{"name": "a", "state": "absent"}, {"name": "a"}], "The group a is named twice"),
        ([{"name": "a", "cpus": "0-3"}, {"name": "b", "cpus": "3"}], "The CPU 3 is in the groups a and b"),
        (
            [{"name": "a", "tasks_of": ["x.service"]}, {"name": "b", "tasks_of": ["x.service"]}],
            "The unit or process x.service is in the groups a and b; it can be in only one.",
        ),
        (
            [{"name": "a", "monitors": [{"name": "m", "cpus": "1"}, {"name": "n", "cpus": "0-1"}]}],
            "The CPU 1 is in the monitor groups m and n",
        ),
        ([{"name": "a", "monitors": [{"name": "m"}, {"name": "m"}]}], "the monitor group m is named twice"),
        ([{"name": "a", "monitors": [{"name": "x/y"}]}], "'x/y' is no name"),
        ([{"name": "a", "cpus": "0x3"}], "group a: cpus: '0x3' is no CPU number"),
        (
            [{"name": "a", "monitors": [{"name": "m", "cpus": "3-1"}]}],
            "group a: monitor m: cpus: the range '3-1' runs backwards.",
        ),
    ],
)
def test_contradictions_are_refused(groups: list[dict[str, Any]], words: str) -> None:
    assert words in refused(*groups)


def test_the_cpus_of_a_group_that_goes_are_free() -> None:
    request = parse_resctrl_request(
        [{"name": "old", "state": "absent", "cpus": "0-3"}, {"name": "new", "cpus": "0-3"}], None, "none"
    )
    assert request.groups[1].cpus == (0, 1, 2, 3)


def test_monitors_of_different_groups_may_have_the_same_name() -> None:
    monitors = [{"name": "watch", "cpus": None}]
    request = parse_resctrl_request([{"name": "a", "monitors": monitors}], {"monitors": monitors}, "none")
    assert request.groups[0].monitors == request.default.monitors == {"watch": None}
