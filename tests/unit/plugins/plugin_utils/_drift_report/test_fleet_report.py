# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import fleet_report, schema, wording
from ansible_collections.sovereign.epyc.plugins.plugin_utils._host_data import Malformed
from ansible_collections.sovereign.epyc.plugins.plugin_utils._pages import escaping
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils.fleets import (
    BEFORE,
    NOW,
    answer,
    gathered,
    report,
)

FLEET: dict[str, tuple[str, ...]] = {
    "b-01": ("mask", "grub"),
    "b-02": ("mask", "grub"),
    "b-03": ("mask",),
    "a-1": (),
    "a-2": (),
    "c": ("unreachable",),
    "d": ("failed",),
    "e": ("unknown",),
}


def titles(document: fleet_report.Document) -> dict[str, list[str]]:
    return {finding["what"]: finding["hosts"] for finding in document["findings"]}


def test_hosts_with_equal_findings_form_groups_with_failed_hosts_first() -> None:
    groups = [(group["state"], group["label"]) for group in report(FLEET)["groups"]]
    assert groups == [
        ("unreachable", "c"),
        ("failed", "d"),
        ("drift", "b-[01-02]"),
        ("drift", "b-03"),
        ("unknown", "e"),
        ("clean", "a-[1-2]"),
    ]


def test_a_finding_of_many_hosts_is_stored_once() -> None:
    assert titles(report(FLEET)) == {
        "L3 share of group draft": ["b-01", "b-02", "b-03"],
        "all settings": ["e"],
        "boot parameter": ["b-01", "b-02"],
    }


def test_in_a_layer_findings_of_more_hosts_come_first() -> None:
    gathering = gathered({"a": ("mask",), "b": (), "c": ()})
    (finding,), dummy = answer("mask")
    for host in ("b", "c"):
        gathering.add_findings_counts_and_map(host, [{**finding, "what": "mode of group verify"}], {})
    assert [one["what"] for one in gathering.build_document(generated=NOW)["findings"]] == [
        "mode of group verify",
        "L3 share of group draft",
    ]


def test_the_order_of_answers_does_not_matter() -> None:
    names = list(FLEET)
    texts = set()
    for seed in range(5):
        random.Random(seed).shuffle(names)
        texts.add(json.dumps(report({name: FLEET[name] for name in names})))
    assert len(texts) == 1


def test_exit_code_tells_clean_drift_and_failure_apart() -> None:
    assert fleet_report.report_exit_code(report({"a": ()})) == 0
    assert fleet_report.report_exit_code(report({"a": (), "b": ("msr",)})) == 2
    assert fleet_report.report_exit_code(report({"a": (), "b": ("unknown",)})) == 2
    assert fleet_report.report_exit_code(report({"a": ("msr",), "b": ("unreachable",)})) == 1
    assert fleet_report.report_exit_code(report({"a": ("failed",)})) == 1
    assert fleet_report.report_exit_code(report({})) == 1, "where no host was checked, nothing is known"


def test_a_host_without_results_is_unknown() -> None:
    gathering = gathered({})
    gathering.get_or_add_host_row("silent")
    assert gathering.build_document(generated=NOW)["hosts"][0]["state"] == "unknown"


def test_a_host_with_drift_and_something_unknown_has_drift() -> None:
    gathering = gathered({"a": ("unknown",)})
    assert gathering.build_document(generated=NOW)["hosts"][0]["state"] == "unknown"
    gathering.add_findings_counts_and_map("a", *answer("msr"))
    assert gathering.build_document(generated=NOW)["hosts"][0]["state"] == "drift"


def test_an_unsupported_setting_is_drift_without_a_repair_command() -> None:
    gathering = gathered({})
    findings, coverage = answer("unknown")
    gathering.add_findings_counts_and_map("a", [{**findings[0], "status": "unsupported", "repair": ""}], coverage)
    document = gathering.build_document(generated=NOW)
    assert (document["hosts"][0]["state"], document["findings"][0]["command"]) == ("drift", "")


def test_a_comparison_names_new_and_resolved_findings_with_dates() -> None:
    first = report({"a": ("mask", "msr"), "b": ("mask",)}, generated=BEFORE)
    assert first["previous"] is None
    assert {finding["since"] for finding in first["findings"]} == {BEFORE}
    second = report({"a": ("mask", "pages"), "b": ()}, first)
    ages = {finding["what"]: (finding["since"], finding["new"]) for finding in second["findings"]}
    assert ages == {"L3 share of group draft": (BEFORE, []), "huge pages of 2 MiB": (NOW, ["a"])}
    assert [(one["label"], one["what"], one["since"]) for one in second["gone"]] == [
        ("b", "L3 share of group draft", BEFORE),
        ("a", "prefetcher l1_stride", BEFORE),
    ]
    assert (second["summary"]["new"], second["summary"]["gone"], second["previous"]) == (1, 2, BEFORE)


