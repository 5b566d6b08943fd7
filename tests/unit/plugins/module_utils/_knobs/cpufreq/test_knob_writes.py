# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order in which frequencies are written, and limits that the kernel shows late or never."""

from __future__ import annotations

import errno
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq import knob as cpufreq_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpufreq.policy import HOME
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import find_differences
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.cpufreq_drivers import knob, machine


@pytest.mark.parametrize(
    ("now", "then", "order"),
    [
        ((1500000, 1900000), (2250000, 2250000), ["scaling_max_freq", "scaling_min_freq"]),
        ((2250000, 2250000), (1500000, 1900000), ["scaling_min_freq", "scaling_max_freq"]),
        ((1500000, 2250000), (1900000, 1900000), ["scaling_min_freq", "scaling_max_freq"]),
        ((1900000, 1900000), (1500000, 2250000), ["scaling_max_freq", "scaling_min_freq"]),
    ],
)
def test_limits_never_cross_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: tuple[int, int], then: tuple[int, int], order: list[str]
) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", scaling_min_freq=now[0], scaling_max_freq=now[1])
    seen = written(tree, monkeypatch)
    made = knob(tree, {"cpus": "0", "min": str(then[0]), "max": str(then[1])})
    wanted = made.wanted_settings()
    made.write_changes(find_differences(made, wanted, made.read_settings(wanted)))
    assert seen == [f"policy0/{file}" for file in order]
    assert made.read_settings(wanted) == wanted


def written(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are written from now on, below the policies."""
    seen: list[str] = []
    really = tree.fs.write

    def write(path: str, text: str) -> None:
        seen.append(path[len(HOME) + 1 :])
        really(path, text)

    monkeypatch.setattr(tree.fs, "write", write)
    return seen


def test_limits_that_the_kernel_takes_over_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written shows once write returns, and also once it fails at a later policy."""
    tree = machine(tmp_path, "acpi-cpufreq")
    really = tree.fs.write
    late: list[threading.Timer] = []

    def write(path: str, text: str) -> None:
        if "policy2" in path:
            raise Refused(f"Cannot write to {path}", errno.EROFS, path)
        late.append(threading.Timer(0.1, really, (path, text)))
        late[-1].start()

    monkeypatch.setattr(tree.fs, "write", write)
    for cpus, failure in (("0", nullcontext()), ("1-2", pytest.raises(Refused))):
        made = knob(tree, {"cpus": cpus, "max": "1900MHz"})
        wanted = made.wanted_settings()
        with failure:
            made.write_changes(find_differences(made, wanted, made.read_settings(wanted)))
        shown = made.read_settings(wanted)
        assert shown.pop("cpufreq:policy2/scaling_max_freq", "2250000") == "2250000"
        assert list(shown.values()) == ["1900000"]
    for timer in late:
        timer.join()


def test_a_limit_that_never_shows_does_not_hold_up_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, "acpi-cpufreq")
    monkeypatch.setattr(cpufreq_knob, "PATIENCE", 0.05)
    monkeypatch.setattr(tree.fs, "write", lambda path, text: None)
    made = knob(tree, {"cpus": "0", "max": "1900MHz"})
    wanted = made.wanted_settings()
    made.write_changes(find_differences(made, wanted, made.read_settings(wanted)))
    assert made.read_settings(wanted) == {"cpufreq:policy0/scaling_max_freq": "2250000"}


def test_governors_go_before_what_depends_on_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, "active", scaling_governor="performance", energy_performance_preference="performance")
    seen = written(tree, monkeypatch)
    made = knob(tree, {"cpus": "0", "governor": "powersave", "epp": "power", "boost": False, "max": "base"})
    wanted = made.wanted_settings()
    made.write_changes(find_differences(made, wanted, made.read_settings(wanted)))
    files = ["boost", "scaling_governor", "energy_performance_preference", "scaling_max_freq"]
    assert seen == [f"policy0/{file}" for file in files]


def test_a_speed_that_its_governor_takes_along_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = machine(tmp_path, "acpi-cpufreq", scaling_governor="userspace", scaling_setspeed=1900000)
    seen = written(tree, monkeypatch)
    made = knob(tree, {"cpus": "0", "governor": "performance"})
    wanted = made.wanted_settings()
    made.write_changes([Change(name, "", text) for name, text in wanted.items()])
    assert wanted["cpufreq:policy0/scaling_setspeed"] is None
    assert seen == ["policy0/scaling_governor"]
