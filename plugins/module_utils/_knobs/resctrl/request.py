# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of resctrl, with the checks that need no host.

Requests that no host could satisfy are refused here: wrong names and numbers, a CPU in two groups, a domain twice.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.resctrl import FIXED, STEPS_PER_GBPS
from ..._notation.cache_masks import CacheAmount
from ..._notation.cpulist import format_cpulist, parse_cpulist
from ..._notation.numbers import parse_decimal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

ALL = "all"
#: Option name -> its resources, without and with code and data prioritisation (CDP).
L3_OPTIONS = {
    "l3": {False: ("L3",), True: ("L3CODE", "L3DATA")},
    "l3_code": {False: (), True: ("L3CODE",)},
    "l3_data": {False: (), True: ("L3DATA",)},
}
THROTTLE_OPTIONS = {"mb": "MB", "smba": "SMBA"}


class DomainTable:
    """Values by L3 domain: ``by_id``, and ``rest`` for the other domains, None to leave those as they are."""

    def __init__(self, by_id: dict[int, Any], rest: Any) -> None:
        self.by_id = by_id
        self.rest = rest

    def values_by_domain(self, ids: Sequence[int], label: str) -> dict[int, Any]:
        """Return the value of each domain that has one. Raises BadRequest for an id that this host lacks."""
        unknown = sorted(set(self.by_id) - set(ids))
        if unknown:
            raise BadRequest(
                f"{label}: there is no L3 domain {unknown[0]} on this host, only {format_cpulist(ids)}; ids have holes "
                "on some machines."
            )
        table = {} if self.rest is None else dict.fromkeys(ids, self.rest)
        table.update(self.by_id)
        return table


class GroupRequest:
    """The requested settings of one group; None leaves a setting as it is."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.present = True
        self.cpus: tuple[int, ...] | None = None
        self.mode: str | None = None
        self.l3: dict[str, DomainTable] = {}
        self.throttle: dict[str, DomainTable] = {}
        self.tasks_of: tuple[str, ...] = ()
        self.monitors: dict[str, tuple[int, ...] | None] = {}


class ResctrlRequest:
    """The whole request: groups, settings of the default group, and which other groups to purge."""

    def __init__(self, groups: list[GroupRequest], default: GroupRequest, purge: str) -> None:
        self.groups = groups
        self.default = default
        self.purge = purge

    def wanted_group_names(self) -> set[str]:
        """Return the names of the groups that the request wants to exist."""
        return {group.name for group in self.groups if group.present}

    def wanted_groups_and_default(self) -> list[GroupRequest]:
        """Return the groups that the request wants to exist, and the default group."""
        return [*(group for group in self.groups if group.present), self.default]


def parse_resctrl_request(
    groups: Sequence[Mapping[str, Any]], default: Mapping[str, Any] | None, purge: str
) -> ResctrlRequest:
    """Return the request of module options. Raises BadRequest for one that no host could satisfy."""
    parsed = [_parse_group(raw, validate_group_name(raw["name"])) for raw in groups]
    seen: set[str] = set()
    for group in parsed:
        if group.name in seen:
            raise BadRequest(f"The group {group.name} is named twice; give it once, with all its settings.")
        seen.add(group.name)
    request = ResctrlRequest(parsed, _parse_group(default or {}, "default"), purge)
    present = [group for group in parsed if group.present]
    _refuse_member_of_two_groups({group.name: group.cpus or () for group in present}, "CPU", "groups")
    _refuse_member_of_two_groups({group.name: group.tasks_of for group in present}, "unit or process", "groups")
    for group in request.wanted_groups_and_default():
        _refuse_member_of_two_groups(
            {name: cpus or () for name, cpus in group.monitors.items()}, "CPU", "monitor groups"
        )
    return request


def _refuse_member_of_two_groups(members: Mapping[str, Sequence[object]], noun: str, holders: str) -> None:
    """Refuse an item in two groups, because the kernel would silently move it to the second."""
    owner: dict[object, str] = {}
    for name, items in members.items():
        for item in items:
            if owner.setdefault(item, name) != name:
                raise BadRequest(
                    f"The {noun} {item} is in the {holders} {owner[item]} and {name}; it can be in only one."
                )


def validate_group_name(name: str) -> str:
    """Return the name of a group; raise BadRequest for a name that the kernel or an address cannot have."""
    reserved = (*FIXED, "default", "mount", ".", "..", "")
    if name in reserved or "/" in name or not name.isprintable() or name != name.strip() or len(name) > 200:
        raise BadRequest(
            f"'{name}' is no name for a resctrl group: it must be one plain word of at most 200 characters without a "
            "slash, and none of info, mon_data, mon_groups, default and mount."
        )
    return name


def _parse_group(raw: Mapping[str, Any], name: str) -> GroupRequest:
    group = GroupRequest(name)
    group.present = (raw.get("state") or "present") == "present"
    group.mode = raw.get("mode")
    group.cpus = _parse_cpus(raw.get("cpus"), f"group {name}: cpus")
    for option in L3_OPTIONS:
        if raw.get(option):
            group.l3[option] = _parse_domain_table(raw[option], f"group {name}: {option}", CacheAmount.from_text)
    for option, resource in THROTTLE_OPTIONS.items():
        if raw.get(option):
            group.throttle[resource] = _parse_domain_table(
                raw[option], f"group {name}: {option}", _parse_bandwidth_limit
            )
    group.tasks_of = tuple(str(item) for item in raw.get("tasks_of") or ())
    for monitor in raw.get("monitors") or ():
        if monitor["name"] in group.monitors:
            raise BadRequest(f"Group {name}: the monitor group {monitor['name']} is named twice.")
        label = f"group {name}: monitor {monitor['name']}: cpus"
        group.monitors[validate_group_name(monitor["name"])] = _parse_cpus(monitor.get("cpus"), label)
    return group


def _parse_cpus(text: str | None, label: str) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return parse_cpulist(text)
    except ValueError as error:
        raise BadRequest(f"{label}: {error}.") from None


def _parse_domain_table(raw: Mapping[object, object], label: str, parse_value: Any) -> DomainTable:
    by_id: dict[int, Any] = {}
    key_of: dict[int, str] = {}
    rest = None
    for key, value in raw.items():
        try:
            parsed = parse_value(value)
            if key == ALL:
                rest = parsed
                continue
            ids = parse_cpulist(str(key))
            if not ids:
                raise ValueError("an empty list")
        except ValueError:
            raise BadRequest(
                f"{label}: '{key}' names no L3 domain; say 'all', an id, or ids such as '0-3,8'."
            ) from None
        except BadRequest as error:
            raise BadRequest(f"{label}: {error}") from None
        for domain in ids:
            if domain in key_of:
                raise BadRequest(f"{label}: L3 domain {domain} is named twice, by '{key_of[domain]}' and '{key}'.")
            key_of[domain] = str(key)
            by_id[domain] = parsed
    return DomainTable(by_id, rest)


def _parse_bandwidth_limit(value: object) -> int | None:
    """Return a limit in the kernel's steps of an eighth of a GB/s, rounded up; -1 for "max"."""
    if value == "max":
        return -1
    rate = parse_decimal(value)
    if rate is None or not 0 < rate < 1e6:
        raise BadRequest(f"'{value}' is no bandwidth; say a number of GB/s for each L3 domain, or 'max'.")
    return -int(-rate * STEPS_PER_GBPS // 1)