def test_a_finding_has_the_oldest_date_of_its_settings() -> None:
    (finding,), coverage = answer("mask")
    one, other = "resctrl:draft/L3/2", "resctrl:draft/L3/3"
    first, second = {**finding, "addresses": [one]}, {**finding, "addresses": [other], "found": "fff0"}
    document = None
    for found, date in (([first], BEFORE), ([first, second], "2026-11-21T06:00:00Z")):
        gathering = gathered({})
        gathering.add_findings_counts_and_map("a", found, coverage)
        document = gathering.build_document(generated=date, previous=document)
    gathering = gathered({})
    gathering.add_findings_counts_and_map("a", [{**finding, "addresses": [one, other]}], coverage)
    last = gathering.build_document(generated=NOW, previous=document)
    assert (last["findings"][0]["since"], last["gone"]) == (BEFORE, [])


def test_an_unreachable_host_keeps_its_last_known_findings() -> None:
    first = report({"a": ("mask",)}, generated=BEFORE)
    away = report({"a": ("unreachable",)}, first, generated="2026-11-20T18:00:00Z")
    assert away["gone"] == [], "nobody looked"
    assert [one["what"] for one in away["hosts"][0]["last_known"]] == ["L3 share of group draft"]
    back = report({"a": ("mask",)}, away)
    assert (back["findings"][0]["since"], back["findings"][0]["new"]) == (BEFORE, [])
    assert [one["what"] for one in report({"a": ()}, away)["gone"]] == ["L3 share of group draft"]


def test_a_finding_that_is_new_on_some_hosts_names_them() -> None:
    first = report({"a1": ("mask",), "a2": (), "a3": ()}, generated=BEFORE)
    second = report({"a1": ("mask",), "a2": ("mask",), "a3": ("mask",)}, first)
    (finding,) = second["findings"]
    assert (finding["since"], finding["new"], second["summary"]["new"]) == (BEFORE, ["a2", "a3"], 1)
    assert wording.format_first_date_and_new_hosts(finding) == f"since {BEFORE}, new on a[2-3]"


def test_a_repair_command_names_inventory_and_hosts() -> None:
    hosts = ["b 1", "b2"]
    assert fleet_report.format_repair_command("sovereign.epyc.site --tags cat", hosts, ["one", "two"]) == (
        "ansible-playbook -i one -i two sovereign.epyc.site -l 'b 1,b2' --tags cat"
    )
    assert fleet_report.format_repair_command("sovereign.epyc.site", ["b2"], [], "b* c") == (
        "ansible-playbook sovereign.epyc.site -e 'epyc_hosts=b* c' -l b2"
    )
    assert fleet_report.format_repair_command("sovereign-epyc apply", ["b2"], []) == (
        "ansible b2 --become -m ansible.builtin.command -a 'sovereign-epyc apply'"
    )


def test_a_host_name_with_direction_marks_is_escaped_in_the_command() -> None:
    name = "web\u202egnp.1\n'\x07\U000e0001\u00a0"
    command = fleet_report.format_repair_command("sovereign.epyc.site", [name], [])
    assert command == ("ansible-playbook sovereign.epyc.site -l $'web\\u202egnp.1\\x0a\\'\\x07\\U000e0001\\u00a0'")
    bash = ["env", "LC_ALL=C.UTF-8", "bash", "-c", f"printf %s {command.rpartition(' -l ')[2]}"]
    assert subprocess.run(bash, stdout=subprocess.PIPE, check=True).stdout.decode() == name
    byte = escaping.quote_for_shell(b"\xff".decode("utf-8", "surrogateescape"))
    bash[-1] = f"printf %s {byte}"
    assert subprocess.run(bash, stdout=subprocess.PIPE, check=True).stdout == b"\xff"


FINDING, COVERAGE = answer("mask")[0][0], answer("mask")[1]


