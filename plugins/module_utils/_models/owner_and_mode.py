# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Owner, group and mode of model files, from the options owner, group and mode of a module."""

from __future__ import annotations

import stat

from .._errors import BadRequest
from .._io import textfile
from .._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import Any

#: The mode of a new file, so that services with any user can read the file.
DEFAULT_MODE = 0o644
#: The largest number of a user or a group in the kernel.
LARGEST_ID = (1 << 32) - 2


class OwnerAndMode:
    """The requested owner, group and mode of each file; BadRequest where this host has no such owner or group."""

    def __init__(self, options: Mapping[str, Any], check: bool, remarks: list[str]) -> None:
        self.options = options
        self.check = check
        self.remarks = remarks
        self.mode = _parse_mode(options.get("mode"))
        self.user = self._find_id("owner", "pwd", "getpwnam", "pw_uid")
        self.group = self._find_id("group", "grp", "getgrnam", "gr_gid")

    def set_owner_and_mode_of_new_file(self, path: str, old: os.stat_result | None) -> None:
        """Set owner, group and mode of a new file.

        By default, they are those of the replaced file, whose status is ``old``; None for no replaced file.
        """
        owner = (old.st_uid, old.st_gid) if old else (-1, -1)
        textfile.set_owner_and_mode(
            path, *owner, self.mode if self.mode is not None else old.st_mode & 0o7777 if old else DEFAULT_MODE
        )

    def apply(
        self, path: str, old: os.stat_result | None, differs: Callable[[str, str | None, str | None], None]
    ) -> None:
        """Set the requested owner, group and mode of a file.

        ``old`` is the status before the change, and ``differs`` is called with each option, its old and new value.
        """
        for option, number, before in (
            ("owner", self.user, old and old.st_uid),
            ("group", self.group, old and old.st_gid),
        ):
            if self.options.get(option):
                after = str(self.options[option] if number is None else number)
                differs(f"/{option}", None if before is None else str(before), after)
        if self.mode is not None:
            differs("/mode", f"{stat.S_IMODE(old.st_mode):04o}" if old else None, f"{self.mode:04o}")
        if self.check or not any(self.options.get(option) for option in ("owner", "group", "mode")):
            return
        textfile.set_owner_and_mode(
            path, -1 if self.user is None else self.user, -1 if self.group is None else self.group, self.mode
        )

    def _find_id(self, option: str, table: str, function: str, field: str) -> int | None:
        name = self.options.get(option)
        if not name:
            return None
        number = parse_whole_number(name)
        if number is not None and number <= LARGEST_ID:
            return number
        try:
            return int(getattr(getattr(__import__(table), function)(name), field))
        except (KeyError, ValueError):  # A name with a NUL, or one that cannot be encoded, is a ValueError.
            if self.check:
                self.remarks.append(f"{option}: there is no '{name}' on this host yet.")
                return None
            raise BadRequest(f"{option}: there is no '{name}' on this host; make it first.") from None


def _parse_mode(text: str | None) -> int | None:
    if not text:
        return None
    if text[0] != "0" or not set(text) <= set("01234567") or len(text) > 5:
        raise BadRequest(
            f"mode: '{text}' is not a mode; quote it as '0644', because YAML reads it as a number otherwise."
        )
    return int(text, 8)
