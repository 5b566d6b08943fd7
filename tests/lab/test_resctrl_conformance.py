# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake groups answer resctrl_schemata as those of a real kernel do."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, call, check, put_back, write
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import RESCTRL
from ansible_collections.sovereign.epyc.tests.unit.fakes.resctrl_groups import ResctrlGroups

from .conformance import compare_with_kernel, left_changed, linux_version

pytestmark = pytest.mark.slow

MODULE = "resctrl_schemata"
HOME = "/sys/fs/resctrl"
GROUPS = [HOME, f"{HOME}/*", f"{HOME}/mon_groups/*", f"{HOME}/*/mon_groups/*"]
#: The words of the kernel come first, because newer kernels clear them when a file of a group is read.
SHOWN = [f"{HOME}/info/last_cmd_status"]
SHOWN += [f"{place}/{name}" for place in GROUPS for name in ("schemata", "cpus_list", "mode")]
SHOWN += [f"{HOME}/info/{name}" for name in ("*/num_closids", "*/cbm_mask", "*/min_cbm_bits")]
SHOWN += [f"{HOME}/info/*/sparse_masks", f"{CPUS}/online"]
MOUNT, UNMOUNT = call("mount_filesystem", "resctrl", HOME), call("unmount_filesystem", HOME)


def check_apply_repeat_steps(**options):
    """The steps that ask in check mode, for real, and again."""
    return [check(mount=True, **options), ask(mount=True, **options), ask(mount=True, **options)]


def remove_groups_steps(*groups):
    """The steps in which somebody removes groups."""
    return [call("rmdir", f"{HOME}/{group}") for group in groups]


