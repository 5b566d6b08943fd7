# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The BMC without a machine behind it: what the standard says, and what each vendor does."""

from __future__ import annotations

import base64
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from vepyc import VepycError
from vepyc.bmc import PERSONALITIES, Bmc
from vepyc.bmc.personality import load_personality

from .redfish_client import NPS4, Client

Start = Callable[..., Bmc]


# What every vendor does


@pytest.mark.parametrize("vendor", PERSONALITIES)
def test_a_setting_is_pending_until_a_reset(bmc: Start, vendor: str) -> None:
    there = bmc(vendor)
    client = Client(there.access_data)
    ((name, value),) = NPS4[vendor].items()
    before = client.get(client.bios)["Attributes"][name]
    assert client.patch(NPS4[vendor]).status in (200, 202, 204)
    assert client.get(client.bios)["Attributes"][name] == before
    assert (there.pending_settings, there.machine_state["nps"]) == (NPS4[vendor], 1)
    assert client.reset().status == 204
    assert client.get(client.bios)["Attributes"][name] == value
    assert (there.pending_settings, there.machine_state["nps"]) == ({}, 4)


@pytest.mark.parametrize("vendor", PERSONALITIES)
def test_the_registry_is_found_from_bios_and_says_what_patch_takes(bmc: Start, vendor: str) -> None:
    there = bmc(vendor)
    client = Client(there.access_data)
    name = client.get(client.bios)["AttributeRegistry"]
    (location,) = client.get(f"/redfish/v1/Registries/{name}")["Location"]
    entries = client.get(location["Uri"])["RegistryEntries"]
    known = {entry["AttributeName"]: entry for entry in entries["Attributes"]}
    assert known.keys() == client.get(client.bios)["Attributes"].keys()
    ((wanted, value),) = NPS4[vendor].items()
    assert value in [one["ValueName"] for one in known[wanted]["Value"]]
    for attributes, code in (
        ({wanted: "no such value"}, "PropertyValueNotInList"),
        ({wanted: 4}, "PropertyValueTypeError"),
        ({"NoSuchName": "1"}, "PropertyUnknown"),
        ({**NPS4[vendor], "NoSuchName": "1"}, "PropertyUnknown"),
    ):
        reply = client.patch(attributes)
        assert (reply.status, reply.code.rpartition(".")[2]) == (400, code)
    assert there.pending_settings == {}, "a request is taken as a whole, or not at all"


@pytest.mark.parametrize("vendor", PERSONALITIES)
def test_what_a_machine_has_and_its_attributes_are_the_same(vendor: str) -> None:
    personality = load_personality(vendor)
    for wanted in ({"nps": 2}, {"l3_as_numa": True}, {"smt": False}, {"boost": False}, {"iommu": False}):
        assert (
            wanted.items()
            <= personality.settings_to_machine_state(
                {**personality.default_settings(), **personality.machine_state_to_settings(wanted)}
            ).items()
        )


@pytest.mark.parametrize(
    ("value", "status"), [(400, 200), (3125, 200), (4101, 400), (399, 400), (3110, 400), (True, 400), ("400", 400)]
)
def test_numbers_have_bounds_and_steps(bmc: Start, value: object, status: int) -> None:
    client = Client(bmc("hpe").access_data)
    assert client.patch({"ProcAMDBoostControl": "AmdFmaxBoostManual", "ProcAmdFmax": value}).status == status


def test_dependencies_stand_in_the_registry_of_the_standard(bmc: Start) -> None:
    client = Client(bmc("hpe").access_data)
    entries = client.get(load_personality("hpe")["registry"]["uri"])["RegistryEntries"]
    (one,) = (entry for entry in entries["Dependencies"] if entry["DependencyFor"] == "PowerRegulator")
    condition = {"MapFromAttribute": "WorkloadProfile", "MapFromProperty": "CurrentValue"}
    condition |= {"MapFromCondition": "NEQ", "MapFromValue": "Custom"}
    target = {"MapToAttribute": "PowerRegulator", "MapToProperty": "ReadOnly", "MapToValue": True}
    assert one["Dependency"] == {"MapFrom": [condition], **target}


def test_there_is_no_vendor_of_another_name() -> None:
    with pytest.raises(VepycError, match="the vendors are ami, dell"):
        load_personality("ibm")


# Who may come in


