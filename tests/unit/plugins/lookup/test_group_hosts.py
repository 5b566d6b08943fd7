# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hosts of the groups that roles read, by the group or by the variable that names another one."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.sovereign.epyc.plugins.lookup import group_hosts

GROUPS = {
    "all": ["b", "a", "edge"],
    "ungrouped": [],
    "epyc_servers": ["b", "a"],
    "rack": ["a"],
    "epyc_gateway": ["edge"],
    "lb": ["b"],
}


def run_lookup(*terms: Any, options: dict[str, Any] | None = None, **variables: Any) -> list[str]:
    templar = Templar(loader=DataLoader(), variables=variables)
    return group_hosts.LookupModule(templar=templar).run([*terms], {"groups": GROUPS, **variables}, **(options or {}))


def test_a_group_has_its_hosts_in_the_order_of_the_inventory() -> None:
    assert run_lookup("epyc_servers") == ["b", "a"]
    assert run_lookup("epyc_monitoring") == [], "no such group"


def test_a_variable_names_another_group() -> None:
    chosen = {"epyc_hosts": "all:!rack", "epyc_gateway_group_name": trust_as_template("{{ ours }}"), "ours": "lb"}
    assert [run_lookup(group, **chosen) for group in ("epyc_servers", "epyc_gateway", "rack")] == [
        ["b", "edge"],
        ["b"],
        ["a"],
    ]


@pytest.mark.parametrize(("terms", "options"), [([], {}), (["a", "b"], {}), ([1], {}), (["a"], {"wantlist": True})])
def test_it_takes_one_name_of_a_group(terms: list[Any], options: dict[str, Any]) -> None:
    with pytest.raises(AnsibleError, match="group_hosts takes one name of a group, and no options"):
        run_lookup(*terms, options=options)