EXCLUSIVE = {"name": "a", "l3": {"all": "12 ways"}, "mode": "exclusive"}
MONITORED = {"name": "a", "cpus": "1-3", "monitors": [{"name": "one", "cpus": "1"}]}
STEPS = [
    ask(),
    # From no mount, which comes and goes with the run.
    check(mount=True, groups=[{"name": "a", "l3": {"all": "25%"}}]),
    ask(mount=True, **RESCTRL["what the kernel refuses"][0]),
    ask(mount=True, groups=[{"name": "a", "l3": {"all": "25%"}}]),
    put_back(),
    # Masks, CPUs and the default group.
    MOUNT,
    *check_apply_repeat_steps(
        groups=[{"name": "a", "cpus": "1-3", "l3": {"0": "8 ways", "all": "25%"}}, {"name": "b", "l3": {"1-2": "f0"}}],
        default={"l3": {"all": "1MiB"}},
    ),
    ask(groups=[{"name": "a", "l3": {"all": "2500KiB"}}]),
    *check_apply_repeat_steps(groups=[{"name": "a", "mb": {"0": 20, "1": 20.1, "all": "max"}, "smba": {"3": 0.125}}]),
    ask(groups=[{"name": "a", "mb": {"0": "max"}}]),
    ask(groups=[{"name": "c"}]),
    put_back(),
    # Exclusive groups, and no two masks that overlap on the way to another split.
    ask(groups=[EXCLUSIVE], default={"l3": {"all": "4 ways"}}),
    *check_apply_repeat_steps(groups=[{**EXCLUSIVE, "l3": {"all": "4 ways"}}], default={"l3": {"all": "12 ways"}}),
    ask(groups=[{"name": "new"}]),
    write(f"{HOME}/new/schemata", "L3:0=f000"),
    write(f"{HOME}/a/schemata", "L3:0=ffff"),
    ask(groups=[{"name": "a", "mode": "shareable"}]),
    put_back(),
    # Monitors, whose CPUs the kernel clears with those of their group.
    *check_apply_repeat_steps(groups=[{**MONITORED, "monitors": [*MONITORED["monitors"], {"name": "all"}]}]),
    put_back(),
    ask(groups=[MONITORED]),
    call("mkdir", f"{HOME}/a/mon_groups/theirs"),
    write(f"{HOME}/a/mon_groups/theirs/cpus_list", "2-3"),
    write(f"{HOME}/a/mon_groups/theirs/cpus_list", "4"),
    call("mkdir", f"{HOME}/mon_groups/base"),
    write(f"{HOME}/mon_groups/base/cpus_list", "4,8"),
    *check_apply_repeat_steps(groups=[{**MONITORED, "cpus": "1-2,4"}]),
    put_back(),
    call("rmdir", f"{HOME}/mon_groups/base"),
    # Which groups a purge takes, and what goes with a group.
    *(
        step
        for purge in ("none", "own", "all")
        for step in (
            ask(groups=[{"name": "old", "cpus": "4"}]),
            call("mkdir", f"{HOME}/foreign"),
            ask(groups=[{"name": "new"}], purge=purge),
            put_back(),
            call("rmdir", f"{HOME}/foreign"),
        )
    ),
    ask(groups=[{"name": "a", "cpus": "4", "monitors": [{"name": "one"}]}, {"name": "b"}]),
    *check_apply_repeat_steps(groups=[{"name": "a", "state": "absent"}]),
    put_back(),
    # A group of somebody else comes back as it was.
    call("mkdir", f"{HOME}/foreign"),
    write(f"{HOME}/foreign/schemata", "L3:2=f0"),
    write(f"{HOME}/foreign/cpus_list", "12-15"),
    ask(
        groups=[{"name": "a", "cpus": "1-3"}, {"name": "foreign", "cpus": "12", "l3": {"all": "f"}}],
        default={"l3": {"all": "ff00"}},
    ),
    put_back(),
    *remove_groups_steps("foreign"),
    # A CPU that goes offline leaves its group, and comes back to the default one.
    ask(groups=[{"name": "a", "cpus": "4-7"}]),
    write(f"{CPUS}/cpu5/online", 0),
    ask(groups=[{"name": "a", "cpus": "4,6-7"}]),
    write(f"{CPUS}/cpu5/online", 1),
    put_back(),
    # What the kernel refuses, in its own words.
    call("mkdir", f"{HOME}/raw"),
    call("mkdir", f"{HOME}/raw"),
    *(
        write(f"{HOME}/raw/{file}", text)
        for file, text in (
            ("schemata", "L3:0=1ffff"),
            ("schemata", "L3:0=0"),
            ("schemata", "L3:0=f0f0"),
            ("schemata", "L3:7=f"),
            ("schemata", "L9:0=f"),
            ("schemata", "L3:0=xyz"),
            ("schemata", "L3:0=f;1=1ffff"),
            ("schemata", "MB:0=4096"),
            ("cpus_list", "99"),
            ("cpus_list", "1-x"),
            ("cpus_list", "1-2"),
            ("mode", "mine"),
        )
    ),
    # A group's monitors lose their CPUs with any write of its own, even of the same.
    call("mkdir", f"{HOME}/raw/mon_groups/look"),
    write(f"{HOME}/raw/mon_groups/look/cpus_list", "1"),
    write(f"{HOME}/raw/cpus_list", "1-2"),
    write(f"{HOME}/cpus_list", "0"),
    *remove_groups_steps("raw", "raw"),
    # A host where somebody else has a group, and a CPU is offline.
    call("mkdir", f"{HOME}/foreign"),
    write(f"{HOME}/foreign/cpus_list", "15"),
    write(f"{HOME}/foreign/schemata", "L3:0=ff;1=f0"),
    write(f"{CPUS}/cpu5/online", 0),
    *(ask(**refused) for refused, dummy in RESCTRL.values()),
    write(f"{CPUS}/cpu5/online", 1),
    UNMOUNT,
    # Code apart from data.
    *check_apply_repeat_steps(
        mount_options=["cdp"], groups=[{"name": "a", "l3_code": {"all": "f000"}, "l3_data": {"1": "0ff0"}}]
    ),
    ask(groups=[{"name": "a", "l3": {"all": "f"}}]),
    ask(mount=True, mount_options=[]),
    put_back(),
]


def make_fake_machine(folder, linux):
    """The small machine, where nobody has mounted resctrl."""
    kernel = Kernel(folder)
    ResctrlGroups(kernel, linux=linux)
    return kernel


def test_the_fake_answers_as_the_kernel(guest_of_each_kernel, tmp_path):
    fake = make_fake_machine(tmp_path, linux_version(guest_of_each_kernel))
    answers = compare_with_kernel(guest_of_each_kernel, fake, MODULE, STEPS, SHOWN)
    assert left_changed(answers) == set()
