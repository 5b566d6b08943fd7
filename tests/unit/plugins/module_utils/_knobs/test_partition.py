# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The partition as a slice and two files: what systemd is asked for, in which order, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import NotApplied, TuningError, Unsupported
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import partitions
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel.cgroups import CGROUPS
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import partition
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger, RestoringKnob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

MADE = {partition.CPUS: "4-7", partition.TYPE: "root"}
GONE = dict.fromkeys(MADE)


class Machine:
    """The small machine, whose systemd and kernel make a slice and a partition of it as the real ones do."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small(root)
        self.host = Host(self.tree.fs)
        self.ledger = Ledger(Store(str(root / "store")), self.tree.fs)
        self.calls: list[str] = []
        self.allowed = ""
        self.populated = False
        self.invalid = ""
        self.tree.put(f"{CGROUPS}/cgroup.controllers", "cpuset cpu memory")
        self.tree.put(f"{CGROUPS}/cgroup.subtree_control", "cpuset memory")
        self.tree.put("/run/systemd/system/here", "")
        self.tree.put("/proc/sys/kernel/random/boot_id", "one")

    def run(self, words: list[str]) -> str:
        assert words[0] == "systemctl"
        verb, rest = words[1], words[2:]
        self.calls.append(verb)
        if verb == "set-property":
            option, name, setting = rest
            assert (option, name) == ("--runtime", "llama.slice")
            self.allowed = setting.partition("AllowedCPUs=")[2]
            self.tree.put(partition.DROP_IN, f"[Slice]\n{setting}")
            if self.exists() and (self.allowed or not self.populated):
                self.tree.put(partition.FILES[partition.CPUS], self.allowed)
        elif verb == "start" and not self.exists():
            self.tree.put(partition.FILES[partition.CPUS], self.allowed)
            self.tree.put(partition.FILES[partition.TYPE], "member")
        elif verb == "stop":
            shutil.rmtree(self.folder())
        if self.exists():
            self.tree.put(f"{partitions.FOLDER}/cgroup.events", f"populated {int(self.populated)}\nfrozen 0")
        return ""

    def write(self, path: str, text: str) -> None:
        self.calls.append(text)
        valid = path != partition.FILES[partition.TYPE] or text == "member" or not self.invalid
        self.tree.put(path, text if valid else f"{text} invalid ({self.invalid})")

    def folder(self) -> Path:
        return Path(f"{self.tree.root}{partitions.FOLDER}")

    def exists(self) -> bool:
        return self.folder().is_dir()

    def other(self, path: str, cpus: str, kind: str = "member") -> None:
        """A control group that has CPUs of its own."""
        self.tree.put(f"{CGROUPS}/{path}/cpuset.cpus", cpus)
        self.tree.put(f"{CGROUPS}/{path}/cpuset.cpus.partition", kind)

    def ask(self, cpus: str = "4-7", **options: Any) -> Outcome:
        return converge_knobs(partition.build_knobs(self.host, {"cpus": cpus, **options}), self.ledger)

    def undo(self) -> Outcome:
        return converge_knobs(
            [RestoringKnob(knob, self.ledger) for knob in partition.build_knobs(self.host, {})], self.ledger
        )

    def now(self) -> dict[str, str | None]:
        return partition.build_knobs(self.host, {})[0].read_settings(MADE)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setattr(partition.command, "run_command", machine.run)
    monkeypatch.setattr(machine.tree.fs, "write", machine.write)
    return machine


def test_it_is_made_changed_and_undone(machine: Machine) -> None:
    assert machine.ask().to_diff() == {"before": GONE, "after": MADE}
    assert machine.calls == ["set-property", "start", "root"]
    assert machine.ask().changes == []

    machine.calls.clear()
    machine.ask(type="isolated")
    assert machine.calls == ["member", "start", "isolated"], "its CPUs are not touched"

    machine.calls.clear()
    machine.ask("4-11", type="isolated")
    assert machine.calls == ["member", "set-property", "start", "isolated"]

    machine.calls.clear()
    assert machine.undo().to_diff()["after"] == GONE
    assert machine.calls == ["member", "set-property", "daemon-reload", "stop"]
    assert not machine.exists() and not Path(f"{machine.tree.root}{partition.DROP_IN}").parent.exists()
    assert machine.undo().changes == []


def test_an_undo_does_not_stop_what_runs_in_the_slice(machine: Machine) -> None:
    machine.ask()
    machine.populated = True
    machine.undo()
    assert "stop" not in machine.calls
    assert (machine.folder() / "cpuset.cpus").read_text() == "0-15\n", "the kernel takes no empty list then"
    assert machine.now() == GONE
    machine.calls.clear()
    assert machine.ask().to_diff() == {"before": GONE, "after": MADE}


def test_the_reason_of_the_kernel_is_told_and_nothing_is_left(machine: Machine) -> None:
    machine.invalid = "Cpu list in cpuset.cpus not exclusive"
    with pytest.raises(NotApplied) as caught:
        machine.ask()
    assert "it shows 'root invalid (Cpu list in cpuset.cpus not exclusive)'" in str(caught.value)
    assert str(caught.value).endswith("What this run had changed was put back.")
    assert not machine.exists()


def test_one_that_became_invalid_is_drift_and_is_put_back_as_that(machine: Machine) -> None:
    machine.ask()
    machine.tree.put(partition.FILES[partition.TYPE], "root invalid (Parent is not a partition root)")
    assert partitions.read_active_partition(machine.tree.fs) == ("", frozenset())
    machine.invalid = "Parent unable to distribute cpu downstream"
    with pytest.raises(NotApplied) as caught:
        machine.ask()
    assert str(caught.value).endswith("What this run had changed was put back.")
    machine.invalid = ""
    assert machine.ask().to_diff()["after"] == {partition.TYPE: "root"}
    assert partitions.read_active_partition(machine.tree.fs)[0] == "root"


def test_a_kernel_without_partitions_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition.command, "run_command", lambda words: "")
    with pytest.raises(TuningError, match="this kernel makes no partitions"):
        machine.ask()


def test_what_the_kernel_takes_from_unbound_work_is_remembered(machine: Machine) -> None:
    machine.tree.put(partition.WORKQUEUE, "ffff")
    machine.ask()
    assert "sysfs:workqueue/cpumask" not in machine.ledger.load_originals()
    machine.ask(type="isolated")
    assert machine.ledger.load_originals()["sysfs:workqueue/cpumask"] == "0-15"


@pytest.mark.parametrize(
    ("path", "cpus", "kind", "words"),
    [
        ("system.slice/db.service", "6-9", "member", "db.service was given 6-7 of these CPUs"),
        ("user.slice", "0-15", "member", "set-property user.slice AllowedCPUs"),
        ("island", "7", "root", "7 of these CPUs are in the partition of island (root)"),
        ("island", "7", "isolated invalid (x)", f"'echo member >{CGROUPS}/island/cpuset.cpus.partition'"),
    ],
)
def test_cpus_of_others_are_refused(machine: Machine, path: str, cpus: str, kind: str, words: str) -> None:
    machine.tree.put(f"{CGROUPS}/system.slice/cgroup.subtree_control", "cpuset memory")
    machine.tree.put(f"{CGROUPS}/system.slice/cpuset.cpus", "")
    machine.other(path, cpus, kind)
    with pytest.raises(TuningError) as caught:
        machine.ask()
    assert words in str(caught.value)
    assert machine.calls == []


def test_cpus_beside_those_of_others_are_taken(machine: Machine) -> None:
    machine.other("island", "0-3", "root")
    assert machine.ask().remarks == []


def test_one_that_comes_later_is_told(machine: Machine) -> None:
    machine.ask()
    machine.tree.put(f"{CGROUPS}/system.slice/cgroup.subtree_control", "cpuset")
    machine.tree.put(f"{CGROUPS}/system.slice/cpuset.cpus", "")
    machine.other("system.slice/db.service", "6-9")
    outcome = machine.ask()
    assert outcome.changes == []
    assert outcome.remarks == ["db.service has 6-7 of these CPUs in its AllowedCPUs, and runs on others instead."]


def test_an_instance_of_ours_is_no_hindrance(machine: Machine) -> None:
    machine.tree.put(f"{UNIT_FOLDER}/llama-chat.service", f"{INSTANCE_HEAD}[Unit]")
    machine.other("llama-chat.service", "1-7")
    (remark,) = machine.ask().remarks
    assert remark.startswith("llama-chat.service was planned without the partition, and loses 4-7 of these CPUs")


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        (f"{CGROUPS}/cgroup.controllers", None, "needs cgroup v2"),
        (f"{CGROUPS}/cgroup.controllers", "cpu memory", "cgroup_disable=cpuset"),
        ("/run/systemd/system/here", None, "was not booted with it"),
    ],
)
def test_a_host_that_can_have_none(machine: Machine, path: str, text: str | None, words: str) -> None:
    if text is None:
        machine.tree.drop(path)
    else:
        machine.tree.put(path, text)
    if "systemd" in path:
        Path(f"{machine.tree.root}/run/systemd/system").rmdir()
    with pytest.raises(Unsupported, match=words):
        machine.ask()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cpus": "all"}, "leaves none to the system"),
        ({"cpus": "8-9"}, "8 are isolated since the boot by isolcpus"),
        ({"type": "member"}, "'member' is neither root nor isolated"),
    ],
)
def test_refused(machine: Machine, options: dict[str, str], words: str) -> None:
    machine.tree.put(partition.BOOT_ISOLATED, "8")
    with pytest.raises(TuningError, match=words):
        machine.ask(**options)
    assert machine.calls == []


def test_a_place_by_an_l3_id_that_two_domains_have_makes_no_partition(machine: Machine) -> None:
    for cpu in range(4, 8):
        machine.tree.put(f"/sys/devices/system/cpu/cpu{cpu}/cache/index3/id", 0)
    with pytest.raises(TuningError, match=r"^l3:0 cannot be told from other L3 domains: .*CPUs 0-3 and to CPUs 4-7"):
        machine.ask("l3:0")
    assert machine.calls == []
