# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios import bmc_claims
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.checklist_items import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Optional

    Word = Optional[str]


def judged(
    verdict: str, expected: Word, found: Word, active: Word, pending: Word = None, name: str = "nps", **more: Word
) -> Item:
    item = Item(name, "nodes", verdict, "Seen.", expected, found)
    told = {"attribute": "A", "wanted": None, "active": active, "pending": pending, **more}
    return bmc_claims.judge_items_with_bmc_claims([item], bmc_claims.parse_bmc_claims({name: told}))[0]


@pytest.mark.parametrize(
    ("verdict", "expected", "found", "active", "pending", "now"),
    [
        ("ok", "NPS4", "NPS4", "4", None, "ok"),
        ("ok", "NPS4", "NPS4", "Auto", None, "ok"),
        ("unknown", "NPS4", None, "4", None, "claimed by firmware"),
        ("unknown", "NPS4", None, "1", None, "wrong"),
        ("unknown", "NPS4", None, "1", "4", "pending"),
        ("unknown", "NPS4", None, None, None, "not on this machine"),
        ("wrong", "NPS4", "NPS1", "4", None, "wrong"),
        ("wrong", "NPS4", "NPS1", "1", "4", "pending"),
        ("wrong", "NPS4", "NPS1", "1", None, "wrong"),
        ("wrong", "NPS4", "NPS1", None, None, "wrong"),
        ("pending", "off", "on", "on", None, "pending"),
        ("not asked for", None, "NPS1", "1", None, "not asked for"),
    ],
)
def test_verdicts_of_both(verdict: str, expected: Word, found: Word, active: Word, pending: Word, now: str) -> None:
    item = judged(verdict, expected, found, active, pending)
    assert (item.verdict, item.expected, item.found) == (now, expected, found)
    assert item.sentence.startswith("Seen. ")
    assert item.is_clean is (now in ("ok", "not asked for", "pending", "claimed by firmware"))


def test_a_bmc_that_says_what_the_kernel_does_not_show_is_named_with_it() -> None:
    said = judged("wrong", "NPS4", "NPS1", "4").sentence
    assert "The BMC says NPS4, and the kernel shows NPS1: the firmware reports a value that it" in said


def test_what_waits_and_what_the_kernel_made_is_said() -> None:
    assert "The BMC says NPS1, and NPS4 after the next boot." in judged("wrong", "NPS4", "NPS1", "1", "4").sentence
    assert "The kernel has it all the same." in judged("ok", "off", "off", "on", name="smt").sentence


def test_names_and_words_of_the_other_module() -> None:
    (item,) = bmc_claims.judge_items_with_bmc_claims(
        [], bmc_claims.parse_bmc_claims({"df_c_states": {"title": "DF", "wanted": "off", "active": "off"}})
    )
    assert (item.name, item.title, item.verdict) == ("df_cstates", "DF", "claimed by firmware")
    assert bmc_claims.parse_bmc_claims({"memory_encryption": {"active": "on"}})["memory_encryption"].active == "tsme"
    assert bmc_claims.judge_items_with_bmc_claims([], bmc_claims.parse_bmc_claims({"apbdis": {"active": "on"}})) == []
    with pytest.raises(BadRequest, match="nps has to be a table"):
        bmc_claims.parse_bmc_claims({"nps": 4})


def test_the_table() -> None:
    told = bmc_claims.parse_bmc_claims(
        {"nps": {"attribute": "NumaNodesPerSocket", "wanted": "4", "active": "1", "pending": "4"}}
    )
    items = [
        Item("nps", "NUMA nodes", "wrong", "", "NPS4", "NPS1"),
        Item("hsmp", "HSMP", "not asked for", "", None, None),
    ]
    rows = bmc_claims.items_with_bmc_values(bmc_claims.judge_items_with_bmc_claims(items, told), told)
    assert (rows[0]["bmc_attribute"], rows[0]["bmc_active"], rows[1]["bmc_active"]) == (
        "NumaNodesPerSocket",
        "NPS1",
        None,
    )
    assert bmc_claims.render_bmc_table(rows).splitlines() == [
        "setting     wanted  BMC active  BMC pending  kernel  verdict",
        "NUMA nodes  NPS4    NPS1        NPS4         NPS1    waits for a reboot",
    ]
