# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may differ on a host after a run of site.yml; systemctl and the package database are played."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import (
    BOOT_SERVICE,
    BOOT_SERVICE_LINK,
    HOST_TOOL,
    HOST_TOOL_FOLDER,
    UNIT_FOLDER,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import grub
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import last_run, prerequisites
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.last_run import (
    BOOTED,
    DIFFERENCE_REASONS,
    DRIFTED,
    FAILED,
    FILE,
    IDLE,
    MISSING,
    NEVER,
    UNLOADED,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes import boots, hosts

INTENT = {"draft": {"ccds": 1}}
REQUESTS = {"sysfs/numa": {"numa_balancing": False}}
OTHER_REQUESTS = {"sysfs/other": {"numa_balancing": False}}
WATCH = "sovereign-epyc-watch.service"
CODE = f"{HOST_TOOL_FOLDER}/sovereign_epyc/_knob.py"
DROP_IN = f"{UNIT_FOLDER}/sovereign-epyc.service.d/more.conf"


class Systemd:
    """What systemctl and dpkg would say."""

    def __init__(self) -> None:
        self.active = self.boot = "active"
        self.reload = "no"
        self.restarted: list[str] = []
        self.missing: list[str] = []
        self.stopped = ""

    def show(self, names: list[str]) -> dict[str, dict[str, str]]:
        states = {name: self.boot if name == BOOT_SERVICE else self.active for name in names}
        states.update({self.stopped: "inactive"} if self.stopped in states else {})
        return {name: {"ActiveState": states[name], "NeedDaemonReload": self.reload} for name in names}

    def run(self, verb: str, names: list[str]) -> None:
        self.restarted += [f"{verb} {name}" for name in names]


@pytest.fixture
def systemd(monkeypatch: pytest.MonkeyPatch) -> Systemd:
    system = Systemd()
    monkeypatch.setattr(managed_units, "read_unit_properties", system.show)
    monkeypatch.setattr(managed_units, "run_systemctl", system.run)
    monkeypatch.setattr(
        prerequisites,
        "list_missing_packages",
        lambda packages, debian: [name for name in packages if name in system.missing],
    )
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
    host.put(HOST_TOOL, "launch")
    host.put(CODE, "code")
    for name in ("sovereign-epyc.service", WATCH):
        host.put(f"{UNIT_FOLDER}/{name}", "[Unit]")
    host.put(BOOT_SERVICE_LINK, "[Unit]")
    host.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    store = Store(str(tmp_path))
    Ledger(store, host.fs).ensure_files()
    store.save_document("desired.json", {"intent": {}, "requests": REQUESTS})
    assert last_run.save_state_and_intent_of_run(
        store, last_run.read_host_state_to_save(Host(host.fs), store, "asked"), INTENT, check=False
    )
    return host


def told(tree: hosts.Host, inputs: str = "asked") -> dict[str, Any]:
    return last_run.check_whether_site_play_may_be_skipped(
        tree.fs, Store(str(tree.root), read_only=True), inputs, ["kmod"]
    ).to_dict()


def look(tree: hosts.Host, inputs: str = "asked") -> str:
    """Why a run may find something to do."""
    result = told(tree, inputs)
    assert result["holds"] is (result["reason"] == "")
    return str(result["reason"])


def test_the_same_run_would_change_nothing(tree: hosts.Host) -> None:
    result = told(tree)
    assert (result["holds"], result["reason"]) == (True, "")
    assert result["coverage"]["sysfs"]["ok"] == 1
    assert (result["pending"], result["reboot_required"], result["remarks"]) == ([], False, [])


def test_a_look_brings_the_facts_of_the_plan(tree: hosts.Host) -> None:
    facts = told(tree)["ansible_facts"]["epyc"]
    assert facts["intent"] == INTENT
    assert facts["topology"] == Host(tree.fs).topology.to_dict()
    assert facts["plan"] == Host(tree.fs, INTENT).plan.to_dict() != Host(tree.fs).plan.to_dict()
    assert facts["memory"] == Host(tree.fs).memory_speed.to_dict()


def test_without_an_intent_there_are_no_facts(tree: hosts.Host) -> None:
    store = Store(str(tree.root))
    last_run.save_state_and_intent_of_run(
        store, last_run.read_host_state_to_save(Host(tree.fs), store, "asked"), {}, check=False
    )
    assert "ansible_facts" not in told(tree)


def test_a_look_remarks_what_each_layer_would(tree: hosts.Host) -> None:
    """Such as a program that may change a setting again, which may have come since the last run."""
    tree.put("/run/tuned/tuned.pid", 1)
    tree.put("/proc/1/comm", "tuned")
    (remark,) = told(tree)["remarks"]
    assert "tuned" in remark


def test_what_is_remembered_is_written_once_and_not_by_a_check(tree: hosts.Host) -> None:
    store = Store(str(tree.root))
    found = last_run.read_host_state_to_save(Host(tree.fs), store, "asked")
    assert last_run.save_state_and_intent_of_run(store, found, INTENT, check=False) is False
    other = {**found, "inputs": "other"}
    assert (
        last_run.save_state_and_intent_of_run(Store(str(tree.root), read_only=True), other, INTENT, check=True) is True
    )
    assert store.load_document(FILE) == {**found, "intent": INTENT}
    assert found.keys() == DIFFERENCE_REASONS.keys()


def test_a_host_without_a_run(tree: hosts.Host) -> None:
    tree.drop(f"/var/lib/sovereign-epyc/{FILE}")
    assert look(tree) == NEVER


def test_other_inputs(tree: hosts.Host) -> None:
    assert look(tree, "something else") == DIFFERENCE_REASONS["inputs"]


#: What one may change by hand, by the reason that is then told.
CHANGES: dict[str, list[Callable[[hosts.Host, Systemd], None]]] = {
    DIFFERENCE_REASONS["stored"]: [
        lambda tree, systemd: Store(str(tree.root)).save_document(
            "desired.json", {"intent": {}, "requests": OTHER_REQUESTS}
        )
    ],
    DIFFERENCE_REASONS["system"]: [
        lambda tree, systemd: tree.put("/proc/sys/kernel/osrelease", "6.12.2-amd64"),
        lambda tree, systemd: tree.put("/etc/os-release", 'ID=debian\nVERSION_ID="14"'),
    ],
    DIFFERENCE_REASONS["firmware"]: [lambda tree, systemd: tree.put("/sys/devices/system/cpu/smt/active", 1)],
    UNLOADED: [
        lambda tree, systemd: (tree.root / "sys/module/msr/refcnt").unlink() or (tree.root / "sys/module/msr").rmdir()
    ],
    MISSING: [lambda tree, systemd: systemd.missing.append("kmod")],
    DIFFERENCE_REASONS["files"]: [
        lambda tree, systemd: tree.put(CODE, "edited"),
        lambda tree, systemd: tree.drop(HOST_TOOL),
        lambda tree, systemd: tree.put(f"{HOST_TOOL_FOLDER}/sovereign_epyc/_new.py", ""),
        lambda tree, systemd: tree.put(DROP_IN, "[Service]"),
        lambda tree, systemd: (tree.root / CODE.lstrip("/")).chmod(0o600),
    ],
    IDLE: [
        lambda tree, systemd: setattr(systemd, "active", "failed"),
        lambda tree, systemd: setattr(systemd, "active", "activating"),
        lambda tree, systemd: setattr(systemd, "reload", "yes"),
    ],
    FAILED: [lambda tree, systemd: setattr(systemd, "boot", "failed")],
}


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        pytest.param(reason, change, id=f"{reason}-{number}")
        for reason, changes in CHANGES.items()
        for number, change in enumerate(changes)
    ],
)
def test_what_may_have_changed_since(
    tree: hosts.Host, systemd: Systemd, reason: str, change: Callable[[hosts.Host, Systemd], None]
) -> None:
    change(tree, systemd)
    assert look(tree) == reason


