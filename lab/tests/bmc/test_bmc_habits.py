# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Habits of BMCs that are no faults by themselves: tasks, entity tags, names of their own, pages, recordings."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from vepyc import VepycError
from vepyc.bmc import Bmc, Faults

from .redfish_client import NPS4, Client

Start = Callable[..., Bmc]
SESSIONS = "/redfish/v1/SessionService/Sessions"


def test_a_task_is_done_when_it_was_asked_about(bmc: Start) -> None:
    there = bmc("lenovo", Faults(task_polls=2))
    client = Client(there.access_data)
    reply = client.patch(NPS4["lenovo"])
    monitor = reply.headers["Location"]
    assert reply.status == 202 and there.pending_settings == {}
    assert client("GET", monitor).status == 202
    assert client("GET", monitor).body["TaskState"] == "Completed"
    assert there.pending_settings == NPS4["lenovo"]


def test_a_task_says_why_it_failed(bmc: Start) -> None:
    there = bmc("lenovo", Faults(task_polls=1, task_fails="No DIMMs.", task_named_in="task"))
    client = Client(there.access_data)
    task = client.get(client.patch(NPS4["lenovo"]).headers["Location"])
    assert (task["TaskState"], task["Messages"][0]["Message"]) == ("Exception", "No DIMMs.")
    refused = client.get(client.patch({"NoSuchName": "1"}).headers["Location"])
    assert refused["TaskState"] == "Exception" and there.pending_settings == {}


@pytest.mark.parametrize(
    ("rule", "none", "star", "tag"),
    [
        ("refused", 200, 412, 412),
        ("all refused", 412, 412, 412),
        ("no tags", 200, 400, None),
        ("real", 428, 400, 200),
        ("unquoted", 428, 200, 412),
        ("weak", 428, 200, 200),
        ("strong", 428, 200, 412),
        ("of bios", 428, 200, 200),
    ],
)
def test_what_becomes_of_entity_tags(bmc: Start, rule: str, none: int, star: int, tag: int | None) -> None:
    client = Client(bmc("lenovo", Faults(if_match=rule)).access_data)
    body = {"Attributes": NPS4["lenovo"]}
    assert client("PATCH", client.pending, body).status == none
    assert client.patch(NPS4["lenovo"]).status == star
    shown = client("GET", client.pending).headers.get("ETag")
    assert (shown is None) is (tag is None)
    if shown:
        # This vendor shows all in both places, so the tag of its pending object is that of Bios.
        assert client.patch({"Processors_SMTMode": "Disabled"}, shown).status == tag


def test_a_bmc_that_calls_itself_otherwise(bmc: Start) -> None:
    there = bmc("dell", Faults(calls_itself="https://192.0.2.1"))
    client = Client(there.access_data)
    assert client.get(client.system)["@odata.id"] == f"https://192.0.2.1{client.system}"
    login = {"UserName": there.user, "Password": there.password}
    assert client("POST", SESSIONS, login).headers["Location"] == f"https://192.0.2.1{SESSIONS}/1"


def test_a_collection_in_pages(bmc: Start) -> None:
    client = Client(bmc("dell", Faults(page_size=1, more_systems={"2": {}})).access_data)
    first = client.get("/redfish/v1/Systems")
    assert len(first["Members"]) == 1
    second = client.get(first["Members@odata.nextLink"])
    assert second["Members"] == [{"@odata.id": client.system}] and "Members@odata.nextLink" not in second


def test_apply_times_without_a_reset_apply_at_once(bmc: Start) -> None:
    there = bmc("lenovo", Faults(apply_times=("Immediate",)))
    client = Client(there.access_data)
    assert client("PATCH", client.pending, {"Attributes": NPS4["lenovo"]}).status == 200
    assert (there.host.boots, there.machine_state["nps"]) == (1, 4)


def test_a_recording_is_answered_and_never_changed(bmc: Start, tmp_path: Path) -> None:
    file = tmp_path / "recording.json"
    resource = {"status": 200, "headers": {"etag": '"1"'}, "body": {"Name": "As it was"}}
    file.write_text(json.dumps({"format": 1, "resources": {"/redfish/v1/Systems": resource}}))
    client = Client(bmc("ami", recording=file).access_data)
    reply = client("GET", "/redfish/v1/Systems")
    assert (reply.body, reply.headers["etag"]) == ({"Name": "As it was"}, '"1"')
    assert client("GET", "/redfish/v1/Chassis").status == 404
    assert client("PATCH", "/redfish/v1/Systems", {"Name": "x"}).status == 405
    file.write_text("{}")
    with pytest.raises(VepycError, match="is no recording of a BMC"):
        bmc("ami", recording=file)
