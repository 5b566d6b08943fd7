# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One line of a checklist, and a checklist as a page for people.

"unknown" means that the kernel does not show it; it is never counted as fine.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OK, WRONG, UNKNOWN = "ok", "wrong", "unknown"
#: Asked for, and this host cannot have it.
UNSUPPORTED = "unsupported"
#: Not configured, so there is nothing to judge.
UNASKED = "unasked"
#: Configured and waiting for a reboot, which the operator allowed; or for a later task of the same run.
PENDING = "pending"
#: No kernel file shows it, and the BMC says that it is so.
CLAIMED = "claimed by firmware"
#: Asked for, and the BIOS of this machine has no such setting.
ABSENT = "not on this machine"
#: Left out on purpose, as who asked said.
UNSEEN = "not looked at"
CLEAN = (OK, UNASKED, PENDING, CLAIMED, UNSEEN)


class Item:
    """What was found out about one thing, in one sentence or two."""

    __slots__ = ("expected", "found", "name", "sentence", "title", "verdict")

    def __init__(
        self,
        name: str,
        title: str,
        verdict: str,
        sentence: str,
        expected: str | None = None,
        found: str | None = None,
    ) -> None:
        self.name = name
        self.title = title
        self.verdict = verdict
        self.sentence = sentence
        self.expected = expected
        self.found = found

    @property
    def clean(self) -> bool:
        """Return whether it is as configured, or not configured at all."""
        return self.verdict in CLEAN

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def render(items: Sequence[Item]) -> str:
    """Return the page: a row per item, and a line that counts; without a newline at its end."""
    width = max((len(item.title) for item in items), default=0)
    marks = max([8, *(len(_mark(item)) for item in items)])
    rows = [f"{_mark(item):<{marks}} {item.title:<{width}}  {item.sentence}" for item in items]
    counts = [f"{sum(item.verdict == verdict for item in items)} {verdict}" for verdict in (OK, WRONG, UNKNOWN)]
    for verdict in (UNSUPPORTED, ABSENT, CLAIMED, PENDING, UNASKED, UNSEEN):
        number = sum(item.verdict == verdict for item in items)
        counts += [f"{number} {verdict}"] if number else []
    return "\n".join([*rows, f"{len(items)} items: {', '.join(counts)}"])


def complaints(items: Sequence[Item]) -> list[str]:
    """Return a line for each item that is wrong, unknown or cannot be had."""
    return [f"{item.title}: {item.sentence}" for item in items if not item.clean]


def _mark(item: Item) -> str:
    return item.verdict if item.clean else item.verdict.upper()
