# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The history of a host: one line of JSON for each run that changed something, the oldest first.

A run of site.yml writes its line before its first change, counts its changes in it, and closes the line at its end. So
a run that was killed or that failed has a line without an end. All other runs write one line when they are done.

The file is replaced as a whole, so that a crash leaves either the old or the new lines. A damaged line stays as it is,
and does not hide other lines. Beyond MOST lines the oldest are removed. An undo does not remove the file.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

from ..._errors import TuningError
from ..._io.store import HISTORY
from ..._notation.numbers import format_utc_time
from ..address_kinds import find_address_kind
from .run import RUN, Run, new_run, parse_run_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..._io.store import Store

#: The kinds of runs: site.yml, an undo, a repair, and the boot service.
SITE, RESTORE, REPAIR, BOOT = "site", "restore", "repair", "boot"
#: The bounds of the file: lines of all kinds, lines of kinds that no person starts, and bytes.
MOST, MOST_OF_KIND, MOST_BYTES = 500, {REPAIR: 100, BOOT: 100}, 256 << 10
#: The layers of site.yml by the beginning of addresses; the longest match counts. A knob that is missing here has the
#: name of its layer. A test compares this table and the next one with the catalogue. An import of the catalogue would
#: have Ansible send every knob with each module.
LAYERS = {
    "cmdline:": "grub_params",
    "hugepages:": "numa",
    "msr:": "prefetch",
    "partition:": "grub_params",
    "resctrl:": "cat",
    "sysfs:": "numa",
    "sysfs:workqueue/": "irq",
    "sysfs:writeback/": "irq",
}
#: The layers by their stored requests, as "KNOB/LABEL"; the role epyc_plan stores the intent.
REQUESTS = {
    "cmdline/cmdline": "grub_params",
    "cpufreq/cpufreq": "cpufreq",
    "cpuidle/cpuidle": "cpuidle",
    "hugepages/hugepages": "numa",
    "intent": "plan",
    "irq/irq": "irq",
    "msr/msr": "prefetch",
    "partition/partition": "grub_params",
    "resctrl/resctrl": "cat",
    "sysfs/irq": "irq",
    "sysfs/numa": "numa",
}
OTHER = "other"
#: The commands of the host tool that stand for the playbook in runs without one.
COMMANDS = {RESTORE: "sovereign-epyc restore", REPAIR: "sovereign-epyc repair", BOOT: "sovereign-epyc apply"}


class History:
    """The lines of the file: ``runs`` in their order, and ``damage``, a sentence for each damaged line."""

    def __init__(self, store: Store) -> None:
        """Raise TuningError for a file that cannot be read, or that users other than root may change."""
        self.store = store
        self._lines: list[str | Run] = []
        self.damage: list[str] = []
        for number, line in enumerate(store.load_lines(HISTORY), 1):
            run = parse_run_line(line)
            if run is None:
                self.damage.append(f"{store.file_path(HISTORY)}: line {number} is damaged, and is left out.")
            self._lines.append(run or line)

    @property
    def runs(self) -> list[Run]:
        """Return all runs, the oldest first."""
        return [line for line in self._lines if isinstance(line, Run)]

    def notable_runs(self) -> list[Run]:
        """Return the runs that changed something or did not end, the oldest first."""
        return [run for run in self.runs if run.changed or not run.ended]

    def newest_site_run(self) -> Run | None:
        """Return the newest run of site.yml, None without one and if everything was undone since."""
        for run in reversed(self.runs):
            if run.kind in (SITE, RESTORE) and (run.kind == SITE or run.covers_all_layers()):
                return run if run.kind == SITE else None
        return None

    def newest_unfinished_run(self) -> Run | None:
        """Return the newest run that did not end, None without one."""
        return next((run for run in reversed(self.runs) if run.is_unfinished()), None)

    def find_open_run(self, run_id: str) -> Run | None:
        """Return the run with this id and without an end, None without one."""
        return next((run for run in reversed(self.runs) if run.id == run_id and not run.ended), None)

    def add_run(self, run: Run) -> None:
        self._lines.append(run)

    def remove_from_unfinished_layers(self, ended_run: Run) -> None:
        """Remove the layers that an ended run has done from the unfinished layers of all runs.

        A run that did all requested layers clears all unfinished layers, even those that are not requested any more.
        """
        whole, done = ended_run.covers_all_layers(), set(ended_run.layers)
        for run in self.runs:
            if run is ended_run or not run.ended:
                run.left = [] if whole or run is ended_run else [layer for layer in run.left if layer not in done]

    def save_only_runs(self, kept: Sequence[Run]) -> None:
        """Write only these runs, or remove the file for no runs."""
        if kept:
            self.store.save_lines(HISTORY, [run.to_line() for run in kept])
        else:
            self.store.remove_file(HISTORY)

    def save_notable_runs(self) -> None:
        """Write the file within its bounds, without runs that ended and changed nothing.

        The newest run of site.yml stays, because it has the requested layers, and so do runs that did not end and undos
        of everything.
        """
        pinned = [run for run in (self.newest_site_run(), self.newest_unfinished_run()) if run]
        needed = [line for line in self._lines if not isinstance(line, Run) or line in pinned or _is_notable_run(line)]
        self.store.save_lines(HISTORY, _newest_lines_within_bounds(needed, pinned))


