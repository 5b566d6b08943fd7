# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values of attributes in one spelling for comparisons, and in that of the registry for the BMC."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.registry import Attribute

RETRY = {"Type": "Enumeration", "Value": [{"ValueName": 3}, {"ValueName": 10}]}
NODES = {"Type": "Enumeration", "Value": [{"ValueName": "NPS1 "}, {"ValueName": "NPS4 "}]}
CASES = {"Type": "Enumeration", "Value": [{"ValueName": "Auto"}, {"ValueName": "AUTO"}, {"ValueName": "off"}]}


@pytest.mark.parametrize(
    ("entry", "spellings", "sent"),
    [
        (RETRY, [3, "3", " 3", 3.0], 3),
        (NODES, ["NPS4", "NPS4 ", "nps4"], "NPS4 "),
        ({"Type": "Boolean"}, [True, "true", "True ", "1", 1], True),
        ({"Type": "Boolean"}, [False, "false", "0", 0], False),
        ({"Type": "Integer"}, [400, "400", " 400"], 400),
        ({"Type": "Integer"}, [-5, "-5"], -5),
        ({"Type": "String"}, ["a b", " a b "], "a b"),
        (CASES, ["OFF", "off"], "off"),
        # Two names that only differ in their case are two values.
        (CASES, ["Auto"], "Auto"),
        (CASES, ["AUTO"], "AUTO"),
    ],
)
def test_spellings_of_one_value(entry: dict[str, Any], spellings: list[Any], sent: Any) -> None:
    attribute = Attribute({"AttributeName": "X", **entry})
    forms = [attribute.normal_form(value) for value in spellings]
    assert [(type(form), form) for form in forms] == [(type(forms[0]), forms[0])] * len(forms)
    told = attribute.json_form(forms[0])
    assert (type(told), told) == (type(sent), sent)
    assert attribute.normal_form(told) == forms[0]


@pytest.mark.parametrize("value", [None, [], {}, "no such value", "x1"])
def test_what_is_no_value_stays_as_it_is(value: Any) -> None:
    for entry in (RETRY, NODES, {"Type": "Boolean"}, {"Type": "Integer"}, {"Type": "String"}):
        assert Attribute({"AttributeName": "X", **entry}).normal_form(value) == value
