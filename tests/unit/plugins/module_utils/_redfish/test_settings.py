# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Damaged, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.answers import BmcError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.info import report
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.machine import look
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.originals import Originals
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.settings import Wish, converge
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import ROOT, Bmc, enumeration, locked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NPS = enumeration("NumaMemoryDomainsPerSocket", "OneMemoryDomainPerSocket", "FourMemoryDomainsPerSocket")
SMT = enumeration("ProcSMT", "Enabled", "Disabled")
IDLE = enumeration("MinProcIdlePower", "C6", "NoCStates")
PROFILE = enumeration("WorkloadProfile", "GeneralPowerEfficientCompute", "Custom")
FABRIC = enumeration("InfinityFabricPstate", "Auto", "P0")
ACTIVE = {
    "NumaMemoryDomainsPerSocket": "OneMemoryDomainPerSocket",
    "ProcSMT": "Enabled",
    "MinProcIdlePower": "C6",
    "WorkloadProfile": "GeneralPowerEfficientCompute",
    "InfinityFabricPstate": "Auto",
}
SETTINGS = f"{ROOT}/Systems/1/Bios/Settings"
BIOS = f"{ROOT}/Systems/1/Bios"


@pytest.fixture
def bmc() -> Bmc:
    rule = locked("MinProcIdlePower", "WorkloadProfile", "Custom")
    return Bmc([NPS, SMT, IDLE, PROFILE, FABRIC], ACTIVE, [rule])


@pytest.fixture
def dell() -> Bmc:
    attributes = [enumeration("NumaNodesPerSocket", "1", "4"), enumeration("LogicalProc", "Enabled", "Disabled")]
    return Bmc(
        attributes, {"NumaNodesPerSocket": "1", "LogicalProc": "Enabled", "Other": "x"}, manufacturer="Dell Inc."
    )


class Runs:
    """Runs of the module against one BMC, with its file of originals."""

    def __init__(self, bmc: Bmc, folder: Path) -> None:
        self.bmc = bmc
        self.file = folder / "originals.json"

    def __call__(self, check: bool = False, attributes: Any = None, undo: bool = False, **asked: Any) -> dict[str, Any]:
        rules = {key: asked.pop(key) for key in ("unlock", "foreign") if key in asked}
        self.bmc.log.clear()
        with self.bmc.client() as client:
            return converge(
                client, Wish(asked, attributes or {}, undo, **rules), Originals(str(self.file), check), check
            )

    def verdicts(self, **asked: Any) -> dict[str, str]:
        return {row["option"]: row["verdict"] for row in self(check=True, **asked)["settings"]}


@pytest.fixture
def run(bmc: Bmc, tmp_path: Path) -> Runs:
    return Runs(bmc, tmp_path)


def test_from_a_check_to_the_undo(bmc: Bmc, run: Runs) -> None:
    told = run(check=True, nps="4", smt="off")
    assert (told["changed"], told["boots"], bmc.writes, run.file.exists()) == (True, 1, [], False)
    assert told["diff"]["before"]["ProcSMT"] == "Enabled (active), - (pending)"
    assert told["diff"]["after"]["ProcSMT"] == "Enabled (active), Disabled (pending)"
    told = run(nps="4", smt="off")
    assert (told["changed"], told["reboot_required"], bmc.writes) == (True, True, [("PATCH", SETTINGS)])
    assert bmc.sent[0][0]["@Redfish.SettingsApplyTime"] == {"ApplyTime": "OnReset"}
    assert {row["verdict"] for row in told["settings"]} == {"waits for a reboot"}
    again = run(nps="4", smt="off")
    assert (again["changed"], again["reboot_required"], bmc.writes, again["diff"]) == (False, True, [], {})
    bmc.boot()
    assert run.verdicts(nps="4", smt="off") == dict.fromkeys(["nps", "smt"], "claimed by firmware")
    assert run(nps="4", smt="off")["changed"] is False
    told = run(undo=True)
    assert (told["changed"], bmc.pending) == (
        True,
        {"NumaMemoryDomainsPerSocket": "OneMemoryDomainPerSocket", "ProcSMT": "Enabled"},
    )
    bmc.boot()
    assert run(check=True, undo=True)["changed"] is False
    assert run.file.exists()
    run(undo=True)
    assert (bmc.active, run.file.exists()) == (ACTIVE, False)
    assert run(undo=True)["changed"] is False


