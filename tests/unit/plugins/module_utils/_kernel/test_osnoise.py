# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tracer osnoise says, and that it is left as it was; tests/lab has it from a real kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import osnoise

TRACE = """\
# tracer: osnoise
#
#                        _-----=> irqs-off
#                       / _----=> need-resched
#   TASK-PID      CPU#  ||||     TIMESTAMP     IN US       IN US  AVAILABLE  IN US     HW    NMI    IRQ ...
   osnoise/4-961   [004] .....    83.264921: 1000000        190  99.98100        9     18      0   1007     18      1
   osnoise/5-962   [005] .....    83.265103: 1000000       2656  99.73440      166      0      1    117      0     10
   osnoise/4-961   [004] .....    84.264921: 1000000        210  99.97900      100      2      0    993      2      3
"""


class Tracer(KernelFS):
    """A kernel with the tracer, on files; a folder of it goes with all that is in it."""

    def __init__(self, root: Path, trace: str = TRACE) -> None:
        super().__init__(str(root))
        self.trace = trace
        self.top = root / osnoise.TRACING.lstrip("/")
        self.ours = root / osnoise.OURS.lstrip("/")
        (self.top / "osnoise").mkdir(parents=True)
        (self.top / "instances").mkdir()
        (self.top / "available_tracers").write_text("blk osnoise nop\n")
        (self.top / "osnoise/cpus").write_text("0-7")
        self.asked: list[str] = []

    def write(self, path: str, text: str) -> None:
        Path(self.root, path.lstrip("/")).write_text(text)

    def mkdir(self, path: str) -> None:
        super().mkdir(path)
        for name, text in (("current_tracer", "nop"), ("tracing_on", "1"), ("trace", self.trace)):
            (self.ours / name).write_text(text)

    def rmdir(self, path: str) -> None:
        for file in self.ours.iterdir():
            file.unlink()
        super().rmdir(path)

    def sleep(self, seconds: float) -> None:
        assert (self.ours / "current_tracer").read_text().startswith("osnoise")
        self.asked = [(self.top / "osnoise/cpus").read_text(), str(seconds)]

    def is_as_before(self) -> bool:
        return not self.ours.exists() and (self.top / "osnoise/cpus").read_text() == "0-7"


def test_what_each_cpu_lost(tmp_path: Path) -> None:
    fs = Tracer(tmp_path)
    found = osnoise.measure(fs, [5, 4], 2, clock=fs)
    assert fs.asked == ["4-5", "2.5"]
    assert found[4] == {
        "runtime": 2_000_000,
        "noise": 400,
        "longest": 100,
        "hardware": 20,
        "nmi": 0,
        "interrupts": 2000,
        "softirqs": 20,
        "threads": 4,
    }
    assert fs.is_as_before()
    assert osnoise.table(found).splitlines()[1:] == [
        "5    0.266%    166 us         118         0       10         0",
        "4    0.020%    100 us        1000        10        2        10",
    ]


def test_one_that_was_killed_leaves_nothing_to_the_next(tmp_path: Path) -> None:
    fs = Tracer(tmp_path)
    fs.mkdir(osnoise.OURS)
    assert osnoise.measure(fs, [4], 2, clock=fs) and fs.is_as_before()


def test_a_cpu_that_tells_nothing_is_named(tmp_path: Path) -> None:
    fs = Tracer(tmp_path)
    with pytest.raises(TuningError, match="tells nothing of CPU 6 in 2 s"):
        osnoise.measure(fs, [4, 6], 2, clock=fs)
    assert fs.is_as_before()


def test_an_interruption_leaves_the_tracer_as_it_was(tmp_path: Path) -> None:
    class Interrupted(Tracer):
        def sleep(self, seconds: float) -> None:
            raise KeyboardInterrupt

    fs = Interrupted(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        osnoise.measure(fs, [4], 2, clock=fs)
    assert fs.is_as_before()


def test_a_kernel_without_the_tracer(tmp_path: Path) -> None:
    with pytest.raises(Absent, match="This kernel has no tracer osnoise"):
        osnoise.measure(KernelFS(str(tmp_path)), [4], 2)
    fs = Tracer(tmp_path)
    (fs.top / "available_tracers").write_text("nop\n")
    with pytest.raises(Absent):
        osnoise.measure(fs, [4], 2, clock=fs)
