# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that a BMC answers before it has done them, and what it refuses or takes back then."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.responses import BmcError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.tasks import follow_task
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.jobs import fetch_failure_of_job
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import SETTINGS, Runs, bmc_of_dell
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import ROOT, Bmc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MONITOR = f"{ROOT}/TaskService/TaskMonitors/7"
LOCATION = {"Location": MONITOR}


@pytest.mark.parametrize(
    ("answers", "outcome", "slept"),
    [
        ([(202, {}, {}), (202, {}, {"Retry-After": "9"}), (204, b"", {})], "ended", [1, 9]),
        ([(200, {"TaskState": "Running"}, {}), (200, {"TaskState": "Completed"}, {})], "ended", [1]),
        ([(200, {"JobState": "Scheduled"}, {})], "waiting", []),
        ([(200, {"TaskState": "Killed"}, {})], "failed", []),
        ([(400, {"error": {"message": "No."}}, {})], "failed", []),
        ([(404, {}, {})], "ended", []),
        ([(200, b"", {})], "ended", []),
        # A BMC that is not there for a moment is asked again.
        ([(401, {}, {}), (204, b"", {})], "ended", [1]),
        ([(202, {}, {})] * 20, "not known", [1, 2, 4, 8, 15, 15, 15]),
    ],
)
def test_a_task_until_its_end(bmc: Bmc, answers: list[Any], outcome: str, slept: list[float]) -> None:
    bmc.answers["POST", "/x"] = [(202, {}, LOCATION)]
    bmc.answers["GET", MONITOR] = list(answers)
    with bmc.client() as client:
        task = follow_task(client, client.send_request("POST", "/x", {}))
    assert task is not None and (task.outcome, task.name) == (outcome, "7")
    assert bmc.slept == slept


def test_an_answer_without_a_task_is_none(bmc: Bmc) -> None:
    bmc.answers["POST", "/x"] = [(200, {}, LOCATION), (202, {}, {}), (200, {"TaskState": "New", "@odata.id": "/t"}, {})]
    with bmc.client() as client:
        assert follow_task(client, client.send_request("POST", "/x", {})) is None
        nameless = follow_task(client, client.send_request("POST", "/x", {}))
        assert nameless is not None and (nameless.path, nameless.outcome) == ("", "not known")
        bmc.answers["GET", "/t"] = [(200, {"TaskState": "Completed"}, {})]
        named = follow_task(client, client.send_request("POST", "/x", {}))
    assert named is not None and named.path == "/t"


def test_a_request_whose_task_fails_or_does_not_end(bmc: Bmc, run: Runs) -> None:
    failed = {"TaskState": "Exception", "Messages": [{"Message": "DIMMs are missing."}]}
    bmc.answers["PATCH", SETTINGS] = [(202, {}, LOCATION)]
    bmc.answers["GET", MONITOR] = [(200, failed, {})]
    with pytest.raises(BmcError, match=r"is Exception: 'DIMMs are missing\.'\. Nothing is pending from this run"):
        run(nps="4")
    bmc.answers["PATCH", SETTINGS] = [(202, {}, {})]
    with pytest.raises(BmcError, match="It is not known yet whether ProcSMT will be pending"):
        run(smt="off")
    assert "ProcSMT" in run.file.read_text()


def test_what_cannot_be_taken_back_is_said(bmc: Bmc, run: Runs) -> None:
    bmc.spoil = lambda values: {} if "InfinityFabricPstate" not in values else {"ProcSMT": "Disabled"}
    refusals: list[Any] = [(400, {}, {}), (202, {}, LOCATION)]
    for refusal in refusals:
        bmc.pending = {}
        bmc.answers["GET", MONITOR] = [(200, {"TaskState": "Exception"}, {})]

        def answer(method: str, path: str, body: Any, headers: Any, refusal: Any = refusal) -> Any:
            if method == "PATCH" and "InfinityFabricPstate" not in body["Attributes"]:
                return refusal
            return Bmc.answer(bmc, method, path, body, headers)

        bmc.answer = answer  # type: ignore[method-assign]
        with pytest.raises(BmcError, match=r"dropped InfinityFabricPstate .*ProcSMT is still pending, and could not"):
            run(smt="off", apbdis="on", unlock=False)
        assert bmc.pending == {"ProcSMT": "Disabled"}
        run.file.unlink()


def test_a_bmc_that_applies_at_once_gets_nothing(bmc: Bmc, run: Runs) -> None:
    bmc.apply_times = ["Immediate", "AtMaintenanceWindowStart"]
    with pytest.raises(BadRequest, match="only at Immediate, AtMaintenanceWindowStart"):
        run(nps="4")
    assert bmc.writes == []


def test_why_a_job_failed(bmc: Bmc, tmp_path: Path) -> None:
    path = f"{ROOT}/Jobs/JID_1"
    bmc.answers["GET", path] = [
        (200, {"Id": "JID_1", "JobState": "Failed", "Message": "A dependency."}, {}),
        (200, {"Id": "JID_1", "TaskState": "Exception", "Messages": 7}, {}),
        (200, {"JobState": "Completed"}, {}),
        (500, {}, {}),
    ]
    with bmc.client() as client:
        told = [fetch_failure_of_job(client, path) for dummy in range(4)]
        assert fetch_failure_of_job(client, "") == ""
    assert told == ["The job JID_1 is Failed: 'A dependency.'.", "The job JID_1 is Exception.", "", ""]
    dell = bmc_of_dell()
    run = Runs(dell, tmp_path)
    run(nps="4")
    dell.pending, dell.jobs = {}, {"JID_1": "Failed"}
    dell.answers["GET", f"{ROOT}/Managers/1/Jobs/JID_1"] = [(200, {"Id": "JID_1", "JobState": "Failed"}, {})] * 9
    assert "The job JID_1 is Failed." in run(check=True, nps="4")["settings"][0]["sentence"]


def test_what_was_sent_when_the_connection_was_lost_is_not_somebody_elses(bmc: Bmc, run: Runs) -> None:
    def answer(method: str, path: str, body: Any, headers: Any) -> Any:
        told = Bmc.answer(bmc, method, path, body, headers)
        if method == "PATCH":
            raise ConnectionResetError(104, "Connection reset by peer")
        return told

    bmc.answer = answer  # type: ignore[method-assign]
    with pytest.raises(BmcError, match="cannot be reached: Connection reset"):
        run(smt="off")
    assert bmc.pending == {"ProcSMT": "Disabled"}
    del bmc.answer
    assert run(nps="4")["changed"] is True
