# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What became of originals of resctrl: groups and masks live as long as the mount and the group that they are in.

An administrator may have unmounted resctrl, mounted it with other options, or removed a group. What was in it has ended
then, and the kernel has given everybody the whole cache back, so there is nothing to put back.
Source: Documentation/filesystems/resctrl.rst and fs/resctrl/rdtgroup.c of the Linux kernel.
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


def obsolete_mount_reason(original: str | None, found: str | None) -> str | None:
    """Return why the original of the mount means nothing any more, None where it does."""
    if original is None or original == found:
        return None
    return UNMOUNTED if found is None else OTHER_MOUNT


def obsolete_originals(originals: Settings, found: Settings) -> dict[str, str]:
    """Return the originals that have ended, with a sentence each; ``found`` is all that is there now."""
    sentences = {name: _obsolete_reason(name, originals, found) for name in originals}
    return {name: sentence for name, sentence in sentences.items() if sentence}


def _obsolete_reason(name: str, originals: Settings, found: Settings) -> str:
    if not found:
        return UNMOUNTED
    group, kind, key = split_address(name)
    if kind in resctrl.RESOURCES and not any(split_address(one)[:2] == ("default", kind) for one in found):
        return OTHER_MOUNT
    holders = [format_address(group)] if kind else []
    if kind == "mon" and "/" in key:
        holders.append(format_address(group, "mon", key.partition("/")[0]))
    for holder in holders:
        if originals[name] is not None and holder not in found and originals.get(holder) is None:
            return f"The group {group} of resctrl was removed meanwhile, with all that was in it: it is not made again."
    return ""


def offline_domain_reason(name: str, found: Settings) -> str | None:
    """Return that the domain of a mask has no CPU online now, None where it has one."""
    group, kind, domain = split_address(name)
    if kind not in resctrl.RESOURCES or format_address(group) not in found or name in found:
        return None
    return f"all CPUs of L3 domain {domain} are offline, and the kernel has no mask for it. Bring them online"