def test_a_client_that_does_not_know_the_authority_hangs_up(bmc: Start) -> None:
    there = bmc()
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(there.url + "/redfish/v1/", context=ssl.create_default_context(), timeout=10)
    assert there.request_log == []
    certificate = ssl.get_server_certificate((there.address, there.port))
    assert len(there.fingerprint) == 64 and "BEGIN CERTIFICATE" in certificate


def test_sessions_are_few_and_end(bmc: Start) -> None:
    there = bmc(session_limit=2)
    client = Client(there.access_data)
    login = {"UserName": there.user, "Password": there.password}
    first, _second, third = (client("POST", "/redfish/v1/SessionService/Sessions", login) for _ in range(3))
    assert (first.status, third.status, third.code) == (201, 503, "IDRAC.2.8.RAC0218")
    client.auth = {"X-Auth-Token": first.headers["X-Auth-Token"]}
    assert client("GET", client.bios).status == 200
    assert client("DELETE", first.headers["Location"]).status == 204
    assert client("GET", client.bios).status == 401
    assert there.open_sessions == ["2"]
    assert there.password not in str(there.request_log)
    assert [line.auth for line in there.request_log] == ["", "", "", "session 1", "session 1", ""]


def test_wrong_passwords_lock_the_account_even_for_the_right_one(bmc: Start) -> None:
    there = bmc(lock_after=2)
    client, wrong = Client(there.access_data), Client(there.access_data)
    wrong.auth = {"Authorization": "Basic " + base64.b64encode(b"operator:wrong").decode()}
    assert client("GET", client.bios).status == 200
    assert [wrong("GET", wrong.bios).status for _ in range(2)] == [401, 401]
    assert client("GET", client.bios).status == 401
    assert there.failed_logins == 3


def test_nothing_but_the_root_is_shown_to_anybody(bmc: Start) -> None:
    client = Client(bmc().access_data)
    client.auth = {}
    assert client("GET", "/redfish/v1/").status == 200
    assert client("GET", client.system).status == 401
    assert client.patch(NPS4["dell"]).status == 401


# What vendors do in their own ways


def test_dell_applies_by_a_job_that_keeps_others_out(bmc: Start) -> None:
    there = bmc("dell")
    client = Client(there.access_data)
    without = client("PATCH", client.pending, {"Attributes": NPS4["dell"]})
    assert (without.status, there.jobs) == (200, [])
    there.boot_machine()
    assert there.pending_settings == NPS4["dell"], "values without a job wait for ever"
    made = client("POST", f"{client.manager}/Jobs", {"TargetSettingsURI": client.pending})
    assert client.get(made.headers["Location"])["JobState"] == "Scheduled"
    refused = client.patch({"LogicalProc": "Disabled"})
    assert (refused.status, refused.code) == (400, "IDRAC.2.8.SYS011")
    assert client.patch(NPS4["dell"]).status == 200, "equal values are no change"
    clear = f"{client.pending}/Actions/Oem/DellManager.ClearPending"
    assert client("POST", clear, {}).status == 400
    there.boot_machine()
    assert client.get(made.headers["Location"])["JobState"] == "Completed"
    task = client.patch({"LogicalProc": "Disabled"}).headers["Location"]
    assert client("DELETE", f"{client.manager}/Jobs/{task.rpartition('/')[2]}").status == 200
    assert (there.pending_settings, there.jobs[1:]) == ({}, [])


def test_dell_locks_by_profile_and_shows_it_as_a_flag_of_its_own_spelling(bmc: Start) -> None:
    there = bmc("dell")
    client = Client(there.access_data)
    uri = there.host.personality["registry"]["uri"]

    def readonly(name: str) -> bool:
        found = client.get(uri)["RegistryEntries"]["Attributes"]
        return bool(next(entry["Readonly"] for entry in found if entry["AttributeName"] == name))

    assert readonly("ProcTurboMode") and not readonly("NumaNodesPerSocket")
    alone = client.patch({"ProcTurboMode": "Disabled"})
    assert (alone.status, alone.code.rpartition(".")[2]) == (400, "PropertyValueConflict")
    assert client.patch({"SysProfile": "Custom", "ProcTurboMode": "Disabled"}).status == 202
    there.boot_machine()
    assert there.machine_state["boost"] is False and not readonly("ProcTurboMode")


