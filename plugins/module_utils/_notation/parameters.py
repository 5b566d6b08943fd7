# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no option of any module can be, whatever it stands for: no file and no number of the kernel could be it."""

from __future__ import annotations

from .._errors import BadRequest

#: A number as large has more than 64 bits.
TOO_LARGE = 10**20


def refuse_impossible(value: object, where: str) -> None:
    """Raise BadRequest for an impossible text or number in a value, at any depth; ``where`` is what it is called.

    Files are opened with texts and sentences are made of numbers, and in both places Python has errors of its own.
    """
    if isinstance(value, dict):
        for key, one in value.items():
            refuse_impossible(key, f"a name in {where}" if where else "the name of an option")
            refuse_impossible(one, f"{where}: {key}" if where else str(key))
    elif isinstance(value, (list, tuple)):
        for one in value:
            refuse_impossible(one, where)
    elif isinstance(value, (int, float)):
        # Not a number is neither below nor above any.
        if not -TOO_LARGE < value < TOO_LARGE:
            raise BadRequest(f"{where} is a number beyond 64 bits. Nothing was changed.")
    elif isinstance(value, str) and ("\0" in value or not _is_encodable(value)):
        raise BadRequest(f"{where} holds a character that no file or unit can hold: {value!r}. Nothing was changed.")


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