def load_unfinished_run(store: Store) -> Run | None:
    """Return the newest run that began and did not end, None without one, and if no history can be read.

    A run counts as ended after later runs have done its layers or all requested layers, and after an undo of
    everything.
    """
    try:
        return History(store).newest_unfinished_run()
    except TuningError:
        return None


def load_newest_site_version(store: Store) -> str:
    """Return the version of the collection of the newest run of site.yml; "" as load_requested_layers returns None."""
    try:
        run = History(store).newest_site_run()
    except TuningError:
        return ""
    return run.version if run else ""


def load_requested_layers(store: Store) -> list[str] | None:
    """Return the layers of epyc_steps in the newest run of site.yml that began.

    None if no run of site.yml began, if everything was put back since, and if no history can be read.
    """
    try:
        run = History(store).newest_site_run()
    except TuningError:
        return None
    return run.requested if run else None


def begin_run(store: Store, layers: Sequence[str], requested: Sequence[str], now: float | None = None) -> Run:
    """Write the line of a run of site.yml that does ``layers`` of the ``requested`` ones; return the run.

    Raises TuningError if the line cannot be written.
    """
    run = new_run(SITE, now)
    run.layers, run.requested, run.left = list(layers), list(requested), list(layers)
    with store.hold_lock():
        history = History(store)
        history.add_run(run)
        history.save_notable_runs()
    return run


def end_run(store: Store, run_id: str, now: float | None = None) -> tuple[dict[str, int], str]:
    """Close the line of a run; return the numbers of settings that it changed, by layer, and an empty text.

    Where there is no such open line, return no numbers, and a sentence that says so.
    """
    with store.hold_lock():
        history = History(store)
        run = history.find_open_run(run_id)
        if run is None:
            return {}, f"{store.file_path(HISTORY)} has no begin of this run any more, so its end is not noted."
        run.ended, run.outcome = format_utc_time(now), "done"
        history.remove_from_unfinished_layers(run)
        history.save_notable_runs()
    return dict(run.changed), ""


def add_change_counts_to_run(store: Store, addresses: Iterable[str]) -> str:
    """Add the numbers of changed settings by layer to the stored line of the current run of site.yml, if any.

    Return a sentence if the line cannot be written, which does not undo the changes.
    """
    run_id, counts = os.environ.get(RUN, ""), count_addresses_by_layer(addresses)
    if not (run_id and counts):
        return ""
    try:
        with store.hold_lock():
            history = History(store)
            run = history.find_open_run(run_id)
            if run is None:
                return _unwritten_history_message(f"{store.file_path(HISTORY)} has no begin of this run any more.")
            for layer, number in counts.items():
                run.changed[layer] = run.changed.get(layer, 0) + number
            history.save_notable_runs()
    except TuningError as error:
        return _unwritten_history_message(error)
    return ""


