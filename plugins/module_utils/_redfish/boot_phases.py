# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings that the next boot can apply, those that the boot after it can apply, and those that are locked."""

from __future__ import annotations

from .._errors import BadRequest
from .attributes.catalogue import BIOS_OPTIONS
from .attributes.locks import find_lock_under_future_values
from .attributes.resolve import Target, find_target_that_unlocks_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .attributes.locks import Lock
    from .attributes.registry import Registry, Value


class BootPhases:
    """Targets that are not active, by the boot that can apply them; ``blocked`` has the locks of all other targets."""

    def __init__(self) -> None:
        self.first_boot: dict[str, Target] = {}
        self.second_boot: dict[str, Target] = {}
        self.blocked: dict[str, Lock] = {}
        self.remarks: list[str] = []

    @property
    def boot_count(self) -> int:
        return 2 if self.second_boot else 1 if self.first_boot else 0


def plan_targets_by_boot(
    registry: Registry,
    vendor: str,
    targets: Mapping[str, Target],
    active: Mapping[str, Value],
    pending: Mapping[str, Value],
    unlock: bool,
) -> BootPhases:
    """Return the inactive targets by boot; with ``unlock``, a profile that locks targets is set to custom first."""
    plan = BootPhases()
    inactive = {name: target for name, target in targets.items() if active.get(name) != target.value}
    future = {**active, **pending, **{name: target.value for name, target in inactive.items()}}
    locks = {name: find_lock_under_future_values(registry, name, active, future) for name in inactive}
    profile = find_target_that_unlocks_attributes(registry, vendor)
    if profile and unlock and profile.name not in targets and future.get(profile.name) != profile.value:
        freed = {**future, profile.name: profile.value}
        gained = [
            name
            for name, lock in locks.items()
            if lock and _is_locked_by_profile(lock, profile.name, targets[name], registry, freed, active)
        ]
        if gained:
            inactive = {profile.name: profile, **inactive}
            future = freed
            locks = {name: find_lock_under_future_values(registry, name, active, future) for name in inactive}
            plan.remarks.append(
                f"{profile.name} is set from {active.get(profile.name)} to {profile.value}, because it locks "
                f"{', '.join(gained)}."
            )
    for name, target in inactive.items():
        lock = locks[name]
        if lock is None and name in active:
            plan.first_boot[name] = target
        elif _may_be_unlocked_by_profile(lock, profile, inactive, target) or (
            lock is None and _contains_profile_target(profile, inactive)
        ):
            plan.second_boot[name] = target
        elif lock is not None:
            plan.blocked[name] = lock
        else:
            # The registry has the attribute, but the BMC shows no active value. Most machines still take a value.
            plan.first_boot[name] = target
    if plan.blocked:
        # Without the blocked value, other attributes may be locked or forced, so no value of the request is sent.
        plan.first_boot, plan.second_boot = {}, {}
    return plan


def refuse_blocked_attributes(blocked: Mapping[str, Lock], **details: object) -> None:
    """Raise BadRequest that names the blocked attributes and their locks, if there are any."""
    if blocked:
        sentences = "; ".join(f"{name} cannot be set: {lock}" for name, lock in blocked.items())
        raise BadRequest(
            f"{sentences}. Change what locks it in the same request, or leave it out. Nothing was changed.",
            blocked={name: lock.causes for name, lock in blocked.items()},
            **details,
        )


def _is_locked_by_profile(
    lock: Lock,
    profile: str,
    target: Target,
    registry: Registry,
    freed: Mapping[str, Value],
    active: Mapping[str, Value],
) -> bool:
    """Return whether a profile locks a target: by the causes in the registry, or else by the catalogue."""
    if lock.causes:
        return profile in lock.causes and find_lock_under_future_values(registry, target.name, active, freed) is None
    return _option_is_locked_by_profiles(target)


def _option_is_locked_by_profiles(target: Target) -> bool:
    return target.option in BIOS_OPTIONS and BIOS_OPTIONS[target.option].profiles_lock_it


def _contains_profile_target(profile: Target | None, inactive_targets: Mapping[str, Target]) -> bool:
    return profile is not None and profile.name in inactive_targets


def _may_be_unlocked_by_profile(
    lock: Lock | None, profile: Target | None, inactive_targets: Mapping[str, Target], target: Target
) -> bool:
    """Return whether a lock without a cause in the registry may end when the requested profile is active."""
    return (
        lock is not None
        and not lock.causes
        and lock.flag != "immutable"
        and _contains_profile_target(profile, inactive_targets)
        and (_option_is_locked_by_profiles(target) or target.option == "attributes")
    )
