# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Host names folded into ranges: epyc9754-01, epyc9754-02 and epyc9754-03 are epyc9754-[01-03]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import natural_sort_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DIGITS = "0123456789"
#: The most digits of a number that is folded. Python refuses to convert much longer numbers, and no fleet has any.
MOST_DIGITS = 18


def fold_host_names(names: Iterable[str]) -> str:
    """Return the names in one text, with numbers at their ends folded into ranges."""
    families: dict[tuple[str, int, str], list[int]] = {}
    for name in sorted(set(names), key=natural_sort_key):
        start, digits, end = _split_at_last_number(name)
        # Numbers with leading zeros are folded with those of equal width only; other numbers fold with any width.
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        families.setdefault((start, width, end), []).append(int(digits or -1))
    families = _move_numbers_to_padded_family(families)
    return ", ".join(
        f"{start}{_format_ranges(numbers, width)}{end}" for (start, width, end), numbers in families.items()
    )


def _move_numbers_to_padded_family(
    families: dict[tuple[str, int, str], list[int]],
) -> dict[tuple[str, int, str], list[int]]:
    """Move numbers without leading zeros to the padded numbers of the same width: 10 belongs to 01 to 09."""
    joined: dict[tuple[str, int, str], list[int]] = {}
    for (start, width, end), numbers in families.items():
        padded = [family[1] for family in families if family[0] == start and family[2] == end and family[1]]
        if width or len(padded) != 1 or any(len(str(number)) != padded[0] for number in numbers):
            joined.setdefault((start, width, end), []).extend(numbers)
        else:
            joined.setdefault((start, padded[0], end), []).extend(numbers)
    return {family: sorted(numbers) for family, numbers in joined.items()}


def _split_at_last_number(name: str) -> tuple[str, str, str]:
    """Return a name in three parts: before, in, and after the last run of digits in its first label."""
    label, dot, domain = name.partition(".")
    if all(part and not part.strip(DIGITS) for part in name.split(".")):
        label, dot, domain = name, "", ""  # In an IP address the last number counts.
    end = len(label)
    while end and label[end - 1] not in DIGITS:
        end -= 1
    start = len(label[:end].rstrip(DIGITS))
    if end - start > MOST_DIGITS:
        return name, "", ""
    return label[:start], label[start:end], label[end:] + dot + domain


def _format_ranges(numbers: Sequence[int], width: int) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in runs]
    if numbers[0] < 0:
        return ""
    return texts[0] if len(numbers) == 1 else f"[{','.join(texts)}]"
