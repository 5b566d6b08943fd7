# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the groups are read as, and in which order they are written. What the kernel makes of it is tested in tests/lab.

The tree stands in for a mounted resctrl in so far as it notes each write, and moves a thread from group to group.
"""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest, Refused, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.resctrl import parse_schemata, render_schemata
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.converge import Outcome, converge
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.knob import Change
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.ledger import Ledger, Original
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.knob import Resctrl, build, followers
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.threads import ALL_THREADS, WAITING, Threads
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

HOME = "/sys/fs/resctrl"
UNIT = "llama.service"
CGROUP = f"/sys/fs/cgroup/system.slice/{UNIT}"
OWN = "made by sovereign.epyc"


class Tree(hosts.TreeFS):
    """Notes what is written, below the mount point, and refuses what it is told to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.done: list[str] = []
        self.labels: dict[str, str] = {}
        self.refused = ""
        self.gone = False

    def _note(self, verb: str, path: str, text: str = "") -> None:
        line = f"{verb} {path[len(HOME) :]} {text}".strip()
        if self.gone or (verb == "write" and not Path(self._real(path)).parent.is_dir()):
            raise Absent(f"Cannot {verb} {path}: No such file or directory.")
        if self.refused and self.refused in line:
            raise Refused(f"Cannot {verb} {path}.", errno.EINVAL, path)
        self.done.append(line)

    def write(self, path: str, text: str) -> None:
        self._note("write", path, text)
        if path.endswith("/tasks"):
            self._move(Path(self._real(path)), text.strip())
        elif path.endswith("/schemata"):
            real = Path(self._real(path))
            table = parse_schemata(real.read_text())
            for resource, row in parse_schemata(text).items():
                table.setdefault(resource, {}).update(row)
            real.write_text(render_schemata(table))
        elif path.endswith("cpus_list"):
            Path(self._real(path)).write_text(text)
            self._clear_monitors(Path(self._real(path)).parent, set(cpulist.parse(text)))

    def _clear_monitors(self, group: Path, cpus: set[int]) -> None:
        """Do what the kernel does (cpus_ctrl_write): the group's monitors lose all CPUs, those of others these."""
        home = Path(self._real(HOME))
        if group.parent.name == "mon_groups":
            return
        for monitor in home.glob("**/mon_groups/*/cpus_list"):
            left = set() if monitor.parents[2] == group else set(cpulist.parse(monitor.read_text())) - cpus
            monitor.write_text(cpulist.render(left) + "\n")

    def mkdir(self, path: str) -> None:
        self._note("make", path)
        super().mkdir(path)
        files = {"tasks": "", "cpus_list": "\n", "mode": "shareable\n", "schemata": "L3:0=ffff;1=ffff;2=ffff;3=ffff\n"}
        for name, text in files.items():
            Path(self._real(path), name).write_text(text)
        Path(self._real(path), "mon_groups").mkdir()

    def rmdir(self, path: str) -> None:
        self._note("remove", path)
        for task in Path(self._real(path), "tasks").read_text().split():
            self._move(Path(self._real(HOME), "tasks"), task)
        self.labels.pop(path, None)
        shutil.rmtree(self._real(path))

    def _move(self, tasks: Path, task: str) -> None:
        """Have a thread in one group, and in at most one monitor group, which is one of that group."""
        group = tasks.parents[2] if tasks.parent.parent.name == "mon_groups" else tasks.parent
        for other in Path(self._real(HOME)).rglob("tasks"):
            if other.parent != group:
                other.write_text("".join(f"{one}\n" for one in other.read_text().split() if one != task))
        for one in dict.fromkeys([tasks, group / "tasks"]):
            one.write_text("".join(f"{each}\n" for each in {*one.read_text().split(), task}))

    def label(self, path: str, name: str, value: str) -> None:
        self.labels[path] = value

    def read_label(self, path: str, name: str) -> str | None:
        return self.labels.get(path)


