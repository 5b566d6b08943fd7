# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filters of epyc_llama_tuned: what goes over the instances, and what the file says after some runs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.template import trust_as_template

from ansible_collections.sovereign.epyc.plugins.filter import tuned_file, with_tuned

FILE = tuned_file.FilterModule().filters()["tuned_file"]
WITH = with_tuned.FilterModule().filters()["with_tuned"]
ON = {"kernel": "6.12", "microcode": "0xa10113e", "sku": "9754", "bios": None}
NEW = {"options": {"threads": 12}, "run": "r1", "ratio": 1.12, "low": 1.09, "high": 1.15, "measured_on": ON}
OLD = {"options": {"threads": 8, "ubatch": 1024}, "run": "r0", "ratio": 1.3, "measured_on": {"kernel": "6.1"}}


def run(name: str = "chat", tuned: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"item": {"name": name}, "clean": True, "document": "/run.json", "tuned": tuned or {}, **more}


def host(*results: dict[str, Any], tuned: dict[str, Any] | None = None, **now: Any) -> dict[str, Any]:
    found = [{"item": name, "found": value} for name, value in now.items()]
    return {"tuned": tuned or {}, "results": list(results), "now": found}


def entries(hosts: dict[str, Any], kept: dict[str, Any] | None = None, together: bool = False) -> Any:
    """What the file has, None where nothing changes."""
    made = FILE(hosts, kept or {}, together=together)
    assert made["differences"] == []
    return yaml.safe_load(made["text"])["epyc_llama_tuned"] if made["text"] else None


def test_tuned_options_win_over_those_of_their_instance() -> None:
    instances = [{"name": "chat", "threads": 4, "port": 8080}, {"name": "code", "threads": 4}, {"port": 1}]
    assert WITH(instances, {"chat": NEW, "gone": OLD}) == [{**instances[0], "threads": 12}, *instances[1:]]
    assert instances[0]["threads"] == 4
    assert WITH(instances, {}) == instances


@pytest.mark.parametrize("entry", [{}, {"run": "r1"}, {"options": None}, None, "threads"])
def test_an_entry_without_options_is_refused(entry: Any) -> None:
    for instances in ([{"name": "chat"}], []):
        with pytest.raises(
            AnsibleFilterError, match=r"^epyc_llama_tuned: chat has no options\. Restore it as tune\.yml wrote"
        ):
            WITH(instances, {"chat": entry})


def test_the_file_says_what_a_run_found_out() -> None:
    """Texts that look like numbers stay texts, and what Ansible notes on values does not show."""
    found = {**NEW, "run": trust_as_template("r1")}
    text = FILE({"one": host(run(tuned=found))}, {})["text"]
    assert (
        text.startswith("# Made by tune.yml of the collection sovereign.epyc,") and "\n---\nepyc_llama_tuned:\n" in text
    )
    assert yaml.safe_load(text) == {"epyc_llama_tuned": {"chat": NEW}}


def test_what_was_tuned_before_was_the_default_of_the_run() -> None:
    tuned = {"chat": OLD, "code": OLD}
    both = {**NEW, "options": {"threads": 12, "ubatch": 1024}}
    assert entries({"one": host(run(tuned=NEW), tuned=tuned)}, tuned) == {"chat": both, "code": OLD}
    assert entries({"one": host(run(tuned=NEW), tuned={"chat": both})}, {"chat": both}) is None


def test_a_default_that_stays_holds_for_the_host_as_it_is_now() -> None:
    tuned = {"chat": OLD}
    stays = host(run(), tuned=tuned, chat={"kernel": "6.12"})
    assert entries({"one": stays}, tuned) == {"chat": {**OLD, "measured_on": {"kernel": "6.12"}}}
    assert entries({"one": host(run(), tuned=tuned)}, tuned) is None
    assert entries({"one": host(run())}) is None


@pytest.mark.parametrize("other", [{"clean": False}, {"document": ""}], ids=["void", "check"])
def test_what_proves_nothing_changes_nothing(other: dict[str, Any]) -> None:
    assert entries({"one": host(run(tuned=NEW, **other), run("code", NEW))}) == {"code": NEW}


@pytest.mark.parametrize("bad", ["{{ 6 * 7 }}", "{% if x %}", "{# x #}"])
def test_what_a_host_says_never_becomes_a_template(bad: str) -> None:
    key = {"options": {bad: 12}}
    for data in ({"measured_on": {"bios": bad}}, {"options": {"memory": bad}}, {"options": {"memory": [bad]}}, key):
        with pytest.raises(AnsibleFilterError, match="chat: the result of the host has braces"):
            FILE({"one": host(run(tuned={**NEW, **data}))}, {})
    with pytest.raises(AnsibleFilterError, match="chat: the result of the host has braces"):
        FILE({"one": host(run(), tuned={"chat": OLD}, chat={"bios": bad})}, {})


def test_a_group_has_what_its_hosts_agree_on() -> None:
    """Of hosts that gain differently the least, with what they have in common; what the file has beside stays."""
    least = {**NEW, "run": "r2", "ratio": 1.05, "measured_on": {**ON, "kernel": "6.13"}}
    hosts = {"one": host(run(tuned=NEW)), "two": host(run(tuned=least)), "three": host(run(tuned=NEW))}
    made = {**least, "measured_on": {**ON, "kernel": None}}
    assert entries(hosts, {"code": OLD}, together=True) == {"chat": made, "code": OLD}
    assert entries(hosts, {"chat": made}, together=True) is None
    assert entries({"one": host(run()), "two": host(run())}, together=True) is None


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (
            {"one": host(run(tuned=NEW)), "two": host(run())},
            "The hosts differ on chat: one has threads 12; two has the default.",
        ),
        (
            {"one": host(run(tuned=NEW), tuned={"chat": OLD}), "two": host(run(tuned=NEW))},
            "The hosts differ on chat: one has threads 12, ubatch 1024; two has threads 12.",
        ),
        ({"one": host(run(tuned=NEW)), "two": host(run(clean=False))}, "chat was measured on one alone."),
    ],
    ids=["default", "earlier options", "void"],
)
def test_a_group_that_does_not_agree_has_no_file(hosts: dict[str, Any], said: str) -> None:
    assert FILE(hosts, {"code": OLD}, together=True) == {"text": "", "differences": [said]}
