# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layers that are asked for and are not on the host, and runs of site.yml that did not end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey as surveys
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.findings import Finding
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.requested import parse_asked_option
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import BOOT_SERVICE_LINK
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history import history_file
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

INTENT = {"housekeeping": {"cores": 1, "per": "node"}}
NUMA = {"sysfs/numa": {"numa_balancing": False}}


class Machine:
    """A small machine on which the layer numa is stored and in force, and the boot service is enabled."""

    def __init__(self, root: Path) -> None:
        self.tree = hosts.small(root)
        self.tree.put("/proc/sys/kernel/numa_balancing", 0)
        self.tree.put("/proc/sys/kernel/random/boot_id", "this-boot")
        self.tree.put(BOOT_SERVICE_LINK, "[Unit]")
        self.store = Store(str(root))
        Ledger(self.store, self.tree.fs).ensure_files()
        self.keep(NUMA)

    def keep(self, requests: dict[str, Any], **intent: Any) -> None:
        self.store.save_document("desired.json", {"intent": {**INTENT, **intent}, "requests": requests})

    def look(self, **asked: Any) -> list[Finding]:
        return surveys.check_host(self.tree.fs, store=self.store, **asked).list_findings()

    def missing(self, **layers: list[str]) -> list[tuple[str, str]]:
        """Layer and repair of each finding, where these layers are asked for."""
        return [(one.layer, one.repair) for one in self.look(layers=layers)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_layer_without_a_stored_request_is_drift(machine: Machine) -> None:
    assert machine.missing(numa=[]) == []
    (one,) = machine.look(layers={"numa": [], "cat": []})
    assert (one.layer, one.status, one.role, one.live, one.persistent) == ("resctrl", "drift", "cat", "drift", "drift")
    assert (one.found, one.wanted, one.repair) == ("nothing", "stored", "sovereign.epyc.site --tags cat")
    assert one.reason == "the layer cat is asked for, and nothing is stored for it on this host"
    assert (
        surveys.check_host(machine.tree.fs, store=machine.store, layers={"cat": []}).count_by_layer()["resctrl"][
            "drift"
        ]
        == 1
    )


def test_one_of_the_requests_of_a_layer_is_enough(machine: Machine) -> None:
    """What a layer stores depends on its variables: a CPU partition is instead of boot parameters."""
    assert machine.missing(grub_params=[]) == [("cmdline", "sovereign.epyc.site --tags grub_params")]
    machine.keep({**NUMA, "partition/partition": {"cpus": "verify"}})
    assert "cmdline" not in dict(machine.missing(grub_params=[]))


def test_layers_that_store_nothing_are_not_missing(machine: Machine) -> None:
    assert machine.missing(prerequisites=[], base=[], bios=[], bios_check=[], llama=[], numa=[]) == []


def test_a_layer_for_roles_without_cpus_is_not_missing(machine: Machine) -> None:
    assert machine.missing(prefetch=["draft"]) == [], "this plan has no draft"
    assert machine.missing(prefetch=["draft", "verify"]) == [("msr", "sovereign.epyc.site --tags prefetch")]
    machine.keep(NUMA, draft={"ccds": 1})
    assert machine.missing(prefetch=["draft"]) == [("msr", "sovereign.epyc.site --tags prefetch")]


def test_the_layer_base_is_missing_without_stored_requests(machine: Machine) -> None:
    machine.keep({})
    assert machine.missing(base=[], llama=[]) == []
    machine.tree.drop(BOOT_SERVICE_LINK)
    (one,) = [one for one in machine.look(layers={"base": []}) if one.addresses != ["boot:sovereign-epyc.service"]]
    assert (one.what, one.wanted, one.repair) == ("boot service", "enabled", "sovereign.epyc.site --tags base")
    assert one.reason.startswith("the layer base is asked for, and sovereign-epyc.service is not enabled")


def test_an_untuned_host_has_one_finding(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    store = Store(str(tmp_path), read_only=True)
    for layers in (None, {"numa": [], "cat": [], "base": []}):
        (one,) = surveys.check_host(host.fs, store=store, layers=layers).list_findings()
        assert (one.status, one.repair) == ("unknown", "sovereign.epyc.site")
        assert one.reason.startswith("nothing is stored on this host")


def test_without_an_inventory_the_newest_run_names_the_layers(machine: Machine) -> None:
    run = history_file.begin_run(machine.store, ["numa"], ["prerequisites", "base", "numa", "cat", "cpuidle", "llama"])
    history_file.end_run(machine.store, run.id)
    assert [one.layer for one in machine.look()] == ["resctrl"], "idle states are set for some roles of CPUs only"
    assert machine.look(layers={}) == [], "an inventory that asks for nothing wins"


def test_a_run_that_did_not_end_comes_first(machine: Machine) -> None:
    machine.tree.put("/proc/sys/kernel/numa_balancing", 1)
    run = history_file.begin_run(machine.store, ["base", "numa"], ["base", "numa"])
    first, second = machine.look()
    assert (first.layer, first.status, first.live, first.repair) == ("run", "drift", "drift", "sovereign.epyc.site")
    assert first.what == run.unfinished_message() and second.layer == "sysfs"
    history_file.end_run(machine.store, run.id)
    assert [one.layer for one in machine.look()] == ["sysfs"]


def test_malformed_options_are_refused(machine: Machine) -> None:
    with pytest.raises(BadRequest, match="There is no layer cta: the layers of site"):
        machine.look(layers={"cta": []})
    with pytest.raises(BadRequest, match="asked: cat is no list of roles of CPUs"):
        parse_asked_option({"asked": {"layers": {"cat": "draft"}}})
    assert parse_asked_option({"asked": None}) == {"layers": None, "instances": None}
