# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the value that the kernel shows of each BIOS setting with the expected value.

An expected setting that the kernel does not show is "unknown". Its sentence says where in the BIOS the setting is.
"""

from __future__ import annotations

from ..checklist_items import NOT_CONFIGURED, OK, PENDING, UNKNOWN, WRONG, Item
from .setting import OFF, ON
from .settings_table import SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from .setting import KernelView, Reading, Setting

#: Word in the vendor's name in DMI -> the vendor. Machines of other vendors have AMI's setup.
VENDORS = {"Dell": "Dell", "HPE": "HPE", "Hewlett": "HPE", "Lenovo": "Lenovo", "Supermicro": "Supermicro"}


def check_bios_settings(
    view: KernelView,
    expected: Mapping[str, str],
    later_values: Mapping[str, str] | None = None,
    only: Collection[str] = tuple(SETTINGS),
) -> list[Item]:
    """Return an item for each setting in ``only``; ``expected`` maps settings to expected values.

    ``later_values`` maps settings to values that a later task of the same run sets in the kernel in place of the BIOS.
    """
    vendor, later = detect_vendor(view), later_values or {}
    return [
        _judge_setting(
            name,
            setting,
            setting.read(view),
            expected.get(name) or setting.expected_anyway(view),
            vendor,
            later.get(name),
        )
        for name, setting in SETTINGS.items()
        if name in only
    ]


def expected_values_from_options(options: Mapping[str, object]) -> dict[str, str]:
    """Return the expected values by setting, from the options of a module that have a value."""
    switch = {True: ON, False: OFF}
    return {
        name: switch[value] if isinstance(value, bool) else setting.value_format.format(value)
        for name, setting in SETTINGS.items()
        for value in [options.get(name)]
        if value is not None
    }


def detect_vendor(view: KernelView) -> str:
    """Return the vendor of this machine, "" for a machine with AMI's setup."""
    text = view.fs.read_if_present("/sys/class/dmi/id/sys_vendor") or ""
    return next((name for word, name in VENDORS.items() if word.lower() in text.lower()), "")


def _judge_setting(
    name: str, setting: Setting, reading: Reading, expected: str | None, vendor: str, later_value: str | None
) -> Item:
    value, source = reading
    if expected is None:
        sentence = (
            f"It is {value} ({source})." if value else f"Unknown: {source}. {_where_to_change_message(setting, vendor)}"
        )
        return Item(name, setting.title, NOT_CONFIGURED, sentence, None, value)
    if value is None:
        sentence = (
            f"It should be {expected}, but its value is unknown: {source}. {_cost_of_wrong_value_message(setting, '')} "
        )
        return Item(name, setting.title, UNKNOWN, sentence + _where_to_change_message(setting, vendor), expected, None)
    if value == expected:
        return Item(name, setting.title, OK, f"It is {value} ({source}).", expected, value)
    if later_value == expected:
        sentence = f"It is {value} ({source}). Later in this run the kernel makes it {later_value}, as it should be."
        return Item(name, setting.title, PENDING, sentence, expected, value)
    advice = f"{_cost_of_wrong_value_message(setting, value)} {_where_to_change_message(setting, vendor)}"
    sentence = f"It is {value} ({source}) and should be {expected}. {advice}"
    return Item(name, setting.title, WRONG, sentence, expected, value)


def _cost_of_wrong_value_message(setting: Setting, found: str) -> str:
    return setting.costs.get(found) or setting.costs[""]


def _where_to_change_message(setting: Setting, vendor: str) -> str:
    """Return a sentence on where in the BIOS a setting is changed, with the vendor's names of its attributes."""
    if setting.remedy:
        return setting.remedy
    if not vendor:
        return f"In the BIOS it is usually under AMD CBS, {setting.menu}."
    *names, last = setting.attribute_names.get(vendor, "").split(" ")
    if names:
        return f"In the BIOS of this {vendor} these are the attributes {', '.join(names)} and {last}."
    if last:
        return f"In the BIOS of this {vendor} it is the attribute {last}."
    return f"In the BIOS of this {vendor} we know no attribute for it; AMI's setup has it under {setting.menu}."
