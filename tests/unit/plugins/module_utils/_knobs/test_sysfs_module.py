# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module sysfs_settings on a fake kernel, which tests/lab holds against the real one."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HOME
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.sysfs import THP, WORKQUEUE
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernel_settings import ASKED, BALANCING, Settings
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import read_files, request
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import SYSFS

FILES = [f"{THP}/*", BALANCING, f"{WORKQUEUE}/cpumask*", f"{WORKQUEUE}/writeback/cpumask", f"{CPUS}/smt/control"]
DIFF = {
    "before": {
        "sysfs:thp/enabled": "always",
        "sysfs:thp/defrag": "madvise",
        "sysfs:numa_balancing": "1",
        "sysfs:workqueue/cpumask": "0-15",
        "sysfs:writeback/cpumask": "0-15",
    },
    "after": {
        "sysfs:thp/enabled": "madvise",
        "sysfs:thp/defrag": "defer+madvise",
        "sysfs:numa_balancing": "0",
        "sysfs:workqueue/cpumask": "0,4,8,12",
        "sysfs:writeback/cpumask": "0,4,8,12",
    },
}


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    made = Kernel(tmp_path)
    Settings(made)
    return made


def ask(kernel: Kernel, **options: Any) -> dict[str, Any]:
    return request(kernel.fs, "sysfs_settings", **options)


def test_settings_are_made_and_put_back(kernel: Kernel) -> None:
    before = read_files(kernel.fs, FILES)
    checked = ask(kernel, check=True, **ASKED)
    assert (checked["changed"], checked["diff"]["changes"]) == (True, DIFF)
    assert read_files(kernel.fs, FILES) == before
    assert not (kernel.host.root / HOME[1:]).exists()

    made = ask(kernel, **ASKED)
    assert (made["changed"], made["diff"]["changes"], made["remarks"]) == (True, DIFF, [])
    shown = read_files(kernel.fs, FILES)
    assert shown[f"{THP}/enabled"] == "always [madvise] never"
    assert shown[f"{THP}/defrag"] == "always defer [defer+madvise] madvise never"
    assert shown[BALANCING] == "0"
    assert shown[f"{WORKQUEUE}/cpumask"] == shown[f"{WORKQUEUE}/writeback/cpumask"] == "1111"
    assert ask(kernel, **ASKED)["changed"] is False

    assert ask(kernel, state="original")["diff"]["changes"] == {"before": DIFF["after"], "after": DIFF["before"]}
    assert read_files(kernel.fs, FILES) == before
    assert ask(kernel, state="original")["changed"] is False


@pytest.mark.parametrize(("asked", "words"), SYSFS.values(), ids=list(SYSFS))
def test_a_refusal_changes_nothing(kernel: Kernel, asked: dict[str, Any], words: list[str]) -> None:
    before = read_files(kernel.fs, FILES)
    answer = ask(kernel, numa_balancing=False, **asked)
    assert answer["failed"]
    assert [word for word in words if word not in answer["msg"]] == []
    assert "\n" not in answer["msg"]
    assert read_files(kernel.fs, FILES) == before


def test_an_offline_cpu_is_refused(kernel: Kernel) -> None:
    kernel.fs.write(f"{CPUS}/cpu5/online", "0")
    assert "CPU 5 is offline" in ask(kernel, workqueue_cpus="4-6")["msg"]


def test_what_was_written_is_undone_when_the_kernel_refuses_the_rest(kernel: Kernel) -> None:
    before = read_files(kernel.fs, FILES)
    kernel.fs.refusals[BALANCING] = errno.EROFS
    answer = ask(kernel, thp="never", numa_balancing=False)
    assert "numa_balancing: Read-only file system" in answer["msg"]
    assert answer["msg"].endswith("What this run had changed was put back.")
    assert read_files(kernel.fs, FILES) == before


def test_memory_tiering_is_kept(kernel: Kernel) -> None:
    kernel.fs.write(BALANCING, "2")
    assert ask(kernel, numa_balancing=True)["diff"]["changes"]["after"] == {"sysfs:numa_balancing": "3"}
    assert ask(kernel, numa_balancing=True)["changed"] is False
    ask(kernel, state="original")
    assert kernel.fs.read(BALANCING) == "2"


def test_another_mask_that_loses_its_meaning_is_told(kernel: Kernel) -> None:
    ask(kernel, writeback_cpus="4-7")
    answer = ask(kernel, workqueue_cpus="0-3")
    assert answer["changed"] is True
    assert answer["remarks"][0].startswith("workqueue_cpus: writeback may run on CPUs 4-7")


def test_tuned_is_named(kernel: Kernel) -> None:
    kernel.put("/run/tuned/tuned.pid", 1)
    kernel.put("/proc/1/comm", "tuned")
    answer = ask(kernel, thp="always")
    assert answer["changed"] is False
    assert answer["remarks"][0].startswith("TuneD runs here too (process 1, profile unknown)")
