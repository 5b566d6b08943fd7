# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pending settings of a BMC: those of somebody else, those that change during a run, and where a BMC has them."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.machine import read_machine_settings_and_jobs
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import BIOS, SETTINGS, Runs
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import Bmc, enumeration


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


def test_entity_tags(bmc: Bmc, run: Runs) -> None:
    bmc.answers["PATCH", SETTINGS] = [(412, {}, {})]
    run(nps="4")
    assert [tag for dummy, tag in bmc.sent] == [None], "a tag that was right, and yet refused"
    bmc.boot()
    bmc.answers["PATCH", SETTINGS] = [(412, {}, {}), (428, {}, {}), (412, {}, {}), (400, {}, {})]
    with pytest.raises(BmcError, match=r"with an entity tag and without: status 400\."):
        run(smt="off")


def test_somebody_who_changes_settings_right_now(bmc: Bmc, run: Runs) -> None:
    bmc.answers["PATCH", SETTINGS] = [(412, {}, {})]
    bmc.answers["GET", SETTINGS] = [(200, {"Attributes": {}}, {}), (200, {"Attributes": {"ProcSMT": "Disabled"}}, {})]
    with pytest.raises(BmcError, match="Somebody else changes"):
        run(nps="4")


def test_a_pending_object_that_comes_into_being(bmc: Bmc, run: Runs) -> None:
    """AMI: nothing is there while nothing is pending, and it takes a PATCH all the same."""
    bmc.answers["GET", SETTINGS] = [(404, {}, {})]
    run(nps="4")
    assert bmc.sent[0][1] is None


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
    with pytest.raises(BadRequest, match="gives no link to its pending settings"):
        run(nps="4")
    bmc.answers["GET", f"{BIOS}/Pending"] = [
        (200, {"Attributes": {}, "@Redfish.SettingsApplyTime": {"ApplyTime@Redfish.AllowableValues": ["OnReset"]}}, {})
    ]
    bmc.apply_times = []
    with bmc.client() as client:
        machine = read_machine_settings_and_jobs(client)
    assert (machine.settings_path, machine.apply_times) == (f"{BIOS}/Pending", ["OnReset"])
