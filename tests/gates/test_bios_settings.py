# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of BIOS settings has each setting that the collection reads or sets, and the names of each vendor."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.attributes.catalogue import AMI, BIOS_OPTIONS
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.setting import reading_without_kernel_file
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.bios.settings_table import SETTINGS

PAGE = Path(__file__).parents[2] / "docs/bios-settings.md"
VENDORS = ("Dell", "HPE", "Lenovo", "Supermicro", AMI)


def rows_of_section(title: str) -> list[list[str]]:
    """Return the cells of the table in a section of the page, without the head of the table."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    assert rows, title
    return rows[2:]


def test_every_setting_has_a_row() -> None:
    named = {name for row in rows_of_section("The settings") for name in re.findall(r"`(\w+)`", row[0])}
    assert named == SETTINGS.keys() | BIOS_OPTIONS.keys()


def test_every_row_has_all_cells() -> None:
    assert [row for row in rows_of_section("The settings") if len(row) != 5 or not all(row)] == []


def test_settings_that_no_kernel_file_shows_are_marked() -> None:
    by_kernel = {name for name, setting in SETTINGS.items() if setting.read is not reading_without_kernel_file}
    for row in rows_of_section("The settings"):
        names = set(re.findall(r"`(\w+)`", row[0]))
        assert row[4].startswith("no kernel file") is not bool(names & by_kernel), row


def test_vendors_have_the_names_that_are_sent() -> None:
    rows = {row[0].strip("`"): row[1:] for row in rows_of_section("Where the setting is")}
    assert rows.keys() == BIOS_OPTIONS.keys()
    for name, cells in rows.items():
        for vendor, cell in zip(VENDORS, cells, strict=True):
            patterns = [way[0].name_pattern for way in BIOS_OPTIONS[name].ways.get(vendor, ())]
            attributes = re.findall(r"\w+", re.sub(r", with \w+", "", cell.replace(" or ", " ")))
            assert bool(patterns) is bool(attributes), (name, vendor)
            for attribute in attributes:
                assert any(re.fullmatch(pattern, attribute) for pattern in patterns), (name, vendor, attribute)
