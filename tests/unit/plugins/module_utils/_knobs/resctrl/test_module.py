# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module resctrl_schemata on fake groups, which tests/lab holds against those of a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.resctrl import HOME, parse_schemata
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import read_files, request
from ansible_collections.sovereign.epyc.tests.unit.fakes.refused_requests import RESCTRL
from ansible_collections.sovereign.epyc.tests.unit.fakes.resctrl_groups import ResctrlGroups

FILES = [f"{HOME}/**/{name}" for name in ("schemata", "cpus_list", "mode", "tasks")]


class Machine:
    """The small machine, where nobody has mounted resctrl."""

    def __init__(self, root: Path) -> None:
        self.kernel = Kernel(root)
        self.fs = self.kernel.fs
        self.groups = ResctrlGroups(self.kernel)

    def ask(self, **options: Any) -> dict[str, Any]:
        return request(self.fs, "resctrl_schemata", **options)

    def apply(self, **options: Any) -> dict[str, Any]:
        """Mount where that is needed; the module must do what it is asked for."""
        answer = self.ask(mount=True, **options)
        assert not answer.get("failed"), answer["msg"]
        return answer

    def apply_thrice(self, **options: Any) -> dict[str, Any]:
        """Ask in check mode, which must tell the same diff, for real, and again, with nothing to change."""
        before = self.state()
        checked = self.apply(check=True, **options)
        assert self.state() == before
        answer = self.apply(**options)
        if before:  # Without a mount and the driver of CPUID, a check cannot see how wide masks are.
            assert checked["diff"] == answer["diff"]
        assert checked["diff"]["changes"]["after"].keys() <= answer["diff"]["changes"]["after"].keys()
        after = self.state()
        assert not self.apply(**options)["changed"]
        assert self.state() == after
        return answer

    def state(self) -> dict[str, str]:
        return read_files(self.fs, FILES)

    def masks(self, group: str, resource: str = "L3") -> dict[int, str]:
        """A line of a group's schemata, masks without leading zeros; the default group has an empty name."""
        return parse_schemata(self.read(group, "schemata"))[resource]

    def read(self, *words: str) -> str:
        return self.fs.read("/".join([HOME, *filter(None, words)]))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_masks_cpus_and_default(machine: Machine) -> None:
    machine.apply_thrice(
        groups=[{"name": "a", "cpus": "1-3", "l3": {"0": "8 ways", "all": "25%"}}, {"name": "b", "l3": {"1-2": "f0"}}],
        default={"l3": {"all": "1MiB"}},
    )
    assert machine.masks("a") == {0: "ff00", 1: "f000", 2: "f000", 3: "f000"}
    assert machine.masks("b") == {0: "ffff", 1: "f0", 2: "f0", 3: "ffff"}
    assert machine.masks("") == dict.fromkeys(range(4), "1")
    assert (machine.read("a", "cpus_list"), machine.read("cpus_list")) == ("1-3", "0,4-15")


def test_bytes_that_are_no_whole_way(machine: Machine) -> None:
    answer = machine.apply(groups=[{"name": "a", "l3": {"all": "2500KiB"}}])
    assert set(machine.masks("a").values()) == {"e000"}
    assert "2500KiB of L3 is no whole way of 1 MiB: rounded up to 3 ways, 3 MiB." in answer["remarks"]
    assert any("The default group may fill ways of a" in remark for remark in answer["remarks"])


def test_bandwidth(machine: Machine) -> None:
    machine.apply_thrice(groups=[{"name": "a", "mb": {"0": 20, "1": 20.1, "all": "max"}, "smba": {"3": 0.125}}])
    assert machine.masks("a", "MB") == {0: "160", 1: "161", 2: "2048", 3: "2048"}
    assert machine.masks("a", "SMBA") == {0: "2048", 1: "2048", 2: "2048", 3: "1"}
    machine.apply(groups=[{"name": "a", "mb": {"0": "max"}}])
    assert machine.masks("a", "MB") == {0: "2048", 1: "161", 2: "2048", 3: "2048"}