class Machine:
    """The small machine with resctrl mounted, one group of ours and one of somebody else."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small(root)
        self.fs = self.tree.fs = Tree(str(root))
        self.host = Host(self.fs)
        self.tree.put("/proc/self/mounts", f"resctrl {HOME} resctrl rw,relatime 0 0")
        for name, text in {"cbm_mask": "ffff", "num_closids": 16, "min_cbm_bits": 0, "sparse_masks": 1}.items():
            self.tree.put(f"{HOME}/info/L3/{name}", text)
        self.tree.put(f"{HOME}/info/last_cmd_status", "ok")
        self.group("", "0-15", "ffff", tasks=[1, 20])
        self.group("/draft", "", "fff0", tasks=[30])
        self.group("/theirs", "", "000f")
        self.tree.put(f"{HOME}/draft/mon_groups/look/cpus_list", "1-2")
        self.fs.labels[f"{HOME}/draft"] = OWN

    def group(self, name: str, cpus: str, mask: str, mode: str = "shareable", tasks: list[int] | None = None) -> None:
        row = ";".join(f"{domain}={mask}" for domain in range(4))
        for file, text in {"schemata": f"    L3:{row}", "cpus_list": cpus, "mode": mode}.items():
            self.tree.put(f"{HOME}{name}/{file}", text)
        self.tree.put(f"{HOME}{name}/tasks", "\n".join(map(str, tasks or [])))

    def knob(self, **options: Any) -> Resctrl:
        knob = build(self.host, options)[1]
        assert isinstance(knob, Resctrl)
        return knob

    def threads(self, **options: Any) -> Threads:
        knob = build(self.host, options)[2]
        assert isinstance(knob, Threads)
        return knob

    def write(self, **changes: str | tuple[str | None, str | None] | None) -> list[str]:
        """Write changes, named with __ for the slash; a pair is before and after. Returns what was done."""
        knob = self.knob()
        knob.read([])
        pairs = [(name, value if isinstance(value, tuple) else (None, value)) for name, value in changes.items()]
        knob.write([Change(f"resctrl:{name.replace('__', '/')}", *pair) for name, pair in pairs])
        return self.fs.done


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


# Reading


def test_all_of_a_group_is_read_and_what_is_not_there_is_nothing(machine: Machine) -> None:
    names = ["draft", "draft/L3/2", "default/cpus", "theirs/mode", "draft/mon/look", "draft/mon/look/cpus", "gone/L3/0"]
    found = machine.knob().read(f"resctrl:{name}" for name in names)
    assert list(found.values()) == ["present", "fff0", "0-15", "shareable", "present", "1-2", None]


def test_where_resctrl_is_not_mounted_nothing_is_there(machine: Machine) -> None:
    machine.tree.put("/proc/self/mounts", "sysfs /sys sysfs rw 0 0")
    knob = machine.knob()
    assert knob.read(["resctrl:draft"]) == {"resctrl:draft": None}
    with knob.lock():
        pass


def test_what_is_wanted_is_expanded_for_every_domain(machine: Machine) -> None:
    wanted = machine.knob(groups=[{"name": "new", "cpus": "4-7", "l3": {"all": "4 ways"}}]).wanted()
    assert {wanted[f"resctrl:new/L3/{domain}"] for domain in range(4)} == {"f000"}
    assert (wanted["resctrl:new"], wanted["resctrl:new/cpus"]) == ("present", "4-7")


@pytest.mark.parametrize(("purge", "expected"), [("none", []), ("own", ["draft"]), ("all", ["draft", "theirs"])])
def test_a_purge_covers_what_it_says(machine: Machine, purge: str, expected: list[str]) -> None:
    wanted = machine.knob(purge=purge).wanted()
    assert [name for name in ("draft", "theirs") if wanted.get(f"resctrl:{name}", "") is None] == expected


def test_the_groups_of_a_plan_that_cannot_be_had_are_refused(machine: Machine) -> None:
    machine.host.plan.cannot["cat"] = "It has none."
    with pytest.raises(BadRequest, match="It has none"):
        machine.knob(from_plan=True).wanted()


def test_a_setting_has_the_group_that_holds_it_for_parent(machine: Machine) -> None:
    parents = {name: machine.knob().parent(f"resctrl:{name}") for name in ("a", "a/L3/0", "a/mon/b", "a/mon/b/cpus")}
    assert parents == {"a": None, "a/L3/0": "resctrl:a", "a/mon/b": "resctrl:a", "a/mon/b/cpus": "resctrl:a/mon/b"}
    assert not machine.knob().owns("resctrl:mount")


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
        assert done.diff()["before"]["resctrl:theirs"] == "foreign"
        assert done.diff()["before"]["resctrl:theirs/tasks"] == "40:4000,41:4100,42:4200,43:4300"
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


# Monitors


def monitors(machine: Machine) -> dict[str, str]:
    home = Path(machine.fs._real(HOME))
    found = home.glob("**/mon_groups/*/cpus_list")
    return {str(path.parent.relative_to(home)): path.read_text().strip() for path in found}


def apply(machine: Machine, **options: Any) -> Outcome:
    knob = machine.knob(**options)
    return converge([knob], Ledger(Store(str(machine.tree.root)), machine.fs))


def undo(machine: Machine) -> Outcome:
    ledger = Ledger(Store(str(machine.tree.root)), machine.fs)
    return converge([Original(machine.knob(), ledger)], ledger)


@pytest.fixture
def watched(machine: Machine) -> Machine:
    """Monitors of the task, of somebody else in the same group, and in the default group."""
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
    assert done.diff()["before"] == {
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


def test_a_refusal_without_words_names_the_cpus_that_are_offline(machine: Machine) -> None:
    machine.tree.put("/sys/devices/system/cpu/offline", "12-15")
    machine.fs.refused = "write /draft/schemata"
    with pytest.raises(Refused) as caught:
        machine.write(draft__L3__3="f")
    assert "The kernel gives no reason, but CPUs 12-15 are offline" in str(caught.value)


@pytest.mark.parametrize("change", [{"draft__L3__0": "f"}, {"new": "present"}, {"draft__cpus": "0"}])
def test_resctrl_that_somebody_unmounts_is_named(machine: Machine, change: dict[str, str]) -> None:
    knob = machine.knob()
    knob.read([])
    machine.fs.gone = True
    machine.tree.put("/proc/self/mounts", "sysfs /sys sysfs rw 0 0")
    with pytest.raises(TuningError, match="Somebody unmounted resctrl while this ran"):
        knob.write([Change(f"resctrl:{name.replace('__', '/')}", None, value) for name, value in change.items()])


# Threads


def run(machine: Machine, *tasks: int) -> None:
    machine.tree.put(f"{CGROUP}/cgroup.threads", "\n".join(map(str, tasks)))


def test_all_threads_of_a_unit_are_moved_and_go_home_again(machine: Machine) -> None:
    run(machine, 20, 21, 30)
    machine.tree.put(f"{HOME}/theirs/tasks", "21")
    knob = machine.threads()
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert knob.read([name]) == {name: "1 of 3 threads"}
    knob.write([Change(name, "1 of 3 threads", ALL_THREADS)])
    assert knob.read([name]) == {name: ALL_THREADS}
    assert knob.same(name, ALL_THREADS, ALL_THREADS)
    assert not knob.same(name, ALL_THREADS, "1 of 3 threads")
    knob.write([Change(name, ALL_THREADS, "1 of 3 threads")])
    assert machine.fs.read(f"{HOME}/theirs/tasks").split() == ["21"]
    assert machine.fs.read(f"{HOME}/draft/tasks").split() == ["30"]
    assert sorted(machine.fs.read(f"{HOME}/tasks").split()) == ["1", "20"]


def test_a_unit_that_does_not_run_is_refused_and_cannot_be_read(machine: Machine) -> None:
    asked = {"groups": [{"name": "draft", "tasks_of": [UNIT]}]}
    with pytest.raises(BadRequest, match="does not run"):
        machine.knob(**asked).wanted()
    knob = machine.threads(**asked)
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert knob.read([name]) == {name: None}
    assert "does not run" in str(knob.gone(name))


def test_a_stored_request_has_its_group_before_the_unit_comes(machine: Machine) -> None:
    """At boot the service starts after the partition, which would not be made at all."""
    machine.host.stored = True
    knob = machine.threads(groups=[{"name": "draft", "tasks_of": [UNIT]}])
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert knob.wanted()[name] == ALL_THREADS
    assert "sovereign-epyc-watch.service moves its threads into the group draft" in knob.remarks()[-1]
    assert (knob.read([name]), knob.gone(name)) == ({name: WAITING}, None)
    assert knob.same(name, ALL_THREADS, WAITING)
    run(machine, 20)
    knob.write([Change(name, knob.read([name])[name], ALL_THREADS)])
    assert knob.read([name]) == {name: ALL_THREADS}
    # A process is there or it is not.
    with pytest.raises(BadRequest, match="no process 4711"):
        machine.knob(groups=[{"name": "draft", "tasks_of": ["4711"]}]).wanted()


def test_an_undo_forgets_threads_that_are_gone(machine: Machine) -> None:
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert machine.threads().void({name: None}) == {name: f"{UNIT} does not run, so none of its threads is moved back."}
    run(machine, 20)
    assert machine.threads().void({name: None}) == {}


def test_only_a_request_that_names_units_is_followed(machine: Machine) -> None:
    assert followers(machine.host, {"groups": [{"name": "draft"}], "from_plan": False}) == []
    (knob,) = followers(machine.host, {"default": {"tasks_of": ["42"]}})
    assert knob.owns("resctrl:default/tasks_of/42") and not knob.owns("resctrl:default/cpus")