@pytest.mark.parametrize("reason", [MISSING, UNLOADED, IDLE])
def test_what_was_wrong_already_when_the_run_ended_is_wrong_all_the_same(
    tree: hosts.Host, systemd: Systemd, reason: str
) -> None:
    for change in CHANGES[reason]:
        change(tree, systemd)
    store = Store(str(tree.root))
    last_run.save_state_and_intent_of_run(
        store, last_run.read_host_state_to_save(Host(tree.fs), store, "asked"), INTENT, check=False
    )
    assert look(tree) == reason


def test_a_socket_that_does_not_listen_is_found(tree: hosts.Host, systemd: Systemd) -> None:
    """It is there only where it is asked for, as that of the agent."""
    name = "sovereign-epyc-agent.socket"
    tree.put(f"{UNIT_FOLDER}/{name}", "[Socket]")
    store = Store(str(tree.root))
    last_run.save_state_and_intent_of_run(
        store, last_run.read_host_state_to_save(Host(tree.fs), store, "asked"), INTENT, check=False
    )
    assert look(tree) == ""
    systemd.stopped = name
    assert look(tree) == IDLE


def test_a_boot_service_that_failed_is_run_again_when_all_is_set(systemd: Systemd) -> None:
    """Else checklist and systemd would call the host bad until its next boot."""
    assert not last_run.rerun_failed_boot_service()
    systemd.boot = "failed"
    assert last_run.rerun_failed_boot_service()
    assert systemd.restarted == [f"restart {BOOT_SERVICE}"]