def test_code_and_data(machine: Machine) -> None:
    group = {"name": "a", "l3_code": {"all": "f000"}, "l3_data": {"1": "0ff0"}}
    machine.apply_thrice(mount_options=["cdp"], groups=[group])
    assert machine.masks("a", "L3CODE") == dict.fromkeys(range(4), "f000")
    assert machine.masks("a", "L3DATA") == {0: "ffff", 1: "ff0", 2: "ffff", 3: "ffff"}
    machine.apply(groups=[{"name": "a", "l3": {"all": "f"}}])
    assert machine.masks("a", "L3CODE") == machine.masks("a", "L3DATA") == dict.fromkeys(range(4), "f")


def test_no_options_asked_where_cdp_is_mounted(machine: Machine) -> None:
    machine.fs.mount_filesystem("resctrl", HOME, "cdp")
    before = machine.state()
    assert "already mounted with cdp, and no options was asked for" in machine.ask(mount=True, mount_options=[])["msg"]
    assert machine.state() == before


def test_exclusive_and_back(machine: Machine) -> None:
    group = {"name": "a", "l3": {"all": "12 ways"}, "mode": "exclusive"}
    machine.apply(groups=[group], default={"l3": {"all": "4 ways"}})
    assert machine.read("a", "mode") == "exclusive"
    # No two masks may overlap even on the way to the other split.
    machine.apply_thrice(groups=[{**group, "l3": {"all": "4 ways"}}], default={"l3": {"all": "12 ways"}})
    assert (machine.masks("a")[0], machine.masks("")[0]) == ("f000", "fff")
    machine.apply(groups=[{"name": "a", "mode": "shareable"}])
    assert machine.read("a", "mode") == "shareable"


def test_monitors(machine: Machine) -> None:
    group = {"name": "a", "cpus": "1-3", "monitors": [{"name": "one", "cpus": "1"}, {"name": "all"}]}
    machine.apply_thrice(groups=[group])
    assert machine.read("a", "mon_groups", "one", "cpus_list") == "1"
    assert machine.fs.list_names(f"{HOME}/a/mon_groups") == ["all", "one"]


def test_monitors_keep_their_cpus_when_those_of_the_group_change(machine: Machine) -> None:
    """Those of others too get back what is still the group's, and at an undo the rest."""
    group = {"name": "a", "cpus": "1-3", "monitors": [{"name": "one", "cpus": "1"}]}
    machine.fs.mount_filesystem("resctrl", HOME)
    machine.apply(groups=[group])
    for place, cpus in (("a/mon_groups/theirs", "2-3"), ("mon_groups/base", "4,8")):
        machine.fs.mkdir(f"{HOME}/{place}")
        machine.fs.write(f"{HOME}/{place}/cpus_list", cpus)
    answer = machine.apply_thrice(groups=[{**group, "cpus": "1-2,4"}])
    assert answer["diff"]["changes"]["after"] == {
        "resctrl:a/cpus": "1-2,4",
        "resctrl:a/mon/theirs/cpus": "2",
        "resctrl:default/mon/base/cpus": "8",
    }
    assert machine.read("a", "mon_groups", "one", "cpus_list") == "1"
    assert not machine.ask(state="original").get("failed")
    assert machine.read("mon_groups", "base", "cpus_list") == "4,8"


def test_all_threads_of_a_service_that_runs(machine: Machine) -> None:
    machine.kernel.put("/sys/fs/cgroup/system.slice/llama.service/cgroup.threads", "41\n42\n43")
    machine.groups.threads = {1, 41, 42, 43}
    machine.apply_thrice(groups=[{"name": "a", "tasks_of": ["llama.service"]}])
    assert machine.groups.groups["a"].tasks == {41, 42, 43}
    machine.fs.write(f"{HOME}/tasks", "42")
    answer = machine.apply(groups=[{"name": "a", "tasks_of": ["llama.service"]}])
    assert answer["diff"]["changes"]["before"] == {"resctrl:a/tasks_of/llama.service": "2 of 3 threads"}
    assert machine.groups.groups["a"].tasks == {41, 42, 43}
    machine.ask(state="original")
    assert machine.state() == {}