def test_a_profile_is_opened_first_and_closed_last(bmc: Bmc, run: Runs) -> None:
    told = run(c_states="off")
    assert bmc.pending == {"WorkloadProfile": "Custom", "MinProcIdlePower": "NoCStates"}
    assert "WorkloadProfile is set from GeneralPowerEfficientCompute to Custom, because it locks" in told["remarks"][0]
    assert run(c_states="off")["changed"] is False
    bmc.boot()
    assert run(undo=True)["boots"] == 2
    assert bmc.pending == {"MinProcIdlePower": "C6"}
    bmc.boot()
    run(undo=True)
    assert bmc.pending == {"WorkloadProfile": "GeneralPowerEfficientCompute"}
    bmc.boot()
    run(undo=True)
    assert (bmc.active, run.file.exists()) == (ACTIVE, False)


def test_without_unlock_it_is_said_who_blocks(bmc: Bmc, run: Runs) -> None:
    with pytest.raises(BadRequest, match="because WorkloadProfile is GeneralPowerEfficientCompute") as failed:
        run(nps="4", c_states="off", unlock=False)
    assert failed.value.details["blocked"] == {"MinProcIdlePower": {"WorkloadProfile": "GeneralPowerEfficientCompute"}}
    assert {row["option"]: row["verdict"] for row in failed.value.details["settings"]} == {
        "nps": "wrong",
        "c_states": "blocked",
    }  # type: ignore[attr-defined]
    assert bmc.writes == []


def test_what_a_profile_may_lock_without_saying_so_takes_a_second_boot(bmc: Bmc, run: Runs) -> None:
    bmc.registry["Attributes"][4]["ReadOnly"] = True
    told = run(apbdis="on")
    assert (told["boots"], bmc.pending) == (2, {"WorkloadProfile": "Custom"})
    row = next(row for row in told["settings"] if row["option"] == "apbdis")
    assert "only after the next boot" in row["sentence"]
    del bmc.registry["Attributes"][4]["ReadOnly"]
    bmc.boot()
    assert run(apbdis="on")["changed"] is True
    assert bmc.pending == {"InfinityFabricPstate": "P0"}


def test_a_bmc_that_looks_at_active_values_only_takes_two_boots(bmc: Bmc, run: Runs) -> None:
    refusal = {
        "error": {
            "@Message.ExtendedInfo": [
                {"MessageId": "Base.1.0.PropertyNotWritable", "MessageArgs": ["MinProcIdlePower"]}
            ]
        }
    }
    bmc.answers["PATCH", SETTINGS] = [(400, refusal, {})]
    told = run(nps="4", c_states="off")
    assert bmc.pending.keys() == {"WorkloadProfile", "NumaMemoryDomainsPerSocket"}
    assert "It takes two boots." in told["remarks"][-1]
    assert told["boots"] == 2
    bmc.boot()
    run(nps="4", c_states="off")
    assert bmc.pending == {"MinProcIdlePower": "NoCStates"}


def test_a_refusal_changes_nothing_and_names_what_is_refused(bmc: Bmc, run: Runs) -> None:
    told = {
        "error": {
            "@Message.ExtendedInfo": [
                {"MessageId": "X", "Message": "No.", "RelatedProperties": ["#/Attributes/ProcSMT"]}
            ]
        }
    }
    bmc.answers["PATCH", SETTINGS] = [(400, told, {})]
    with pytest.raises(BmcError, match="refuses the settings because of ProcSMT"):
        run(nps="4", smt="off")
    assert bmc.pending == {}
    assert run(nps="4", smt="off")["changed"] is True


def test_a_licence_that_is_missing(bmc: Bmc, run: Runs) -> None:
    told = {"error": {"code": "SMC.1.0.OemLicenseNotPassed", "message": "Not licensed. DCMS were needed."}}
    bmc.answers["PATCH", SETTINGS] = [(403, told, {})]
    with pytest.raises(BmcError, match="needs a licence"):
        run(nps="4")


