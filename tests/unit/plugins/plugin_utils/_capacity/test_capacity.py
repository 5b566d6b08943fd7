# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import fleet as fleets
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import paper_machines, paper_tiers, rendering
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.capacity_request import (
    CapacityRequest,
    parse_capacity_request,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.host_facts import (
    NONE_KEPT,
    age_in_words,
    choose_host_facts,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import machine_of_facts, plan_service
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import capacity_facts as facts

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=timezone.utc)


def counted(hosts: dict[str, Any], rate: float = 20, wanted: dict[str, int] | None = None) -> fleets.FleetCapacity:
    """Return the capacity of hosts by their facts; a text in place of facts is the reason why there are none."""
    known = {
        name: {"facts": None, "reason": value} if isinstance(value, str) else {"facts": value, "reason": ""}
        for name, value in hosts.items()
    }
    return rendering.compute_fleet_capacity(known, parse_capacity_request(rate, 0, wanted))


def rendered(fleet: fleets.FleetCapacity) -> dict[str, Any]:
    return rendering.render_capacity(fleet, NOW)


def single(*instances: dict[str, Any], rate: float = 20) -> fleets.InstanceCapacity:
    """Return the first of the instances of a 9754."""
    return counted({"a": facts.host("9754", *instances)}, rate).instances[0]


def test_a_stored_run_counts_before_any_prediction() -> None:
    """Users are the most streams of which each had the rate; the run had no more streams than three."""
    chat = facts.instance(facts.DENSE_70B, slots=3, run=facts.run({1: 8.0, 2: 6.5, 3: 5.0}))
    found = [single(chat, rate=rate) for rate in (9, 8, 6, 5)]
    assert [one.users for one in found] == [0, 1, 2, 3]
    assert [one.verdict for one in found] == ["under", "under", "under", "as asked"]
    assert [one.is_least for one in found] == [False, False, False, True]
    assert {one.source for one in found} == {"measured"} and found[0].alone == 8.0


def test_without_a_run_users_are_predicted_and_marked() -> None:
    paper = single(facts.instance(facts.DENSE_8B, slots=2))
    assert paper.source == "on paper" and paper.possible and paper.possible > 2
    assert (paper.users, paper.verdict) == (2, "over")
    measured = facts.measured(facts.host("9754", facts.instance(facts.DENSE_70B)), 400.0)
    (dense,) = counted({"a": measured}, 20).instances
    assert (dense.source, dense.users, dense.verdict) == ("predicted", 0, "under")
    assert dense.alone is not None and 5 < dense.alone < 9
    # A run of which no round counts measured nothing.
    assert single(facts.instance(facts.DENSE_8B, run=facts.run({}))).source == "on paper"


def test_a_model_without_numbers_is_unknown_with_its_reason() -> None:
    found = single(facts.instance(None))
    assert (found.users, found.verdict, found.tier) == (None, "unknown", "")
    assert "Of vLLM nothing is predicted" in rendered(counted({"a": facts.host("9754", facts.instance(None))}))["text"]


def test_instances_on_the_same_nodes_share_their_bandwidth() -> None:
    alone = single(facts.instance(facts.DENSE_8B)).alone
    beside = single(facts.instance(facts.DENSE_8B), facts.instance(facts.DENSE_8B, "other"))
    elsewhere = single(facts.instance(facts.DENSE_8B), facts.instance(facts.DENSE_8B, "other", nodes=[1]))
    assert beside.sharing == 2 and beside.alone is not None and alone is not None
    assert beside.alone < 0.7 * alone
    assert elsewhere.alone == alone


def test_the_weights_of_a_file_that_tenants_map_count_once() -> None:
    tenants = [facts.instance(facts.DENSE_8B, name) for name in ("red", "green", "blue")]
    (host,) = counted({"a": facts.host("9754", *tenants)}).hosts
    size = int(facts.DENSE_8B.file_bytes)
    assert (host.weight_bytes, host.saved_bytes) == (size, 2 * size)
    # Weights in huge pages are not shared.
    (host,) = counted({"a": facts.host("9754", *({**one, "mapped": []} for one in tenants))}).hosts
    assert (host.weight_bytes, host.saved_bytes) == (3 * size, 0)


def test_tiers_of_models() -> None:
    assert single(facts.instance(facts.DENSE_70B)).tier == "interactive"
    assert single(facts.instance(facts.MIXTURE_671B)).tier == "large"
    pair = facts.processor(32, 2)
    both = counted({"a": facts.host("7543", facts.instance(facts.MIXTURE_671B, processor=pair))})
    assert both.instances[0].tier == "largest"
    # A small model that was told to span both sockets stays what it is.
    spread = counted({"a": facts.host("7543", facts.instance(facts.DENSE_70B, processor=pair))})
    assert spread.instances[0].tier == "interactive"


def test_what_is_wanted_is_compared_by_model_instance_and_tier() -> None:
    chat = facts.instance(facts.DENSE_8B, "chat", "/srv/models/small.gguf", 4)
    wanted = {"small": 4, "chat": 5, "interactive": 3, "nothing": 1}
    fleet = counted({"a": facts.host("9754", chat)}, 20, wanted)
    assert {row.name: (row.served, row.verdict) for row in fleet.list_wanted()} == {
        "small": (4, "as asked"),
        "chat": (4, "under"),
        "interactive": (4, "over"),
        "nothing": (0, "under"),
    }
    result = rendered(fleet)
    assert result["code"] == rendering.UNDER_WANTED
    assert "Under what is wanted: 4 of 5 users of chat and 0 of 1 users of nothing." in result["headline"]
    assert rendered(counted({"a": facts.host("9754", chat)}, 20, {"small": 4}))["code"] == rendering.SERVED


def test_a_fault_of_the_memory_is_the_first_line_of_the_report_and_of_its_hosts() -> None:
    slow = facts.measured(facts.host("9754", faults=(facts.SLOW,)), 153.0)
    result = rendered(counted({"a-1": facts.host("9354"), "b-2": slow}))
    assert result["text"].startswith("b-2: This host reads 153 of 461 GB/s")
    lines = [line.strip() for line in result["text"].partition("\nHosts:\n")[2].splitlines()]
    assert lines[1].startswith("b-2 ") and lines[2].startswith("a-1 ")
    assert result["page"].index("This host reads 153") < result["page"].index("<h1>")


def test_hosts_without_facts_are_named_with_the_reason_and_the_command() -> None:
    result = rendered(counted({"a-1": facts.host(), "a-2": "no facts are kept", "a-3": "no facts are kept"}))
    assert "No facts of 2 hosts, which are left out: a-[2-3]." in result["text"]
    assert "a-[2-3]: no facts are kept" in result["text"]
    assert "playbooks/capacity.yml -e epyc_capacity_ask=missing" in result["text"]
    assert result["code"] == rendering.SERVED
    nothing = rendered(counted({"a-1": "it did not answer"}))
    assert nothing["code"] == rendering.NOT_COUNTED and "nothing can be counted" in nothing["headline"]


def test_equal_hosts_share_a_row() -> None:
    chat = facts.instance(facts.DENSE_70B)
    fleet = counted({f"e-{number}": facts.host("9754", chat) for number in range(1, 4)})
    assert "\n  e-[1-3] 9754" in rendered(fleet)["text"]


def test_sixty_tokens_of_a_dense_70b_need_more_than_a_socket_has() -> None:
    """2,520 GB/s without speculation; a 9754 reads a seventh of it, and each step would have to give many tokens."""
    request = CapacityRequest(20, 0, {})
    assert paper_tiers.needed_gbps() == pytest.approx(2520, rel=0.02)
    assert paper_tiers.needed_gbps(3) == pytest.approx(840, rel=0.02)
    (promised,) = paper_tiers.list_promised_rates([machine_of_facts("a", facts.host("9754"))], request)
    assert 5.5 < promised.steps < 9 and promised.needed_tokens_per_step > 6
    assert promised.verdict == "no"
    (sixth,) = paper_tiers.list_promised_rates(
        [paper_machines.build_data_sheet_machine(paper_machines.SIXTH_GENERATION, 1)], request
    )
    assert sixth.source == "paper" and 13 < sixth.steps < 32 and sixth.verdict in ("at best", "in reach")


def test_tiers_of_the_papers_beside_what_hosts_hold() -> None:
    request = CapacityRequest(20, 0, {})
    machines = [machine_of_facts(kind, facts.host(kind)) for kind in ("9354", "7543")]
    dense, mixture, largest = paper_tiers.list_tier_services(machines, request)
    assert dense.holders == ["9354", "7543"] and dense.best_host == "9354"
    # 713 GB fit into no socket of these hosts, but into the memory of both sockets; 812 GB fit there too.
    assert mixture.holders == largest.holders == ["7543"]
    assert largest.best is not None and largest.best.sockets == 2 and largest.best.tokens_per_second < 1


def test_each_socket_that_holds_a_model_serves_it() -> None:
    machine = machine_of_facts("a", facts.host("7543"))
    service = plan_service(machine, facts.DENSE_8B, CapacityRequest(10, 0, {}))
    assert service is not None and (service.instances, service.sockets) == (2, 1)
    assert (
        plan_service(machine_of_facts("a", facts.host("9354")), facts.MIXTURE_671B, CapacityRequest(1, 0, {})) is None
    )


def test_the_memory_for_contexts_limits_users() -> None:
    machine = machine_of_facts("a", facts.host("9754"))
    few = plan_service(machine, facts.DENSE_8B, CapacityRequest(0.001, 1 << 20, {}))
    many = plan_service(machine, facts.DENSE_8B, CapacityRequest(0.001, 1 << 10, {}))
    assert few is not None and many is not None and few.users == 5 < many.users


def test_one_more_host_of_each_sku_is_in_the_report() -> None:
    text = rendered(counted(dict(facts.example_fleet())))["text"]
    more = text.partition("\nWhat one more host would add:\n")[2].partition("\n\n")[0]
    for name in ("9754", "9654", "9354", "2 x 7543", "9655", "9355", "9965", "2 x 9755", "9996 (paper)"):
        assert f"\n  {name} " in more, name
    assert "as epyc9754-01.example.com" in more and "16 modules of 64 GiB" in more


def test_watts_are_measured_or_of_the_data_sheet() -> None:
    chat = facts.instance(facts.DENSE_70B, run=facts.run({1: 8.0}, watts=341.0, tokens_per_joule=0.03))
    assert [host.watts for host in counted({"a": facts.host("9754", chat), "b": facts.host("7543")}).hosts] == [
        (341.0, "measured"),
        (450.0, "paper"),
    ]
    (unknown,) = counted({"a": facts.host("9754", sku="")}).hosts
    assert unknown.watts == (None, "")


PLANNED: dict[str, Any] = {
    "name": "new",
    "model": "/srv/models/8B-dense.gguf",
    "slots": 2,
    "cpus": "socket1",
    "hugepages": "thp",
}


def test_instances_of_the_inventory_count_before_they_are_installed() -> None:
    """Their numbers are those of the same file on another host; installed ones count once."""
    first = facts.host("9754", facts.instance(facts.DENSE_8B, "there"))
    inventory = [PLANNED, {"name": "there", "model": "/srv/models/other.gguf"}, {"name": "odd", "model": "/none.gguf"}]
    hosts = {
        "a": {"facts": first, "reason": ""},
        "b": {
            "facts": facts.host("7543", facts.instance(facts.DENSE_8B, "there")),
            "instances": inventory,
            "reason": "",
        },
    }
    fleet = rendering.compute_fleet_capacity(hosts, CapacityRequest(20, 0, {}))
    there, new, odd = fleet.hosts[1].instances
    assert (there.installed, new.installed, odd.installed) == (True, False, False)
    assert new.sharing == 1 and new.possible and new.tier == "interactive"
    assert odd.users is None and "no host has /none.gguf yet" in odd.unknown
    assert "1 of 1 instance not installed yet." in rendered(fleet)["text"]
    assert fleet.hosts[1].weight_bytes == 2 * int(facts.DENSE_8B.file_bytes), "weights in huge pages are not shared"


def test_an_inventory_that_is_no_list_is_refused() -> None:
    hosts = {"a": {"facts": facts.host(), "reason": "", "instances": {"name": "chat"}}}
    with pytest.raises(BadRequest, match="a: epyc_llama_instances is a dictionary"):
        rendering.compute_fleet_capacity(hosts, CapacityRequest(20, 0, {}))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"rate": 0}, "epyc_capacity_rate is '0'"),
        ({"rate": "fast"}, "epyc_capacity_rate is 'fast'"),
        ({"context": -1}, "epyc_capacity_context is '-1'"),
        ({"wanted": {"chat": "many"}}, "epyc_capacity_wanted: chat is 'many'"),
        ({"wanted": ["chat"]}, "epyc_capacity_wanted is a list"),
    ],
)
def test_wrong_requests_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        parse_capacity_request(**words)


