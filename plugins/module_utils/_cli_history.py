# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``sovereign-epyc history``, and the messages about a run that did not end."""

from __future__ import annotations

from ._io.console import print_error_lines, print_json, print_lines
from ._knobs.history import history_file, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._io.store import Store


def print_history(store: Store, as_json: bool) -> int:
    """List the runs that changed this host or did not end, the oldest first."""
    found = history_file.History(store)
    for sentence in found.damage:
        print_error_lines(sentence)
    if as_json:
        print_json(
            {
                "runs": [run.to_dict() for run in found.notable_runs()],
                "damage": found.damage,
                **unfinished_run_to_dict(store),
            }
        )
    else:
        print_lines(*unfinished_run_warning(store), *table.render_table(found.notable_runs()))
    return 0


def forget_history(store: Store, as_json: bool) -> int:
    """Remove the history, except for the runs that show which settings were requested for this host."""
    gone = history_file.remove_needless_runs(store)
    kept = len(history_file.History(store).runs)
    if as_json:
        print_json({"forgotten": gone, "kept": kept})
        return 0
    print_lines(f"{gone} runs forgotten")
    if kept:
        print_lines(
            f"{kept} kept: what site.yml was last asked for, or did not end, is forgotten once all is put back."
        )
    return 0


def unfinished_run_to_dict(store: Store) -> dict[str, object]:
    """Return the run that did not end as plain data under the key "unfinished_run"; None where all runs have ended."""
    run = history_file.load_unfinished_run(store)
    return {"unfinished_run": run.to_dict() if run else None}


def unfinished_run_warning(store: Store) -> list[str]:
    """Return a warning that a run did not end, with what to do; no line where all runs have ended."""
    run = history_file.load_unfinished_run(store)
    if run is None:
        return []
    sentence = run.unfinished_message()
    return [f"{sentence[0].upper()}{sentence[1:]}. Run it again, or put all back with 'sovereign-epyc restore'."]
