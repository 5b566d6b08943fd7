# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Items of a checklist, and a page for people with all items.

The verdict "unknown" means that the kernel does not show the value. An unknown item never counts as clean.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

OK, WRONG, UNKNOWN = "ok", "wrong", "unknown"
#: A setting is requested that this host cannot have.
UNSUPPORTED = "unsupported"
#: No setting is requested, so there is nothing to judge.
NOT_CONFIGURED = "not asked for"
#: The requested setting waits for a reboot, which an option allows, or for a later task of the same run.
PENDING = "pending"
#: No kernel file shows the setting, and the BMC says that its value is the requested one.
CLAIMED = "claimed by firmware"
#: A setting is requested that the BIOS of this machine does not have.
ABSENT = "not on this machine"
#: An option of the module leaves the item out.
NOT_CHECKED = "not looked at"
CLEAN_VERDICTS = (OK, NOT_CONFIGURED, PENDING, CLAIMED, NOT_CHECKED)


class Item:
    """One item of a checklist: its verdict, and one or two sentences with the reason."""

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
    def is_clean(self) -> bool:
        """Return whether the verdict is none of wrong, unknown and unsupported."""
        return self.verdict in CLEAN_VERDICTS

    def to_dict(self) -> dict[str, object]:
        return dict(vars(self))


def render_checklist(items: Sequence[Item]) -> str:
    """Return a page with a row for each item and a last line that counts verdicts, without a newline at its end."""
    width = max((len(item.title) for item in items), default=0)
    marks = max([8, *(len(_verdict_column_text(item)) for item in items)])
    rows = [f"{_verdict_column_text(item):<{marks}} {item.title:<{width}}  {item.sentence}" for item in items]
    counts = [f"{sum(item.verdict == verdict for item in items)} {verdict}" for verdict in (OK, WRONG, UNKNOWN)]
    for verdict in (UNSUPPORTED, ABSENT, CLAIMED, PENDING, NOT_CONFIGURED, NOT_CHECKED):
        number = sum(item.verdict == verdict for item in items)
        counts += [f"{number} {verdict}"] if number else []
    return "\n".join([*rows, f"{len(items)} items: {', '.join(counts)}"])


def messages_of_unclean_items(items: Sequence[Item]) -> list[str]:
    """Return a line for each item that is wrong, unknown or unsupported."""
    return [f"{item.title}: {item.sentence}" for item in items if not item.is_clean]


def _verdict_column_text(item: Item) -> str:
    return item.verdict if item.is_clean else item.verdict.upper()