def test_kept_facts_are_checked_before_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert choose_host_facts(None, str(path)) == (None, NONE_KEPT)
    path.write_text(json.dumps(facts.host("9754", facts.instance(facts.DENSE_8B))))
    assert choose_host_facts(None, str(path)) == (facts.host("9754", facts.instance(facts.DENSE_8B)), "")
    # Facts that were just read win.
    assert choose_host_facts(facts.host("9354"), str(path))[0] == facts.host("9354")
    for changes, message in (
        ({"version": 99}, "of another version of the collection"),
        ({"sockets": []}, "they name no socket"),
        ({"instances": [{}]}, "facts.instances[0].name is missing"),
        ({"bytes": "many"}, "facts.bytes is 'many'"),
    ):
        path.write_text(json.dumps(facts.host("9754", **changes)))
        found, reason = choose_host_facts(None, str(path))
        assert found is None and message in reason
    path.write_text("{")
    assert "cannot be used" in choose_host_facts(None, str(path))[1]


def test_texts_of_a_host_cannot_alter_a_terminal_or_the_page() -> None:
    evil = "\x1b[2J<img src=x>\u202e"
    named = facts.host("9754", facts.instance(facts.DENSE_8B, evil, f"/srv/{evil}.gguf"), faults=(evil,), sku=evil)
    checked, dummy = choose_host_facts(named, "")
    result = rendered(counted({"a": checked}))
    assert "\x1b" not in result["text"] + result["page"] and "\u202e" not in result["text"] + result["page"]
    assert "<img" not in result["page"] and "&lt;img" in result["page"]


@pytest.mark.parametrize(
    ("time", "age"),
    [
        ("2026-11-27T10:00:00Z", "3 days"),
        ("2026-11-29T09:00:00Z", "1 day"),
        ("2026-11-30T08:59:00Z", "1 hour"),
        ("2026-11-30T09:58:00Z", "2 minutes"),
        ("2026-11-30T10:00:00Z", "less than a minute"),
        ("yesterday", "an unknown time"),
    ],
)
def test_the_age_of_facts(time: str, age: str) -> None:
    assert age_in_words(facts.host(time=time), NOW) == age


def test_the_data_has_the_numbers_of_the_report() -> None:
    data = rendered(counted(dict(facts.example_fleet()), 6, {"interactive": 2}))["data"]
    assert json.loads(json.dumps(data)) == data
    assert data["rate"] == 6 and set(data["users"]) == {"interactive", "large", "largest"}
    assert data["wanted"][0]["name"] == "interactive"
    assert [host["name"] for host in data["hosts"] if host["faults"]] == ["epyc9754-02.example.com"]
    assert data["promise"][-1]["machine"] == f"{paper_machines.SIXTH_GENERATION} (paper)"
