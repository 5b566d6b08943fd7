# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What tuning needs of a host, on a tree with a package database and a modprobe of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command as host_command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import prerequisites
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.prerequisites import FILE, Prerequisites
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

KERNEL = "6.1.0-37-amd64"
DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\nID=debian'
UBUNTU = 'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian'
ROCKY = 'NAME="Rocky Linux"\nVERSION_ID="9.4"\nID="rocky"\nID_LIKE="rhel centos fedora"'
TEXT = "# Written by the role sovereign.epyc.epyc_prerequisites.\ncpuid\nmsr\n"
ASKED: dict[str, Any] = {
    "distributions": {"Debian": "12", "Ubuntu": "24.04"},
    "kernel": "6.1",
    "allow_unsupported": False,
    "packages": ["kmod", "numactl"],
    "modules": ["cpuid", "msr"],
}
MADE_FOR = (
    "is not what the collection is made for: Debian 12 or Ubuntu 24.04 or later, with kernel 6.1 or later. Set "
    "epyc_prerequisites_allow_unsupported to go on. Nothing was changed."
)


class Machine(hosts.Host):
    """A tree whose programs are these: what is installed, and what can be loaded as what."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.installed = {"kmod", "numactl"}
        self.loadable = {"cpuid": "cpuid", "msr": "msr"}
        self.calls: list[str] = []
        self.code: int | None = None

    def attempt(self, command: Sequence[str]) -> host_command.CommandResult:
        self.calls.append(" ".join(command))
        if command[0] == "modprobe":
            return self.modprobe(command)
        names = [word for word in command[1:] if not word.startswith("-") and "%" not in word]
        there = [name for name in names if name in self.installed]
        lost = len(names) - len(there) if command[0] == "rpm" else int(there != names)
        out = "".join(f"{name} installed\n" for name in there)
        return host_command.CommandResult(lost if self.code is None else self.code, out, "no  such\npackage")

    def modprobe(self, command: Sequence[str]) -> host_command.CommandResult:
        name = command[-1]
        if name not in self.loadable:
            return host_command.CommandResult(1, "", f"modprobe: FATAL: Module {name} not found.")
        folder = self.root / "sys/module" / self.loadable[name]
        if "-r" in command:
            folder.rmdir()
        else:
            folder.mkdir(parents=True)
        return host_command.CommandResult(0, "", "")

    def state(self) -> dict[str, object]:
        """Return every file with what is in it, and every folder."""
        return {str(path): path.read_bytes() if path.is_file() else None for path in self.root.rglob("*")}

    def run(self, check: bool = False, **changes: Any) -> tuple[Outcome, dict[str, object]]:
        fs = KernelFS(str(self.root), read_only=check)
        knob = Prerequisites(fs, {**ASKED, **changes})
        outcome = converge_knobs([knob], Ledger(Store(str(self.root), read_only=check), fs), check)
        return outcome, knob.module_facts()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    made.put("/etc/os-release", DEBIAN)
    made.put("/etc/debian_version", "12.11")
    made.put("/proc/sys/kernel/osrelease", KERNEL)
    made.put(f"/lib/modules/{KERNEL}/modules.builtin", "kernel/fs/ext4/ext4.ko\nkernel/drivers/a/built-in_one.ko")
    monkeypatch.setattr(host_command, "try_command", made.attempt)
    return made


def test_a_bare_host_gets_its_modules_now_and_at_boot(machine: Machine) -> None:
    outcome, facts = machine.run()
    assert list(outcome.to_diff()["after"]) == [
        "prerequisites:module/cpuid",
        "prerequisites:module/msr",
        f"prerequisites:{FILE}",
    ]
    assert set(outcome.to_diff()["before"].values()) == {None}
    file = machine.root / FILE.lstrip("/")
    assert (file.read_text(), file.stat().st_mode & 0o7777, file.stat().st_uid) == (TEXT, 0o644, os.geteuid())
    assert facts == {"distribution": "Debian", "distribution_version": "12.11", "kernel": KERNEL, "missing": []}
    assert machine.calls[1:] == ["modprobe cpuid", "modprobe msr"]
    before, machine.calls = machine.state(), []
    assert not machine.run()[0].changes
    assert machine.state() == before
    assert len(machine.calls) == 1, "it asks for the packages, and for nothing else"


def test_a_check_says_the_same_and_writes_nothing(machine: Machine) -> None:
    before = machine.state()
    checked = machine.run(check=True)[0].to_diff()
    assert machine.state() == before
    assert not [call for call in machine.calls if call.startswith("modprobe")]
    assert checked == machine.run()[0].to_diff()


def test_only_what_differs_is_made_again(machine: Machine) -> None:
    machine.run()
    (machine.root / "sys/module/msr").rmdir()
    assert machine.run()[0].to_diff() == {
        "before": {"prerequisites:module/msr": None},
        "after": {"prerequisites:module/msr": "loaded"},
    }
    file = machine.root / FILE.lstrip("/")
    file.chmod(0o600)
    (change,) = machine.run()[0].changes
    assert change.before == f"{change.after} 0600 {os.geteuid()}"
    assert file.stat().st_mode & 0o7777 == 0o644
    machine.put(FILE, "msr")
    assert list(machine.run()[0].to_diff()["after"]) == [f"prerequisites:{FILE}"]
    assert file.read_text() == TEXT


@pytest.mark.parametrize("check", [False, True])
def test_with_a_package_missing_it_is_named_and_nothing_is_changed(machine: Machine, check: bool) -> None:
    machine.installed = {"numactl"}
    machine.loadable = {}
    outcome, facts = machine.run(check=check)
    assert (facts["missing"], outcome.changes) == (["kmod"], [])
    assert not (machine.root / "sys/module").exists() and not (machine.root / FILE.lstrip("/")).exists()
    # What the role does then, when the package is there.
    machine.loadable = {"cpuid": "cpuid", "msr": "msr"}
    again, facts = machine.run(check=check, packages=[], distributions={}, kernel="")
    assert (facts["missing"], len(again.changes)) == ([], 3)


@pytest.mark.parametrize(
    ("release", "query", "missing"),
    [
        (DEBIAN, "dpkg-query --show", ["b", "c"]),
        (UBUNTU, "dpkg-query --show", ["b", "c"]),
        (ROCKY, "rpm --query", ["b", "c"]),
    ],
)
def test_the_database_of_the_distribution_is_asked(
    machine: Machine, release: str, query: str, missing: list[str]
) -> None:
    machine.put("/etc/os-release", release)
    machine.installed = {"a"}
    facts = machine.run(packages=["a", "b", "c"], allow_unsupported=True)[1]
    assert facts["missing"] == missing
    assert len(machine.calls) == 1 and machine.calls[0].startswith(query)
    machine.calls = []
    assert machine.run(packages=[], allow_unsupported=True, modules=None)[1]["missing"] == []
    assert machine.calls == []


def test_a_removed_package_whose_configuration_stays_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    out = "kmod installed\nnumactl config-files\n"
    monkeypatch.setattr(host_command, "try_command", lambda command: host_command.CommandResult(0, out, ""))
    assert prerequisites.list_missing_packages(["kmod", "numactl"], True) == ["numactl"]


@pytest.mark.parametrize("code", [2, -9])
def test_a_package_database_that_is_broken_is_no_answer(machine: Machine, code: int) -> None:
    machine.code = code
    with pytest.raises(TuningError, match=f"cannot be read: 'dpkg-query' .* code {code}. It says: no such package$"):
        machine.run()


def test_where_there_is_no_such_database_the_package_manager_has_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(command: Sequence[str]) -> host_command.CommandResult:
        raise Absent("there is no rpm")

    monkeypatch.setattr(host_command, "try_command", attempt)
    assert prerequisites.list_missing_packages(["kmod"], False) == ["kmod"]


@pytest.mark.parametrize(
    ("release", "debian_version", "kernel", "host"),
    [
        (DEBIAN.replace("12", "11"), "11.9", KERNEL, f"Debian 11.9 with kernel {KERNEL}"),
        (UBUNTU.replace("24.04", "22.04"), "bookworm/sid", KERNEL, f"Ubuntu 22.04 with kernel {KERNEL}"),
        (DEBIAN, "12.11", "5.10.0-28-amd64", "Debian 12.11 with kernel 5.10.0-28-amd64"),
        (ROCKY, "", KERNEL, f"Rocky 9.4 with kernel {KERNEL}"),
        ('NAME="Arch Linux"\nID=arch', "", KERNEL, f"Arch Linux without a version with kernel {KERNEL}"),
        ("", "", KERNEL, f"A Linux without os-release without a version with kernel {KERNEL}"),
    ],
)
def test_what_the_collection_is_not_made_for_is_refused(
    machine: Machine, release: str, debian_version: str, kernel: str, host: str
) -> None:
    machine.put("/etc/os-release", release)
    machine.put("/etc/debian_version", debian_version)
    machine.put("/proc/sys/kernel/osrelease", kernel)
    before = machine.state()
    with pytest.raises(BadRequest) as refused:
        machine.run()
    assert str(refused.value) == f"{host} {MADE_FOR}"
    assert (machine.state(), machine.calls) == (before, [])
    assert machine.run(allow_unsupported=True)[0].changes
    assert str(prerequisites.read_distribution_and_kernel(machine.fs)) == host


@pytest.mark.parametrize(
    ("release", "debian_version", "kernel"),
    [
        (DEBIAN, "12.0", "6.1"),
        (DEBIAN, "trixie/sid", "6.12-rc3"),
        ("ID=debian\nVERSION_CODENAME=forky", "forky/sid", "7.2.12+deb14-amd64"),
        (UBUNTU, "trixie/sid", "6.8.0-60-generic"),
        (UBUNTU.replace("24.04", "24.10"), "trixie/sid", "6.11.0-9-generic"),
        (DEBIAN.replace("12", "13"), "13.1", "10.0.1"),
    ],
)
def test_what_it_is_made_for_is_let_in(machine: Machine, release: str, debian_version: str, kernel: str) -> None:
    machine.put("/etc/os-release", release)
    machine.put("/etc/debian_version", debian_version)
    machine.put("/proc/sys/kernel/osrelease", kernel)
    assert machine.run()[0].changes


def test_os_release_is_found_where_vendors_have_it(machine: Machine) -> None:
    machine.drop("/etc/os-release")
    machine.put("/usr/lib/os-release", UBUNTU)
    assert machine.run()[1]["distribution"] == "Ubuntu"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"distributions": {"Ubuntu": 24.1}}, "distributions: the version of Ubuntu is 24.1, but .* in quotes"),
        ({"distributions": {"Debian": "bookworm"}}, "distributions: the version of Debian is 'bookworm'"),
        ({"kernel": "latest"}, "kernel is 'latest'"),
        ({"modules": ["-r"]}, "modules: '-r' is no name of a kernel module"),
        ({"modules": ["msr\ncpuid"]}, "is no name of a kernel module"),
        ({"distributions": {}, "kernel": "7.0"}, "made for: kernel 7.0 or later. Set"),
        ({"distributions": {"Debian": 13}, "kernel": ""}, "made for: Debian 13 or later. Set"),
    ],
)
def test_a_request_that_makes_no_sense_or_cannot_be_had(machine: Machine, changes: dict[str, Any], words: str) -> None:
    before = machine.state()
    with pytest.raises(BadRequest, match=words):
        machine.run(**changes)
    assert machine.state() == before


def test_a_kernel_module_that_is_not_there_is_named_and_the_others_are_unloaded(machine: Machine) -> None:
    with pytest.raises(TuningError) as refused:
        machine.run(modules=["msr", "nosuch"])
    assert str(refused.value) == (
        "The kernel module nosuch cannot be loaded: 'modprobe nosuch' failed with exit code 1. It says: modprobe: "
        "FATAL: Module nosuch not found. What this run had changed was put back."
    )
    assert list((machine.root / "sys/module").iterdir()) == []
    assert not (machine.root / FILE.lstrip("/")).exists()


def test_a_kernel_whose_files_are_gone_needs_a_reboot(machine: Machine) -> None:
    machine.put("/proc/sys/kernel/osrelease", "6.1.0-36-amd64")
    machine.loadable = {}
    with pytest.raises(TuningError, match=r"There is no /lib/modules/6.1.0-36-amd64: .* Reboot into the new one\."):
        machine.run()


def test_without_modprobe_it_is_named(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*command: Any, **options: Any) -> None:
        raise FileNotFoundError

    monkeypatch.undo()
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(TuningError, match=r"The kernel module cpuid cannot be loaded: .* there is no modprobe in"):
        machine.run(packages=[])


def test_what_is_built_in_counts_and_a_dash_is_an_underscore(machine: Machine) -> None:
    (machine.root / "sys/module/with_dash").mkdir(parents=True)
    outcome = machine.run(modules=["ext4", "built_in-one", "with-dash"])[0]
    assert list(outcome.to_diff()["after"]) == [f"prerequisites:{FILE}"]


def test_an_alias_is_told_from_a_module(machine: Machine) -> None:
    machine.loadable = {"net-pf-10": "ipv6"}
    with pytest.raises(TuningError, match="'modprobe --resolve-alias net-pf-10' prints"):
        machine.run(modules=["net-pf-10"])


def test_without_modules_the_file_stays_and_an_empty_list_empties_it(machine: Machine) -> None:
    machine.run()
    assert not machine.run(modules=None)[0].changes
    machine.run(modules=[])
    assert (machine.root / FILE.lstrip("/")).read_text() == prerequisites.HEAD
    assert (machine.root / "sys/module/msr").is_dir(), "nobody asked to unload it"
