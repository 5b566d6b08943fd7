# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""A limit of time for a whole exchange with a BMC: name, connection, TLS, headers and body.

The timeout of a socket only limits the pause between two bytes, so a BMC that sends four bytes a second would hold a
run for hours.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


def call_within(seconds: float, function: Callable[[], T]) -> T:
    """Return what a function returns; raises TimeoutError after so many seconds, and whatever the function raises.

    A function that takes longer is left to itself in a thread that ends with the process at the latest.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if errors:
        raise errors[0]
    if not results:
        raise TimeoutError
    return results[0]
