# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The commands that measure: sovereign-epyc bench, and sovereign-epyc analyse for the file of a run.

Exit codes: 0 when the run counts, 2 when no round of it does, 1 when something failed.
"""

from __future__ import annotations

import argparse
import sys

from .._errors import BadRequest, TuningError
from .._host.host import Host
from .._io.kernelfs import KernelFS
from .._io.store import Store
from .._knobs.desired import stored
from . import analyse, benchmark
from .asked import LIMIT, ROUNDS, Asked
from .benchmark_report import Benchmark
from .prompts import TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


class _Parser(argparse.ArgumentParser):
    """Refuses as all else here does, because argparse's own exit code, 2, means something else."""

    def error(self, message: str) -> NoReturn:
        raise BadRequest(f"{message}. '{self.prog} --help' lists the options.")


def main(command: str, arguments: Sequence[str]) -> int:
    """Run ``bench`` or ``analyse`` and return the exit code."""
    return _bench(arguments) if command == "bench" else _analyse(arguments)


def _bench(arguments: Sequence[str]) -> int:
    parser = _Parser(
        prog="sovereign-epyc bench",
        description="Measure the running service of an instance of llama-server. Nothing is changed on the host; all "
        "raw samples go to the file of the run.",
    )
    parser.add_argument("instance", nargs="?", help="its name; it may be left out where the host has only one")
    parser.add_argument("--rounds", help=f"rounds that have to count; {ROUNDS} by default")
    parser.add_argument("--streams", type=_numbers, help="as 1,4: how many at once; 1 and all slots by default")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help="as prose,summary: all by default")
    parser.add_argument("--prompts", metavar="FILE", help='prompts of your own, a {"text": "..."} in each line')
    parser.add_argument("--tokens", help=f"tokens of an answer; {TOKENS} by default")
    parser.add_argument("--timeout", metavar="SECONDS", help=f"that one answer may take; {LIMIT} by default")
    parser.add_argument("--output", metavar="FILE", help=f"of the run; a new one in {benchmark.FOLDER} by default")
    try:
        asked = Asked(vars(parser.parse_args(arguments)))
        host = Host(KernelFS(read_only=True), stored(Store(read_only=True))[0], stored=True)
        path, document = benchmark.measure(host, asked, _tell)
    except TuningError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{analyse.report(document)}\n{path}\n")
    return 0 if Benchmark(document).counts else 2


def _analyse(arguments: Sequence[str]) -> int:
    parser = _Parser(prog="sovereign-epyc analyse", description="Show what the samples in the file of a run say.")
    parser.add_argument("file", help="the JSON file of a run")
    try:
        sys.stdout.write(analyse.analyse(parser.parse_args(arguments).file))
    except TuningError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _tell(line: str) -> None:
    sys.stderr.write(f"... {line}\n")


def _numbers(text: str) -> list[str]:
    return text.split(",")
