# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data that hosts sent: checked before a report uses it, and left out where it breaks the report.

So the malformed answer of one host never ends the report of a whole fleet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import first_misfit_message

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Protocol

    Self = TypeVar("Self")

    class Collector(Protocol):
        """Answers of hosts that were collected for a report."""

        @property
        def host_names(self) -> Collection[str]:
            """The names of the hosts that answered."""

        def single_host_collector(self: Self, name: str) -> Self:
            """Return a collector with the answers of one host."""

        def replace_results_by_read_error(self, name: str, error: Exception) -> None:
            """Replace the answers of a host by the statement that the report cannot read them."""


Answers = TypeVar("Answers", bound="Collector")
Report = TypeVar("Report")
#: The most characters of an error that a sentence shows, since an error may repeat all data that a host sent.
SHOWN_OF_ERROR = 500


class Malformed(ValueError):
    """Data is not of the expected shape; the sentence names the place."""


def require_shape(data: object, shape: Any, place: str) -> None:
    """Raise Malformed for data that differs from a shape. ``place`` is the name of the data in the sentence."""
    message = first_misfit_message(data, shape, place)
    if message:
        raise Malformed(message)


def format_error_class_and_message(error: Exception) -> str:
    """Return the class and the message of an error, shortened, as a sentence shows it."""
    return f"{type(error).__name__}: {str(error)[:SHOWN_OF_ERROR]}"


def make_report_despite_unreadable_hosts(build_report: Callable[[Answers], Report], collector: Answers) -> Report:
    """Return the report that ``build_report`` makes of the collected answers of a fleet.

    Where ``build_report`` fails, it is called for each host by itself. The results of hosts for which it fails are
    replaced by the error, before the last call with all hosts.
    """
    try:
        return build_report(collector)
    except Exception:
        for name in list(collector.host_names):
            try:
                build_report(collector.single_host_collector(name))
            except Exception as error:
                collector.replace_results_by_read_error(name, error)
    return build_report(collector)