def test_what_is_dropped_at_once_is_found_and_the_rest_is_taken_back(bmc: Bmc, run: Runs) -> None:
    bmc.spoil = lambda values: {name: value for name, value in values.items() if value != "Disabled"}
    with pytest.raises(BmcError, match="dropped ProcSMT of it"):
        run(nps="4", smt="off")
    assert bmc.pending == {}
    bmc.spoil = lambda values: values
    assert run(nps="4", smt="off")["changed"] is True


def test_what_a_boot_dropped_is_wrong_and_is_tried_again(bmc: Bmc, run: Runs) -> None:
    run(smt="off")
    bmc.pending = {}
    rows = run(check=True, smt="off")["settings"]
    assert rows[0]["verdict"] == "wrong"
    assert "sent by an earlier run and is neither active nor pending" in rows[0]["sentence"]
    bmc.messages = [
        {"MessageId": "Base.1.0.Success", "Message": "Done."},
        {"MessageId": "H.1.0.Refused", "Message": "Not in this mode.", "RelatedProperties": ["/Bios/#ProcSMT"]},
    ]
    told = run(smt="off")
    assert any("The last boot says: 'Not in this mode.'" in remark for remark in told["remarks"])
    assert told["changed"] is True


def test_only_a_setting_that_a_boot_dropped_is_remarked(bmc: Bmc, run: Runs) -> None:
    assert run(smt="off")["remarks"] == []
    bmc.pending = {}
    (remark,) = run(smt="off", nps="4")["remarks"]
    assert "ProcSMT" in remark and "sent by an earlier run" in remark


def test_a_password_that_somebody_else_left_pending_is_shown_nowhere(bmc: Bmc, run: Runs) -> None:
    bmc.pending = {"NewSetupPassword": "Tr0ub4dor&3"}
    with pytest.raises(BadRequest, match=r"NewSetupPassword: None -> \(removed\)") as caught:
        run(nps="4")
    shown = [str(caught.value), caught.value.details, run(check=True, nps="4", foreign="clear")]
    shown.append(run(nps="4", foreign="keep"))
    assert "Tr0ub4dor&3" not in repr(shown) and repr(shown).count("(removed)") > 3


def test_pending_values_of_somebody_else(bmc: Bmc, run: Runs) -> None:
    bmc.pending = {"ProcSMT": "Disabled"}
    with pytest.raises(BadRequest, match=r"Somebody else has settings pending.*ProcSMT: Enabled -> Disabled"):
        run(nps="4")
    assert run(check=True, smt="off")["changed"] is False
    run(nps="4", foreign="keep")
    assert bmc.pending == {"ProcSMT": "Disabled", "NumaMemoryDomainsPerSocket": "FourMemoryDomainsPerSocket"}
    assert run(check=True, nps="4", foreign="clear")["changed"] is True
    run(nps="4", foreign="clear")
    assert bmc.pending == {"NumaMemoryDomainsPerSocket": "FourMemoryDomainsPerSocket"}


def test_a_changed_mind_before_the_boot(bmc: Bmc, run: Runs) -> None:
    run(nps="4", smt="off")
    assert run(nps="1", smt="off")["changed"] is True
    assert bmc.pending == {"ProcSMT": "Disabled"}


def test_entity_tags(bmc: Bmc, run: Runs) -> None:
    bmc.answers["PATCH", SETTINGS] = [(412, {}, {})]
    run(nps="4")
    assert [tag for dummy, tag in bmc.sent] == ['"1"']
    bmc.boot()
    bmc.answers["PATCH", SETTINGS] = [(412, {}, {}), (412, {}, {})]
    with pytest.raises(BmcError, match="changed twice"):
        run(smt="off")


def test_somebody_who_changes_settings_right_now(bmc: Bmc, run: Runs) -> None:
    bmc.answers["PATCH", SETTINGS] = [(412, {}, {})]
    bmc.answers["GET", SETTINGS] = [(200, {"Attributes": {}}, {}), (200, {"Attributes": {"ProcSMT": "Disabled"}}, {})]
    with pytest.raises(BmcError, match="Somebody else changes"):
        run(nps="4")


def test_a_self_test_is_waited_out(bmc: Bmc, run: Runs) -> None:
    for told in (
        {"Oem": {"Hpe": {"PostState": "InPost"}}},
        {"BootProgress": {"LastState": "MemoryInitializationStarted"}},
    ):
        bmc.system.update(told)
        with pytest.raises(BadRequest, match=r"is in its self-test .*hangs: reset it once more"):
            run(nps="4")
        assert run(check=True, nps="4")["machine"]["post"]
        for key in told:
            del bmc.system[key]
    bmc.system.update({"PowerState": "Off", "BootProgress": {"LastState": "MemoryInitializationStarted"}})
    assert run(nps="4")["changed"] is True