def test_hpe_says_success_first_and_shows_its_post(bmc: Start) -> None:
    there = bmc("hpe", post_seconds=60)
    client = Client(there.access_data)
    assert client.get(client.system)["Oem"]["Hpe"]["PostState"] == "FinishedPost"
    assert client.patch({**NPS4["hpe"], "PowerRegulator": "StaticHighPerf"}).status == 200
    client.reset()
    assert client.get(client.system)["Oem"]["Hpe"]["PostState"] == "InPost"
    good, bad = client.get(client.bios)["@Redfish.Settings"]["Messages"]
    assert good["MessageId"].endswith(".Success") and bad["RelatedProperties"] == ["#/Attributes/PowerRegulator"]
    assert (there.machine_state["nps"], there.active_settings["PowerRegulator"]) == (4, "OsControl")
    assert client.patch(NPS4["hpe"]).code == "iLO.2.24.UnableToModifyDuringSystemPOST"


def test_hpe_sends_its_registry_zipped_to_whoever_asks(bmc: Start) -> None:
    client = Client(bmc("hpe").access_data)
    reply = client("GET", load_personality("hpe")["registry"]["uri"], Accept_Encoding="identity")
    assert reply.headers["Content-Encoding"] == "gzip"


def test_lenovo_drops_what_its_mode_forbids_without_a_word(bmc: Start) -> None:
    there = bmc("lenovo")
    client = Client(there.access_data)
    assert client.patch({"Processors_CorePerformanceBoost": "Disabled"}).status == 200
    assert client.get(client.pending)["Attributes"]["Processors_CorePerformanceBoost"] == "Disabled"
    there.boot_machine()
    assert (there.active_settings["Processors_CorePerformanceBoost"], there.pending_settings) == ("Enabled", {})
    assert [one["MessageId"] for one in client.get(client.bios)["@Redfish.Settings"]["Messages"]] == [
        "Base.1.18.Success"
    ]


def test_supermicro_takes_the_patch_on_bios_itself(bmc: Start) -> None:
    client = Client(bmc("supermicro").access_data)
    assert client.pending == client.bios
    assert "@Redfish.Settings" not in client.get(client.bios)


def test_ami_wants_an_etag_and_has_no_empty_pending_object(bmc: Start) -> None:
    there = bmc("ami")
    client = Client(there.access_data)
    assert client("GET", client.pending).status == 404
    assert client("PATCH", client.pending, {"Attributes": NPS4["ami"]}).status == 428
    assert client.patch(NPS4["ami"]).status == 204
    reply = client("GET", client.pending)
    assert (reply.status, reply.body["Attributes"]) == (200, NPS4["ami"])
    assert client.patch({"CbsCpuSmtCtrl": "CbsCpuSmtCtrlDisabled"}, reply.headers["ETag"]).status == 204
    assert client.patch(NPS4["ami"], reply.headers["ETag"]).status == 412
    assert client("DELETE", client.pending).status == 405


def test_passwords_are_never_shown(bmc: Start) -> None:
    there = bmc("hpe", active={"AdminPassword": "correct horse battery"})
    client = Client(there.access_data)
    assert client.get(client.bios)["Attributes"]["AdminPassword"] is None
    assert client.get(client.pending)["Attributes"]["AdminPassword"] is None


# Power and other actions


def test_power(bmc: Start) -> None:
    there = bmc("hpe")
    client = Client(there.access_data)
    client.patch(NPS4["hpe"])
    assert client.reset("ForceOff").status == 204
    assert (client.get(client.system)["PowerState"], there.machine_state["nps"]) == ("Off", 1)
    assert client.reset("On").status == 204
    assert (client.get(client.system)["PowerState"], there.machine_state["nps"], there.host.boots) == ("On", 4, 1)
    assert client.reset("On").status == 204 and there.host.boots == 1
    assert client.reset("NoSuchType").status == 400


def test_reset_of_all_settings(bmc: Start) -> None:
    there = bmc("lenovo", active=NPS4["lenovo"])
    client = Client(there.access_data)
    assert there.machine_state["nps"] == 4
    assert client("POST", f"{client.bios}/Actions/Bios.ResetBios", {}).status == 204
    assert client.get(client.bios)["ResetBiosToDefaultsPending"] is True
    assert there.boot_machine()["nps"] == 1
