# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host: one line of JSON for each run that changed something, the oldest first.

A run of site.yml writes its line before its first change, counts in it what is changed, and closes it at its end. So a
run that was killed or that failed is a line without an end. Everything else is noted in one line when it is done.

The file is replaced whole, so a crash leaves the old lines or the new ones. A line that is damaged stays as it is, and
hides no other. The oldest lines go where there are more than BOUNDS. An undo keeps the file.
"""

from __future__ import annotations

import os
import time

from .._errors import TuningError
from .._io.store import HISTORY
from .._version import VERSION
from .catalogue import KNOBS, row_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Callable

    from .._io.store import Store

#: The kinds of runs: site.yml, an undo, a repair, the boot service, and a module in a playbook of somebody's own.
SITE, RESTORE, REPAIR, BOOT, MODULE = "site", "restore", "repair", "boot", "module"
#: Lines that are kept of all kinds, lines of each kind that may come by itself, and bytes of the file.
MOST, MOST_OF_KIND, MOST_BYTES = 500, {REPAIR: 100, BOOT: 100, MODULE: 100}, 256 << 10
#: Characters of a text and entries of a list in a line.
LONGEST, MOST_ENTRIES = 200, 50
#: The variables of the environment in which playbooks say whose run this is, and which line is the one of the run.
ORIGIN, RUN = "SOVEREIGN_EPYC_ORIGIN", "SOVEREIGN_EPYC_RUN"
#: Seconds within which a run without an end may be one that still goes on.
GOES_ON = 7200
#: The layer of an address that is no knob's.
LAYERS = {"prerequisites": "prerequisites", "engine": "base", "llama": "llama"}
OTHER = "other"


class Run:
    """One run, as its line has it. Moments are texts in UTC; ``ended`` is empty until the run has ended.

    ``user`` and ``controller`` are empty for who worked on the host itself, whose name is in ``host_user``. ``layers``
    are those that the run meant to do, none for an undo of everything; ``requested`` are those of epyc_steps.
    """

    TEXTS = ("id", "kind", "began", "ended", "user", "host_user", "controller", "version", "playbook", "outcome")
    LISTS = ("tags", "skip_tags", "layers", "requested")
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
    #: How many settings were changed, by layer.
    changed: dict[str, int]

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Raise ValueError for values of other types than a line has; keys of a later version are left out."""
        for name in self.TEXTS:
            setattr(self, name, _require(str, values.get(name, ""))[:LONGEST])
        for name in self.LISTS:
            entries = _require(list, values.get(name, []))[:MOST_ENTRIES]
            setattr(self, name, [_require(str, entry)[:LONGEST] for entry in entries])
        counts = _require(dict, values.get("changed", {}))
        self.changed = {layer: _require(int, count) for layer, count in counts.items()}
        if not (self.id and self.kind and self.began):
            raise ValueError("a run has an id, a kind and a begin")

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain data."""
        return {name: getattr(self, name) for name in self.__slots__}

    def line(self) -> str:
        """Return the line of the run."""
        import json

        return json.dumps(self.to_dict(), sort_keys=True)

    def is_unfinished(self) -> bool:
        """Return whether the run began and did not end."""
        return not self.ended

    def who(self) -> str:
        """Return who began the run, as USER@CONTROLLER or as the user on the host."""
        return f"{self.user}@{self.controller}" if self.controller else self.host_user

    def sentence(self, now: float | None = None) -> str:
        """Return that the run did not end, and what it was to do, without a full stop."""
        moment = f"{self.began[:10]} at {self.began[11:16]} UTC"
        age = (time.time() if now is None else now) - _seconds(self.began)
        running = ", unless it still goes on" if 0 <= age < GOES_ON else ""
        return (
            f"the run of {self.playbook} that {self.who()} began on {moment} did not end{running}: it was to do "
            f"{', '.join(self.layers) or 'no layer'}"
        )


class History:
    """The lines of the file: ``runs`` in their order, and ``damage``, a sentence for each line that is no run."""

    def __init__(self, store: Store) -> None:
        """Raise TuningError for a file that cannot be read, or that others than root may change."""
        self.store = store
        self._lines: list[str | Run] = []
        self.damage: list[str] = []
        for number, line in enumerate(store.load_lines(HISTORY), 1):
            run = _parse(line)
            if run is None:
                self.damage.append(f"{store.path(HISTORY)}: line {number} is damaged, and is left out.")
            self._lines.append(run or line)

    @property
    def runs(self) -> list[Run]:
        """The runs, the oldest first."""
        return [line for line in self._lines if isinstance(line, Run)]

    def find(self, run_id: str) -> Run | None:
        """Return the run of this id that did not end, None where there is none."""
        return next((run for run in reversed(self.runs) if run.id == run_id and run.is_unfinished()), None)

    def add(self, run: Run) -> None:
        """Add a run as the newest."""
        self._lines.append(run)

    def keep(self, wanted: Callable[[Run], bool]) -> None:
        """Drop the runs that are not wanted; what is damaged stays."""
        self._lines = [line for line in self._lines if not isinstance(line, Run) or wanted(line)]

    def save(self) -> None:
        """Write the file, within its bounds; the newest run of site.yml stays, as it says what was asked for."""
        newest = _newest_site(self.runs)
        self.keep(lambda run: run is newest or run.is_unfinished() or bool(run.changed) or run.kind != SITE)
        for kind, most in MOST_OF_KIND.items():
            old = [run for run in self.runs if run.kind == kind][:-most]
            self.keep(lambda run, old=old: run not in old)  # type: ignore[misc]
        texts = [(line is newest, line.line() if isinstance(line, Run) else line) for line in self._lines]
        room = MOST_BYTES - sum(_size(text) for pinned, text in texts if pinned)
        kept: list[str] = []
        for pinned, text in reversed(texts):
            room -= 0 if pinned else _size(text)
            if pinned or (room >= 0 and len(kept) < MOST):
                kept.append(text)
        self.store.save_lines(HISTORY, reversed(kept))


def unfinished_run(store: Store) -> Run | None:
    """Return the newest run that began and did not end, None where there is none, or where no history can be read.

    A run is done with where later ones that ended have done its layers, or were asked for all that the inventory names,
    and where everything was put back since.
    """
    left: list[tuple[Run, set[str]]] = []
    for run in _read_runs(store):
        if run.kind == SITE and run.is_unfinished():
            left.append((run, set(run.layers)))
        elif run.kind in (SITE, RESTORE) and _is_whole(run):
            left = []
        elif run.kind in (SITE, RESTORE):
            left = [(other, layers - set(run.layers)) for other, layers in left if not layers <= set(run.layers)]
    return left[-1][0] if left else None


def requested_layers(store: Store) -> list[str] | None:
    """Return the layers that the newest begun run of site.yml was asked for by epyc_steps.

    None where site.yml never began here, where everything was put back since, and where no history can be read.
    """
    run = _newest_site(_read_runs(store))
    return run.requested if run else None


def damaged_lines(store: Store) -> list[str]:
    """Return a sentence for each damaged line, or why the whole history cannot be read."""
    try:
        return History(store).damage
    except TuningError as error:
        return [str(error)]


def begin(store: Store, layers: Sequence[str], requested: Sequence[str], now: float | None = None) -> Run:
    """Write the line of a run of site.yml that does these layers of the requested ones; return it.

    Raises TuningError where it cannot be written.
    """
    run = _make(SITE, now)
    run.layers, run.requested = list(layers), list(requested)
    with store.lock():
        history = History(store)
        history.add(run)
        history.save()
    return run


def end(store: Store, run_id: str, now: float | None = None) -> str:
    """Close the line of a run; return a sentence where there is no such open line, an empty text otherwise."""
    with store.lock():
        history = History(store)
        run = history.find(run_id)
        if run is None:
            return f"{store.path(HISTORY)} has no begin of this run any more, so its end is not noted."
        run.ended, run.outcome = _moment(now), "done"
        history.save()
    return ""


def count(store: Store, addresses: Iterable[str], module: str, now: float | None = None) -> str:
    """Count changed settings in the line of the run that this process belongs to.

    A module of another playbook has a line of its own. Returns a sentence where that cannot be written: what is
    changed stays changed.
    """
    addresses = list(addresses)
    try:
        with store.lock():
            history = History(store)
            run = history.find(os.environ.get(RUN, ""))
            if run is None:
                run = _make(MODULE, now)
                run.playbook, run.ended, run.outcome = run.playbook or module, run.began, "done"
                history.add(run)
            for layer, number in count_by_layer(addresses).items():
                run.changed[layer] = run.changed.get(layer, 0) + number
            history.save()
    except TuningError as error:
        return _unwritten(error)
    return ""


def note(
    store: Store,
    kind: str,
    addresses: Iterable[str],
    outcome: str = "done",
    layers: Sequence[str] = (),
    now: float | None = None,
) -> str:
    """Write the line of an undo, a repair or a boot that has changed these addresses.

    ``layers`` are those of an undo that is not one of everything. Returns a sentence where the line cannot be written.
    """
    run = _make(kind, now)
    run.playbook, run.layers, run.outcome = run.playbook or _COMMANDS[kind], list(layers), outcome
    run.ended, run.changed = run.began, count_by_layer(addresses)
    try:
        with store.lock():
            history = History(store)
            history.add(run)
            history.save()
    except TuningError as error:
        return _unwritten(error)
    return ""


#: What is named in place of the playbook where the engine itself did the work.
_COMMANDS = {RESTORE: "sovereign-epyc restore", REPAIR: "sovereign-epyc repair", BOOT: "sovereign-epyc apply"}


def forget(store: Store) -> int:
    """Drop all lines but the newest run of site.yml, unless everything was put back since; return how many went.

    That one says what this host was asked for. Raises TuningError where the file cannot be written.
    """
    with store.lock():
        history = History(store)
        before, newest = len(history.runs) + len(history.damage), _newest_site(history.runs)
        if newest is None:
            store.remove(HISTORY)
            return before
        store.save_lines(HISTORY, [newest.line()])
        return before - 1


def count_by_layer(addresses: Iterable[str]) -> dict[str, int]:
    """Return how many of these addresses each layer of site.yml has."""
    counts: dict[str, int] = {}
    for address in addresses:
        layer = layer_of(address)
        counts[layer] = counts.get(layer, 0) + 1
    return counts


def layer_of(address: str) -> str:
    """Return the layer of site.yml that an address belongs to; that of a stored request is the one of its knob."""
    prefix, dummy, rest = address.partition(":")
    if prefix == "desired":
        knob, dummy, label = rest.partition("/")
        return KNOBS[knob].roles.get(label, OTHER) if knob in KNOBS else OTHER
    row = row_of(address)
    if row is None:
        return LAYERS.get(prefix, OTHER)
    roles = set(row.roles.values())
    return roles.pop() if len(roles) == 1 else row.variable(rest, "").partition("_")[0] or OTHER


def _read_runs(store: Store) -> list[Run]:
    try:
        return History(store).runs
    except TuningError:
        return []


def _newest_site(runs: Iterable[Run]) -> Run | None:
    """Return the newest run of site.yml, None where everything was put back since."""
    newest = None
    for run in runs:
        if run.kind == SITE:
            newest = run
        elif run.kind == RESTORE and _is_whole(run):
            newest = None
    return newest


def _is_whole(run: Run) -> bool:
    """Return whether a run did all layers of its inventory, or put everything back."""
    return not run.layers if run.kind == RESTORE else set(run.requested) <= set(run.layers)


def _make(kind: str, now: float | None) -> Run:
    """Return a new run by who started this process, as the playbook and sudo say it."""
    origin = _origin()
    moment = _moment(now)
    values = {
        **{name: origin.get(name, "") for name in ("user", "controller", "playbook")},
        **{name: origin.get(name, []) for name in ("tags", "skip_tags")},
        "id": f"{moment}-{os.urandom(4).hex()}",
        "kind": kind,
        "began": moment,
        "host_user": os.environ.get("SUDO_USER") or _user_name(),
        "version": VERSION,
    }
    return Run(values)


def _origin() -> dict[str, Any]:
    """Return what the playbook says of its run, nothing where no playbook of ours runs."""
    import json

    try:
        values = json.loads(os.environ.get(ORIGIN, "{}"))
        Run({**values, "id": "-", "kind": "-", "began": "-"})
    except (TypeError, ValueError, RecursionError):
        return {}
    return dict(values)


def _user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _parse(line: str) -> Run | None:
    """Return the run of a line, None for a damaged one."""
    import json

    try:
        return Run(_require(dict, json.loads(line)))
    except (ValueError, RecursionError):
        return None


def _require(wanted: type, value: Any) -> Any:
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no {wanted.__name__}")
    return value


def _moment(now: float | None) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() if now is None else now))


def _seconds(moment: str) -> float:
    """Return the seconds since the epoch of a moment, 0 for a text that is none."""
    import calendar

    try:
        return float(calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ")))
    except ValueError:
        return 0.0


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape")) + 1


def _unwritten(error: TuningError) -> str:
    return f"What was done now is not in the history of this host: {error}"