@pytest.mark.parametrize(
    ("findings", "coverage", "where"),
    [
        ([5], COVERAGE, "findings[0] is 5"),
        ([{"what": "x"}], COVERAGE, "findings[0].layer is missing"),
        ([FINDING, {**FINDING, "layer": "colour"}], COVERAGE, "findings[1].layer is 'colour'"),
        ([{**FINDING, "status": "ok"}], COVERAGE, "findings[0].status is 'ok'"),
        ([{**FINDING, "live": []}], COVERAGE, "findings[0].live is []"),
        ([{**FINDING, "addresses": [1]}], COVERAGE, "findings[0].addresses[0] is 1"),
        ([{**FINDING, "pending_reboot": "no"}], COVERAGE, "findings[0].pending_reboot is 'no'"),
        ([{**FINDING, "since": "x"}], COVERAGE, "findings[0].since is nothing that"),
        ([], [], "coverage is []"),
        ([], {"colour": {}}, "coverage.colour is nothing that"),
        ([], {"msr": 1}, "coverage.msr is 1"),
        ([], {"msr": {"ok": "1"}}, "coverage.msr.ok is '1'"),
        ([], {"msr": {"fine": 1}}, "coverage.msr.fine is nothing that"),
        ([], {"msr": {"ok": -1}}, "coverage.msr.ok is -1"),
        ([], {"msr": {"ok": 10**4299}}, "coverage.msr.ok is 1000"),
        ([], {"msr": {"ok": 10**5000}}, "coverage.msr.ok is a number of thousands of digits"),
        ([{**FINDING, "live": "x" * 5000}], COVERAGE, f"findings[0].live is '{'x' * 39}..."),
    ],
)
def test_a_malformed_answer_is_refused_and_changes_nothing(findings: Any, coverage: Any, where: str) -> None:
    gathering = gathered({"a": ("msr",)})
    before = json.dumps(gathering.build_document(generated=NOW))
    with pytest.raises(Malformed) as caught:
        gathering.add_findings_counts_and_map("a", findings, coverage)
    assert where in str(caught.value)
    assert json.dumps(gathering.build_document(generated=NOW)) == before


def test_equal_maps_are_stored_once_and_only_for_hosts_with_findings() -> None:
    host_map = plans.result("9354")["map"]
    hosts: dict[str, tuple[str, ...]] = {"c": ("mask",), "b": (), "a": ("msr",), "gone": ("unreachable",)}
    document = report(hosts, host_map=host_map)
    assert document["maps"] == [host_map]
    assert [(row["name"], row.get("map")) for row in document["hosts"]] == [
        ("a", 0), ("b", None), ("c", 0), ("gone", None)
    ]  # fmt: skip
    assert report({"b": ()}, host_map=host_map)["maps"] == []
    gathering = gathered({"a": ("msr",)})
    before = gathering.build_document(generated=NOW)
    with pytest.raises(Malformed):
        gathering.add_findings_counts_and_map("a", *answer("mask"), {**host_map, "model": 5})
    assert gathering.build_document(generated=NOW) == before


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        ({"generated": 5}, "generated is 5"),
        ({"findings": None}, "findings is None"),
        ({"findings": []}, "hosts[0].findings is not about"),
        ({"findings": [{"id": 1}]}, "findings[0].layer is missing"),
        ({"findings": [{**FINDING, "id": []}]}, "findings[0].id is []"),
        ({"hosts": [{"name": "a", "findings": [[]], "since": ["x"]}]}, "hosts[0].findings[0] is []"),
        ({"hosts": [5]}, "hosts[0] is 5"),
        ({"hosts": [{"name": "a", "findings": [1], "since": []}]}, "hosts[0].findings is not about"),
        ({"hosts": [{"name": "a", "findings": [], "since": [], "last_known": [{}]}]}, "hosts[0].last_known[0].layer"),
    ],
)
def test_a_malformed_earlier_report_is_refused(spoil: dict[str, Any], where: str) -> None:
    document = report({"a": ("mask",), "b": ("unreachable",)}, report({"b": ("msr",)}, generated=BEFORE))
    schema.validate_previous_report(document)
    with pytest.raises(Malformed) as caught:
        schema.validate_previous_report({**document, **spoil})
    assert where in str(caught.value)


def test_a_layer_of_an_older_version_is_reported_as_other() -> None:
    first = report({"a": ("mask",)}, generated=BEFORE)
    first["findings"][0]["layer"] = "colour"
    schema.validate_previous_report(first)
    assert [one["layer"] for one in report({"a": ()}, first)["gone"]] == ["other"]
    away = report({"a": ("unreachable",)}, first)
    away["hosts"][0]["last_known"][0]["layer"] = "colour"
    assert [one["layer"] for one in report({"a": ()}, away)["gone"]] == ["other"]


def test_a_setting_that_is_absent_as_wanted_is_shown_as_not_there() -> None:
    finding = {**FINDING, "wanted": "nothing", "found": "nothing", "persistent": "drift", "at_boot": "1-3"}
    assert wording.format_finding_values_or_reason(finding) == "not there now, as wanted; 1-3 after a boot"


def test_counts_of_several_tasks_add_up() -> None:
    gathering = gathered({"a": (), "b": ()})
    gathering.add_findings_counts_and_map("a", [], {"other": {"ok": 1, "drift": 0}})
    gathering.add_findings_counts_and_map("a", [], {"other": {"ok": 1, "drift": 2}})
    rows = {row["name"]: row["coverage"] for row in gathering.build_document(generated=NOW)["hosts"]}
    assert rows["a"]["other"] == {"ok": 2, "unsupported": 0, "unknown": 0, "drift": 2}
    assert "other" not in rows["b"], "hosts that were alike share nothing any more"
