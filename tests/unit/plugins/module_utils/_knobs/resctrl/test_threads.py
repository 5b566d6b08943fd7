# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The threads of a service are moved into a group, and back when the group is given up."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.knob import build_thread_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.threads import ALL_THREADS, WAITING
from ansible_collections.sovereign.epyc.tests.unit.fakes.resctrl_mounts import HOME, UNIT, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


CGROUP = f"/sys/fs/cgroup/system.slice/{UNIT}"


def run(machine: Machine, *tasks: int) -> None:
    machine.tree.put(f"{CGROUP}/cgroup.threads", "\n".join(map(str, tasks)))


def test_all_threads_of_a_unit_are_moved_and_go_home_again(machine: Machine) -> None:
    run(machine, 20, 21, 30)
    machine.tree.put(f"{HOME}/theirs/tasks", "21")
    knob = machine.threads()
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert knob.read_settings([name]) == {name: "1 of 3 threads"}
    knob.write_changes([Change(name, "1 of 3 threads", ALL_THREADS)])
    assert knob.read_settings([name]) == {name: ALL_THREADS}
    assert knob.values_equal(name, ALL_THREADS, ALL_THREADS)
    assert not knob.values_equal(name, ALL_THREADS, "1 of 3 threads")
    knob.write_changes([Change(name, ALL_THREADS, "1 of 3 threads")])
    assert machine.fs.read(f"{HOME}/theirs/tasks").split() == ["21"]
    assert machine.fs.read(f"{HOME}/draft/tasks").split() == ["30"]
    assert sorted(machine.fs.read(f"{HOME}/tasks").split()) == ["1", "20"]


def test_a_unit_that_does_not_run_is_refused_and_cannot_be_read(machine: Machine) -> None:
    asked = {"groups": [{"name": "draft", "tasks_of": [UNIT]}]}
    with pytest.raises(BadRequest, match="does not run"):
        machine.knob(**asked).wanted_settings()
    knob = machine.threads(**asked)
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert knob.read_settings([name]) == {name: None}
    assert "does not run" in str(knob.unreachable_reason(name))


def test_a_stored_request_has_its_group_before_the_unit_comes(machine: Machine) -> None:
    """At boot the service starts after the partition, which would not be made at all."""
    machine.host.stored = True
    knob = machine.threads(groups=[{"name": "draft", "tasks_of": [UNIT]}])
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert knob.wanted_settings()[name] == ALL_THREADS
    assert "sovereign-epyc-watch.service moves its threads into the group draft" in knob.list_remarks()[-1]
    assert (knob.read_settings([name]), knob.unreachable_reason(name)) == ({name: WAITING}, None)
    assert knob.values_equal(name, ALL_THREADS, WAITING)
    run(machine, 20)
    knob.write_changes([Change(name, knob.read_settings([name])[name], ALL_THREADS)])
    assert knob.read_settings([name]) == {name: ALL_THREADS}
    # A process is there or it is not.
    with pytest.raises(BadRequest, match="no process 4711"):
        machine.knob(groups=[{"name": "draft", "tasks_of": ["4711"]}]).wanted_settings()


def test_an_undo_forgets_threads_that_are_gone(machine: Machine) -> None:
    name = f"resctrl:draft/tasks_of/{UNIT}"
    assert machine.threads().obsolete_originals({name: None}) == {
        name: f"{UNIT} does not run, so none of its threads is moved back."
    }
    run(machine, 20)
    assert machine.threads().obsolete_originals({name: None}) == {}


def test_only_a_request_that_names_units_is_followed(machine: Machine) -> None:
    assert build_thread_knobs(machine.host, {"groups": [{"name": "draft"}], "from_plan": False}) == []
    (knob,) = build_thread_knobs(machine.host, {"default": {"tasks_of": ["42"]}})
    assert knob.owns_address("resctrl:default/tasks_of/42") and not knob.owns_address("resctrl:default/cpus")
