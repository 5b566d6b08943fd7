# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""BIOS settings as the BMC claims them and as the kernel shows them, in one table.

Where the kernel shows a setting, the kernel decides, and a BMC that claims another value is wrong. Where the kernel
does not show the setting, the value of the BMC stays a claim.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_whole_number
from ..._notation.text_table import format_aligned_columns
from ..checklist_items import ABSENT, CLAIMED, OK, PENDING, UNKNOWN, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Option of epyc_bmc_bios -> the name of its setting in this package, where they differ.
OPTION_TO_SETTING = {"df_c_states": "df_cstates"}
#: Setting -> value of the option of epyc_bmc_bios -> value of the setting in this package, where they differ.
VALUE_TRANSLATIONS = {"memory_encryption": {"on": "tsme"}}
TABLE_HEAD = ("setting", "wanted", "BMC active", "BMC pending", "kernel", "verdict")


class Claim:
    """The active, pending and requested value of one setting at the BMC, as values of this package."""

    def __init__(self, name: str, entry: object) -> None:
        if not isinstance(entry, dict):
            raise BadRequest(f"claims: {name} has to be a table, as epyc_bmc_bios returns it.")
        self.name = OPTION_TO_SETTING.get(name, name)
        self.title = str(entry.get("title") or name)
        self.attribute = entry.get("attribute")
        self.wanted, self.active, self.pending = (
            self._translate_bmc_value(entry.get(key)) for key in ("wanted", "active", "pending")
        )

    def _translate_bmc_value(self, value: Any) -> str | None:
        if value is None:
            return None
        if self.name == "nps":
            return f"NPS{value}" if parse_whole_number(str(value)) is not None else str(value)
        return VALUE_TRANSLATIONS.get(self.name, {}).get(str(value), str(value))


def parse_bmc_claims(claims_by_option: Mapping[str, Any]) -> dict[str, Claim]:
    """Return the claims by setting, from the return value of epyc_bmc_bios."""
    claims = [Claim(name, entry) for name, entry in claims_by_option.items()]
    return {claim.name: claim for claim in claims}


def judge_items_with_bmc_claims(items: Sequence[Item], claims: Mapping[str, Claim]) -> list[Item]:
    """Return the items with new verdicts in view of the claims, and a further item for each claim without an item."""
    known = {item.name for item in items}
    more = [
        Item(claim.name, claim.title, UNKNOWN, f"It should be {claim.wanted}; no kernel file shows it.", claim.wanted)
        for claim in claims.values()
        if claim.name not in known and claim.wanted is not None
    ]
    return [
        _judge_item_with_bmc_claim(item, claims[item.name]) if item.name in claims else item for item in [*items, *more]
    ]


def _judge_item_with_bmc_claim(item: Item, claim: Claim) -> Item:
    verdict, claim_message = item.verdict, _bmc_values_message(claim)
    if item.expected is None or verdict == PENDING:
        pass
    elif item.found == item.expected:
        if claim.active not in (item.expected, None):
            claim_message = f"{claim_message} The kernel has it all the same."
    elif claim.pending == item.expected:
        verdict = PENDING
    elif claim.active is None:
        verdict, claim_message = (ABSENT if item.found is None else WRONG), "This machine's BIOS has no such setting."
    elif item.found is None:
        verdict = CLAIMED if claim.active == item.expected else WRONG
    elif claim.active == item.expected:
        claim_message = (
            f"The BMC says {claim.active}, and the kernel shows {item.found}: the firmware reports a value that it has "
            "not applied. Switch the machine off and on; some machines need another setting changed with this one."
        )
    return Item(item.name, item.title, verdict, f"{item.sentence} {claim_message}", item.expected, item.found)


def _bmc_values_message(claim: Claim) -> str:
    if claim.active is None:
        return ""
    soon = f", and {claim.pending} after the next boot" if claim.pending is not None else ""
    return f"The BMC says {claim.active}{soon}."


def items_with_bmc_values(items: Sequence[Item], claims: Mapping[str, Claim]) -> list[dict[str, Any]]:
    """Return the items as plain data with the values of the BMC."""
    rows = []
    for item in items:
        claim = claims.get(item.name)
        values = {name: getattr(claim, name, None) for name in ("attribute", "active", "pending")}
        rows.append({**item.to_dict(), **{f"bmc_{name}": value for name, value in values.items()}})
    return rows


def render_bmc_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table for people of the rows with an expected value or a value of the BMC."""
    verdict_words = {PENDING: "waits for a reboot", OK: OK}
    lines = [TABLE_HEAD] + [
        (
            str(row["title"]),
            *(str(row[key] or "-") for key in ("expected", "bmc_active", "bmc_pending", "found")),
            verdict_words.get(row["verdict"], str(row["verdict"])),
        )
        for row in rows
        if row["expected"] is not None or row["bmc_active"] is not None
    ]
    return format_aligned_columns(lines)
