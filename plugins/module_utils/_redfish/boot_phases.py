# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be set at the next boot, what only at the one after it, and what cannot be set, with who is to blame."""

from __future__ import annotations

from .._errors import BadRequest
from .attributes.catalogue import KNOBS
from .attributes.locks import lock_of
from .attributes.resolve import Target, profile_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .attributes.locks import Lock
    from .attributes.registry import Registry, Value


class Phases:
    """Targets that differ, by the boot that can make them; ``blocked`` has the locks of those that none can."""

    def __init__(self) -> None:
        self.first: dict[str, Target] = {}
        self.second: dict[str, Target] = {}
        self.blocked: dict[str, Lock] = {}
        self.remarks: list[str] = []

    @property
    def boots(self) -> int:
        """Return how many boots it takes to have all of it."""
        return 2 if self.second else 1 if self.first else 0


def phases(
    registry: Registry,
    vendor: str,
    targets: Mapping[str, Target],
    active: Mapping[str, Value],
    pending: Mapping[str, Value],
    unlock: bool,
) -> Phases:
    """Sort the targets that are not active yet; with ``unlock``, a profile that locks them is set to custom first."""
    out = Phases()
    differ = {name: target for name, target in targets.items() if active.get(name) != target.value}
    then = {**active, **pending, **{name: target.value for name, target in differ.items()}}
    locks = {name: lock_of(registry, name, active, then) for name in differ}
    profile = profile_of(registry, vendor)
    if profile and unlock and profile.name not in targets and then.get(profile.name) != profile.value:
        freed = {**then, profile.name: profile.value}
        gained = [
            name
            for name, lock in locks.items()
            if lock and _explained(lock, profile.name, targets[name], registry, freed, active)
        ]
        if gained:
            differ = {profile.name: profile, **differ}
            then = freed
            locks = {name: lock_of(registry, name, active, then) for name in differ}
            out.remarks.append(
                f"{profile.name} is set from {active.get(profile.name)} to {profile.value}, because it locks "
                f"{', '.join(gained)}."
            )
    for name, target in differ.items():
        lock = locks[name]
        if lock is None and name in active:
            out.first[name] = target
        elif _freed_later(lock, profile, differ, target) or (lock is None and _changes_profile(profile, differ)):
            out.second[name] = target
        elif lock is not None:
            out.blocked[name] = lock
        else:
            # It is in the registry and not among the active values; most machines take it all the same.
            out.first[name] = target
    if out.blocked:
        # With one of them missing, others may be locked or forced in another way: nothing of it is a sound request.
        out.first, out.second = {}, {}
    return out


def refuse_blocked(blocked: Mapping[str, Lock], **details: object) -> None:
    """Raise BadRequest with who blocks what, if anything is blocked."""
    if blocked:
        told = "; ".join(f"{name} cannot be set: {lock}" for name, lock in blocked.items())
        raise BadRequest(
            f"{told}. Change what locks it in the same request, or leave it out. Nothing was changed.",
            blocked={name: lock.blame for name, lock in blocked.items()},
            **details,
        )


def _explained(
    lock: Lock,
    profile: str,
    target: Target,
    registry: Registry,
    freed: Mapping[str, Value],
    active: Mapping[str, Value],
) -> bool:
    """Return whether a profile locks a target: the registry blames it, or blames nobody and profiles do lock such."""
    if lock.blame:
        return profile in lock.blame and lock_of(registry, target.name, active, freed) is None
    return _by_profiles(target)


def _by_profiles(target: Target) -> bool:
    return target.knob in KNOBS and KNOBS[target.knob].locked


def _changes_profile(profile: Target | None, differ: Mapping[str, Target]) -> bool:
    return profile is not None and profile.name in differ


def _freed_later(lock: Lock | None, profile: Target | None, differ: Mapping[str, Target], target: Target) -> bool:
    """Return whether a flag that the registry does not explain may go when the profile of this request is active."""
    return (
        lock is not None
        and not lock.blame
        and lock.flag != "immutable"
        and _changes_profile(profile, differ)
        and (_by_profiles(target) or target.knob == "attributes")
    )
