#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plants bugs in the library, one at a time, and reports which bugs the unit tests detect.

Cosmic Ray creates the bugs. Every package gets at least one bug, and larger packages get more. The unit tests of the
package run first, and all other unit tests only if these pass. Each run has a copy of the tree, and a namespace with
read-only kernel files and without other processes, because a bug could make a test write to this host. A test that
takes longer than a minute also detects its bug, as does a run that exceeds its limit, because the bug made a loop
endless.

Some kinds of bugs are not planted, because they mostly change nothing that a test should check:
- in type annotations and code for type checkers, which are never evaluated;
- in expressions of f-strings, which are nearly all words of messages, such as a plural;
- another number in a constant of a module or class, which is a limit that somebody chose;
- `is` for `==`, an arithmetic operator that is not the opposite one, and a comparison that is neither the next nor the
  opposite one, because they give the same result for all real values or fail at the first call;
- a removed decorator: without `cache` the result is the same, and without any other decorator the first call fails.

Run as `make mutants`, with SEED= for other bugs and COUNT= for more or fewer bugs. Exit code 1 when too few bugs are
detected.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import math
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.provider import OperatorProvider

from vepyc.figures import Bar, Figures

ROOT = Path(__file__).resolve().parents[1]
ENGINE = "plugins/module_utils"
TESTS = "tests/unit"
#: The name of the group of modules without a package.
NO_PACKAGE = "modules"
WORKERS = 2
SEEN_SHARE = 0.9
#: Time limits in seconds of a test, of the tests of a package and of all tests; memory limit in bytes of each process.
TEST_SECONDS, PACKAGE_SECONDS, ALL_SECONDS, MEMORY = 60, 300, 1200, 8 << 30
COMPARISONS = (
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is", "Lt_LtE", "Lt_GtE"),
    *("LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt"),
)
ARITHMETIC = (
    *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv"),
    *("LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr"),
)
OPERATORS = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in COMPARISONS),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ARITHMETIC),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub", "AddNot"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ExceptionReplacer"),
    "NumberReplacer",
)
#: Runs the command "$@" in the folder $1 with read-only kernel files. Pools of huge pages stay writable, because some
#: tests set their size.
SANDBOX = """
cd "$1"
shift
pools=/sys/kernel/mm/hugepages
[[ ! -e $pools ]] || mount --bind $pools $pools
while read -r _ place _; do
    [[ $place == "$pools" || $place != /sys* && $place != /proc* ]] || mount -o remount,bind,ro "$place" || true
done </proc/self/mounts
mount -t tmpfs tmpfs /dev/shm
exec "$@"
"""


class MutantsError(Exception):
    """Bugs cannot be planted, for the reason in the message."""


@dataclass(frozen=True)
class Mutant:
    """A bug: an occurrence of a mutation operator in a file of the library."""

    path: str
    line: int
    operator: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator}"

    @property
    def package(self) -> str:
        """The package of the file, NO_PACKAGE for a module without a package."""
        inside = Path(self.path).relative_to(ENGINE)
        return inside.parts[0] if len(inside.parts) > 1 else NO_PACKAGE

    @property
    def test_folder(self) -> str:
        """The path of the unit tests of the package or module; empty for a package or module without own tests."""
        name = f"test{Path(self.path).stem}.py" if self.package == NO_PACKAGE else self.package
        folder = f"{TESTS}/{ENGINE}/{name}"
        return folder if (ROOT / folder).exists() else ""


@dataclass(frozen=True)
class Result:
    """The result of a bug: the tests that detected it (empty if it survived), the seconds, and its diff."""

    mutant: Mutant
    seen_by: str
    seconds: float
    diff: str


def find_mutants(path: str) -> list[Mutant]:
    """Return all bugs that may be planted in a file of the library."""
    provider = OperatorProvider()
    nodes = list(ast_nodes(get_ast((ROOT / path).read_text())))
    mutants = []
    for name in OPERATORS:
        operator = provider[name]()
        places = [(node, start) for node in nodes for start, dummy in operator.mutation_positions(node)]
        mutants += [
            Mutant(path, start[0], name, occurrence)
            for occurrence, (node, start) in enumerate(places)
            if not is_kind_not_planted(node, name)
        ]
    return mutants


def is_kind_not_planted(node: Any, operator: str) -> bool:
    """Return whether a bug in this node is of a kind that is not planted; the module's docstring lists the kinds."""
    in_function = False
    place, parent = node, node.parent
    while parent is not None:
        if place.type == "fstring" or is_for_type_checkers(place) or place is annotation_of(parent):
            return True
        in_function |= place.type == "funcdef"
        place, parent = parent, parent.parent
    return operator == "NumberReplacer" and not in_function


def is_for_type_checkers(place: Any) -> bool:
    """Return whether a statement sets `TYPE_CHECKING`, or is the block for type checkers."""
    if place.type not in ("expr_stmt", "if_stmt"):
        return False
    return "TYPE_CHECKING" in [child.get_code().strip() for child in place.children[:2]]


def annotation_of(parent: Any) -> Any:
    """Return the type annotation of a syntax node, None for a node without one."""
    if parent.type in ("annassign", "tfpdef"):
        return parent.children[1 if parent.type == "annassign" else 2]
    return parent.annotation if parent.type == "funcdef" else None


