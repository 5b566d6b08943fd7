# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no option of any module can be, whatever it stands for: no file and no number of the kernel could be it."""

from __future__ import annotations

from .._errors import BadRequest

#: A number as large has more than 64 bits.
TOO_LARGE = 10**20


def validate_option_value(value: object, name: str) -> None:
    """Raise BadRequest for an impossible text or number in a value, at any depth; ``where`` is what it is called.

    Files are opened with texts and sentences are made of numbers, and in both places Python has errors of its own.
    """
    if isinstance(value, dict):
        for key, one in value.items():
            validate_option_value(key, f"a name in {name}" if name else "the name of an option")
            validate_option_value(one, f"{name}: {key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for one in value:
            validate_option_value(one, name)
    elif isinstance(value, (int, float)):
        # Not a number is neither below nor above any.
        if not -TOO_LARGE < value < TOO_LARGE:
            raise BadRequest(f"{name} is a number beyond 64 bits. Nothing was changed.")
    elif isinstance(value, str) and ("\0" in value or not _is_encodable(value)):
        raise BadRequest(f"{name} holds a character that no file or unit can hold: {value!r}. Nothing was changed.")


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
