# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A probe says what would work with an unknown BMC and changes nothing; its recording names nobody, and is replayed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.probe import probe_bmc
from vepyc import VepycError
from vepyc.bmc import Faults
from vepyc.bmc.personality import PERSONALITIES, READ_ONLY_PERSONALITIES
from vepyc.bmc.recorded import Recording

from .runs import Runs, Start

MACHINES = (*PERSONALITIES, *READ_ONLY_PERSONALITIES)
#: What a BMC shows of its owner, somewhere in its system.
OWNER = {
    "SerialNumber": "CZ1234ABCD",
    "HostName": "node7.rack3.example.org",
    "AssetTag": "Property of ACME",
    "Oem": {
        "Acme": {"HostMACAddress": "3c:8b:7f:f3:29:cc", "Note": "call admin@example.org, 192.0.2.77, fe80:0:0:1::17"}
    },
    "UUID": "3fc6be04-7b3e-4240-a269-d87f44a1f7dd",
}
TRACES = ("CZ1234ABCD", "node7", "ACME", "3c:8b", "admin@", "192.0.2", "fe80", "3fc6be04", "operator", "127.0.0.1")


def probe(run: Runs, **more: Any) -> dict[str, Any]:
    with run.client(**more) as client:
        return probe_bmc(client, None)


def info(run: Runs) -> dict[str, Any]:
    with run.client() as client:
        return read_result_of_bios_info_module(client, None, ["all"])


def subjects(told: dict[str, Any], verdict: str) -> set[str]:
    return {finding["subject"] for finding in told["findings"] if finding["verdict"] == verdict}


@pytest.mark.parametrize("vendor", MACHINES)
def test_a_probe_changes_nothing_and_its_recording_is_the_machine(start: Start, tmp_path: Path, vendor: str) -> None:
    run = start(vendor, Faults(system_shows=OWNER))
    told = probe(run)
    assert (run.writes, run.bmc.open_sessions, run.bmc.pending_settings) == ([], [], {})
    assert told["can_be_set"] is (vendor != "cisco"), told["text"]
    assert told["options"]["nps"]["attribute"] and told["options"]["smt"]["active"] == "on"
    recording = json.dumps(told["recording"])
    assert [trace for trace in (*TRACES, run.bmc.password, run.bmc.address) if trace in recording] == []

    (tmp_path / "recording.json").write_text(recording)
    replay = start("ami", recording=tmp_path / "recording.json")
    first, second = info(run), info(replay)
    # Four numbers with dots between them may be an address, so this version is not in the recording.
    assert second["active"].get("TpmFirmware") in (None, "0.0.0.0")
    for told_of in (first, second):
        told_of["active"].pop("TpmFirmware", None)
    for key in ("active", "pending", "claims", "registry", "jobs", "remarks"):
        again = json.dumps(second[key]).replace(replay.bmc.url[8:], run.bmc.url[8:])
        assert json.loads(again) == first[key], key
    told_again = probe(replay)
    assert told_again["can_be_set"] == told["can_be_set"] and told_again["options"] == told["options"]
    assert replay(check=True, wish={"smt": "on"})["changed"] is False
    assert replay.bmc.open_sessions == []


@pytest.mark.parametrize(
    ("faults", "hinders"),
    [
        (Faults(apply_times=("Immediate",)), {"apply times"}),
        (Faults(no_registry=True), {"registry"}),
        (Faults(more_systems={"2": {}}), {"BIOS"}),
        (Faults(failing={"/Bios": (500, 99)}), {"BIOS"}),
        (Faults(more_systems={"2": {"status": 500}}), {"server"}),
        (Faults(), set()),
    ],
)
def test_what_would_hinder_is_named(start: Start, faults: Faults, hinders: set[str]) -> None:
    told = probe(start("lenovo", faults))
    assert subjects(told, "hinders") == hinders
    assert told["can_be_set"] is (not hinders)
    assert told["recording"]["resources"]


def test_what_may_matter_is_remarked(start: Start) -> None:
    faults = Faults(numbers_in=("active",), if_match="no tags", session_named_in="nowhere")
    told = probe(start("dell", faults))
    assert subjects(told, "remark") >= {"spelling", "entity tags", "sessions"}
    assert told["can_be_set"] is True


def test_a_recording_can_only_be_read(start: Start, tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(json.dumps(probe(start("hpe"))["recording"]))
    replay = start("ami", recording=tmp_path / "recording.json")
    replay.refused("status 405", wish={"nps": "4"})
    for text in ("", "[]", '{"format": 9, "resources": {}}'):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(VepycError, match="recording"):
            Recording(tmp_path / "other.json")
