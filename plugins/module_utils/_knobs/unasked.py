# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a stored request wanted and nobody asks for any more: it gets its originals back when the request changes."""

from __future__ import annotations

from .._errors import TuningError
from .._host.host import Host
from .desired import stored
from .ledger import Original

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .knob import Knob
    from .ledger import Ledger

    Build = Callable[[Host, Mapping[str, Any]], Sequence[Knob]]


def unasked(build: Build, host: Host, ledger: Ledger, request: str, options: Mapping[str, Any] | None) -> list[Knob]:
    """Return knobs that put back what the stored request wanted and neither these options nor other requests want.

    ``request`` is "KNOB/LABEL", and ``options`` is None when it is to be stored no more. What other requests want is
    planned with the intent of this run, as they will be at boot.
    """
    intent, requests = stored(ledger.store)
    name, before = request.partition("/")[0], requests.pop(request, None)
    if before is None or (before == options and intent == host.intent):
        return []
    others = [other for key, other in requests.items() if key.partition("/")[0] == name]
    try:
        gone = _wanted(build, Host(host.fs, intent), before)
    except TuningError as error:
        note = f"What {request} asked for until now cannot be told here any more, so nothing of it is put back: {error}"
        return [Original(knob, ledger, only=(), note=note) for knob in build(host, {})[:1]]
    for other in [*others, *([] if options is None else [options])]:
        gone -= _wanted(build, host, other)
    return [Original(knob, ledger, only=gone) for knob in reversed(build(host, {}))] if gone else []


def _wanted(build: Build, host: Host, options: Mapping[str, Any]) -> set[str]:
    return {address for knob in build(host, options) for address in knob.wanted()}
