# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan: the CPUs of each role, computed from the operator's intent and the host's topology.

The intent names roles and amounts instead of CPU numbers and masks, so that the same intent fits every SKU.
"""

from __future__ import annotations

from .._errors import BadRequest
from .._kernel.lockdown import READ_ONLY
from .._notation.cache_masks import allocate_cache_masks, count_ways
from .._notation.cpulist import format_cpulist
from .._notation.sizes import format_bytes
from .ccds import format_different_l3_sizes
from .housekeeping import (
    choose_housekeeping_cpus,
    default_housekeeping_share,
    housekeeping_cpus_if_all_online,
    housekeeping_remarks,
)
from .intent import ROLES
from .node_memory import list_odd_node_remarks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .._notation.cache_masks import CacheAmount
    from .ccds import L3Domain
    from .intent import Intent, RolePlacement
    from .memory_speed import MemorySpeed
    from .topology import Topology


class ResctrlGroup:
    """A resctrl group of the plan.

    ``masks`` maps the id of an L3 domain to a mask. Without ``masks``, because their width is unknown, the group gets
    ``amount`` in each of its ``domains``.
    """

    def __init__(
        self, name: str, cpus: tuple[int, ...], domains: Sequence[L3Domain], amount: CacheAmount | None
    ) -> None:
        self.name = name
        self.cpus = cpus
        self.domains = domains
        self.amount = amount
        self.masks: dict[int, int] = {}

    def l3_option(self) -> dict[str, str]:
        """Return the l3 option for the resctrl_schemata module."""
        if self.masks or not self.amount:
            return {str(domain): f"{mask:x}" for domain, mask in sorted(self.masks.items())}
        return {format_cpulist(domain.id or 0 for domain in self.domains): self.amount.text}


class Plan:
    """The CPUs of each role, resctrl groups, remarks, and in ``cannot`` the reason for each layer that is impossible.

    For roles with offline CPUs, ``cpus_if_all_online`` has the CPUs that the role would have without offline CPUs, and
    ``offline_reasons`` a sentence about the offline CPUs.
    """

    def __init__(self) -> None:
        self.housekeeping: tuple[int, ...] = ()
        self.draft: tuple[int, ...] = ()
        self.verify: tuple[int, ...] = ()
        self.idle: tuple[int, ...] = ()
        self.groups: list[ResctrlGroup] = []
        self.default = ResctrlGroup("default", (), (), None)
        self.cpus_if_all_online: dict[str, tuple[int, ...]] = {}
        self.offline_reasons: dict[str, str] = {}
        self.remarks: list[str] = []
        self.cannot: dict[str, str] = {}

    def role_of(self, cpu: int) -> str:
        return next((role for role in ROLES if cpu in getattr(self, role)), "idle")

    def resctrl_options(self) -> dict[str, Any]:
        """Return the groups and the default group as options of the resctrl_schemata module."""
        return {
            "masks_known": bool(self.default.masks),
            "groups": [
                {"name": group.name, "cpus": format_cpulist(group.cpus), "l3": group.l3_option()}
                for group in self.groups
            ],
            "default": {"l3": self.default.l3_option()},
        }

    def to_dict(self) -> dict[str, object]:
        return {
            "cpus": {role: format_cpulist(getattr(self, role)) for role in ROLES},
            "resctrl": self.resctrl_options(),
            "remarks": self.remarks,
            "cannot": self.cannot,
        }


def build_plan(intent: Intent, top: Topology) -> Plan:
    """Return the plan for an intent on a host. Raises BadRequest with the reason where the intent does not fit."""
    result = Plan()
    share = intent.housekeeping or default_housekeeping_share(top)
    result.housekeeping = choose_housekeeping_cpus(share, top)
    # Offline CPUs count too, so that a role keeps its other CPUs when a CPU goes offline.
    planned = housekeeping_cpus_if_all_online(share, top)
    result.remarks += housekeeping_remarks(share, not intent.housekeeping, result.housekeeping, top)
    result.remarks += list_odd_node_remarks(top)
    reserved = set(result.housekeeping)
    draft, free_domains = _split_domains_for_role(intent.draft, "draft", top, top.domains, (reserved, planned))
    verify, dummy = _split_domains_for_role(intent.verify, "verify", top, free_domains, (reserved, planned))
    result.draft = _cpus_of_domains(draft, reserved)
    if top.l3 or intent.verify.count == 0:
        result.verify = _cpus_of_domains(verify, reserved)
    else:
        result.verify = tuple(cpu for cpu in top.online if cpu not in reserved)
    result.idle = tuple(sorted(set(top.online) - reserved - set(result.draft) - set(result.verify)))
    for role, placement, domains in (("draft", intent.draft, draft), ("verify", intent.verify, verify)):
        if placement.count != 0 and not getattr(result, role):
            raise BadRequest(
                f"{role}: no CPU is left for it; housekeeping and the other role take all {len(top.online)}."
            )
        if placement.l3 and not domains:
            result.remarks.append(f"{role}.l3 is without effect, because {role} has no L3 domain.")
        _add_remark_on_offline_cpus(result, role, {cpu for domain in domains for cpu in domain.present} - planned, top)
    _add_remark_on_offline_cpus(result, "housekeeping", planned, top)
    result.remarks += _different_l3_sizes_remarks(top, {"draft": draft, "verify": verify})
    _plan_l3_masks(intent, top, draft, verify, result)
    if top.registers_read_only:
        result.cannot["prefetch"] = READ_ONLY + top.registers_read_only
    elif top.prefetch_control is False:
        result.cannot["prefetch"] = (
            "This CPU has no register that switches prefetchers (CPUID 0x80000021 EAX bit 13 is 0). Zen 3 and later "
            "have it."
        )
    return result


def plan_facts(
    requested_intent: Mapping[str, Any], plan: Plan, top: Topology, memory: MemorySpeed
) -> dict[str, object]:
    """Return the facts for the roles of the collection and for capacity.yml: all that epyc_plan returns as facts."""
    return {
        "topology": top.to_dict(),
        "plan": plan.to_dict(),
        "intent": requested_intent,
        "memory": memory.to_dict(),
    }


def _different_l3_sizes_remarks(top: Topology, domains_by_role: Mapping[str, Sequence[L3Domain]]) -> list[str]:
    """Return a remark on CCDs with different sizes of L3, and where the roles are; else an empty list."""
    sizes = format_different_l3_sizes(top.ccds)
    if not sizes:
        return []
    places = [
        f"{role} is on CCD {format_cpulist({domain.ccd for domain in domains})}"
        for role, domains in domains_by_role.items()
        if domains
    ]
    return [
        f"The L3 caches differ in size: {sizes}. The size does not decide where a role is: a role with a number of "
        "CCDs gets those with the fewest housekeeping CPUs, and a role without a number gets the others. "
        f"{''.join(f'{place}. ' for place in places)}An instance can name another place with its option cpus, as ccd0."
    ]


def _add_remark_on_offline_cpus(result: Plan, role: str, cpus: set[int], top: Topology) -> None:
    """Add to the plan a remark on the offline CPUs among the CPUs of a role, if there are any."""
    offline = tuple(sorted(cpus.intersection(top.offline)))
    if offline:
        result.cpus_if_all_online[role] = tuple(sorted(cpus))
        first = offline[0]
        result.offline_reasons[role] = (
            f"{role} is without CPU {format_cpulist(offline)}, which is offline. Bring each back with 'echo 1 "
            f">/sys/devices/system/cpu/cpu{first}/online', unless somebody took it away for a reason."
        )
        result.remarks.append(result.offline_reasons[role])


def _split_domains_for_role(
    placement: RolePlacement,
    role: str,
    top: Topology,
    free_domains: Sequence[L3Domain],
    housekeeping: tuple[set[int], set[int]],
) -> tuple[list[L3Domain], list[L3Domain]]:
    """Return the domains that a role gets, and the remaining domains.

    Domains with the fewest housekeeping cores come first, so that a draft on one CCD gets a whole CCD where possible.
    ``housekeeping`` has the CPUs of the role housekeeping, and the CPUs that it would have without offline CPUs.
    Domains whose CPUs are all offline are not used.
    """
    if placement.count is None:
        return list(free_domains), []
    if placement.count == 0:
        return [], list(free_domains)
    if not top.l3:
        raise BadRequest(
            f"{role}: this host shows no L3 domains ({'; '.join(top.missing.values())}), so no CPU of the role can be "
            "placed on one."
        )
    pool = set(free_domains)
    units = (
        [[d] for d in free_domains] if placement.unit == "l3_domains" else [c for c in top.ccds if pool.issuperset(c)]
    )
    units = [unit for unit in units if any(domain.cpus for domain in unit)]
    if placement.count > len(units):
        total = len(top.ccds) if placement.unit == "ccds" else len(top.domains)
        raise BadRequest(
            f"{role} asks for {placement.count} {placement.unit}, but only {len(units)} of {total} are left on this "
            "host."
        )
    units.sort(key=lambda unit: _placement_sort_key(unit, *housekeeping))
    taken = [domain for unit in units[: placement.count] for domain in unit]
    return taken, [domain for domain in free_domains if domain not in taken]


def _placement_sort_key(
    unit: Sequence[L3Domain], housekeeping: set[int], planned_housekeeping: set[int]
) -> tuple[bool, int, bool, int]:
    """Return the sort key of a CCD or domain: those with free CPUs first, with few housekeeping CPUs, without CPU 0.

    CPU 0 has the most work of the kernel, whether it is a housekeeping CPU or not.
    """
    present = [cpu for domain in unit for cpu in domain.present]
    return (
        housekeeping.issuperset(cpu for domain in unit for cpu in domain.cpus),
        len(planned_housekeeping.intersection(present)),
        0 in present,
        min(present),
    )


def _cpus_of_domains(domains: Sequence[L3Domain], excluded: set[int]) -> tuple[int, ...]:
    return tuple(sorted(cpu for domain in domains for cpu in domain.cpus if cpu not in excluded))


def _plan_l3_masks(
    intent: Intent, top: Topology, draft: Sequence[L3Domain], verify: Sequence[L3Domain], result: Plan
) -> None:
    """Set the groups and masks of the plan: a role fills the high ways of its domains, the default group the low ways.

    In a domain without CPUs of a group, the group gets the ways of the default group: threads of the group that stray
    there then take no more cache than threads of the default group.
    """
    roles = (("draft", intent.draft.l3, draft), ("verify", intent.verify.l3, verify))
    groups = [
        ResctrlGroup(role, getattr(result, role), [domain for domain in domains if domain.cpus], amount)
        for role, amount, domains in roles
        if amount and domains
    ]
    if intent.default_l3 and not groups:
        result.remarks.append("default.l3 is without effect, because no role has an L3 amount.")
    _refuse_amounts_above_domain_size(groups)
    features = top.resctrl
    reason = _no_cat_reason(top)
    if features is None or reason:
        if groups:
            result.cannot["cat"] = reason
        return
    if features.closids is not None and len(groups) + 1 > features.closids:
        raise BadRequest(
            f"The plan needs {len(groups) + 1} resctrl groups with the default one, but this host has "
            f"{features.closids} classes of service"
            + (" (cdp halves them)." if "cdp" in features.mount_options else ".")
        )
    result.groups = groups
    if features.cbm_mask is None:
        result.default.amount = intent.default_l3 if groups else None
        result.default.domains = [domain for group in groups for domain in group.domains]
        return
    for domain in top.l3:
        _set_masks_in_domain(domain, features.cbm_mask, intent.default_l3, result)


def _set_masks_in_domain(domain: L3Domain, full_mask: int, default_l3: CacheAmount | None, result: Plan) -> None:
    """Set the mask of every group in a domain."""
    amounts = [(group.name, group.amount) for group in result.groups if group.amount and domain in group.domains]
    title = f"L3 domain {domain.id}"
    default_amount = ("default", default_l3) if default_l3 and amounts else None
    masks = allocate_cache_masks(full_mask, domain.bytes, amounts, default_amount, title)
    default = masks.setdefault("default", full_mask & ~sum(masks.values()))
    if not default:
        raise BadRequest(
            f"{title}: {amounts[0][0]} takes all {count_ways(full_mask)} ways and leaves none to the default group, in "
            "which the kernel and every daemon run. Leave at least 1 way to the default group."
        )
    for group in [*result.groups, result.default]:
        group.masks[domain.id or 0] = masks.get(group.name, default)
    for dummy, amount in amounts:
        remark = amount.rounded_up_message(count_ways(full_mask), domain.bytes)
        if remark and remark not in result.remarks:
            result.remarks.append(remark)


def _refuse_amounts_above_domain_size(groups: Sequence[ResctrlGroup]) -> None:
    for group in groups:
        smallest = min(group.domains, key=lambda domain: domain.bytes)
        if group.amount and group.amount.kind == "bytes" and group.amount.number > smallest.bytes:
            raise BadRequest(
                f"{group.name} asks for {format_bytes(int(group.amount.number))} in each of its L3 domains, but L3 "
                f"domain {smallest.id} has only {format_bytes(smallest.bytes)}. An amount counts per domain, and "
                "cores fill only their own."
            )


def _no_cat_reason(top: Topology) -> str:
    """Return why L3 masks cannot be planned on this host; "" where they can be planned."""
    if top.resctrl is None or "cat_l3" not in top.flags:
        return top.missing.get("resctrl", "resctrl: the CPU flags lack cat_l3.")
    return top.missing.get("l3_ids", "")
