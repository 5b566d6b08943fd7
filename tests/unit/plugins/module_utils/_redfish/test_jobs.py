# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The jobs by which a BMC of Dell applies pending settings: made, replaced, and those of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import Runs, bmc_of_dell
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import ROOT, Bmc


@pytest.fixture
def dell() -> Bmc:
    return bmc_of_dell()


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


def test_a_job_that_fails_at_once_says_why(dell: Bmc, tmp_path: Path) -> None:
    failed = {"Id": "JID_1", "JobState": "Failed", "Message": "A dependency.", "JobType": "BIOSConfiguration"}
    dell.answers["GET", f"{ROOT}/Managers/1/Jobs/JID_1"] = [(200, failed, {})]
    dell.answers["GET", f"{ROOT}/TaskService/Tasks/JID_1"] = [(200, failed, {})]
    with pytest.raises(BmcError, match=r"The job JID_1 .* is Failed: 'A dependency\.'\. Clear it"):
        Runs(dell, tmp_path)(nps="4")


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
