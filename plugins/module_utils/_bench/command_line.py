# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command ``sovereign-epyc bench``, which runs a benchmark on the host without a controller, or compares runs.

Exit codes: 0 when a round counts, 2 when none does, 1 when nothing could be measured. Of a comparison: 0 without a
loss, 2 with a proven or clear loss, 1 where nothing could be compared. Of the memory: 2 where it is slow.
"""

from __future__ import annotations

import argparse
import json
import os
import sys

from .._errors import BadRequest, TuningError
from .._host.host import Host
from .._io.kernelfs import KernelFS
from .._io.store import Store
from .._knobs.protocol.stored_requests import load_stored_requests
from .._notation.printable import escape_lines
from .._serving.unit.installed import select_instance_and_plan
from .._serving.verify.baseline import load_baseline
from . import archive, benchmark, progress
from .documents.samples_csv import render_samples_csv
from .load.prompts import DEFAULT_TOKENS
from .load.request import ANSWER_TIMEOUT, ROUNDS, MeasuringRequest
from .planning.last_runs import load_newest_documents
from .reports.benchmark_report import BenchmarkResult
from .reports.run_report import render_run_report
from .run import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


class _BadRequestParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadRequest(f"{message}. 'sovereign-epyc bench --help' lists the options.")


def install_command() -> None:
    """Install the command on a host that has the host tool."""
    archive.install_benchmark_archive()


def main(arguments: Sequence[str]) -> int:
    """Measure an instance of this host, print its report, and return the exit code."""
    try:
        given = vars(_build_argument_parser().parse_args(list(arguments)))
        if given["memory"]:
            return _measure_memory(given["json"])
        if given["compare"] is not None:
            return _compare_runs(given["compare"] or _baseline_and_newest_run(given["instance"]), given["json"])
        _require_version_of_host_tool()
        store = Store(read_only=True)
        host = Host(KernelFS(read_only=True), load_stored_requests(store)[0], stored=True)
        with progress.progress_file_writer() as write_step:

            def report_step(line: str) -> None:
                write_step(line)
                _print_progress_to_stderr(line)

            path, document = benchmark.run_benchmark(host, MeasuringRequest(given), report_step)
    except TuningError as error:
        sys.stderr.write(f"{escape_lines(str(error))}\n")
        return 1
    except PermissionError as error:
        sys.stderr.write(f"{error.filename}: only root may do that. Run this as root, as with sudo.\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"Interrupted. The rounds that were measured until now are in a file in {FOLDER}.\n")
        return 1
    sys.stdout.write(_render_output(document, given))
    sys.stderr.write(f"The document of the run, with all samples, is {path}.\n")
    return 0 if BenchmarkResult(document).counts else 2


def _measure_memory(as_json: bool) -> int:
    """Measure the memory of this host, print what was measured, and return the exit code: 2 for slow memory."""
    from .host_memory import format_memory_speed, measure_host_memory

    _require_version_of_host_tool()
    speed = measure_host_memory(Host(KernelFS()), _print_progress_to_stderr)
    text = json.dumps(speed.to_dict(), indent=1, sort_keys=True) if as_json else format_memory_speed(speed)
    sys.stdout.write(f"{text}\n")
    return 2 if speed.is_slow else 0


def _render_output(document: dict[str, Any], given: dict[str, Any]) -> str:
    """Return what is printed of a run: its document, its samples or its report."""
    if given["json"]:
        return json.dumps(document, indent=1, sort_keys=True) + "\n"
    return render_samples_csv(document) if given["csv"] else escape_lines(render_run_report(document))


def _compare_runs(paths: Sequence[str], as_json: bool) -> int:
    """Compare the runs in these files, print the comparison, and return the exit code."""
    from .compare.comparison_report import render_comparison_report
    from .compare.run_comparison import RunComparison
    from .documents.run_document import load_document

    names = [os.path.basename(path).partition(".json")[0] for path in paths]
    comparison = RunComparison([load_document(path) for path in paths], names)
    text = (
        json.dumps(comparison.to_dict(), indent=1, sort_keys=True) + "\n"
        if as_json
        else escape_lines(render_comparison_report(comparison))
    )
    sys.stdout.write(text)
    return comparison.exit_code


def _baseline_and_newest_run(instance: str | None) -> list[str]:
    """Return the files of the baseline of an instance and of its newest run; BadRequest where either is missing."""
    name = select_instance_and_plan(instance)[0]
    baseline = load_baseline("/", name)
    if baseline is None:
        raise BadRequest(f"{name} has no baseline: name two files, or measure it once with --baseline.")
    newest = (path for path, dummy in load_newest_documents(FOLDER, name) if path != baseline["document"])
    path = next(newest, None)
    if path is None:
        raise BadRequest(f"{FOLDER} has no other run of {name} than its baseline: measure it again first.")
    return [baseline["document"], path]


def _require_version_of_host_tool() -> None:
    """Raise BadRequest where the host tool has another version than this archive."""
    if archive.modules_unlike_host_tool():
        raise BadRequest(
            "The host tool has another version than the benchmark on this host: run playbooks/site.yml and then "
            "playbooks/benchmark.yml of one version of the collection."
        )


def _print_progress_to_stderr(line: str) -> None:
    sys.stderr.write(f"{escape_lines(line)}\n")
    sys.stderr.flush()


def _build_argument_parser() -> _BadRequestParser:
    """Return the parser; the module llama_benchmark has the same options, and describes them."""
    about = "Measure what an instance of this host does. The service is not changed, and is busy meanwhile."
    parser = _BadRequestParser(prog="sovereign-epyc bench", description=about, allow_abbrev=False)
    add: Any = parser.add_argument
    add("instance", nargs="?", help="its name; may be left out where the host has only one")
    add("--rounds", metavar="N", help=f"rounds that have to count, {ROUNDS} by default")
    add(
        "--streams",
        metavar="N,N",
        type=_split_at_commas,
        help="prompts sent at once, beside one; by default as many as slots, and more wait",
    )
    add("--depths", metavar="N,N", type=_split_at_commas, help="tokens of context; by default those that are cheap")
    add(
        "--no-second-turn",
        dest="second_turn",
        action="store_false",
        help="do not measure the second turn of a chat",
    )
    add("--rate", metavar="N", help="also send N requests per second at random moments")
    add(
        "--slo",
        metavar="FIRST,TOKEN",
        type=_parse_slo,
        help="limits of a good request, in milliseconds: to its first text, and per token after it",
    )
    add(
        "--kinds",
        metavar="KIND,KIND",
        type=_split_at_commas,
        help="only prompts of these kinds: prose, code_edit, summary, or those of your prompts",
    )
    add(
        "--prompts",
        metavar="FILE",
        type=os.path.abspath,
        help="prompts of your own, each line a JSON object with 'text'",
    )
    add("--tokens", metavar="N", help=f"tokens of an answer, {DEFAULT_TOKENS} by default")
    add("--timeout", metavar="SECONDS", help=f"how long one answer may take, {ANSWER_TIMEOUT} by default")
    add(
        "--output",
        metavar="FILE",
        type=os.path.abspath,
        help=f"file for the document of the run; by default a new one in {FOLDER}",
    )
    add(
        "--compare",
        metavar="RUN",
        nargs="*",
        type=os.path.abspath,
        help="measure nothing, and compare the runs in these files with the first one; one run with arms is enough; "
        "without a file, the newest run of the instance with its baseline",
    )
    add("--baseline", action="store_true", help="the run becomes the baseline of the instance, if a round counts")
    add(
        "--memory",
        action="store_true",
        help="measure how fast this host reads its memory, and no instance; nothing else may work meanwhile",
    )
    add("--stop", action="store_true", help="end the run that measures on this host, and put everything back")
    add("--json", action="store_true", help="print the document of the run, not its report")
    add("--csv", action="store_true", help="print all samples as comma-separated values, not the report")
    return parser


def _split_at_commas(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def _parse_slo(text: str) -> dict[str, str]:
    return dict(zip(("first_ms", "per_token_ms"), _split_at_commas(text)))
