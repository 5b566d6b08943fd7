# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The judgement: what the kernel shows of each BIOS setting, against what is expected of it.

A setting that the kernel does not show is "unknown": the sentence then says where to look instead.
"""

from __future__ import annotations

from ..checklist_items import OK, PENDING, UNASKED, UNKNOWN, WRONG, Item
from .setting import OFF, ON
from .settings_table import SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .setting import Look, Seen, Setting

#: Word in the vendor's name in DMI -> the vendor; all others have AMI's setup.
VENDORS = {"Dell": "Dell", "HPE": "HPE", "Hewlett": "HPE", "Lenovo": "Lenovo", "Supermicro": "Supermicro"}


def check(
    look: Look,
    expected: Mapping[str, str],
    soon: Mapping[str, str] | None = None,
    only: Collection[str] = tuple(SETTINGS),
) -> list[Item]:
    """Return an item for each setting of the table; ``expected`` holds the values that are asked for.

    ``soon`` holds what the kernel is told later in the same run, in place of the BIOS. ``only`` names the settings to
    look at.
    """
    vendor, later = vendor_of(look), soon or {}
    return [
        _judge(name, setting, setting.see(look), expected.get(name), vendor, later.get(name))
        for name, setting in SETTINGS.items()
        if name in only
    ]


def wanted(options: Mapping[str, object]) -> dict[str, str]:
    """Return what the options of a module expect, by setting; those without a value expect nothing."""
    switch = {True: ON, False: OFF}
    return {
        name: switch[value] if isinstance(value, bool) else setting.form.format(value)
        for name, setting in SETTINGS.items()
        for value in [options.get(name)]
        if value is not None
    }


def vendor_of(look: Look) -> str:
    """Return the vendor whose names to use, "" for one that has AMI's setup."""
    text = look.fs.read_if_present("/sys/class/dmi/id/sys_vendor") or ""
    return next((name for word, name in VENDORS.items() if word.lower() in text.lower()), "")


def _judge(name: str, setting: Setting, seen: Seen, expected: str | None, vendor: str, soon: str | None) -> Item:
    found, how = seen
    if expected is None:
        sentence = f"It is {found} ({how})." if found else f"Unknown: {how}. {_place(setting, vendor)}"
        return Item(name, setting.title, UNASKED, sentence, None, found)
    if found is None:
        sentence = f"It should be {expected}, but its value is unknown: {how}. {_cost(setting, '')} "
        return Item(name, setting.title, UNKNOWN, sentence + _place(setting, vendor), expected, None)
    if found == expected:
        return Item(name, setting.title, OK, f"It is {found} ({how}).", expected, found)
    if soon == expected:
        sentence = f"It is {found} ({how}). Later in this run the kernel makes it {soon}, as it should be."
        return Item(name, setting.title, PENDING, sentence, expected, found)
    sentence = f"It is {found} ({how}) and should be {expected}. {_cost(setting, found)} {_place(setting, vendor)}"
    return Item(name, setting.title, WRONG, sentence, expected, found)


def _cost(setting: Setting, found: str) -> str:
    return setting.costs.get(found) or setting.costs[""]


def _place(setting: Setting, vendor: str) -> str:
    """Return where it is changed, under the name that the vendor gave it."""
    if setting.remedy:
        return setting.remedy
    *names, last = setting.names.get(vendor, "").split(" ")
    if names:
        return f"In the BIOS of this {vendor} these are the attributes {', '.join(names)} and {last}."
    if last:
        return f"In the BIOS of this {vendor} it is the attribute {last}."
    if vendor:
        return f"In the BIOS of this {vendor} we know no attribute for it; AMI's setup has it under {setting.menu}."
    return f"In the BIOS it is usually under AMD CBS, {setting.menu}."
