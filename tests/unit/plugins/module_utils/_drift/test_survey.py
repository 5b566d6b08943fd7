# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey as surveys
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import BOOT_SERVICE_LINK, HOST_TOOL
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import FILES, Ledger
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

INTENT = {"housekeeping": {"cores": 1, "per": "node"}, "draft": {"ccds": 1, "l3": "8MiB"}}
WORK = {"sysfs/irq": {"workqueue_cpus": "housekeeping"}, "sysfs/numa": {"numa_balancing": False}}


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    """A small machine as site.yml leaves it."""
    host = hosts.small(tmp_path)
    host.put("/proc/sys/kernel/numa_balancing", 0)
    host.put("/sys/devices/virtual/workqueue/cpumask", "1111")
    host.put("/sys/devices/virtual/workqueue/writeback/cpumask", "ffff")
    host.put("/sys/devices/virtual/workqueue/cpumask_isolated", "0")
    host.put("/sys/devices/system/cpu/possible", "0-15")
    host.put(BOOT_SERVICE_LINK, "[Unit]")
    store(host).save_document("desired.json", {"intent": INTENT, "requests": WORK})
    return host


def store(tree: hosts.Host) -> Store:
    """The store of a host on which a run has begun."""
    tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
    kept = Store(str(tree.root))
    Ledger(kept, tree.fs).ensure_files()
    return kept


def survey(tree: hosts.Host, **given: Any) -> surveys.Survey:
    return surveys.check_host(tree.fs, store=Store(str(tree.root), read_only=True), **given)


def test_a_tuned_host_is_clean(tree: hosts.Host) -> None:
    found = survey(tree)
    assert (found.is_clean, found.list_findings()) == (True, []), [one.to_dict() for one in found.list_findings()]
    assert len(found.verdicts) == 2


def test_a_host_on_which_nothing_is_stored_is_unknown(tmp_path: Path) -> None:
    found = survey(hosts.small(tmp_path))
    (one,) = found.list_findings()
    assert (found.is_clean, one.status, one.repair) == (False, "unknown", "sovereign.epyc.site")
    assert one.reason.startswith("nothing is stored on this host")


def test_an_equivalent_intent_is_no_drift(tree: hosts.Host) -> None:
    assert survey(tree, intent=INTENT).is_clean
    draft = {"ccds": 1, "l3": "8192KiB", "l3_domains": None}
    assert survey(tree, intent={"housekeeping": {"cores": 1}, "draft": draft, "verify": {}}).is_clean


def test_a_different_intent_is_drift(tree: hosts.Host) -> None:
    found = survey(tree, intent={**INTENT, "housekeeping": {"cores": 1, "per": "host"}})
    work, intent = found.list_findings()
    assert (work.what, work.live, work.wanted, work.found) == (
        "CPUs of unbound kernel work", "drift", "0", "0,4,8,12"
    )  # fmt: skip
    assert (intent.what, intent.live, intent.persistent) == ("stored intent", "ok", "drift")
    assert intent.repair == "sovereign.epyc.site"


def test_a_role_without_its_offline_cpus_is_drift(tree: hosts.Host) -> None:
    """All settings are as planned, and the plan is not what was asked for."""
    store = Store(str(tree.root))
    intent = {**INTENT, "draft": {"ccds": 1}}
    store.save_document("desired.json", {**store.load_document("desired.json"), "intent": intent})
    assert survey(tree).is_clean
    tree.offline("13-15")
    found = survey(tree)
    assert not found.is_clean
    (one,) = [one for one in found.list_findings() if one.addresses == ["plan:draft"]]
    assert (one.what, one.wanted, one.found, one.at_boot) == (
        "CPUs of the role draft",
        "9-11,13-15",
        "9-11",
        "9-11,13-15",
    )
    assert (one.layer, one.status, one.repair) == ("sysfs", "drift", "chcpu --enable 13-15"), "no run brings them back"
    assert one.reason.startswith("draft is without CPU 13-15, which is offline. Bring each back with ")


def test_an_intent_that_makes_no_sense_is_not_supported(tree: hosts.Host) -> None:
    found = survey(tree, intent={"housekeeping": {"cores": "many"}})
    assert [(one.layer, one.status) for one in found.list_findings()] == [("sysfs", "unsupported"), ("boot", "drift")]


