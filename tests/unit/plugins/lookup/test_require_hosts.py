# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which runs the lookup refuses, and in which words. Real runs are in tests/gates/test_exit_codes.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible.utils.context_objects import CLIArgs

from ansible_collections.sovereign.epyc.plugins.lookup import require_hosts
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.groups import SERVERS

GROUPS = {"all": ["one", "two", "edge"], "ungrouped": ["one"], "rack": ["two"], "gateway": ["edge"], "later": []}


def run_lookup(
    monkeypatch: pytest.MonkeyPatch,
    pattern: str = "all",
    options: dict[str, Any] | None = None,
    tags: tuple[str, ...] = (),
    **more: Any,
) -> str:
    """Return the refusal of a play of this pattern, an empty text where its hosts are returned.

    An empty ``pattern`` stands for none, as in the playbooks of the collection. ``options`` are those of the command
    line, ``more`` are variables.
    """
    monkeypatch.setattr(require_hosts.context, "CLIARGS", CLIArgs(options or {}))
    variables: dict[str, Any] = {
        "ansible_inventory_sources": ["one,two,edge"],
        "ansible_run_tags": ["all"],
        "ansible_skip_tags": [],
        "groups": GROUPS,
        **more,
    }
    plugin = require_hosts.LookupModule(templar=Templar(loader=DataLoader(), variables=variables))
    monkeypatch.setattr(plugin, "set_options", lambda **dummy: None)
    monkeypatch.setattr(plugin, "get_option", {"tags": list(tags)}.get)
    try:
        assert plugin.run([pattern] if pattern else [], variables) == [more.get("epyc_hosts", pattern or SERVERS)]
    except AnsibleError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("all", None),
        ("gateway", None),
        ("gateway", "all:!rack"),
        ("all:!gateway", "rack"),
        ("all", "rack:&two"),
        ("all", "~t.o"),
        ("localhost", None),
    ],
)
def test_existing_hosts_are_accepted(monkeypatch: pytest.MonkeyPatch, pattern: str, limit: str | None) -> None:
    assert run_lookup(monkeypatch, pattern, ansible_limit=limit) == ""


def test_a_limit_may_be_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "retry").write_text("edge\n")
    limit = f"@{tmp_path}/retry"
    assert run_lookup(monkeypatch, "gateway", ansible_limit=limit) == ""
    assert f"none matches 'rack' and the limit '{limit}'" in run_lookup(monkeypatch, "rack", ansible_limit=limit)


def test_an_inventory_without_hosts_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty: dict[str, Any] = {"groups": {"all": [], "ungrouped": []}}
    (tmp_path / "hosts").write_text("")
    sources = [f"{tmp_path}/hosts", f"{tmp_path}/missing"]
    assert run_lookup(monkeypatch, "gateway", ansible_inventory_sources=sources, ansible_limit="x", **empty) == (
        f"No host was reached, because the inventory {tmp_path}/hosts and {tmp_path}/missing (which does not exist) "
        "names none. Say with -i which inventory to read. Nothing was changed."
    )
    assert run_lookup(monkeypatch, "localhost", **empty) == ""


def test_a_group_without_hosts_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for pattern in ("later", "monitoring", "rack:&gateway"):
        assert run_lookup(monkeypatch, pattern) == (
            f"No host was reached: of 3 in the inventory one,two,edge, none matches '{pattern}'. Put a host there, or "
            "say with -i which inventory to read. Nothing was changed."
        )


def test_the_hosts_of_playbooks_are_those_of_their_group_or_of_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {**GROUPS, "epyc_servers": ["two"]}
    assert run_lookup(monkeypatch, "", groups=ours) == ""
    for pattern in ("rack", "all:!gateway", "two,edge"):
        assert run_lookup(monkeypatch, "", epyc_hosts=pattern) == "", "the group is not needed"


@pytest.mark.parametrize("groups", [GROUPS, {**GROUPS, "epyc_servers": []}])
def test_an_inventory_without_the_group_of_servers_is_told_what_to_write(
    monkeypatch: pytest.MonkeyPatch, groups: dict[str, list[str]]
) -> None:
    for limit in (None, "rack"):
        assert run_lookup(monkeypatch, "", groups=groups, ansible_limit=limit) == (
            "No host was reached: of 3 in the inventory one,two,edge, none is in the group epyc_servers. Put a host "
            "there, in YAML as\n\nepyc_servers:\n  hosts:\n    NAME-OF-THE-HOST:\n\nor name a group of yours with -e "
            "epyc_hosts=GROUP, or every host with -e epyc_hosts=all. Nothing was changed."
        )


