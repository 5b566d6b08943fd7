# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of the host on one screen: what ``sovereign-epyc`` prints without a command.

The screen has at most 24 lines of 80 columns. Each part begins with its name: whether the host is tuned, what waits for
a reboot, who serves, what is wrong, and the next step.
"""

from __future__ import annotations

import textwrap

from ._drift import words
from ._drift.findings import REBOOT
from ._drift.judge import waits_for_reboot
from ._drift.next_step import capitalize_and_end_step, choose_next_repair, repair_to_words
from ._drift.survey import NEVER_TUNED, NOTHING_STORED
from ._errors import TuningError
from ._io.console import print_lines
from ._io.module_sources import import_from_benchmark_archive
from ._io.store import BENCHMARK_FOLDER
from ._io.textfile import path_in_tree
from ._knobs.boot.knob import PREFIX as CMDLINE
from ._knobs.history.history_file import History
from ._knobs.managed_units import read_unit_properties, unit_state
from ._notation.printable import escape_unprintable
from ._serving.unit.drift import check_settings_and_units
from ._serving.unit.installed import list_installed_instances
from ._verify.pending_reboot import parameters_restored_at_next_boot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._drift.survey import Survey
    from ._io.kernelfs import KernelFS
    from ._io.store import Store
    from ._knobs.history.run import Run

#: The columns of the screen, and those of the name of a part.
COLUMNS, NAME_COLUMNS = 80, 8
#: The most lines about instances and about findings; further ones are counted.
MOST_INSTANCES, MOST_FINDINGS = 5, 4
REBOOT_STEP = f"{REBOOT} -e epyc_reboot_ok=true"
BENCHMARK_STEP = "measure the speed: run benchmark.yml"
LOOK_AGAIN_STEP = "do what the reason says, and look again"
PROOF_STEP = "nothing to do; verify.yml proves it"
NEVER_TUNED_STEP = "run site.yml --check --diff, which shows what it would change"


def print_host_state(fs: KernelFS, store: Store) -> int:
    """Print the state of the host, and return the exit code of a check: 2 where something is not as configured."""
    survey = check_settings_and_units(fs, store=store)
    findings = [finding.to_dict() for finding in survey.list_findings()]
    is_tuned = not any(verdict.reason == NOTHING_STORED for verdict in survey.verdicts)
    wrong = [finding for finding in findings if not finding["pending_reboot"] and finding["reason"] != NOTHING_STORED]
    waiting = [verdict.address[len(CMDLINE) :] for verdict in survey.verdicts if waits_for_reboot(verdict)]
    restored = parameters_restored_at_next_boot(fs, survey.verdicts)
    serving, is_measured = _describe_instances(fs.root)
    steps = _list_steps_about_findings(wrong)
    steps += [capitalize_and_end_step(NEVER_TUNED_STEP)] if not is_tuned else []
    steps += [capitalize_and_end_step(repair_to_words(REBOOT_STEP))] if waiting or restored else []
    steps += [capitalize_and_end_step(PROOF_STEP if is_measured else BENCHMARK_STEP)]
    print_lines(
        *_format_part("host", [f"{survey.host.topology.model}, kernel {survey.host.topology.kernel}"]),
        *_format_part("tuned", _describe_tuning(survey, store, is_tuned)),
        *_format_part("waits", [_describe_reboot(waiting, restored)]),
        *_format_part("serves", serving, most_lines=1),
        *_format_part("wrong", _describe_findings(wrong)),
        *_format_part("next", steps[:1]),
    )
    return 2 if findings else 0


def _describe_tuning(survey: Survey, store: Store, is_tuned: bool) -> list[str]:
    """Return whether the host is tuned, since when and by whom, and how many settings were checked."""
    if not is_tuned:
        return [f"no: {NEVER_TUNED}"]
    run = _newest_site_run(store)
    by_whom = "yes; the history of this host does not say by whom"
    if run is not None:
        moment = f"{run.began[:10]} {run.began[11:16]} UTC"
        by_whom = f"since {moment} by {run.starter_name()}, with {run.playbook} {run.version}"
    return [by_whom, words.settings_checked_message(survey.count_by_status())]


def _newest_site_run(store: Store) -> Run | None:
    try:
        return History(store).newest_site_run()
    except TuningError:
        return None


def _describe_reboot(waiting: Sequence[str], restored: Sequence[str]) -> str:
    """Return which boot parameters a reboot would put in force, and which it would take away."""
    parts = [f"{', '.join(waiting)}"] if waiting else []
    parts += [f"{', '.join(restored)} (put back)"] if restored else []
    return f"for a reboot: {'; '.join(parts)}" if parts else "for nothing"


def _describe_findings(findings: Sequence[dict[str, object]]) -> list[str]:
    lines = [words.format_finding(finding) for finding in findings] or ["nothing"]
    return _shorten_list(lines, MOST_FINDINGS, "sovereign-epyc check")


def _list_steps_about_findings(findings: Sequence[dict[str, object]]) -> list[str]:
    """Return the next steps about findings as sentences, the repair that comes first at the beginning."""
    repair = choose_next_repair([str(finding["repair"]) for finding in findings])[0]
    steps = words.list_next_step_sentences(findings)
    if repair:
        steps = [capitalize_and_end_step(repair_to_words(repair)), *steps]
    return steps or ([capitalize_and_end_step(LOOK_AGAIN_STEP)] if findings else [])


def _describe_instances(root: str) -> tuple[list[str], bool]:
    """Return a line for each instance, and whether each instance that serves was measured.

    A line has the address, the state of systemd where the instance does not serve, and the speed of the last run.
    """
    instances = list_installed_instances(root)
    try:
        properties = read_unit_properties(instance.unit for instance in instances) if instances else {}
    except TuningError:
        properties = {}
    lines, is_measured = [], True
    for instance in instances:
        state = unit_state(properties.get(instance.unit, {})) or "unknown"
        speed = _describe_last_speed(root, instance.name)
        is_measured = is_measured and (bool(speed) or state != "active")
        where = f"{instance.name} at {(instance.plan or {}).get('url', 'an unknown address')}"
        lines.append(f"{where}{'' if state == 'active' else f', {state}'}, {speed or 'speed not measured'}")
    return _shorten_list(lines or ["no instance"], MOST_INSTANCES, "sovereign-epyc agent"), is_measured


def _describe_last_speed(root: str, name: str) -> str:
    """Return the speed of one stream in the newest run of an instance with its day; "" where no run is known."""
    try:
        last_runs = import_from_benchmark_archive("_bench.planning.last_runs")
        run_summary = import_from_benchmark_archive("_bench.rounds.run_summary")
    except ImportError:
        return ""
    for dummy, document in last_runs.load_newest_documents(path_in_tree(root, BENCHMARK_FOLDER), name):
        summary = run_summary.summarize_run(document)
        if summary["rates"]:
            rate = summary["rates"][0]
            streams = "" if rate["streams"] == 1 else f" each for {rate['streams']} streams"
            return f"{rate['tokens_per_second']:.1f} tokens/s{streams} on {summary['started'][:10]}"
    return ""


def _shorten_list(lines: Sequence[str], most: int, command: str) -> list[str]:
    """Return at most ``most`` lines; the last one says how many more there are, and which command shows them."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"and {len(lines) - most + 1} more: {command}"]


def _format_part(name: str, texts: Iterable[str], most_lines: int = 2) -> list[str]:
    """Return the lines of a part, with its name before the first one; ``most_lines`` are those of each text."""
    lines = [
        line
        for text in texts
        for line in textwrap.wrap(
            escape_unprintable(text), COLUMNS - NAME_COLUMNS, max_lines=most_lines, placeholder=" ..."
        )
    ]
    return [f"{'' if number else name:<{NAME_COLUMNS}}{line}" for number, line in enumerate(lines)]
