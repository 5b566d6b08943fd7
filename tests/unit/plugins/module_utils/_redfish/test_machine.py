# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The system, the registry and the report that are read from a BMC."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.machine import read_machine_settings_and_jobs
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.registry_files import fetch_attribute_registry
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import ACTIVE, BIOS, Runs
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import ROOT, Bmc


def test_a_machine_without_a_registry(bmc: Bmc, run: Runs) -> None:
    bmc.registry = {}
    with pytest.raises(BmcError, match="has no registry of BIOS attributes"):
        run(nps="4")
    with bmc.client() as client:
        told = read_result_of_bios_info_module(client, None, ["catalogue"])
    assert (told["active"], told["claims"], told["registry"]) == (ACTIVE, {}, {})
    assert "has no registry" in told["remarks"][0]


def test_systems(bmc: Bmc) -> None:
    both = [{"@odata.id": f"{ROOT}/Systems/1"}, {"@odata.id": f"{ROOT}/Systems/DPU.1"}]
    card = {"Id": "DPU.1", "Bios": {"@odata.id": BIOS}, "SystemType": "DPU"}
    with bmc.client() as client:
        bmc.answers["GET", f"{ROOT}/Systems"] = [(200, {"Members": both}, {})] * 3
        bmc.answers["GET", f"{ROOT}/Systems/DPU.1"] = [(200, card, {}), (200, {**card, "SystemType": "Physical"}, {})]
        assert (
            read_machine_settings_and_jobs(client).system["Id"]
            == read_machine_settings_and_jobs(client).system["Id"]
            == "1"
        )
        with pytest.raises(BmcError, match=r"has no system 7, but 1, DPU\.1"):
            read_machine_settings_and_jobs(client, "7")
        bmc.answers["GET", f"{ROOT}/Systems"] = [(200, {"Members": []}, {})]
        with pytest.raises(BmcError, match="shows no system with a BIOS"):
            read_machine_settings_and_jobs(client)
        both[1] = {"@odata.id": f"{ROOT}/Systems/2"}
        for name in ("1", "2"):
            told = {**card, "Id": f"Node{name}", "SystemType": "Physical"}
            bmc.answers["GET", f"{ROOT}/Systems/{name}"] = [(200, told, {})]
        bmc.answers["GET", f"{ROOT}/Systems"] = [(200, {"Members": both}, {})]
        with pytest.raises(BmcError, match="has several servers, Node1, Node2"):
            read_machine_settings_and_jobs(client)
        bmc.answers["GET", BIOS] = [(200, {}, {})]
        with pytest.raises(BmcError, match="does not show BIOS settings"):
            read_machine_settings_and_jobs(client)


def test_a_report_is_without_secrets_and_describes(bmc: Bmc) -> None:
    bmc.active["NewSetupPassword"] = "hunter2-hunter2"
    with bmc.client() as client:
        told = read_result_of_bios_info_module(client, "1", ["catalogue", "WorkloadProfile"])
        everything = read_result_of_bios_info_module(client, None, ["all"])["registry"]
        with pytest.raises(BadRequest, match="Did you mean ProcSMT"):
            read_result_of_bios_info_module(client, None, ["ProcSMTT"])
    assert "hunter2" not in str(told)
    assert told["claims"]["nps"] == {
        "title": "NUMA nodes per socket",
        "wanted": None,
        "attribute": "NumaMemoryDomainsPerSocket",
        "active": "1",
        "pending": None,
    }
    assert told["registry"]["WorkloadProfile"]["takes"] == "GeneralPowerEfficientCompute, Custom"
    assert everything.keys() == {one["AttributeName"] for one in bmc.registry["Attributes"]}


def test_the_registry_is_found_under_another_name(bmc: Bmc) -> None:
    direct = {"@odata.id": f"{ROOT}/files/bios", "RegistryEntries": {}}
    bmc.answers["GET", f"{ROOT}/Registries/BiosRegistry.1"] = [(404, {}, {}), (200, direct, {})]
    with bmc.client() as client:
        assert len(fetch_attribute_registry(read_machine_settings_and_jobs(client))) == 5
