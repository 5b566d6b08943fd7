# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake kernel of the plain settings answers sysfs_settings as the real one does."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import CACHE_AWARE
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernel_settings import (
    ASKED,
    BALANCING,
    NEWER,
    WATCHDOG,
    Settings,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, check, put_back, write
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import SYSFS

from .conformance import compare_with_kernel, left_changed, run_program

pytestmark = pytest.mark.slow

MODULE = "sysfs_settings"
THP, WORK = "/sys/kernel/mm/transparent_hugepage", "/sys/devices/virtual/workqueue"
SHOWN = [
    f"{CPUS}/smt/control",
    f"{CPUS}/online",
    f"{THP}/enabled",
    f"{THP}/defrag",
    BALANCING,
    WATCHDOG,
    f"{WORK}/cpumask*",
    f"{WORK}/writeback/cpumask",
    CACHE_AWARE,
]
STEPS = [
    check(**ASKED),
    ask(**ASKED),
    ask(**ASKED),
    put_back(),
    put_back(),
    # What the module refuses, with another setting that must stay as it is.
    *(ask(numa_balancing=False, **refused) for refused, dummy in SYSFS.values()),
    # What the kernel refuses, and how it shows what it takes.
    write(f"{THP}/enabled", "sometimes"),
    write(f"{THP}/defrag", "defer"),
    write(f"{THP}/defrag", "madvise"),
    write(BALANCING, 5),
    write(BALANCING, "x"),
    write(WATCHDOG, 1),
    write(f"{WORK}/cpumask", "0"),
    write(f"{WORK}/cpumask", "10000"),
    write(f"{WORK}/cpumask", "nonsense"),
    write(f"{WORK}/writeback/cpumask", "0"),
    write(f"{WORK}/writeback/cpumask", "0000,0000000f"),
    write(f"{WORK}/writeback/cpumask", "ffff"),
    write(f"{CPUS}/smt/control", "off"),
    # Memory tiering is somebody else's wish, and is kept.
    write(BALANCING, 2),
    ask(numa_balancing=True),
    ask(numa_balancing=True),
    put_back(),
    write(BALANCING, 1),
    # A mask that loses its meaning.
    ask(writeback_cpus="4-7"),
    ask(workqueue_cpus="0-3"),
    put_back(),
    # Threads that are drawn together, by kernels that do that.
    check(cache_aware_scheduling=False),
    ask(cache_aware_scheduling=False),
    ask(cache_aware_scheduling=False),
    ask(cache_aware_scheduling=True),
    put_back(),
    *(write(CACHE_AWARE, text) for text in (2, "x", "n", "Y")),
    # A CPU that is offline.
    write(f"{CPUS}/cpu5/online", 0),
    ask(workqueue_cpus="4-6"),
    write(f"{CPUS}/cpu5/online", 1),
]


def make_fake_machine(folder, guest):
    """The small machine with the settings that a guest has, of which older kernels lack some."""
    kernel = Kernel(folder)
    newer = run_program(guest, f"[path for path in {NEWER!r} if os.path.exists(path)]", MODULE)
    Settings(kernel, newer, run_program(guest, f"bool(os.stat({WATCHDOG!r}).st_mode & 0o222)", MODULE))
    return kernel


def test_the_fake_answers_as_the_kernel(guest_of_each_kernel, tmp_path):
    fake = make_fake_machine(tmp_path, guest_of_each_kernel)
    answers = compare_with_kernel(guest_of_each_kernel, fake, MODULE, STEPS, SHOWN)
    assert left_changed(answers) == set()