def draw_mutants(count: int, seed: int) -> list[Mutant]:
    """Return ``count`` different bugs: one of each package, and the rest in proportion to the bugs of each package."""
    by_package: dict[str, list[Mutant]] = {}
    for path in sorted((ROOT / ENGINE).rglob("*.py")):
        for mutant in find_mutants(str(path.relative_to(ROOT))):
            by_package.setdefault(mutant.package, []).append(mutant)
    draw = random.Random(seed)
    packages = draw.sample(sorted(by_package), len(by_package))
    sizes = [len(by_package[package]) for package in packages]
    chosen = [*packages, *draw.choices(packages, sizes, k=max(0, count - len(packages)))][:count]
    drawn: list[Mutant] = []
    for package in chosen:
        mutant = draw.choice(by_package[package])
        while mutant in drawn or code_without_and_with_bug(mutant) is None:
            mutant = draw.choice(by_package[package])
        drawn.append(mutant)
    return drawn


def code_without_and_with_bug(mutant: Mutant) -> tuple[str, str] | None:
    """Return the code of the file without and with the bug; None if the code with the bug does not compile."""
    code = (ROOT / mutant.path).read_text()
    changed = mutate_code(code, OperatorProvider()[mutant.operator](), mutant.occurrence)
    try:
        compile(changed, mutant.path, "exec")
    except SyntaxError:
        return None
    return code, changed


def copy_git_tree(folder: Path) -> None:
    """Copy all files that git tracks or would add, with uncommitted changes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    for name in listed.split("\0"):
        source, copy = ROOT / name, folder / name
        if name and (source.is_symlink() or source.is_file()):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy, follow_symlinks=False)


def run_tests(tree: Path, seconds: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run unit tests in a copy of the tree and return exit code and output; TimeoutExpired after ``seconds``."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    pytest += [f"--override-ini=faulthandler_timeout={TEST_SECONDS}"]
    pytest += ["--override-ini=faulthandler_exit_on_timeout=true"]
    namespace = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    shell = ["prlimit", f"--as={MEMORY}", "bash", "-euc", SANDBOX, "bash", str(tree)]
    return subprocess.run(
        [*namespace, *shell, *pytest, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=seconds,
    )


def tests_detect_bug(tree: Path, seconds: int, *arguments: str) -> bool:
    """Return whether unit tests detect the bug in a copy of the tree."""
    try:
        done = run_tests(tree, seconds, "-x", *arguments)
    except subprocess.TimeoutExpired:
        return True
    if done.returncode in (4, 5):
        raise MutantsError(f"pytest found no tests to run ({' '.join(arguments)}):\n{done.stdout[-2000:]}")
    return done.returncode != 0


@contextlib.contextmanager
def planted_bug_in_tree(tree: Path, mutant: Mutant, changed: str) -> Iterator[None]:
    """Plant a bug in a copy of the tree during the block.

    Bytecode is removed, because Python would use it for changed code with the same size and time.
    """
    path = tree / mutant.path
    code = path.read_text()
    try:
        path.write_text(changed)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        yield
    finally:
        path.write_text(code)
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def try_mutant(mutant: Mutant, trees: queue.Queue[Path]) -> Result:
    """Plant a bug in a free copy of the tree, and run the tests there."""
    code, changed = code_without_and_with_bug(mutant) or ("", "")
    diff = "".join(
        difflib.unified_diff(code.splitlines(True), changed.splitlines(True), f"a/{mutant.path}", f"b/{mutant.path}")
    )
    tree = trees.get()
    begin = time.monotonic()
    try:
        with planted_bug_in_tree(tree, mutant, changed):
            if mutant.test_folder and tests_detect_bug(tree, PACKAGE_SECONDS, mutant.test_folder):
                seen_by = mutant.test_folder
            else:
                others = [TESTS, f"--ignore={mutant.test_folder}"] if mutant.test_folder else [TESTS]
                seen_by = TESTS if tests_detect_bug(tree, ALL_SECONDS, *others) else ""
    finally:
        trees.put(tree)
    return Result(mutant, seen_by, time.monotonic() - begin, diff)


def copy_tree_for_each_worker(folder: Path) -> queue.Queue[Path]:
    """Return a copy of the tree for each worker; MutantsError where the unit tests fail without a bug."""
    trees: queue.Queue[Path] = queue.Queue()
    for number in range(WORKERS):
        copy_git_tree(folder / f"tree-{number}")
        trees.put(folder / f"tree-{number}")
    done = run_tests(folder / "tree-0", ALL_SECONDS, "-n", str(WORKERS), TESTS)
    if done.returncode:
        raise MutantsError(f"The unit tests fail without a bug:\n{done.stdout[-4000:]}")
    return trees


def print_report(results: Iterator[Result], count: int) -> bool:
    """Print each result, then the diffs of survivors and the figure; return whether too few bugs were detected."""
    survivors = []
    for result in results:
        word = f"seen by {result.seen_by}" if result.seen_by else "survived"
        print(f"{result.seconds:5.0f} s  {result.mutant}  {word}", flush=True)
        if not result.seen_by:
            survivors.append(result)
    for result in survivors:
        print(f"\nsurvived: {result.mutant}\n{result.diff}")
    figures = Figures()
    bar = Bar(">=", math.ceil(SEEN_SHARE * count))
    figures.print_figure("mutants_seen", count - len(survivors), f"of {count}", bar)
    return figures.missed


def main() -> int:
    """Print a line for each bug, the diff of each survivor, and the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=30)
    options = parser.parse_args()
    mutants = draw_mutants(options.count, options.seed)
    try:
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            trees = copy_tree_for_each_worker(Path(folder))
            with ThreadPoolExecutor(WORKERS) as pool:
                results = pool.map(lambda mutant: try_mutant(mutant, trees), mutants)
                return int(print_report(results, len(mutants)))
    except MutantsError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
