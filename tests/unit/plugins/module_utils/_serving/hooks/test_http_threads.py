# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import http_threads


def tree(root: Path, threads: dict[int, str]) -> KernelFS:
    for tid, allowed in threads.items():
        folder = root / f"proc/10/task/{tid}"
        folder.mkdir(parents=True)
        (folder / "status").write_text(f"Name:\tllama-server\nCpus_allowed_list:\t{allowed}\n")
    return KernelFS(str(root))


@pytest.mark.parametrize(
    ("threads", "guests"),
    [
        ({10: "1", 11: "1", 12: "2", 13: "3", 14: "1"}, [11, 14]),  # where OpenMP pinned the first thread early
        ({10: "1", 11: "0-3", 12: "2", 13: "3"}, [11]),  # where the server pinned it late
        ({10: "0-3", 11: "0-3", 12: "2"}, [11]),
        ({10: "1"}, []),
    ],
)
def test_who_is_no_thread_that_computes(tmp_path: Path, threads: dict[int, str], guests: list[int]) -> None:
    assert http_threads.list_threads_without_own_cpu(tree(tmp_path, threads), 10) == guests


def test_a_process_that_has_ended(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="Process 11 has ended"):
        http_threads.move_threads_without_own_cpu(tree(tmp_path, {10: "1"}), 11, [0])


@pytest.fixture
def process() -> Iterator[int]:
    """A process whose second thread began where the first is."""
    sleep = "t.Thread(target=time.sleep, args=(60,), daemon=True).start(); print(flush=True); time.sleep(60)"
    code = f"import threading as t, time; {sleep}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.kill()


def test_a_thread_is_sent_home(process: int) -> None:
    mine = sorted(os.sched_getaffinity(process))
    first, last = mine[:1], mine[-1:]
    threads = [int(name) for name in os.listdir(f"/proc/{process}/task")]
    for tid in threads:
        os.sched_setaffinity(tid, first)
    assert http_threads.move_threads_without_own_cpu(KernelFS(), process, last) == 1
    other = next(tid for tid in threads if tid != process)
    assert [sorted(os.sched_getaffinity(tid)) for tid in (process, other)] == [first, last]
    with pytest.raises(TuningError, match="cannot be moved to CPUs 8000"):
        os.sched_setaffinity(other, first)
        http_threads.move_threads_without_own_cpu(KernelFS(), process, [8000])