def test_an_inventory_without_gateways_is_told_which_variable_names_their_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusal = run_lookup(monkeypatch, "epyc_gateway")
    assert "none is in the group epyc_gateway." in refusal
    assert refusal.endswith("or name a group of yours with -e epyc_gateway_group_name=GROUP. Nothing was changed.")


def test_a_variable_that_matches_no_host_is_named_by_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "none matches 'racck'." in run_lookup(monkeypatch, "", epyc_hosts="racck")


@pytest.mark.parametrize("value", ["", " , ", ["rack"], 7, None])
def test_a_variable_that_is_no_text_or_empty_is_refused(monkeypatch: pytest.MonkeyPatch, value: object) -> None:
    """Ansible would choose every host by an empty pattern, as a survey of AWX passes it that was not filled in."""
    assert run_lookup(monkeypatch, "", epyc_hosts=value) == (
        "epyc_hosts must be the name of a group or a pattern of hosts, as a text that is not empty. Nothing was "
        "changed."
    )


def test_a_limit_that_leaves_no_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible takes localhost for a host of the play, and then leaves it out."""
    for pattern in ("gateway", "localhost"):
        assert run_lookup(monkeypatch, pattern, ansible_limit="rack") == (
            f"No host was reached: of 3 in the inventory one,two,edge, none matches '{pattern}' and the limit 'rack'. "
            "Choose other hosts with -l, or leave it out. Nothing was changed."
        )


@pytest.mark.parametrize("option", ["syntax", "listhosts", "listtasks", "listtags"])
def test_listings_are_not_refused(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    assert run_lookup(monkeypatch, "nobody", {option: True}, ansible_run_tags=["nosuch"]) == ""


@pytest.mark.parametrize(
    ("chosen", "skipped", "tags"),
    [
        (["all"], [], ()),
        (["untagged"], ["never"], ()),
        (["numa", "base"], ["cat"], ("base", "numa", "cat")),
        (["tagged"], ["never"], ("base",)),
        (["all"], ["molecule-notest", "notest"], ("base",)),
    ],
)
def test_existing_tags_are_accepted(
    monkeypatch: pytest.MonkeyPatch, chosen: list[str], skipped: list[str], tags: tuple[str, ...]
) -> None:
    assert run_lookup(monkeypatch, tags=tags, ansible_run_tags=chosen, ansible_skip_tags=skipped) == ""


@pytest.mark.parametrize(
    ("chosen", "skipped", "tags", "words"),
    [
        (["nosuch"], [], (), "--tags names nosuch, which is no tag of this playbook; it has none, so leave"),
        (["tagged"], [], (), "--tags names tagged"),
        (["never"], [], (), "--tags names never"),
        (
            ["numa", "nosuch"],
            [],
            ("base", "numa"),
            "--tags names nosuch, which is no tag of this playbook; its tags are base, numa",
        ),
        (["untagged"], [], ("base",), "--tags names untagged"),
        (["all"], ["always"], (), "--skip-tags names always"),
        (["all"], ["all"], ("base",), "--skip-tags names all"),
    ],
)
def test_tags_that_leave_out_all_or_are_none_are_refused(
    monkeypatch: pytest.MonkeyPatch, chosen: list[str], skipped: list[str], tags: tuple[str, ...], words: str
) -> None:
    refusal = run_lookup(monkeypatch, tags=tags, ansible_run_tags=chosen, ansible_skip_tags=skipped)
    assert refusal.startswith(words) and refusal.endswith("Nothing was changed.")


@pytest.mark.parametrize("name", ["Set it", "sovereign.epyc.one : Set it", "Set*", "Quoted: yes"])
def test_a_start_at_an_existing_task_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    (tmp_path / "roles/one/tasks").mkdir(parents=True)
    (tmp_path / "roles/one/tasks/main.yml").write_text("- name: Set it\n  block:\n    - name: 'Quoted: yes'\n")
    monkeypatch.setattr(require_hosts, "ROOT", str(tmp_path))
    assert run_lookup(monkeypatch, options={"start_at_task": name}) == ""
    assert run_lookup(monkeypatch, options={"start_at_task": f"{name}x"}) == (
        f"--start-at-task names {f'{name}x'!r}, and no task of this collection has that name. Nothing was changed."
    )


@pytest.mark.parametrize("terms", [["one", "two"], [["one"]]])
def test_it_takes_one_pattern(terms: list[Any]) -> None:
    with pytest.raises(AnsibleError, match="require_hosts takes one pattern of hosts, or none"):
        require_hosts.LookupModule().run(terms, {})
