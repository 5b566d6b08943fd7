# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operator's intent: the parts of a host that each role of CPUs gets, in amounts that fit every SKU."""

from __future__ import annotations

from .._errors import BadRequest
from .._notation.cache_masks import AMOUNTS, CacheAmount
from .._notation.numbers import parse_whole_number
from .housekeeping import PER, HousekeepingShare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

UNITS = ("ccds", "l3_domains")
#: The roles of CPUs in a plan. The role idle has the CPUs of no other role.
ROLES = ("housekeeping", "draft", "verify", "idle")


class RolePlacement:
    """The request of a role: a number of CCDs or L3 domains (None: all free ones) and an L3 amount in each domain."""

    def __init__(self, unit: str, count: int | None, l3: CacheAmount | None) -> None:
        self.unit = unit
        self.count = count
        self.l3 = l3


class Intent:
    """The parts of a host that the operator gives to each role.

    ``housekeeping`` are the cores that are left to the operating system, None for the default of the host.
    ``default_l3`` is the L3 amount of the default resctrl group in domains where a role has an L3 amount, None for all
    free ways.
    """

    def __init__(
        self,
        housekeeping: HousekeepingShare | None = None,
        draft: RolePlacement | None = None,
        verify: RolePlacement | None = None,
        default_l3: CacheAmount | None = None,
    ) -> None:
        self.housekeeping = housekeeping
        self.draft = draft or RolePlacement("ccds", 0, None)
        self.verify = verify or RolePlacement("ccds", None, None)
        self.default_l3 = default_l3

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Intent:
        """Return the intent from an inventory's dictionaries. Raises BadRequest with the key of a bad value."""
        default = _require_known_keys(options, "default", ("l3",))
        return cls(
            _parse_housekeeping_share(options),
            _parse_role_placement(options, "draft", 0),
            _parse_role_placement(options, "verify", None),
            _parse_l3_amount(default, "default"),
        )


def _parse_housekeeping_share(options: Mapping[str, Any]) -> HousekeepingShare | None:
    """Return the requested share of the operating system; None where neither cores nor a place are requested."""
    table = _require_known_keys(options, "housekeeping", ("cores", "per"))
    if not table:
        return None
    cores = _require_whole_number(table.get("cores", 1), "housekeeping.cores")
    per = table.get("per", "node")
    if per not in PER:
        raise BadRequest(f"housekeeping.per is '{per}'; say one of {', '.join(PER)}.")
    return HousekeepingShare(cores, per)


def _require_known_keys(options: Mapping[str, Any], name: str, keys: Sequence[str]) -> Mapping[str, Any]:
    table = options.get(name) or {}
    if not isinstance(table, dict):
        raise BadRequest(f"{name} must be a dictionary of {', '.join(keys)}, not '{table}'.")
    unknown = sorted(set(table) - set(keys))
    if unknown:
        raise BadRequest(f"{name} has no '{unknown[0]}'; it takes {', '.join(keys)}.")
    return {key: value for key, value in table.items() if value is not None}


def _require_whole_number(value: object, name: str) -> int:
    number = parse_whole_number(value)
    if number is None:
        raise BadRequest(f"{name} must be a whole number from 0 up, not '{value}'.")
    return number


def _parse_l3_amount(table: Mapping[str, Any], name: str) -> CacheAmount | None:
    if "l3" not in table:
        return None
    amount = CacheAmount.from_text(table["l3"], AMOUNTS)
    if amount.kind == "mask":
        raise BadRequest(f"{name}.l3 is '{amount.text}': say ways, bytes or a share; the plan chooses the masks.")
    return amount


def _parse_role_placement(options: Mapping[str, Any], name: str, default_count: int | None) -> RolePlacement:
    table = _require_known_keys(options, name, (*UNITS, "l3"))
    given = [unit for unit in UNITS if unit in table]
    if len(given) > 1:
        raise BadRequest(f"{name} has both ccds and l3_domains; give one of them.")
    if not given:
        return RolePlacement("ccds", default_count, _parse_l3_amount(table, name))
    return RolePlacement(
        given[0], _require_whole_number(table[given[0]], f"{name}.{given[0]}"), _parse_l3_amount(table, name)
    )
