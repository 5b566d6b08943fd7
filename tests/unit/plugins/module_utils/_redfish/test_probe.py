# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a probe finds at a BMC, and what of it is in the recording."""

from __future__ import annotations

import json

from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.probe import probe_bmc
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import BIOS, SETTINGS
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import PASSWORD, ROOT, Bmc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def probe(bmc: Bmc, **more: Any) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    """Return what is told, and by subject the verdict and the sentence of the last finding."""
    with bmc.client(**more) as client:
        told = probe_bmc(client, None)
    assert bmc.writes == []
    return told, {finding["subject"]: (finding["verdict"], finding["sentence"]) for finding in told["findings"]}


def test_a_machine_that_can_be_set(bmc: Bmc) -> None:
    told, findings = probe(bmc)
    assert told["can_be_set"] is True
    assert findings["sessions"] == ("works", "A session was begun, and is named by its Location.")
    assert findings["apply times"] == ("works", "It offers OnReset.")
    assert findings["entity tags"][0] == findings["registry"][0] == "works"
    assert told["options"]["c_states"]["lock"].startswith("it is read-only, because WorkloadProfile is")
    assert told["options"]["smt"] == {
        "attribute": "ProcSMT",
        "active": "on",
        "takes": "Enabled, Disabled",
        "lock": None,
    }
    assert "iommu" in findings["options"][1] and "what" in told["text"].splitlines()[0]


def test_what_hinders_and_what_may_matter(bmc: Bmc) -> None:
    bmc.apply_times = ["Immediate"]
    bmc.system["BootProgress"] = {"LastState": "MemoryInitializationStarted"}
    bmc.active.update(ProcSMT="ENABLED ", Other1="x", Other2="x", Other3="x", Other4="x")
    bmc.answers["GET", SETTINGS] = [(200, {"Attributes": {}}, {"ETag": 'W/"1"'})]
    told, findings = probe(bmc)
    assert told["can_be_set"] is False
    assert findings["apply times"][0] == "hinders" and "only Immediate" in findings["apply times"][1]
    assert findings["self-test"][0] == "remark"
    assert findings["entity tags"][1] == "Its settings have a weak entity tag."
    sentences = [finding["sentence"] for finding in told["findings"] if finding["subject"] == "spelling"]
    assert sentences == [
        "1 values differ from the registry's spelling: ProcSMT.",
        "4 attributes are not in the registry: Other1, Other2, Other3 and others.",
    ]


def test_what_cannot_be_read_ends_no_probe(bmc: Bmc) -> None:
    bmc.registry = {}
    told, findings = probe(bmc)
    assert findings["registry"][0] == "hinders" and told["options"] == {}
    bmc.settings = None
    told, findings = probe(bmc, auth="basic")
    assert findings["sessions"][0] == "remark" and "auth: basic" in findings["sessions"][1]
    assert findings["BIOS"][0] == "hinders", "this BMC knows tokens only"
    bmc.answers["GET", f"{ROOT}/TaskService"] = [(500, {}, {})]
    bmc.answers["GET", ROOT] = [(200, {"Vendor": "X"}, {})]
    told, findings = probe(bmc)
    assert findings["tasks"][0] == "remark" and findings["service"] == ("works", "It calls itself X.")
    assert findings["pending settings"][0] == "hinders"


def test_the_recording_has_no_names_and_no_secrets(bmc: Bmc) -> None:
    serial = "SN0012345"
    bmc.system.update(
        SerialNumber=serial,
        AssetTag="Unknown",
        Notes=[f"{serial} at 192.0.2.7, 3c:8b:7f:f3:29:cc", "me@example.org", f"{PASSWORD}"],
        HostingRoles=["Server"],
        Token="abcdef",
        Name="the server Unknown",
    )
    bmc.active["AdminName"] = "Jane"
    told, dummy = probe(bmc)
    recording = json.dumps(told["recording"])
    for trace in (serial, "192.0.2", "3c:8b", "me@", PASSWORD, "abcdef", "Jane", "ops", "bmc.example.org"):
        assert trace not in recording
    system = told["recording"]["resources"][f"{ROOT}/Systems/1"]
    assert system["status"] == 200 and system["headers"] == {"etag": '"1"'}
    assert system["body"]["AssetTag"] == "Unknown" and system["body"]["Name"] == "the server Unknown"
    assert system["body"]["Notes"][0] == f"{system['body']['SerialNumber']} at 0.0.0.0, xx:xx:xx:xx:xx:xx"
    assert told["recording"]["resources"][BIOS]["body"]["Attributes"]["ProcSMT"] == "Enabled"