def test_a_pending_object_that_comes_into_being(bmc: Bmc, run: Runs) -> None:
    """AMI: nothing is there while nothing is pending, and it takes a PATCH all the same."""
    bmc.answers["GET", SETTINGS] = [(404, {}, {})]
    run(nps="4")
    assert bmc.sent[0][1] == "*"


def test_a_pending_object_that_has_to_be_made(bmc: Bmc, run: Runs) -> None:
    bmc.answers["GET", SETTINGS] = [(404, {}, {})]
    bmc.answers["PATCH", SETTINGS] = [(404, {}, {})]
    bmc.answers["POST", SETTINGS] = [(201, {}, {})]
    run(nps="4")
    assert bmc.writes == [("PATCH", SETTINGS), ("POST", SETTINGS), ("PATCH", SETTINGS)]
    bmc.boot()
    bmc.answers["GET", SETTINGS] = [(404, {}, {})]
    bmc.answers["PATCH", SETTINGS] = [(404, {}, {})]
    run(smt="off")
    assert bmc.writes == [("PATCH", SETTINGS), ("POST", SETTINGS)]
    bmc.answers["GET", SETTINGS] = [(404, {}, {})]
    bmc.answers["PATCH", SETTINGS] = [(404, {}, {})]
    bmc.answers["POST", SETTINGS] = [(405, {}, {})]
    with pytest.raises(BmcError, match="status 405"):
        run(c_states="off")


def test_a_bmc_that_does_not_show_what_waits(bmc: Bmc, run: Runs) -> None:
    """Supermicro takes settings where it shows the active ones."""
    bmc.settings, bmc.system["Manufacturer"] = None, "Supermicro"
    bmc.registry["Attributes"].append(enumeration("SMTControl_0037", "Auto", "Disabled"))
    bmc.active["SMTControl_0037"] = "Auto"
    assert run(smt="off")["changed"] is True
    assert bmc.writes == [("PATCH", BIOS)]
    again = run(smt="off")
    assert (again["changed"], again["settings"][0]["verdict"]) == (False, "waits for a reboot")
    bmc.boot()
    assert run.verdicts(smt="off") == {"smt": "claimed by firmware"}


def test_pending_objects_that_nobody_names(bmc: Bmc, run: Runs) -> None:
    bmc.settings = None
    with pytest.raises(BmcError, match="does not say where settings"):
        run(nps="4")
    bmc.answers["GET", f"{BIOS}/Pending"] = [
        (200, {"Attributes": {}, "@Redfish.SettingsApplyTime": {"ApplyTime@Redfish.AllowableValues": ["OnReset"]}}, {})
    ]
    bmc.apply_times = []
    with bmc.client() as client:
        machine = look(client)
    assert (machine.target, machine.apply_times) == (f"{BIOS}/Pending", ["OnReset"])


def test_dell_applies_by_a_job_and_shows_it_early(dell: Bmc, tmp_path: Path) -> None:
    run = Runs(dell, tmp_path)
    told = run(nps="4")
    assert told["jobs"] == [{"id": "JID_1", "state": "Scheduled"}]
    dell.active["NumaNodesPerSocket"] = "4"
    again = run(nps="4")
    assert (again["changed"], again["settings"][0]["verdict"]) == (False, "waits for a reboot")
    assert "by the job JID_1" in again["settings"][0]["sentence"]
    dell.active["NumaNodesPerSocket"] = "1"
    # A job takes no more values, so ours is made anew.
    run(nps="4", smt="off")
    assert dell.pending == {"NumaNodesPerSocket": "4", "LogicalProc": "Disabled"}
    assert dell.writes[0][0] == "DELETE"


def test_dell_needs_a_job_made_where_it_made_none(dell: Bmc, tmp_path: Path) -> None:
    dell.apply_times = []
    told = Runs(dell, tmp_path)(nps="4")
    assert told["jobs"] == [] or told["jobs"][0]["id"] == "JID_2"
    assert dell.writes[-1] == ("POST", f"{ROOT}/Managers/1/Jobs")


