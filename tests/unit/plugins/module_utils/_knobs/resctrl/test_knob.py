# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What resctrl groups are read as, and in which order they are written. Real kernels are tested in tests/lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Refused, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.tests.unit.fakes.resctrl_mounts import HOME, OWN, Machine, apply, undo


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# Reading


def test_all_of_a_group_is_read_and_what_is_not_there_is_nothing(machine: Machine) -> None:
    names = ["draft", "draft/L3/2", "default/cpus", "theirs/mode", "draft/mon/look", "draft/mon/look/cpus", "gone/L3/0"]
    found = machine.knob().read_settings(f"resctrl:{name}" for name in names)
    assert list(found.values()) == ["present", "fff0", "0-15", "shareable", "present", "1-2", None]


def test_where_resctrl_is_not_mounted_nothing_is_there(machine: Machine) -> None:
    machine.tree.put("/proc/self/mounts", "sysfs /sys sysfs rw 0 0")
    knob = machine.knob()
    assert knob.read_settings(["resctrl:draft"]) == {"resctrl:draft": None}
    with knob.hold_lock():
        pass


def test_what_is_wanted_is_expanded_for_every_domain(machine: Machine) -> None:
    wanted = machine.knob(groups=[{"name": "new", "cpus": "4-7", "l3": {"all": "4 ways"}}]).wanted_settings()
    assert {wanted[f"resctrl:new/L3/{domain}"] for domain in range(4)} == {"f000"}
    assert (wanted["resctrl:new"], wanted["resctrl:new/cpus"]) == ("present", "4-7")


@pytest.mark.parametrize(("purge", "expected"), [("none", []), ("own", ["draft"]), ("all", ["draft", "theirs"])])
def test_a_purge_covers_what_it_says(machine: Machine, purge: str, expected: list[str]) -> None:
    wanted = machine.knob(purge=purge).wanted_settings()
    assert [name for name in ("draft", "theirs") if wanted.get(f"resctrl:{name}", "") is None] == expected


def test_the_groups_of_a_plan_that_cannot_be_had_are_refused(machine: Machine) -> None:
    machine.host.plan.cannot["cat"] = "It has none."
    with pytest.raises(BadRequest, match="It has none"):
        machine.knob(from_plan=True).wanted_settings()


def test_a_setting_has_the_group_that_holds_it_for_parent(machine: Machine) -> None:
    parents = {
        name: machine.knob().holder_address(f"resctrl:{name}") for name in ("a", "a/L3/0", "a/mon/b", "a/mon/b/cpus")
    }
    assert parents == {"a": None, "a/L3/0": "resctrl:a", "a/mon/b": "resctrl:a", "a/mon/b/cpus": "resctrl:a/mon/b"}
    assert not machine.knob().owns_address("resctrl:mount")


# Writing


def test_masks_come_before_cpus_and_exclusive_comes_last(machine: Machine) -> None:
    done = machine.write(
        new__mode="exclusive", new__cpus="4-7", new__L3__0="f", new="present", theirs=None, draft__mode="shareable",
        new__mon__x="present", new__mon__x__cpus="5", default__cpus="0-3",
    )  # fmt: skip
    assert done == [
        "remove /theirs",
        "write /draft/mode shareable",
        "make /new",
        "write /new/schemata L3:0=f",
        "write /new/cpus_list 4-7",
        "write /new/mode exclusive",
        "make /new/mon_groups/x",
        "write /new/mon_groups/x/cpus_list 5",
    ]
    assert machine.fs.labels[f"{HOME}/new"] == OWN


def test_masks_do_not_overlap_on_the_way_where_a_group_is_exclusive(machine: Machine) -> None:
    machine.tree.put(f"{HOME}/draft/mode", "exclusive")
    done = machine.write(draft__L3__0=("fff0", "ff00"), default__L3__0=("f", "ff"), draft__L3__1=("f0", "f"))
    assert done == [
        "write /draft/schemata L3:0=ff00",
        "write /schemata L3:0=f",
        "write /draft/schemata L3:0=ff00;1=f",
        "write /schemata L3:0=ff",
    ]


