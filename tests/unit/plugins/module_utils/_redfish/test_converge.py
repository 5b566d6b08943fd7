# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BIOS settings on their way from a request to the boot that applies them, and which of them a BMC refuses."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import ACTIVE, SETTINGS, Runs
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import Bmc


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
    with pytest.raises(BmcError, match="dropped ProcSMT without a message"):
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


def test_a_changed_mind_before_the_boot(bmc: Bmc, run: Runs) -> None:
    run(nps="4", smt="off")
    assert run(nps="1", smt="off")["changed"] is True
    assert bmc.pending == {"ProcSMT": "Disabled"}


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
