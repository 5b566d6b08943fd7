# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much of a model a process has read: real processes that read or map a file, and recorded numbers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import read_progress
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks.read_progress import ReadProgress

FS = KernelFS(read_only=True)
MIB = 1 << 20
SIZE = 400 * MIB
READ = "file.read(200 << 20)"
MAP = "memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ); [memory[at] for at in range(0, 200 << 20, 4096)]"


@contextmanager
def process_after(path: Path, statement: str) -> Iterator[int]:
    """Run a statement on a file in another process; yield the process, which then waits."""
    program = f"import mmap\nfile = open({str(path)!r}, 'rb', 0)\n{statement}\nprint('done', flush=True)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"done\n"
    yield process.pid
    process.communicate()


@pytest.mark.parametrize("statement", [READ, MAP])
def test_files_that_are_read_and_files_that_are_mapped_count(tmp_path: Path, statement: str) -> None:
    """Half of this file is read; the program and its libraries are a few percent of it."""
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:
        file.truncate(SIZE)
    with process_after(path, statement) as process:
        progress = read_progress.measure_read_progress(FS, [process], SIZE)
        assert progress and 0.5 <= progress.share < 0.58
        assert read_progress.measure_read_progress(FS, [process], 0) is None
    assert read_progress.measure_read_progress(FS, [process], SIZE) is None, "it has ended"
    assert read_progress.measure_read_progress(FS, [], SIZE) is None


def recorded(root: Path, rchar: int, age: int) -> KernelFS:
    """Return the kernel files of process 7, whose name has blanks and a parenthesis, at 1000 s after the boot."""
    folder = root / "proc/7"
    folder.mkdir(parents=True)
    (folder / "status").write_text("Name:\tllama (x)\nRssAnon:\t    9000 kB\nRssFile:\t      10 kB\n")
    (folder / "io").write_text(f"rchar: {rchar}\nwchar: 5\nread_bytes: 0\n")
    (folder / "stat").write_text(f"7 (llama (x) y) S {' '.join(['0'] * 18)} {(1000 - age) * 100} 0 0\n")
    (root / "proc/uptime").write_text("1000.00 5.0\n")
    return KernelFS(str(root), read_only=True)


@pytest.mark.parametrize(
    ("rchar", "age", "sentence"),
    [
        (43 * MIB, 43, "it has read 43 % of its model, about 57 s left"),
        (25 * MIB, 100, "it has read 25 % of its model, about 5 min left"),
        (50 * MIB, 0, "it has read 50 % of its model"),
        (20 * 1024, 100, "it has read 0 % of its model"),
        (100 * MIB, 10, "it has read its model"),
        (300 * MIB, 10, "it has read its model"),
    ],
)
def test_the_rate_so_far_gives_the_time_left(tmp_path: Path, rchar: int, age: int, sentence: str) -> None:
    progress = read_progress.measure_read_progress(recorded(tmp_path, rchar, age), [7], 100 * MIB)
    assert str(progress) == sentence


def test_only_plans_with_a_known_amount_have_a_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_progress, "list_processes", lambda fs, unit: [7])
    monkeypatch.setattr(
        read_progress, "measure_read_progress", lambda fs, ids, size: ReadProgress(size / 100, None) if size else None
    )
    plan = {"engine": "llama", "models": [], "files": {"/a": [40, 1], "/b": [3, 1]}}
    said = "u.service is being started"
    assert read_progress.describe_start_of_unit("u.service", plan) == f"{said}: it has read 43 % of its model"
    for other in (None, {**plan, "engine": "vllm"}, {**plan, "models": ["a"]}):
        assert read_progress.describe_start_of_unit("u.service", other) == said