def live(machine: Machine, *tasks: int) -> None:
    """Have threads, each with the time of its start."""
    for task in tasks:
        machine.tree.put(f"/proc/{task}/stat", f"{task} (a name) S " + " ".join(["0"] * 18) + f" {task * 100} 0")


def tasks_of(machine: Machine, name: str) -> list[str]:
    return sorted(machine.fs.read(f"{HOME}{name}/tasks").split())


@pytest.mark.parametrize("later", ["in the same run", "in another run"])
def test_an_undone_purge_gives_back_groups_threads_and_marks(machine: Machine, later: str) -> None:
    """Not those that have ended since, nor one that got the id of such a one."""
    machine.tree.put("/proc/sys/kernel/random/boot_id", "1-2-3")
    machine.tree.put(f"{HOME}/theirs/mon_groups/look/cpus_list", "")
    machine.tree.put(f"{HOME}/theirs/mon_groups/look/tasks", "41")
    machine.tree.put(f"{HOME}/theirs/tasks", "40\n41\n42\n43")
    live(machine, 30, 40, 41, 42, 43)
    if later == "in the same run":
        machine.fs.refused = "exclusive"
        with pytest.raises(Refused, match="What this run had changed was put back"):
            apply(machine, groups=[{"name": "new", "mode": "exclusive"}], purge="all")
        assert tasks_of(machine, "/theirs") == ["40", "41", "42", "43"]
    else:
        done = apply(machine, groups=[{"name": "new"}], purge="all")
        assert done.to_diff()["before"]["resctrl:theirs"] == "foreign"
        assert done.to_diff()["before"]["resctrl:theirs/tasks"] == "40:4000,41:4100,42:4200,43:4300"
        assert tasks_of(machine, "") == ["1", "20", "30", "40", "41", "42", "43"]
        machine.tree.drop("/proc/42/stat")
        machine.tree.put("/proc/43/stat", machine.fs.read("/proc/43/stat").replace("4300", "9999"))
        undo(machine)
        assert tasks_of(machine, "/theirs") == ["40", "41"]
        assert not machine.fs.is_dir(f"{HOME}/new")
    assert tasks_of(machine, "/theirs/mon_groups/look") == ["41"]
    assert tasks_of(machine, "/draft") == ["30"]
    assert machine.fs.labels == {f"{HOME}/draft": OWN}


@pytest.mark.parametrize(
    ("says", "expected"),
    [("Mask out of range", "The kernel says: Mask out of range."), ("ok", "The kernel gives no reason.")],
)
@pytest.mark.parametrize("refused", ["write /draft/schemata", "make /new"])
def test_a_refusal_has_the_words_of_the_kernel(machine: Machine, says: str, expected: str, refused: str) -> None:
    machine.tree.put(f"{HOME}/info/last_cmd_status", says)
    machine.fs.refused = refused
    with pytest.raises(Refused) as caught:
        machine.write(draft__L3__0="f", new="present")
    assert str(caught.value).endswith(expected)


def test_a_refusal_without_words_names_the_cpus_that_are_offline(machine: Machine) -> None:
    machine.tree.put("/sys/devices/system/cpu/offline", "12-15")
    machine.fs.refused = "write /draft/schemata"
    with pytest.raises(Refused) as caught:
        machine.write(draft__L3__3="f")
    assert "The kernel gives no reason, but CPUs 12-15 are offline" in str(caught.value)


@pytest.mark.parametrize("change", [{"draft__L3__0": "f"}, {"new": "present"}, {"draft__cpus": "0"}])
def test_resctrl_that_somebody_unmounts_is_named(machine: Machine, change: dict[str, str]) -> None:
    knob = machine.knob()
    knob.read_settings([])
    machine.fs.gone = True
    machine.tree.put("/proc/self/mounts", "sysfs /sys sysfs rw 0 0")
    with pytest.raises(TuningError, match="Somebody unmounted resctrl while this ran"):
        knob.write_changes(
            [Change(f"resctrl:{name.replace('__', '/')}", None, value) for name, value in change.items()]
        )
