# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host import smbios
from ansible_collections.sovereign.epyc.tests.unit.fakes import firmware, hosts


def test_the_table_of_a_real_kernel() -> None:
    (slot,) = smbios.parse_memory_slots(firmware.QEMU)
    assert (slot.name, slot.bank, slot.mib, slot.rated, slot.configured) == ("DIMM 0", "", 2560, 0, 0)
    assert [kind for kind, *_rest in smbios.parse_smbios_structures(firmware.QEMU)] == [0, 1, 3, 4, 16, 17, 19, 32, 127]


@pytest.mark.parametrize(
    ("fields", "mib", "rated", "configured"),
    [
        ({"mib": 16384}, 16384, 4800, 4800),
        ({"mib": 131072}, 131072, 4800, 4800),  # more than the old field holds
        ({"mib": 0x7FFF}, 0x7FFF, 4800, 4800),
        ({"mib": -1}, None, 4800, 4800),
        ({"rated": 70000, "configured": 68000}, 65536, 70000, 68000),
        ({"length": 0x1C, "mib": 8192}, 8192, 4800, 0),  # version 2.6: no configured speed yet
    ],
)
def test_each_field_of_a_slot(fields: dict[str, int], mib: int | None, rated: int, configured: int) -> None:
    (slot,) = smbios.parse_memory_slots(firmware.table(firmware.array(1), firmware.module("A1", "bank", **fields)))
    assert (slot.name, slot.bank, slot.mib) == ("A1", "bank", mib)
    assert (slot.rated, slot.configured) == (rated, configured)


def test_a_small_module_has_its_size_in_kib() -> None:
    raw = bytearray(firmware.module("A1"))
    raw[0x0C:0x0E] = (0x8000 | 16384).to_bytes(2, "little")
    assert [slot.mib for slot in smbios.parse_memory_slots(firmware.table(firmware.array(1), bytes(raw)))] == [16]


def test_flash_and_what_comes_after_the_end_are_no_memory() -> None:
    flash = firmware.module("ROM", parent=0x2000)
    arrays = (firmware.array(1), firmware.array(1, 0x2000, firmware.FLASH))
    data = firmware.table(*arrays, firmware.module("A1"), flash) + firmware.module("behind")
    assert [slot.name for slot in smbios.parse_memory_slots(data)] == ["A1"]


def test_a_table_that_ends_anywhere_is_read_as_far_as_it_goes() -> None:
    data = firmware.table(firmware.array(2), firmware.module("A1"), firmware.empty("A2"))
    found = [len(smbios.parse_memory_slots(data[:end])) for end in range(len(data) + 1)]
    assert found == sorted(found)
    assert found[-1] == 2
    assert smbios.parse_memory_slots(b"\x11\x00\x00\x11" + bytes(100)) == []


def test_a_table_longer_than_a_page_is_read_whole(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    firmware.give(host, [firmware.array(96), *(firmware.module(f"DIMM {number}") for number in range(96))])
    assert (host.root / firmware.TABLE).stat().st_size > 2 * smbios.PAGE_BYTES
    assert len(smbios.read_memory_slots(host.fs).filled_slots) == 96


def test_no_table_and_none_for_us_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = hosts.small(tmp_path)
    assert "the firmware describes no memory modules" in smbios.read_memory_slots(host.fs).missing_reason
    firmware.give(host, [firmware.array(1), firmware.empty("A1")])
    assert "names no memory module" in smbios.read_memory_slots(host.fs).missing_reason

    def refuse(path: str, offset: int, size: int) -> bytes:
        raise Refused("no", 13, path)

    monkeypatch.setattr(host.fs, "read_at", refuse)
    assert "only root can read" in smbios.read_memory_slots(host.fs).missing_reason
