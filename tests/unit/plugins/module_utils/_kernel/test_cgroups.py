# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.cgroups import (
    list_processes,
    list_threads,
    read_cpu_seconds,
)


@pytest.fixture
def fs(tmp_path: Path) -> KernelFS:
    """A tree with one unit in a slice, one in a slice of that slice, and one with a control group below its own."""
    groups = {
        "system.slice": "",
        "system.slice/llama.service": "100\n101\n",
        "system.slice/system-llama.slice": "",
        "system.slice/system-llama.slice/llama@1.service": "200\n",
        "system.slice/box.service": "",
        "system.slice/box.service/payload": "300\n301\n",
        "init.scope": "1\n",
    }
    for name, threads in groups.items():
        folder = tmp_path / "sys/fs/cgroup" / name
        folder.mkdir(parents=True)
        (folder / "cgroup.threads").write_text(threads)
        (folder / "cgroup.procs").write_text(threads.partition("\n")[0])
    for thread in (42, 43):
        (tmp_path / f"proc/42/task/{thread}").mkdir(parents=True)
    return KernelFS(str(tmp_path))


@pytest.mark.parametrize(
    ("who", "threads"),
    [
        ("llama.service", {100, 101}),
        ("llama@1.service", {200}),
        ("box.service", {300, 301}),
        ("init.scope", {1}),
        ("system.slice", {100, 101, 200, 300, 301}),
        ("42", {42, 43}),
    ],
)
def test_all_threads_of(fs: KernelFS, who: str, threads: set[int]) -> None:
    assert list_threads(fs, who) == threads


@pytest.mark.parametrize(
    ("who", "processes"),
    [("llama.service", [100]), ("box.service", [300]), ("system.slice", [100, 200, 300]), ("42", [42])],
)
def test_all_processes_of(fs: KernelFS, who: str, processes: list[int]) -> None:
    assert list_processes(fs, who) == processes


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("gone.service", "The unit gone.service has no control group .*: it does not run. Start it first"),
        ("llama", "The unit llama has no control group"),
        ("payload", "The unit payload has no control group"),
        ("43", "There is no process 43"),
    ],
)
def test_what_does_not_run_is_refused(fs: KernelFS, who: str, words: str) -> None:
    for ids_of in (list_threads, list_processes):
        with pytest.raises(BadRequest, match=words):
            ids_of(fs, who)


def test_a_control_group_that_vanishes_has_no_threads(fs: KernelFS, tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/system.slice/llama.service/cgroup.threads").unlink()
    assert list_threads(fs, "llama.service") == set()


def test_processor_time_of_a_unit(fs: KernelFS, tmp_path: Path) -> None:
    """What ended in the group counts too, so it is not the sum of what runs."""
    stat = tmp_path / "sys/fs/cgroup/system.slice/llama.service/cpu.stat"
    stat.write_text("usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n")
    assert read_cpu_seconds(fs, "llama.service") == 2.5
    with pytest.raises(BadRequest, match="has no control group"):
        read_cpu_seconds(fs, "none.service")