def test_a_job_of_somebody_else(dell: Bmc, tmp_path: Path) -> None:
    run = Runs(dell, tmp_path)
    dell.pending, dell.jobs = {"LogicalProc": "Disabled"}, {"JID_9": "Scheduled"}
    with pytest.raises(BadRequest, match=r"in the job JID_9: LogicalProc"):
        run(nps="4")
    with pytest.raises(BadRequest, match=r"The job JID_9 of the BMC .* takes no others"):
        run(nps="4", foreign="keep")
    run(nps="4", foreign="clear")
    assert dell.pending == {"NumaNodesPerSocket": "4"}


def test_dell_clears_what_no_job_holds(dell: Bmc, tmp_path: Path) -> None:
    dell.pending = {"LogicalProc": "Disabled"}
    Runs(dell, tmp_path)(nps="4", foreign="clear")
    assert dell.writes[0][1].endswith("DellManager.ClearPending")


def test_originals_of_another_machine_are_refused(bmc: Bmc, run: Runs) -> None:
    run(nps="4")
    bmc.system["UUID"] = "u-2"
    with pytest.raises(TuningError, match="holds the originals of the machine u-1"):
        run(nps="4")


def test_originals_that_have_no_place_any_more(bmc: Bmc, run: Runs) -> None:
    run(nps="4")
    bmc.boot()
    del bmc.registry["Attributes"][0]
    with pytest.raises(BadRequest, match=r"NumaMemoryDomainsPerSocket .* cannot be put back"):
        run(undo=True)


def test_a_damaged_file_of_originals(run: Runs) -> None:
    for text in ("{", "[]", '{"format": 9}'):
        run.file.write_text(text)
        with pytest.raises(Damaged, match="originals"):
            run(nps="4")


def test_a_machine_without_a_registry(bmc: Bmc, run: Runs) -> None:
    bmc.registry = {}
    with pytest.raises(BmcError, match="has no registry of BIOS attributes"):
        run(nps="4")
    with bmc.client() as client:
        told = report(client, None, ["catalogue"])
    assert (told["active"], told["claims"], told["registry"]) == (ACTIVE, {}, {})
    assert "has no registry" in told["remarks"][0]


def test_systems(bmc: Bmc) -> None:
    both = [{"@odata.id": f"{ROOT}/Systems/1"}, {"@odata.id": f"{ROOT}/Systems/DPU.1"}]
    card = {"Id": "DPU.1", "Bios": {"@odata.id": BIOS}, "SystemType": "DPU"}
    with bmc.client() as client:
        bmc.answers["GET", f"{ROOT}/Systems"] = [(200, {"Members": both}, {})] * 3
        bmc.answers["GET", f"{ROOT}/Systems/DPU.1"] = [(200, card, {}), (200, {**card, "SystemType": "Physical"}, {})]
        assert look(client).system["Id"] == look(client).system["Id"] == "1"
        with pytest.raises(BmcError, match=r"has no system 7, but 1, DPU\.1"):
            look(client, "7")
        bmc.answers["GET", f"{ROOT}/Systems"] = [(200, {"Members": []}, {})]
        with pytest.raises(BmcError, match="shows no system with a BIOS"):
            look(client)
        for name in ("1", "DPU.1"):
            told = {**card, "Id": f"Node{name}", "SystemType": "Physical"}
            bmc.answers["GET", f"{ROOT}/Systems/{name}"] = [(200, told, {})]
        bmc.answers["GET", f"{ROOT}/Systems"] = [(200, {"Members": both}, {})]
        with pytest.raises(BmcError, match="has several systems"):
            look(client)
        bmc.answers["GET", BIOS] = [(200, {}, {})]
        with pytest.raises(BmcError, match="does not show BIOS settings"):
            look(client)


def test_a_report_is_without_secrets_and_describes(bmc: Bmc) -> None:
    bmc.active["NewSetupPassword"] = "hunter2-hunter2"
    with bmc.client() as client:
        told = report(client, "1", ["catalogue", "WorkloadProfile"])
        everything = report(client, None, ["all"])["registry"]
        with pytest.raises(BadRequest, match="Did you mean ProcSMT"):
            report(client, None, ["ProcSMTT"])
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
        assert len(look(client).registry()) == 5
