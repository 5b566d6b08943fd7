# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capacity bit masks: which ways of an L3 domain a resctrl group may fill.

A domain has as many ways as its full mask has bits (16 on every EPYC so far), and all ways have the same size. People
request ways, bytes or a share; this module converts such an amount to a mask for the kernel.
"""

from __future__ import annotations

from .._errors import BadRequest
from .numbers import parse_decimal, parse_hexadecimal
from .sizes import UNITS, format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

AMOUNTS = "'12 ways', '12MiB' or '75%'"
AMOUNTS_AND_MASKS = f"a mask such as 'fff0', {AMOUNTS}"


def count_ways(mask: int) -> int:
    """Return the number of ways, that is of set bits, in a mask."""
    return bin(mask).count("1")


def parse_cache_mask(text: str) -> int:
    """Return the value of a hexadecimal mask, with or without 0x; ValueError for any other text."""
    mask = parse_hexadecimal(text)
    if mask is None:
        raise ValueError(f"'{text}' is no hexadecimal mask")
    return mask


class CacheAmount:
    """A requested part of an L3 domain: an exact mask, or a number of ways, bytes or percent."""

    __slots__ = ("kind", "number", "text")

    def __init__(self, kind: str, number: float, text: str) -> None:
        self.kind = kind
        self.number = number
        self.text = text

    @classmethod
    def from_text(cls, value: object, accepted: str = AMOUNTS_AND_MASKS) -> CacheAmount:
        """Parse an option such as "12 ways", "12MiB", "75%" or "fff0"; BadRequest for any ambiguous value.

        ``accepted`` has examples of what the option accepts, for the message of a refusal.
        """
        if not isinstance(value, str):
            raise BadRequest(
                f"An L3 amount must be a text, {accepted}, not the number {value!r}: YAML turns an unquoted mask such "
                "as 0010 into another number, so put it in quotes."
            )
        text = value.strip()
        number = text.rstrip("%waysKMGiB ")
        unit = text[len(number) :].strip()
        if unit in ("way", "ways", "%") or unit in UNITS:
            count = parse_decimal(number.strip())
            if count is None:
                raise BadRequest(f"'{value}' is no amount of L3; say {accepted}.")
            if count <= 0:
                raise BadRequest(f"'{value}' leaves no way to allocate in; ask for at least 1 way.")
            if unit == "%":
                if count > 100:
                    raise BadRequest(f"'{value}' is more than the whole domain.")
                return cls("share", count, text)
            if unit in UNITS:
                return cls("bytes", count * UNITS[unit], text)
            if count != int(count):
                raise BadRequest(f"'{value}': the number of ways must be whole.")
            return cls("ways", count, text)
        try:
            mask = parse_cache_mask(text)
        except ValueError:
            raise BadRequest(f"'{value}' is no amount of L3; say {accepted}.") from None
        if mask == 0:
            raise BadRequest(
                f"The mask '{value}' has no way in it: the group could allocate nothing in L3. Give it at least 1 way."
            )
        return cls("mask", mask, text)

    def to_ways(self, total_ways: int, domain_bytes: int) -> int:
        """Return the number of ways that this amount takes in a domain, rounded up."""
        if self.kind == "mask":
            return count_ways(int(self.number))
        if self.kind == "ways":
            return int(self.number)
        if self.kind == "share":
            return max(1, -int(-total_ways * self.number // 100))
        if not domain_bytes:
            raise BadRequest(
                f"{self.text} of L3 cannot be turned into ways: the kernel does not tell how large the L3 domains of "
                "this host are. Say a number of ways."
            )
        return -int(-self.number * total_ways // domain_bytes)

    def rounded_up_message(self, total_ways: int, domain_bytes: int) -> str | None:
        """Return a remark that the amount was rounded up to whole ways; None where nothing was rounded."""
        got = self.to_ways(total_ways, domain_bytes)
        wanted = {"bytes": self.number, "share": domain_bytes * self.number / 100}.get(self.kind)
        # The number of ways need not divide the size, so the sizes are compared in parts of a way.
        if wanted is None or wanted * total_ways == got * domain_bytes:
            return None
        ways = "1 way" if got == 1 else f"{got} ways"
        return (
            f"{self.text} of L3 is no whole way of {format_bytes_short(domain_bytes // total_ways)}: rounded up to "
            f"{ways}, {format_bytes_short(got * domain_bytes // total_ways)}."
        )


def allocate_cache_masks(
    full_mask: int,
    domain_bytes: int,
    amounts: Sequence[tuple[str, CacheAmount]],
    lowest_group: tuple[str, CacheAmount] | None,
    place: str,
) -> dict[str, int]:
    """Return the mask of each name in one domain.

    Exact masks stay as they are, and may overlap. All other amounts get free ways of their own: from the highest way
    down in the given order, and ``lowest_group`` (the default group) from the lowest way up. BadRequest, with ``place``
    and the sum of ways, where the ways do not suffice.
    """
    total = count_ways(full_mask)
    requested = [*amounts, lowest_group] if lowest_group else list(amounts)
    masks: dict[str, int] = {}
    for name, amount in requested:
        if amount.kind == "mask":
            mask = int(amount.number)
            if mask & ~full_mask:
                raise BadRequest(
                    f"{place}: the mask '{amount.text}' of {name} is wider than the domain, which has {total} ways "
                    f"(mask {full_mask:x})."
                )
            masks[name] = mask
    taken = 0
    for mask in masks.values():
        taken |= mask
    free = [bit for bit in range(full_mask.bit_length()) if full_mask >> bit & 1 and not taken >> bit & 1]
    needs = {name: amount.to_ways(total, domain_bytes) for name, amount in requested if amount.kind != "mask"}
    if sum(needs.values()) > len(free):
        parts = " + ".join(f"{name} {count}" for name, count in needs.items())
        rest = f" of which exact masks take {total - len(free)}" if taken else ""
        raise BadRequest(
            f"{place}: {parts} = {sum(needs.values())} ways, but the domain has {total} ways of "
            f"{format_bytes_short(domain_bytes // total)}{rest}."
        )
    for name, amount in requested:
        if amount.kind == "mask":
            continue
        count = needs[name]
        bits = free[:count] if lowest_group and name == lowest_group[0] else free[-count:]
        free = [bit for bit in free if bit not in bits]
        masks[name] = sum(1 << bit for bit in bits)
    return masks


def find_overlapping_masks(masks: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return the pairs of names whose masks share a way."""
    names = sorted(masks)
    return [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if masks[a] & masks[b]]