@pytest.mark.parametrize(
    ("purge", "left"), [("none", {"old", "new", "foreign"}), ("own", {"new", "foreign"}), ("all", {"new"})]
)
def test_purge(machine: Machine, purge: str, left: set[str]) -> None:
    machine.apply(groups=[{"name": "old", "cpus": "4"}])
    machine.fs.mkdir(f"{HOME}/foreign")
    machine.apply(groups=[{"name": "new"}], purge=purge)
    assert machine.groups.groups.keys() - {""} == left


def test_absent(machine: Machine) -> None:
    machine.apply(groups=[{"name": "a", "cpus": "4", "monitors": [{"name": "one"}]}, {"name": "b"}])
    answer = machine.apply_thrice(groups=[{"name": "a", "state": "absent"}])
    assert (answer["diff"]["changes"]["before"]["resctrl:a"], answer["diff"]["changes"]["after"]["resctrl:a"]) == (
        "present",
        None,
    )
    assert machine.groups.groups.keys() == {"", "b"}
    assert machine.read("cpus_list") == "0-15"


def test_an_offline_cpu_leaves_the_others_alone(machine: Machine) -> None:
    """A group loses a CPU that goes offline. To ask for the rest is no change."""
    machine.apply(groups=[{"name": "a", "cpus": "4-7"}])
    machine.fs.write(f"{CPUS}/cpu5/online", "0")
    assert not machine.apply(groups=[{"name": "a", "cpus": "4,6-7"}])["changed"]


def test_original(machine: Machine) -> None:
    """What was there before us comes back, to the byte."""
    machine.fs.mount_filesystem("resctrl", HOME)
    machine.fs.mkdir(f"{HOME}/foreign")
    machine.fs.write(f"{HOME}/foreign/schemata", "L3:2=f0\n")
    machine.fs.write(f"{HOME}/foreign/cpus_list", "12-15")
    before = machine.state()
    groups = [{"name": "a", "cpus": "1-3"}, {"name": "foreign", "cpus": "12", "l3": {"all": "f"}}]
    assert machine.ask(groups=groups, default={"l3": {"all": "ff00"}})["changed"]
    assert machine.state() != before
    assert machine.ask(state="original")["changed"]
    assert machine.state() == before


@pytest.mark.parametrize(("asked", "words"), RESCTRL.values(), ids=list(RESCTRL))
def test_a_refusal_changes_nothing(machine: Machine, asked: dict[str, Any], words: list[str]) -> None:
    machine.fs.mount_filesystem("resctrl", HOME)
    machine.fs.mkdir(f"{HOME}/foreign")
    machine.fs.write(f"{HOME}/foreign/cpus_list", "15")
    machine.fs.write(f"{HOME}/foreign/schemata", "L3:0=ff;1=f0\n")
    machine.fs.write(f"{CPUS}/cpu5/online", "0")
    before = machine.state()
    answer = machine.ask(**asked)
    assert answer["failed"]
    assert [word for word in words if word not in answer["msg"]] == []
    assert "\n" not in answer["msg"]
    assert machine.state() == before


def test_a_mount_is_undone_with_the_run_that_made_it(machine: Machine) -> None:
    answer = machine.ask(mount=True, **RESCTRL["what the kernel refuses"][0])
    assert "put back" in answer["msg"]
    assert machine.state() == {}


def test_nothing_is_mounted_unasked(machine: Machine) -> None:
    assert "not mounted" in machine.ask()["msg"]
