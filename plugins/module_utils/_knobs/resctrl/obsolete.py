# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Originals of resctrl that need no restoring any more, because their mount or their group has ended.

An administrator may have unmounted resctrl, mounted it with other options, or removed a group. All settings in it have
ended then, and the kernel has given the whole cache back to all CPUs. Source: Documentation/filesystems/resctrl.rst and
fs/resctrl/rdtgroup.c of the Linux kernel.
"""

from __future__ import annotations

from ..._kernel import resctrl
from ..._kernel.resctrl import format_address, split_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..protocol.knob import Settings

UNMOUNTED = "resctrl was unmounted meanwhile, which ended all groups and masks of that time: nothing is put back there."
OTHER_MOUNT = (
    "resctrl was mounted anew with other options meanwhile, which ended all groups and masks of that time: nothing of "
    "that mount is put back."
)


def obsolete_mount_reason(original: str | None, present: str | None) -> str | None:
    """Return why the original of the mount needs no restoring, None if it must be restored."""
    if original is None or original == present:
        return None
    return UNMOUNTED if present is None else OTHER_MOUNT


def obsolete_originals(originals: Settings, present: Settings) -> dict[str, str]:
    """Return the originals whose mount or group has ended, with the reasons; ``present`` are all present settings."""
    sentences = {name: _obsolete_reason(name, originals, present) for name in originals}
    return {name: sentence for name, sentence in sentences.items() if sentence}


def _obsolete_reason(address: str, originals: Settings, present: Settings) -> str:
    if not present:
        return UNMOUNTED
    group, kind, key = split_address(address)
    if kind in resctrl.RESOURCES and not any(split_address(other)[:2] == ("default", kind) for other in present):
        return OTHER_MOUNT
    holders = [format_address(group)] if kind else []
    if kind == "mon" and "/" in key:
        holders.append(format_address(group, "mon", key.partition("/")[0]))
    for holder in holders:
        if originals[address] is not None and holder not in present and originals.get(holder) is None:
            return f"The group {group} of resctrl was removed meanwhile, with all that was in it: it is not made again."
    return ""


def offline_domain_reason(address: str, present: Settings) -> str | None:
    """Return why the mask at this address does not exist: all CPUs of its L3 domain are offline; else None."""
    group, kind, domain = split_address(address)
    if kind not in resctrl.RESOURCES or format_address(group) not in present or address in present:
        return None
    return f"all CPUs of L3 domain {domain} are offline, and the kernel has no mask for it. Bring them online"
