# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The CPUs of the monitors of a group, also of those that somebody else made, before and after the group changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Refused
from ansible_collections.sovereign.epyc.tests.unit.fakes.resctrl_mounts import HOME, Machine, apply, undo


def monitors(machine: Machine) -> dict[str, str]:
    home = Path(machine.fs._real_path(HOME))
    found = home.glob("**/mon_groups/*/cpus_list")
    return {str(path.parent.relative_to(home)): path.read_text().strip() for path in found}


@pytest.fixture
def watched(tmp_path: Path) -> Machine:
    """Monitors of the task, of somebody else in the same group, and in the default group."""
    machine = Machine(tmp_path)
    machine.tree.put("/proc/sys/kernel/random/boot_id", "1-2-3")
    machine.tree.put(f"{HOME}/draft/cpus_list", "1-3")
    machine.tree.put(f"{HOME}/cpus_list", "0,4-15")
    for name, cpus in {
        "draft/mon_groups/look": "1",
        "draft/mon_groups/theirs": "2-3",
        "mon_groups/base": "4,8",
    }.items():
        machine.tree.put(f"{HOME}/{name}/cpus_list", cpus)
    return machine


def test_monitors_keep_their_cpus_when_those_of_the_group_change(watched: Machine) -> None:
    """Those of others too. What leaves the group leaves its monitors, and comes back with it."""
    before = monitors(watched)
    group = {"name": "draft", "cpus": "1-2,4", "monitors": [{"name": "look", "cpus": "1"}]}
    done = apply(watched, groups=[group])
    assert monitors(watched) == {"draft/mon_groups/look": "1", "draft/mon_groups/theirs": "2", "mon_groups/base": "8"}
    assert done.to_diff()["before"] == {
        "resctrl:draft/cpus": "1-3",
        "resctrl:draft/mon/theirs/cpus": "2-3",
        "resctrl:default/mon/base/cpus": "4,8",
    }
    assert apply(watched, groups=[group]).changes == []
    undo(watched)
    watched.tree.put(f"{HOME}/cpus_list", "0,4-15")  # What the kernel itself gives back to the default group.
    assert monitors(watched) == before


def test_a_monitor_of_others_in_a_group_of_ours_goes_with_it(watched: Machine) -> None:
    apply(watched, groups=[{"name": "new", "cpus": "5-7"}])
    watched.tree.put(f"{HOME}/new/mon_groups/theirs/cpus_list", "6-7")
    apply(watched, groups=[{"name": "new", "cpus": "5-6"}])
    assert monitors(watched)["new/mon_groups/theirs"] == "6"
    undo(watched)
    assert not watched.fs.is_dir(f"{HOME}/new")


def test_monitors_have_their_cpus_when_a_run_is_undone(watched: Machine) -> None:
    before = monitors(watched)
    watched.fs.refused = "exclusive"
    with pytest.raises(Refused, match="What this run had changed was put back"):
        apply(watched, groups=[{"name": "draft", "cpus": "1-2", "mode": "exclusive"}])
    assert monitors(watched) == before