def record_finished_run(
    store: Store,
    kind: str,
    addresses: Iterable[str],
    outcome: str = "done",
    layers: Sequence[str] = (),
    now: float | None = None,
) -> str:
    """Append the line of an undo, a repair or a boot that changed these addresses; no line if it changed nothing.

    ``layers`` are those of an undo of some layers. An undo also ends the request of the last run of site.yml. Return a
    sentence if the line cannot be written, else an empty text.
    """
    run = new_run(kind, now)
    run.playbook, run.layers, run.outcome = run.playbook or COMMANDS[kind], list(layers), outcome
    run.ended, run.changed = run.began, count_addresses_by_layer(addresses)
    try:
        if not run.changed and (kind != RESTORE or History(store).newest_site_run() is None):
            return ""
        with store.hold_lock():
            history = History(store)
            history.add_run(run)
            if kind == RESTORE:
                history.remove_from_unfinished_layers(run)
            history.save_notable_runs()
    except TuningError as error:
        return _unwritten_history_message(error)
    return ""


def remove_needless_runs(store: Store, check: bool = False) -> int:
    """Remove all lines but those of the newest run of site.yml and an unfinished run; return their number.

    Those two stay until everything is undone. Check mode only counts. Raises TuningError if the file cannot be written.
    """
    with nullcontext() if check else store.hold_lock():
        history = History(store)
        needed = (history.newest_unfinished_run(), history.newest_site_run())
        kept = [run for run in history.runs if run in needed]
        if not check:
            history.save_only_runs(kept)
        return len(history.runs) + len(history.damage) - len(kept)


def count_addresses_by_layer(addresses: Iterable[str]) -> dict[str, int]:
    """Return the number of these addresses by layer of site.yml."""
    counts: dict[str, int] = {}
    for address in addresses:
        layer = layer_of_address(address)
        counts[layer] = counts.get(layer, 0) + 1
    return counts


def layer_of_address(address: str) -> str:
    """Return the layer of site.yml of an address or a stored request, OTHER for a request of no layer."""
    if address.startswith("desired:"):
        return REQUESTS.get(address[len("desired:") :], OTHER)
    kind = find_address_kind(address)
    if kind and kind.role:
        return kind.role
    begin = max((begin for begin in LAYERS if address.startswith(begin)), key=len, default="")
    return LAYERS[begin] if begin else address.partition(":")[0]


def _is_notable_run(run: Run) -> bool:
    """Return whether a run changed something, did not end, or undid everything."""
    return bool(run.changed) or not run.ended or (run.kind == RESTORE and run.covers_all_layers())


def _newest_lines_within_bounds(lines: Sequence[str | Run], pinned: Sequence[Run]) -> list[str]:
    """Return the texts of the pinned lines, and of the newest lines that fit into the bounds, in their order."""
    texts = [line.to_line() if isinstance(line, Run) else line for line in lines]
    room = MOST_BYTES - sum(_count_bytes(text) for line, text in zip(lines, texts) if line in pinned)
    places, of_kind = MOST - len(pinned), dict(MOST_OF_KIND)
    kept = []
    for line, text in zip(reversed(lines), reversed(texts)):
        kind = line.kind if isinstance(line, Run) else ""
        if line not in pinned and of_kind.get(kind, 1) > 0:
            of_kind[kind] = of_kind.get(kind, MOST) - 1
            room, places = room - _count_bytes(text), places - 1
            if min(room, places) >= 0:
                kept.append(text)
        elif line in pinned:
            kept.append(text)
    return kept[::-1]


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape")) + 1


def _unwritten_history_message(error: TuningError | str) -> str:
    return f"What was done now is not in the history of this host: {error}"
