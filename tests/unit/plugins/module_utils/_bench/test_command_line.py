# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command sovereign-epyc bench: how it comes onto a host and goes, what it measures, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import archive, command_line
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.module_sources import BENCH, PACKAGE
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import host_tool_files
from ansible_collections.sovereign.epyc.tests.unit.fakes.host_tools import bare, run
from ansible_collections.sovereign.epyc.tests.unit.fakes.measured import Measured, measured

ENGINE_SOURCES = host_tool_files._read_host_tool_files
QUICK = ("--rounds", "1", "--tokens", "8", "--kinds", "prose", "--streams", "")


def tuned(root: Path) -> Path:
    """Install the host tool in a tree, without its units; return where the archive is to be."""
    for path, text in ENGINE_SOURCES().items():
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root / BENCH.lstrip("/")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measured]:
    root = str(tmp_path)
    with measured(tmp_path, monkeypatch) as host:
        monkeypatch.setattr(command_line, "KernelFS", lambda read_only: KernelFS(root, read_only=read_only))
        monkeypatch.setattr(command_line, "Store", lambda read_only: Store(root, read_only=read_only))
        yield host


def test_it_is_put_beside_the_engine_and_only_when_it_is_new(tmp_path: Path) -> None:
    assert not archive.install_benchmark_archive(str(tmp_path)) and list(tmp_path.iterdir()) == []
    there = tuned(tmp_path)
    assert archive.install_benchmark_archive(str(tmp_path)) and archive.modules_unlike_host_tool(str(tmp_path)) == []
    before = there.stat()
    assert not archive.install_benchmark_archive(str(tmp_path)) and there.stat().st_ino == before.st_ino
    assert before.st_mode & 0o777 == 0o644
    there.write_bytes(b"of another version")
    assert archive.install_benchmark_archive(str(tmp_path)) and zipfile.is_zipfile(there)


def test_it_goes_with_the_engine_and_stays_when_that_is_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = bare(tmp_path, monkeypatch)
    run(systemd)
    archive.install_benchmark_archive(str(tmp_path))
    there = tmp_path / BENCH.lstrip("/")
    assert not run(systemd).changes and there.exists()
    run(systemd, present=False)
    assert not there.exists() and not there.parent.exists()


def test_an_engine_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tuned(tmp_path)
    other = tmp_path / f"{PACKAGE}/_errors.py".lstrip("/")
    other.write_text(other.read_text() + "# newer\n")
    assert archive.modules_unlike_host_tool(str(tmp_path)) == ["_errors.py"]
    monkeypatch.setattr(command_line.archive, "modules_unlike_host_tool", lambda: ["_errors.py"])
    assert command_line.main([]) == 1
    assert "another version than the benchmark on this host: run playbooks/site.yml and then" in capsys.readouterr().err


def test_the_command_of_the_host_runs_the_archive_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a Python of its own, which finds nothing of this clone."""
    there = tuned(tmp_path)
    archive.install_benchmark_archive(str(tmp_path))
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / PACKAGE.lstrip('/')).rpartition('/')[0]!r})\n"
        "from sovereign_epyc import _cli\nfrom sovereign_epyc._io import module_sources\n"
        f"module_sources.BENCH = {str(there)!r}\ncode = _cli.main(sys.argv[1:])\n"
        "mixed = [name for name in sys.modules if name.startswith('sovereign_epyc_bench') and "
        f"not sys.modules[name].__file__.startswith({str(there)!r})]\n"
        "print(mixed); sys.exit(code)"
    )
    words = [sys.executable, "-I", "-c", program, "bench"]
    done = subprocess.run([*words, "--rounds"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == "[]\n"
    assert done.stderr.startswith("argument --rounds: expected one argument. 'sovereign-epyc bench --help' lists")
    there.unlink()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"There is no {there}, which measures: a run of playbooks/benchmark.yml puts it here.\n"


def test_it_measures_as_the_playbook_does(here: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["chat", *QUICK]) == 0
    said = capsys.readouterr()
    path = said.err.splitlines()[-1].rpartition(" ")[2].rstrip(".")
    document = json.loads(Path(path).read_text())
    assert said.out == run_report.render_run_report(document) and "round 1, 0 of " in said.err
    assert {(one["kind"], one["streams"]) for one in document["samples"]} == {("prose", 1)}


def test_it_prints_the_document(here: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    assert command_line.main([*QUICK, "--json", "--output", str(file)]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())


def test_its_exit_code_says_that_no_round_counts(here: Measured, capsys: pytest.CaptureFixture[str]) -> None:
    here.before_answer = lambda number: here.counters.update(tokens_predicted_total=number * 1_000_000)
    assert command_line.main([*QUICK]) == 2
    assert capsys.readouterr().out.startswith("No round counts, and this proves nothing.")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rounds", "many"), "rounds is many; give a whole number from 1 to 1000."),
        (("--streams", "1,x"), "streams is x; give a whole number"),
        (("--kinds", "poetry"), "There are no prompts of the kind poetry"),
        (("--faster",), "unrecognized arguments: --faster. 'sovereign-epyc bench --help' lists the options."),
        (("other",), "other"),
    ],
)
def test_invalid_requests_are_refused(
    here: Measured, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert command_line.main(words) == 1
    said = capsys.readouterr()
    assert why in said.err and said.out == "" and not here.asked
    assert not (tmp_path / "benchmarks").exists()
