# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One host never ends the report of a fleet: a host whose answer does is set aside, and the others are reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    Own = TypeVar("Own")

    class Answers(Protocol):
        """The answers of a fleet, gathered host by host."""

        @property
        def names(self) -> Collection[str]:
            """The hosts."""

        def only(self: Own, name: str) -> Own:
            """Return the answers of one host alone."""

        def set_aside(self, name: str, error: Exception) -> None:
            """Have the host's answer replaced by the statement that it could not be read."""


Gathered = TypeVar("Gathered", bound="Answers")
Report = TypeVar("Report")


def make_report(make: Callable[[Gathered], Report], answers: Gathered) -> Report:
    """Return what ``make`` makes of the answers of a fleet.

    Where that fails, each host is tried alone, and those that fail alone are set aside before the second and last try.
    """
    try:
        return make(answers)
    except Exception:
        for name in list(answers.names):
            try:
                make(answers.only(name))
            except Exception as error:
                answers.set_aside(name, error)
    return make(answers)
