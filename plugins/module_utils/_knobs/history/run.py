# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run in the history of a host: who began it, when, its layers and its changes."""

from __future__ import annotations

import os
import time

from ..._notation.numbers import format_utc_time
from ..._version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The most characters of a text, and the most entries of a list, in a line.
LONGEST, MOST_ENTRIES = 200, 50
#: The environment variables in which playbooks pass the starter of the run, and the id of its line.
ORIGIN, RUN = "SOVEREIGN_EPYC_ORIGIN", "SOVEREIGN_EPYC_RUN"
#: Seconds for which a run without an end may still go on.
GOES_ON = 7200


class Run:
    """One run, with the values of its line. Moments are texts in UTC; ``ended`` is empty until the run has ended.

    ``user`` and ``controller`` are empty for a run that a user of the host began, whose name is ``host_user``.
    ``layers`` are the layers that the run does, none for an undo of everything; ``requested`` are those of epyc_steps,
    and ``left`` those that neither this run nor a later run has done.
    """

    TEXTS = ("id", "kind", "began", "ended", "user", "host_user", "controller", "version", "playbook", "outcome")
    LISTS = ("tags", "skip_tags", "layers", "requested", "left")
    __slots__ = (*TEXTS, *LISTS, "changed")

    id: str
    kind: str
    began: str
    ended: str
    user: str
    host_user: str
    controller: str
    version: str
    playbook: str
    outcome: str
    tags: list[str]
    skip_tags: list[str]
    layers: list[str]
    requested: list[str]
    left: list[str]
    #: How many settings were changed, by layer.
    changed: dict[str, int]

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Raise ValueError for values of wrong types; keys of a later version are left out."""
        for name in self.TEXTS:
            setattr(self, name, _require_type(str, values.get(name, ""))[:LONGEST])
        for name in self.LISTS:
            entries = _require_type(list, values.get(name, []))[:MOST_ENTRIES]
            setattr(self, name, [_require_type(str, entry)[:LONGEST] for entry in entries])
        counts = _require_type(dict, values.get("changed", {}))
        self.changed = {layer: _require_type(int, count) for layer, count in counts.items()}
        if not (self.id and self.kind and self.began):
            raise ValueError("a run has an id, a kind and a begin")

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    def to_line(self) -> str:
        """Return the run as a line of JSON."""
        import json

        return json.dumps(self.to_dict())

    def is_unfinished(self) -> bool:
        """Return whether the run did not end and no later run has done the layers that it left."""
        return not self.ended and bool(self.left)

    def covers_all_layers(self) -> bool:
        """Return whether the run does all requested layers; for an undo, whether it undoes everything."""
        return set(self.requested) <= set(self.layers) if self.requested else not self.layers

    def starter_name(self) -> str:
        """Return who began the run, as USER@CONTROLLER or as the user of the host."""
        return f"{self.user}@{self.controller}" if self.controller else self.host_user

    def duration_seconds(self) -> float | None:
        """Return the duration of the run; None for a run that did not end, or whose begin was not noted."""
        took = _parse_moment(self.ended) - _parse_moment(self.began) if self.ended else 0
        return took if took > 0 else None

    def unfinished_message(self, now: float | None = None) -> str:
        """Return a sentence, without a full stop, that the run did not end, with its layers."""
        moment = f"{self.began[:10]} at {self.began[11:16]} UTC"
        age = (time.time() if now is None else now) - _parse_moment(self.began)
        running = ", unless it still goes on" if 0 <= age < GOES_ON else ""
        return (
            f"the run of {self.playbook} that {self.starter_name()} began on {moment} did not end{running}: it was to "
            f"do {', '.join(self.layers) or 'no layer'}"
        )


def new_run(kind: str, now: float | None) -> Run:
    """Return a new run, with the user and playbook that the environment of this process names."""
    origin = _read_playbook_environment()
    moment = format_utc_time(now)
    values = {
        **{name: origin.get(name, "") for name in ("user", "controller", "playbook")},
        **{name: origin.get(name, []) for name in ("tags", "skip_tags")},
        "id": f"{moment}-{os.urandom(4).hex()}",
        "kind": kind,
        "began": moment,
        "host_user": os.environ.get("SUDO_USER") or _name_of_running_user(),
        "version": VERSION,
    }
    return Run(values)


def _read_playbook_environment() -> dict[str, Any]:
    """Return the values that the playbook passes in the environment; empty without a playbook."""
    import json

    try:
        values = json.loads(os.environ.get(ORIGIN, "{}"))
        Run({**values, "id": "-", "kind": "-", "began": "-"})
    except (TypeError, ValueError, RecursionError):
        return {}
    return dict(values)


def _name_of_running_user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def parse_run_line(line: str) -> Run | None:
    """Return the run of a stored line, None for a damaged line."""
    import json

    try:
        return Run(_require_type(dict, json.loads(line)))
    except (ValueError, RecursionError):
        return None


def _require_type(wanted: type, value: Any) -> Any:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no {wanted.__name__}")
    return value


def _parse_moment(moment: str) -> float:
    """Return the seconds since the epoch of a moment, 0 for an invalid text."""
    import calendar

    try:
        return float(calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0
