# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may differ on a host after a run of site.yml; systemctl and the package database are played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import COMMAND, ENABLED, ENGINE, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import units
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import last_run, prerequisites
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.last_run import DIFFERS, DRIFTED, FILE, NEVER
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

REQUESTS = {"sysfs/numa": {"numa_balancing": False}}
OTHER_REQUESTS = {"sysfs/other": {"numa_balancing": False}}
WATCH = "sovereign-epyc-watch.service"
CODE = f"{ENGINE}/sovereign_epyc/_knob.py"
DROP_IN = f"{UNIT_FOLDER}/sovereign-epyc.service.d/more.conf"


class Systemd:
    """What systemctl and dpkg would say."""

    def __init__(self) -> None:
        self.active = "active"
        self.missing: list[str] = []

    def show(self, names: list[str]) -> dict[str, dict[str, str]]:
        return {name: {"Id": name, "ActiveState": self.active} for name in names}


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Systemd:
    system = Systemd()
    monkeypatch.setattr(units, "show", system.show)
    monkeypatch.setattr(prerequisites, "missing", lambda packages, debian: system.missing)
    return system


@pytest.fixture
def tree(tmp_path: Path, systemd: Systemd) -> hosts.Host:
    """A small machine as a run of site.yml leaves it."""
    host = hosts.small(tmp_path)
    host.put("/proc/sys/kernel/numa_balancing", 0)
    host.put("/proc/cmdline", "quiet")
    host.put("/proc/sys/kernel/osrelease", "6.12.1-amd64")
    host.put("/etc/os-release", 'ID=debian\nVERSION_ID="13"')
    host.put(prerequisites.FILE, f"{prerequisites.HEAD}msr")
    host.put("/sys/module/msr/refcnt", 0)
    host.put(COMMAND, "launch")
    host.put(CODE, "code")
    for name in ("sovereign-epyc.service", WATCH):
        host.put(f"{UNIT_FOLDER}/{name}", "[Unit]")
    host.put(ENABLED, "")
    store = Store(str(tmp_path))
    store.save("desired.json", {"intent": {}, "requests": REQUESTS})
    assert last_run.remember(store, last_run.state(Host(host.fs), store, "asked", ["kmod"]), check=False)
    return host


def look(tree: hosts.Host, inputs: str = "asked") -> str:
    return last_run.look(tree.fs, Store(str(tree.root), read_only=True), inputs, ["kmod"])[0]


def test_the_same_run_would_change_nothing(tree: hosts.Host) -> None:
    reason, survey = last_run.look(tree.fs, Store(str(tree.root), read_only=True), "asked", ["kmod"])
    assert reason == "" and survey is not None
    assert survey.coverage()["sysfs"]["ok"] == 1


def test_what_is_remembered_is_written_once_and_not_by_a_check(tree: hosts.Host) -> None:
    store = Store(str(tree.root))
    found = last_run.state(Host(tree.fs), store, "asked", ["kmod"])
    assert last_run.remember(store, found, check=False) is False
    other = {**found, "inputs": "other"}
    assert last_run.remember(Store(str(tree.root), read_only=True), other, check=True) is True
    assert store.load(FILE) == found
    assert found.keys() == DIFFERS.keys()


def test_a_host_without_a_run(tree: hosts.Host) -> None:
    tree.drop(f"/var/lib/sovereign-epyc/{FILE}")
    assert look(tree) == NEVER


def test_other_inputs(tree: hosts.Host) -> None:
    assert look(tree, "something else") == DIFFERS["inputs"]


CHANGES: dict[str, list[Callable[[hosts.Host, Systemd], None]]] = {
    "stored": [
        lambda tree, systemd: Store(str(tree.root)).save("desired.json", {"intent": {}, "requests": OTHER_REQUESTS})
    ],
    "system": [
        lambda tree, systemd: tree.put("/proc/sys/kernel/osrelease", "6.12.2-amd64"),
        lambda tree, systemd: tree.put("/etc/os-release", 'ID=debian\nVERSION_ID="14"'),
    ],
    "firmware": [lambda tree, systemd: tree.put("/sys/devices/system/cpu/smt/active", 1)],
    "modules": [
        lambda tree, systemd: (tree.root / "sys/module/msr/refcnt").unlink() or (tree.root / "sys/module/msr").rmdir()
    ],
    "missing": [lambda tree, systemd: systemd.missing.append("kmod")],
    "files": [
        lambda tree, systemd: tree.put(CODE, "edited"),
        lambda tree, systemd: tree.drop(COMMAND),
        lambda tree, systemd: tree.put(f"{ENGINE}/sovereign_epyc/_new.py", ""),
        lambda tree, systemd: tree.put(DROP_IN, "[Service]"),
        lambda tree, systemd: (tree.root / CODE.lstrip("/")).chmod(0o600),
    ],
    "running": [lambda tree, systemd: setattr(systemd, "active", "failed")],
}


@pytest.mark.parametrize(
    ("part", "change"),
    [
        pytest.param(part, change, id=f"{part}-{number}")
        for part, changes in CHANGES.items()
        for number, change in enumerate(changes)
    ],
)
def test_what_may_have_changed_since(
    tree: hosts.Host, systemd: Systemd, part: str, change: Callable[[hosts.Host, Systemd], None]
) -> None:
    change(tree, systemd)
    assert look(tree) == DIFFERS[part]


@pytest.mark.parametrize("boot", [False, True], ids=["now", "at boot"])
def test_a_setting_that_is_not_as_it_shall_be(tree: hosts.Host, boot: bool) -> None:
    if boot:
        tree.drop(ENABLED)
    else:
        tree.put("/proc/sys/kernel/numa_balancing", 1)
    assert look(tree) == DRIFTED


def test_bytecode_does_not_count(tree: hosts.Host) -> None:
    tree.put(f"{ENGINE}/sovereign_epyc/__pycache__/_knob.cpython-313.pyc", "")
    assert look(tree) == ""


def test_huge_pages_in_use_do_not_count(tree: hosts.Host) -> None:
    node = "/sys/devices/system/node/node0"
    before = Host(tree.fs).topology.nodes
    tree.put(f"{node}/meminfo", "Node 0 MemTotal: 4096 kB")
    for name, pages in (("nr_hugepages", 8), ("free_hugepages", 5)):
        tree.put(f"{node}/hugepages/hugepages-2048kB/{name}", pages)
    now = Host(tree.fs).topology.nodes
    assert (before[0].bytes > 0, now[0].bytes, now[0].hugepages) == (True, 4096 << 10, {2048: (8, 5)})
    assert look(tree) == ""