@pytest.mark.parametrize("masked", [False, True])
def test_a_boot_service_that_is_off(tree: hosts.Host, masked: bool) -> None:
    """Of one that is masked the link stays, and leads to a device without a text."""
    if masked:
        tree.put(BOOT_SERVICE_LINK, "")
    else:
        tree.drop(BOOT_SERVICE_LINK)
    (one,) = survey(tree).list_findings()
    assert (one.layer, one.persistent, one.where) == ("boot", "drift", "sovereign-epyc.service")
    assert one.reason == (
        "sovereign-epyc.service is not enabled; the role sovereign.epyc.epyc_base installs it. Without it, 2 settings "
        "will not be made again at boot"
    )


def test_faults_of_real_knobs_are_named_in_technical_terms(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put(BOOT_SERVICE_LINK, "[Unit]")
    host.put("/proc/self/mounts", "resctrl /sys/fs/resctrl resctrl rw 0 0")
    (tmp_path / "sys/module/msr").mkdir(parents=True)
    (tmp_path / "sys/module/cpuid").mkdir()
    for cpu in range(16):
        host.put(f"/dev/cpu/{cpu}/cpuid", "")
        with (tmp_path / f"dev/cpu/{cpu}/msr").open("wb") as file:
            file.seek(0xC0000108)
            file.write(bytes([0 if cpu == 13 else 2, *[0] * 7]))
    host.put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 27)
    for node in range(4):
        pool = f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
        pages = 3 if node == 1 else 8
        for name, number in {"nr": pages, "free": pages, "surplus": 0}.items():
            host.put(f"{pool}/{name}_hugepages", number)
    for name, text in {"cbm_mask": "ffff", "num_closids": 16, "min_cbm_bits": 1, "sparse_masks": 1}.items():
        host.put(f"/sys/fs/resctrl/info/L3/{name}", text)
    for group, masks in {".": "0=f;1=f;2=f;3=f", "draft": "0=fff0;1=fff0;2=ff;3=f"}.items():
        host.put(f"/sys/fs/resctrl/{group}/schemata", f"L3:{masks}")
        host.put(f"/sys/fs/resctrl/{group}/cpus_list", "")
        host.put(f"/sys/fs/resctrl/{group}/mode", "shareable")
    requests = {
        "msr/msr": {"settings": [{"cpus": "draft", "prefetch_control": {"l1_stride": "disabled"}}]},
        "hugepages/hugepages": {"pools": [{"pages": 8}]},
        "resctrl/resctrl": {"groups": [{"name": "draft", "l3": {"0-1": "fff0", "2-3": "f"}}], "mount": True},
    }
    store(host).save_document("desired.json", {"intent": INTENT, "requests": requests})
    found = [
        (one.what, one.where, one.found, one.wanted, one.variables, one.live, one.persistent)
        for one in survey(host).list_findings()
    ]
    assert found == [
        ("huge pages of 2 MiB", "node 1", "3", "8", ["epyc_numa_hugepages"], "drift", "ok"),
        ("L3 share of group draft", "L3 domain 2 (CCD 1)", "ff", "f", ["epyc_plan_draft"], "drift", "ok"),
        ("prefetcher l1_stride", "CPU 13", "enabled", "disabled", ["epyc_prefetch_draft"], "drift", "ok"),
    ]


@pytest.mark.parametrize(("which", "repair"), [([0], "sovereign.epyc.site"), ([0, 1], "")])
def test_a_damaged_ledger_shows_before_it_is_needed(tree: hosts.Host, which: list[int], repair: str) -> None:
    for turn in which:
        (tree.root / "var/lib/sovereign-epyc" / FILES[turn]).write_text("[]")
    (one,) = survey(tree).list_findings()
    assert (one.layer, one.what, one.status, one.repair) == (
        "boot", "record of what was there before", "unknown", repair
    )  # fmt: skip
    assert "ledger.json is damaged" in one.reason


@pytest.mark.parametrize("options", ["", " -IS"])
def test_a_command_without_its_python_will_not_run_at_boot(tree: hosts.Host, options: str) -> None:
    tree.put(HOST_TOOL, f"#!{tree.root}/bin/sh{options}\n")
    assert survey(tree).boot_failure.startswith(
        f"{HOST_TOOL} needs {tree.root}/bin/sh, which is not on this host any more"
    )
    tree.put(HOST_TOOL, f"#!/bin/sh{options}\n")
    tree.put("/bin/sh", "")
    assert survey(tree).is_clean
