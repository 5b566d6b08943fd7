# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of the host tool ``sovereign-epyc``, which works without Ansible.

Exit codes: 0 where everything is as configured, 2 where a check found drift or an unknown value, 1 after a failure.
"""

from __future__ import annotations

import os
import sys
import time

from ._cli_history import forget_history, print_history, unfinished_run_to_dict, unfinished_run_warning
from ._cli_usage import USAGE
from ._drift import metrics, repair
from ._drift import words as drift_words
from ._errors import TuningError
from ._host import plan_text
from ._host.host import Host
from ._io import textfile as textfiles
from ._io.console import print_error_lines, print_json, print_lines
from ._io.kernelfs import KernelFS
from ._io.store import TRIAL, Store
from ._knobs import apply_stored as applications
from ._knobs import trial
from ._knobs.apply_stored import StoredApplication
from ._knobs.catalogue import sort_requests
from ._knobs.history import history_file
from ._knobs.irq import new_interrupts
from ._knobs.layers import validate_layer_names
from ._knobs.protocol.ledger import Ledger
from ._knobs.protocol.stored_requests import load_stored_requests
from ._knobs.undo import AGAIN, undo_changes
from ._verify import host_metrics, memory_item
from ._version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._drift.survey import Survey
    from ._knobs.protocol.knob import Change

#: The option that has a value.
TEXTFILE = "--textfile"
#: The option of apply that the boot service uses, the number of repetitions, and the seconds before each.
RETRY, RETRIES, PAUSE = "--retry", 3, 5.0
#: The option of history that removes the history.
FORGET = "--forget"
#: The option of restore for a host on which both files of the ledger are lost.
WITHOUT_ORIGINALS = "--without-originals"
#: systemd reads this at the beginning of a line as the priority "error".
ERROR = "<3>"


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    textfiles.set_umask_of_system()
    if arguments and arguments[0] == "llama":
        # Imported here, because no other command needs it.
        from ._serving.hooks import cli

        return cli.run_hook_command(arguments[1:])
    if arguments and arguments[0] == "group":
        from . import _lifeline

        return _lifeline.main(arguments[1:])
    if arguments and arguments[0] == "agent":
        from . import _agent

        return _agent.main(arguments[1:])
    if arguments and arguments[0] == "bench":
        return run_installed_benchmark(arguments[1:])
    if list(arguments) == ["--help"]:
        print_lines(*USAGE.splitlines())
        return 0
    if list(arguments) == ["--version"]:
        print_lines(f"sovereign-epyc {VERSION}")
        return 0
    words = [word for word in arguments if word != "--json"]
    as_json = len(words) < len(arguments)
    commands = {
        "plan": print_plan,
        "check": print_findings_of_check,
        "apply": apply_stored_settings,
        "watch": apply_requests_at_new_interrupts,
        "settle": restore_stored_settings_after_trial,
        "restore": restore_originals,
        "show": print_stored_requests_and_originals,
    }
    try:
        if not arguments:
            from . import _cli_state  # only this command reads instances and their last runs

            return _cli_state.print_host_state(KernelFS(read_only=True), Store(read_only=True))
        if len(words) == 3 and words[:2] == ["check", TEXTFILE]:
            return check_and_write_metrics(as_json, words[2])
        if words[:1] == ["repair"] and len(words) <= 2:
            return repair_drift(as_json, words[1].split(",") if words[1:] else repair.ROLES)
        if words == ["apply", RETRY]:
            return apply_stored_settings(as_json, retry=True)
        if words == ["history"]:
            return print_history(Store(read_only=True), as_json)
        if words == ["history", FORGET]:
            return forget_history(Store(), as_json)
        if words[:1] == ["restore"] and len(words) > 1:
            return _parse_words_and_restore(as_json, words[1:])
        if len(words) != 1 or words[0] not in commands:
            sys.stderr.write(USAGE)
            return 1
        return commands[words[0]](as_json)
    except TuningError as error:
        print_error_lines(*str(error).split("\n"))
        return 1


def run_installed_benchmark(arguments: Sequence[str]) -> int:
    """Run a benchmark of an instance from the archive that the module llama_benchmark installs.

    A run is ended without the archive, which a host may lack where only ablations and tunings were run.
    """
    if "--stop" in arguments:
        return stop_measuring_run()
    from ._io import module_sources

    try:
        command = module_sources.import_from_benchmark_archive("_bench.command_line")
    except ImportError:
        sys.stderr.write(
            f"There is no {module_sources.BENCH}, which measures: a run of playbooks/benchmark.yml puts it here.\n"
        )
        return 1
    return int(command.main(arguments))


def stop_measuring_run() -> int:
    """End the benchmark, ablation or tuning that runs on this host, and return the exit code."""
    from ._knobs import measuring_run

    try:
        store, fs = Store(), KernelFS()
        measuring_run.stop_measuring_run(
            fs, store, lambda: applications.end_trial_and_apply_stored(store, fs).failures, _print_line_at_once
        )
    except TuningError as error:
        print_error_lines(*str(error).split("\n"))
        return 1
    return 0


def _print_line_at_once(line: str) -> None:
    print_lines(line)
    sys.stdout.flush()


def print_plan(as_json: bool) -> int:
    """Print the plan of the stored intent."""
    store = Store(read_only=True)
    host = Host(KernelFS(read_only=True), load_stored_requests(store)[0])
    if as_json:
        print_json(
            {
                "topology": host.topology.to_dict(),
                "plan": host.plan.to_dict(),
                "memory": host.memory_speed.to_dict(),
                **unfinished_run_to_dict(store),
            }
        )
    else:
        print_lines(*unfinished_run_warning(store))
        print_lines(*plan_text.render_plan(host.plan, host.topology, host.memory_speed).split("\n"))
    return 0


def print_findings_of_check(as_json: bool) -> int:
    """Print a line for each finding with its next step, and the number of settings."""
    from ._serving.unit import drift  # only checks look at units

    return _print_findings(drift.check_settings_and_units(KernelFS(read_only=True)), as_json)


def check_and_write_metrics(as_json: bool, textfile: str) -> int:
    """Check and write metrics; a failed check is written too, so that an old file does not seem to be new."""
    # Imported here, because no other command needs clients of servers.
    from ._serving.unit import drift
    from ._serving.verify import metrics as service_metrics

    try:
        fs = KernelFS(read_only=True)
        survey = drift.check_settings_and_units(fs)
        new_interrupts.pin_own_process_to_housekeeping(survey.host)
        found = survey.list_findings()
        more = {
            **host_metrics.read_host_samples_by_metric(fs),
            **service_metrics.read_samples_of_running_instances(survey.host),
            **memory_item.memory_bandwidth_metric(survey.host.memory_speed),
            **repair.given_up_settings_metric(Store(read_only=True), found),
        }
        texts = {**host_metrics.HELP, **service_metrics.HELP, **memory_item.HELP, **repair.HELP}
        textfiles.write_file(textfile, metrics.render_host_metrics(found, survey.count_by_layer(), more, texts))
    except TuningError:
        textfiles.write_file(textfile, metrics.render_metrics_of_failed_check())
        raise
    return _print_findings(survey, as_json)


def _print_findings(survey: Survey, as_json: bool) -> int:
    findings = [finding.to_dict() for finding in survey.list_findings()]
    if as_json:
        settings = [verdict.to_dict() for verdict in survey.verdicts]
        print_json({"settings": settings, "findings": findings, "coverage": survey.count_by_layer()})
    else:
        print_lines(
            *map(drift_words.format_finding_with_step, findings),
            drift_words.settings_checked_message(survey.count_by_status()),
        )
    return 2 if findings else 0


def apply_stored_settings(as_json: bool, retry: bool = False) -> int:
    """Apply every stored request; with ``retry``, again after a failure, because devices may appear late at boot."""
    work = StoredApplication(KernelFS(), Store())
    work.apply_requests()
    for dummy in range(RETRIES if retry else 0):
        if not work.failures:
            break
        time.sleep(PAUSE)
        work.apply_requests()
    try:
        trial.remove_trial_of_earlier_boot(Store(), KernelFS())
    except TuningError as error:
        work.failures.append(str(error))
    outcome = f"{len(work.failures)} failed" if work.failures else "done"
    unwritten = history_file.record_finished_run(
        Store(), history_file.BOOT, {change.address for change in work.changes}, outcome
    )
    for sentence in [*work.unsupported, *([unwritten] if unwritten else [])]:
        print_error_lines(sentence)
    _print_changes_and_failures(work.changes, work.failures, as_json)
    return 1 if work.failures else 0


def repair_drift(as_json: bool, roles: Sequence[str]) -> int:
    """Repair drift in the layers of some roles; exit code 2 where a setting stays wrong."""
    from ._serving.unit import drift

    outcome = repair.repair_drift(KernelFS(), Store(), roles, check_host=drift.check_settings_and_units)
    if as_json:
        print_json({**outcome.to_dict(), "remarks": outcome.remarks})
    else:
        print_lines(*outcome.format_outcome_lines())
    return 0 if outcome.is_clean else 2


def restore_stored_settings_after_trial(as_json: bool) -> int:
    """Restore the stored settings after a trial; nothing is done where no trial was running."""
    work = applications.end_trial_and_apply_stored(Store(), KernelFS())
    _print_changes_and_failures(work.changes, work.failures, as_json)
    return 1 if work.failures else 0


def apply_requests_at_new_interrupts(as_json: bool) -> int:
    """Apply the stored requests for interrupts whenever new interrupts may have appeared, and report only news.

    New threads of units that a stored resctrl group names are moved into the group too.
    """
    reported: list[str] = []
    for interrupts in new_interrupts.yield_when_irqs_may_be_new(_has_request_for_threads_of_units):
        if Store(read_only=True).has_file(TRIAL):
            continue
        work = StoredApplication(KernelFS(), Store(), only=("irq",) if interrupts else (), follow=True)
        work.apply_requests()
        if work.changes or work.failures != reported:
            _print_changes_and_failures(work.changes, work.failures, as_json)
            sys.stdout.flush()
        reported = work.failures
    return 0


def _has_request_for_threads_of_units() -> bool:
    """Return whether a stored request names units whose new threads are to be moved into a resctrl group."""
    try:
        requests = load_stored_requests(Store(read_only=True))[1]
    except TuningError:
        return False  # The next run of apply reports the error.
    return any(name.startswith("resctrl/") and "tasks_of" in str(options) for name, options in requests.items())


def _parse_words_and_restore(as_json: bool, words: Sequence[str]) -> int:
    """Parse the words after "restore" and restore; exit code 1 with the usage for wrong words."""
    names = [word for word in words if word != WITHOUT_ORIGINALS]
    if len(names) > 1 or len(words) > 2 or "".join(names).startswith("-"):
        sys.stderr.write(USAGE)
        return 1
    layers = validate_layer_names([name for name in names[0].split(",") if name]) if names else []
    return restore_originals(as_json, layers, without_originals=len(names) < len(words))


def restore_originals(as_json: bool, layers: Sequence[str] = (), without_originals: bool = False) -> int:
    """Restore all originals and forget all stored requests, or only those of some layers."""
    from ._serving.unit import dependents  # only an undo of layers looks at units

    fs, store = KernelFS(), Store()
    ledger = Ledger(store, fs, without_originals)
    losses = dependents.require_undo_possible(layers, ledger.load_originals(), fs.root) if layers else []
    done = undo_changes(Host(fs), ledger, layers=layers)
    for remark in [*losses, *done.remarks]:
        print_error_lines(remark)
    _print_changes_and_failures(done.changes, done.left, as_json, "were not put back")
    if not as_json and (done.changes or not done.left):
        print_lines(done.summary_message(layers))
    if done.left:
        print_error_lines(AGAIN)
    return 1 if done.left else 0


def print_stored_requests_and_originals(as_json: bool) -> int:
    """Print the map of the host, the versions of the collection, the stored requests and the originals."""
    store, fs = Store(read_only=True), KernelFS(read_only=True)
    intent, requests = load_stored_requests(store)
    originals = Ledger(store, fs).load_originals()
    site_version = history_file.load_newest_site_version(store)
    if as_json:
        stored = {"intent": intent, "requests": requests, "originals": originals}
        versions = {"version": VERSION, "site_version": site_version}
        print_json({**versions, **stored, **unfinished_run_to_dict(store)})
        return 0
    print_lines(*unfinished_run_warning(store))
    _print_map(Host(fs, intent))
    print_lines(f"version: {VERSION}, newest run of site.yml: {site_version or 'none'}")
    print_lines(f"intent: {intent or 'none'}")
    for name, label, options in sort_requests(requests):
        print_lines(f"request {name}/{label}: {options}")
    for address, value in sorted(originals.items()):
        print_lines(f"original {address}: {_format_value(value)}")
    return 0


def _print_map(host: Host) -> None:
    """Print the map of a host, or the reason why it cannot be planned."""
    # Imported here, as no other command draws.
    from ._host import map_data, map_text

    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    try:
        page = map_text.render_map(map_data.build_map_data(host.plan, host.topology), coloured=not plain)
    except TuningError as error:
        print_lines(f"There is no map of this host: {error}", "")
    else:
        # The page is not escaped, because it has colour codes, and otherwise only numbers and fixed words.
        sys.stdout.write(f"{page}\n\n")


def _print_changes_and_failures(
    changes: Sequence[Change], failures: Sequence[str], as_json: bool, failed: str = "requests failed"
) -> None:
    if as_json:
        rows = [{"address": c.address, "before": c.before, "after": c.after} for c in changes]
        print_json({"changes": rows, "failures": list(failures)})
        return
    for change in changes:
        print_lines(f"{change.address}: {_format_value(change.before)} -> {_format_value(change.after)}")
    for failure in failures:
        print_error_lines(f"{ERROR}{failure}")
    print_lines(f"{len(changes)} settings changed, {len(failures)} {failed}")


def _format_value(value: str | None) -> str:
    return "nothing" if value is None else value or "''"
