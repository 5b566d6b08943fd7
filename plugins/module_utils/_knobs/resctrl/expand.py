# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The expansion of a resctrl request to the wanted settings of a host, without access to files.

A request that the host cannot satisfy is refused here, before the first write: CPUs that are offline or in a group of
another program, unknown domains, more groups than classes of service, more ways than a domain has.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._kernel.resctrl import HOME, STEPS_PER_GBPS, format_address, split_address
from ..._notation.cache_masks import allocate_cache_masks, count_ways, find_overlapping_masks, parse_cache_mask
from ..._notation.cpulist import format_cpulist, parse_cpulist
from .request import L3_OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._host.topology import Topology
    from ..._kernel.resctrl import ResctrlFeatures
    from ..._notation.cache_masks import CacheAmount
    from ..protocol.knob import Settings
    from .request import GroupRequest, ResctrlRequest

PRESENT = "present"
#: The largest bandwidth limit, in the kernel's steps, of kernels without CPUID's limit, such as the 4096 of Zen 5.
#: Source: MAX_MBA_BW_AMD, which the change "x86/resctrl: Remove hard-coded memory bandwidth limit" took out in 6.9.
BUILT_IN = 2048


class Expansion:
    """The expansion of one request for one host.

    ``top`` is the host's topology, ``able`` its resctrl features, ``present`` its present settings, and ``removed`` are
    the groups to remove.
    """

    def __init__(
        self, request: ResctrlRequest, top: Topology, able: ResctrlFeatures, present: Settings, removed: set[str]
    ) -> None:
        self.request = request
        self.top = top
        self.able = able
        self.present = present
        self.removed = removed
        self.present_groups = {split_address(name)[0] for name in present}
        self.groups = [group for group in request.groups if group.present]
        self.remarks: list[str] = []

    def wanted_settings(self) -> Settings:
        """Return the wanted settings. Raises BadRequest for a request that this host cannot satisfy."""
        self._refuse_unavailable_cpus()
        self._refuse_too_many_groups()
        wanted: Settings = {name: None for name in self.present if split_address(name)[0] in self.removed}
        for group in self.groups:
            wanted[format_address(group.name)] = PRESENT
            if group.cpus is not None:
                wanted[format_address(group.name, "cpus")] = format_cpulist(group.cpus)
            if group.mode:
                wanted[format_address(group.name, "mode")] = group.mode
        for group in [*self.groups, self.request.default]:
            for name, cpus in group.monitors.items():
                wanted[format_address(group.name, "mon", name)] = PRESENT
                if cpus is not None:
                    wanted[format_address(group.name, "mon", name, "cpus")] = format_cpulist(cpus)
            wanted.update(self._compute_bandwidth_limits(group))
        for resource in self._l3_resources():
            wanted.update(self._compute_l3_masks(resource))
        for name, value in self._remaining_monitor_cpus().items():
            wanted.setdefault(name, value)
        self._add_overlap_remarks({**self.present, **wanted})
        self._add_io_remarks({**self.present, **wanted})
        return wanted

    def _refuse_unavailable_cpus(self) -> None:
        holder: dict[int, str] = {}
        giving = {"default", *self.removed, *(group.name for group in self.groups if group.cpus is not None)}
        for name, value in self.present.items():
            group, kind, dummy = split_address(name)
            if kind == "cpus" and group not in giving:
                holder.update(dict.fromkeys(parse_cpulist(value or ""), group))
        for group_request in self.groups:
            subject = f"Group {group_request.name}"
            for cpu in group_request.cpus or ():
                if cpu in self.top.offline:
                    raise BadRequest(
                        f"{subject}: CPU {cpu} is offline, and the kernel assigns online CPUs only. Bring it online or "
                        "leave it out."
                    )
                if cpu not in self.top.online:
                    raise BadRequest(
                        f"{subject}: there is no CPU {cpu} on this host, only {format_cpulist(self.top.online)}."
                    )
                if cpu in holder:
                    raise BadRequest(
                        f"{subject}: CPU {cpu} belongs to the group {holder[cpu]}, whose CPUs are not given here. "
                        f"{self._cpu_holder_hint(holder[cpu])}"
                    )

    def _cpu_holder_hint(self, holder: str) -> str:
        """Return what to do about a group that has CPUs which another group is to get."""
        if holder in self.request.wanted_group_names():
            return f"Give the cpus of {holder} too."
        return (
            f"Have the program that made {holder} leave that CPU out, or stop it and remove the group with 'rmdir "
            f"{self.able.mount_point or HOME}/{holder}'. With purge set to all (epyc_cat_purge of the role epyc_cat), "
            "every group that is not asked for is removed."
        )

    def _remaining_monitor_cpus(self) -> Settings:
        """Return the CPUs that monitor groups keep if their groups lose CPUs.

        A monitor group has only CPUs of its group. The kernel changes the CPUs of every such monitor group, so they are
        settings of this run, which an undo restores.
        """
        given = {group.name: set(group.cpus) for group in self.groups if group.cpus is not None}
        taken: set[int] = set().union(*given.values())
        shrunk: Settings = {}
        for name, value in self.present.items():
            group, kind, key = split_address(name)
            if kind != "mon" or not key.endswith("/cpus") or group in self.removed:
                continue
            before = parse_cpulist(value or "")
            # Only the default group and groups with requested CPUs can lose CPUs.
            left = [cpu for cpu in before if (cpu in given[group] if group in given else cpu not in taken)]
            if len(left) < len(before):
                shrunk[name] = format_cpulist(left)
        return shrunk

    def _refuse_too_many_groups(self) -> None:
        after = (self.present_groups | {"default"}) - self.removed | self.request.wanted_group_names()
        limit, of_io = self.able.closids, ""
        if limit is not None and self.able.io_alloc:
            limit, of_io = limit - 1, " that I/O leaves (io_alloc is enabled, which takes one)"
        if limit is not None and len(after) > limit:
            raise BadRequest(
                f"{len(after)} groups with the default one are more than the {limit} classes of service (CLOSIDs) of "
                f"this host{of_io}: {', '.join(sorted(after))}. Name fewer, or purge what is not needed."
            )

    def _domain_ids(self) -> list[int]:
        ids = [domain.id for domain in self.top.l3 if domain.id is not None]
        if len(ids) != len(self.top.l3) or not ids:
            reason = self.top.missing.get("l3_ids") or self.top.missing.get("l3", "L3 domains")
            raise BadRequest(f"No resctrl domain can be named, because this host lacks {reason}. Nothing was changed.")
        return ids

    def _l3_resources(self) -> tuple[str, ...]:
        has_request = any(group.l3 for group in [*self.groups, self.request.default])
        resources = L3_OPTIONS["l3"]["cdp" in self.able.mount_options]
        if "cat_l3" in self.top.flags and all(self._offers_resource(resource) for resource in resources):
            return resources if has_request or self.groups else ()
        if has_request and "cat_l3" in self.top.flags:
            raise BadRequest(
                f"This kernel offers no L3 allocation (no {resources[0]} in schemata), so l3 cannot be set. The boot "
                "parameter rdt=!l3cat hides it."
            )
        if has_request:
            raise BadRequest("This CPU has no L3 allocation (no cat_l3 in /proc/cpuinfo), so l3 cannot be set.")
        return ()

    def _offers_resource(self, resource: str) -> bool:
        """Return whether the kernel offers a resource; CPUID may show one that the kernel does not know or hides."""
        return not self.able.mount_point or any(split_address(name)[1] == resource for name in self.present)

    def _compute_l3_masks(self, resource: str) -> Settings:
        """Return the masks of one L3 resource; a new group gets a mask in every domain."""
        tables = {
            group.name: self._requested_cache_by_domain(group, resource)
            for group in [*self.groups, self.request.default]
        }
        wanted: Settings = {}
        for domain in self.top.l3:
            number = domain.id
            if number is None:
                continue
            amounts = [(g.name, tables[g.name][number]) for g in self.groups if number in tables[g.name]]
            default = ("default", tables["default"][number]) if number in tables["default"] else None
            all_amounts = [*amounts, *([default] if default else [])]
            full = self.able.cbm_mask
            if full is None:
                # In check mode before the mount of resctrl, the width of masks is unknown.
                wanted.update(
                    {format_address(name, resource, str(number)): amount.text for name, amount in all_amounts}
                )
                continue
            masks = allocate_cache_masks(full, domain.bytes, amounts, default, f"L3 domain {number}")
            for dummy, amount in all_amounts:
                self._add_remark(amount.rounded_up_message(count_ways(full), domain.bytes))
            for group in self.groups:
                if group.name not in self.present_groups and group.name not in masks:
                    masks[group.name] = full & ~self._ways_of_exclusive_groups(resource, number, masks)
                    if not masks[group.name]:
                        raise BadRequest(
                            f"Group {group.name}: exclusive groups own every way of L3 domain {number}, so that a new "
                            "group can have none. Make them smaller or shareable."
                        )
            wanted.update({format_address(name, resource, str(number)): f"{mask:x}" for name, mask in masks.items()})
        return wanted

    def _requested_cache_by_domain(self, group: GroupRequest, resource: str) -> dict[int, CacheAmount]:
        table: dict[int, CacheAmount] = {}
        cdp = resource != "L3"
        for option, request in group.l3.items():
            if not L3_OPTIONS[option][cdp]:
                raise BadRequest(f"Group {group.name}: {option} needs resctrl mounted with the option cdp; use l3.")
            if resource in L3_OPTIONS[option][cdp]:
                table.update(request.values_by_domain(self._domain_ids(), f"group {group.name}: {option}"))
        return table

    def _ways_of_exclusive_groups(self, resource: str, domain: int, masks: dict[str, int]) -> int:
        """Return the ways of a domain that exclusive groups have after this run; no new group may have these."""
        modes = {
            split_address(name)[0]: value for name, value in self.present.items() if split_address(name)[1] == "mode"
        }
        modes.update({group.name: group.mode for group in self.groups if group.mode})
        claimed = 0
        for name, mode in modes.items():
            if mode == "exclusive" and name not in self.removed:
                mask = parse_cache_mask(self.present.get(format_address(name, resource, str(domain))) or "0")
                claimed |= masks.get(name, mask)
        return claimed

    def _compute_bandwidth_limits(self, group: GroupRequest) -> Settings:
        """Return the requested limits of a group. A new group has none by default."""
        wanted: Settings = {}
        for resource, table in group.throttle.items():
            subject = f"Group {group.name}: {resource.lower()}"
            if not self.top.is_amd:
                raise BadRequest(f"{subject} in GB/s is AMD's; this CPU is {self.top.vendor}.")
            if not self._offers_resource(resource):
                raise BadRequest(f"{subject}: this host has no {resource} allocation (no {resource} in schemata).")
            for domain, steps in table.values_by_domain(self._domain_ids(), subject).items():
                wanted[format_address(group.name, resource, str(domain))] = self._format_bandwidth_limit(
                    resource, steps, subject
                )
        return wanted

    def _format_bandwidth_limit(self, resource: str, steps: int, subject: str) -> str:
        largest = self._unlimited_value(resource)
        if largest is None:
            if steps < 0:
                if not self.able.mount_point:
                    return "max"  # In check mode before the mount, the number is unknown.
                raise BadRequest(
                    f"{subject}: what 'max' stands for cannot be read here; load the cpuid driver (modprobe cpuid) or "
                    "give a number of GB/s."
                )
            return str(steps)
        if steps > largest:
            raise BadRequest(
                f"{subject}: {steps / STEPS_PER_GBPS:g} GB/s is more than this host can express, "
                f"{largest / STEPS_PER_GBPS:g} GB/s, which already means no "
                "limit; say 'max'."
            )
        return str(largest if steps < 0 else steps)

    def _unlimited_value(self, resource: str) -> int | None:
        """Return the value that means no limit: that of CPUID, or a smaller one if the kernel takes no more."""
        of_cpuid = self.able.throttle_max.get(resource)
        limits = [int(value or 0) for name, value in self.present.items() if split_address(name)[1] == resource]
        if of_cpuid and limits and of_cpuid > BUILT_IN >= max(limits):
            return BUILT_IN
        return of_cpuid or self._limit_of_unlimited_default_group(resource)

    def _limit_of_unlimited_default_group(self, resource: str) -> int | None:
        """Return the limit of an unlimited default group, None if it may be limited.

        It is the same power of two in every domain. Every CPU generation has at least 2048 (256 GB/s), so a smaller
        limit was set by a program.
        """
        values = {
            int(value or 0) for name, value in self.present.items() if split_address(name)[:2] == ("default", resource)
        }
        largest = values.pop() if len(values) == 1 else 0
        return largest if largest >= 2048 and count_ways(largest) == 1 else None

    def _add_remark(self, sentence: str | None) -> None:
        if sentence and sentence not in self.remarks:
            self.remarks.append(sentence)

    def _add_overlap_remarks(self, after: Settings) -> None:
        """Add a remark for each group without a requested mask that may fill the ways of a requested group."""
        chosen = {group.name for group in self.groups if group.l3}
        others = [
            "default",
            *sorted((self.present_groups | self.request.wanted_group_names()) - self.removed - chosen - {"default"}),
        ]
        for group in self.groups:
            for other in others if group.l3 and self.able.cbm_mask else ():
                shared = [
                    domain.id
                    for domain in self.top.l3
                    if domain.id is not None
                    and (not group.cpus or set(group.cpus) & set(domain.cpus))
                    and self._masks_overlap(after, (group.name, other), domain.id)
                ]
                if shared:
                    noun = "default group" if other == "default" else f"group {other}"
                    self._add_remark(
                        f"The {noun} may fill ways of {group.name} in the L3 domains {format_cpulist(shared)}, so "
                        f"nothing is reserved for {group.name} there; give the {noun} an l3 of its own."
                    )

    def _add_io_remarks(self, after: Settings) -> None:
        """Add a remark for each group with a requested mask whose ways hardware other than CPUs may fill."""
        for group in self.groups:
            filled = [
                domain.id
                for domain in (self.top.l3 if group.l3 and self.able.cbm_mask else ())
                if domain.id is not None
                and (not group.cpus or set(group.cpus) & set(domain.cpus))
                and self._all_ways(after, group.name, domain.id)
                & (self.able.io_ways.get(domain.id, 0) | self.able.shareable_ways)
            ]
            if filled:
                self._add_remark(
                    f"I/O may fill ways of {group.name} in the L3 domains {format_cpulist(filled)}, so not all of them "
                    f"are reserved for it there. {self._io_hint()}"
                )

    def _all_ways(self, after: Settings, group: str, domain: int) -> int:
        """Return the ways of a domain that a group has in any L3 resource."""
        ways = 0
        for resource in self._l3_resources():
            ways |= parse_cache_mask(after.get(format_address(group, resource, str(domain))) or "0")
        return ways

    def _io_hint(self) -> str:
        """Return what to do about ways that I/O may fill."""
        folder = f"{self.able.mount_point or HOME}/info/{self._l3_resources()[0]}"
        if self.able.io_ways:
            return f"Give I/O other ways in {folder}/io_alloc_cbm, or write 0 to {folder}/io_alloc."
        return f"{folder}/shareable_bits names these ways; choose others where it matters."

    def _masks_overlap(self, after: Settings, names: tuple[str, str], domain: int) -> bool:
        """Return whether two groups share a way of a domain in any L3 resource."""
        for resource in self._l3_resources():
            masks = {
                name: parse_cache_mask(after.get(format_address(name, resource, str(domain))) or "0") for name in names
            }
            if find_overlapping_masks(masks):
                return True
        return False
