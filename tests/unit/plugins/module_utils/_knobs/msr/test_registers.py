# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of registers, and the list of what is let pass, without a host."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr import registers


def raw(register: str, bits: str, value: str) -> dict[str, str]:
    return {"cpus": "0", "register": register, "bits": bits, "value": value}


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_any_text_is_understood_or_refused_with_a_sentence(register: str, bits: str, value: str) -> None:
    try:
        items = list(registers.parse_bit_requests(raw(register, bits, value)))
    except BadRequest as error:
        assert str(error).endswith(".")
    else:
        assert all(0 <= item.bit <= 63 and item.value in (0, 1) for item in items)


@given(st.integers(0, 63), st.integers(0, 63), st.data())
def test_the_bits_of_a_value_are_those_of_its_field(one: int, two: int, data: st.DataObject) -> None:
    high, low = max(one, two), min(one, two)
    value = data.draw(st.integers(0, (1 << high - low + 1) - 1))
    items = list(registers.parse_bit_requests(raw("0x123", f"{high}:{low}", hex(value))))
    assert sum(item.value << item.bit for item in items) == value << low


def test_no_bit_that_has_a_name_is_forbidden() -> None:
    for register in registers.KNOWN:
        assert not any(first <= register <= last for first, last, dummy in registers.FORBIDDEN)


def test_the_list_of_forbidden_registers_is_in_order() -> None:
    ends = [number for first, last, dummy in sorted(registers.FORBIDDEN) for number in (first, last)]
    assert ends == sorted(ends)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (raw("0xc0011022", "913", "1"), "Quote a range"),
        (raw("0xc0011022", "13:15", "1"), "the higher bit first"),
        (raw("0xc0011022", "64", "1"), "no bit from 0 to 63"),
        (raw("0xc0011022", "13", "2"), "no number from 0 to 0x1"),
        (raw("0xc0011022", "13", "-1"), "no number from 0"),
        (raw("0x1c0011022", "13", "1"), "register: '0x1c0011022' is no number"),
        (raw("c0011022", "13", "1"), "register: 'c0011022' is no number"),
        ({"cpus": "0", "register": "0x10"}, "needs all of register, bits and value"),
        ({"cpus": "0", "prefetch_control": {}}, "sets no bit"),
        ({"cpus": "0", "prefetch_control": {"l3": "disabled"}}, "names are l1_stream, l1_stride"),
        ({"cpus": "0", "prefetch_control": {"l1_stream": True}}, "enabled and disabled"),
    ],
)
def test_what_makes_no_sense_is_refused(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        list(registers.parse_bit_requests(setting))


def of_family(family: int, prefetch_control: bool | None = True, model_number: int = 0) -> Topology:
    top = Topology()
    top.vendor, top.family, top.prefetch_control = "AuthenticAMD", family, prefetch_control
    top.model_number = model_number
    top.flags = frozenset({"cpb"})
    return top


@pytest.mark.parametrize(
    ("register", "bit", "family", "words"),
    [
        (registers.DC_CFG, 13, 0x15, None),
        (registers.DC_CFG, 14, 0x15, "not on the list"),
        (registers.DC_CFG, 13, 0x17, "before 17h only; this CPU is of family 17h"),
        (registers.DC_CFG, 15, 0x19, "Use prefetch_control"),
        (registers.PREFETCH_CONTROL, 5, 0x19, None),
        (registers.PREFETCH_CONTROL, 5, 0x1A, None),
        (registers.PREFETCH_CONTROL, 4, 0x19, "not on the list"),
        (registers.PREFETCH_CONTROL, 6, 0x1A, "not on the list"),
        (registers.HWCR, 25, 0x19, None),
        (0xC0011020, 13, 0x19, "not on the list"),
    ],
)
def test_the_list_of_each_family(register: int, bit: int, family: int, words: str | None) -> None:
    registers.require_writable_bit(register, bit, of_family(family), allow_undocumented=True)
    if words is None:
        registers.require_writable_bit(register, bit, of_family(family), allow_undocumented=False)
    else:
        with pytest.raises(BadRequest, match=words):
            registers.require_writable_bit(register, bit, of_family(family), allow_undocumented=False)


def test_cpuid_guards_prefetch_control_even_when_the_undocumented_is_allowed() -> None:
    with pytest.raises(BadRequest, match="has no register 0xc0000108"):
        registers.require_writable_bit(registers.PREFETCH_CONTROL, 0, of_family(0x17, False), allow_undocumented=True)


@pytest.mark.parametrize("model_number", [0x50, 0x57, 0xD0])
def test_bits_that_nobody_has_published_need_a_word(model_number: int) -> None:
    """Zen 6 has the register, and what its bits switch is in no source."""
    top = of_family(0x1A, model_number=model_number)
    words = f"is not published for this CPU .family 1Ah, model {model_number:X}h"
    with pytest.raises(BadRequest, match=words):
        registers.require_writable_bit(registers.PREFETCH_CONTROL, 1, top, allow_undocumented=False)
    registers.require_writable_bit(registers.PREFETCH_CONTROL, 1, top, allow_undocumented=True)
    registers.require_writable_bit(registers.HWCR, 25, top, allow_undocumented=False)


def test_boost_needs_the_cpu_to_have_it() -> None:
    top = of_family(0x19)
    top.flags = frozenset()
    with pytest.raises(BadRequest, match="no flag cpb"):
        registers.require_writable_bit(registers.HWCR, 25, top, allow_undocumented=True)


def test_another_vendors_registers_are_left_alone() -> None:
    top = of_family(6)
    top.vendor = "GenuineIntel"
    with pytest.raises(BadRequest, match="on AMD only; this CPU is GenuineIntel"):
        registers.require_writable_bit(registers.PREFETCH_CONTROL, 0, top, allow_undocumented=True)