@pytest.mark.parametrize("boot", [False, True], ids=["now", "at boot"])
def test_a_setting_that_is_not_as_it_shall_be(tree: hosts.Host, boot: bool) -> None:
    if boot:
        tree.drop(BOOT_SERVICE_LINK)
    else:
        tree.put("/proc/sys/kernel/numa_balancing", 1)
    assert look(tree) == DRIFTED


def test_bytecode_does_not_count(tree: hosts.Host) -> None:
    tree.put(f"{HOST_TOOL_FOLDER}/sovereign_epyc/__pycache__/_knob.cpython-313.pyc", "")
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


class Boot:
    """The parameter nohz_full is stored and configured, and the kernel was started without it."""

    def __init__(self, tree: hosts.Host) -> None:
        self.tree = tree
        self.store = Store(str(tree.root))
        tree.put("/etc/default/grub", 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"')
        tree.put(grub.UPDATE, "played by boots.Boot")
        self.loader = boots.Boot(tree)
        options: dict[str, Any] = {"parameters": ["nohz_full=1-3"], "absent": ["splash"]}
        boots.run(self.loader, boots.knob(self.loader, *options["parameters"], absent=options["absent"]))
        requests = {**REQUESTS, "cmdline/cmdline": options}
        self.store.save_document("desired.json", {"intent": {}, "requests": requests})
        self.remember()

    def remember(self) -> None:
        last_run.save_state_and_intent_of_run(
            self.store, last_run.read_host_state_to_save(Host(self.tree.fs), self.store, "asked"), {}, check=False
        )


@pytest.fixture
def boot(tree: hosts.Host) -> Boot:
    return Boot(tree)


def test_a_reboot_that_the_last_run_knew_of_is_told(tree: hosts.Host, boot: Boot) -> None:
    result = told(tree)
    assert (result["holds"], result["reason"]) == (True, "")
    assert (result["pending"], result["reboot_required"]) == (["nohz_full"], True)
    assert result["running"] == {"nohz_full": None, "splash": None}
    assert result["configured"] == {"nohz_full": "1-3", "splash": None}
    # To a run, it is nothing to change.
    assert result["coverage"]["cmdline"] == {"ok": 2, "unsupported": 0, "unknown": 0, "drift": 0}


def test_after_the_reboot_nothing_waits(tree: hosts.Host, boot: Boot) -> None:
    tree.put("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz {boots.line(boot.loader)}")
    result = told(tree)
    assert (result["holds"], result["pending"], result["reboot_required"]) == (True, [], False)


def test_a_kernel_that_was_started_with_others_is_news(tree: hosts.Host, boot: Boot) -> None:
    tree.put("/proc/cmdline", "quiet nohz_full=1-2")
    assert look(tree) == DIFFERENCE_REASONS[BOOTED]
    boot.remember()
    assert look(tree) == ""


def test_a_boot_parameter_that_was_taken_away_waits_for_no_reboot(tree: hosts.Host, boot: Boot) -> None:
    tree.drop("/etc/default/grub.d/zzz-sovereign-epyc.cfg")
    assert look(tree) == DRIFTED


def test_another_setting_is_not_excused_by_a_reboot_that_waits(tree: hosts.Host, boot: Boot) -> None:
    tree.put("/proc/sys/kernel/numa_balancing", 1)
    assert look(tree) == DRIFTED
