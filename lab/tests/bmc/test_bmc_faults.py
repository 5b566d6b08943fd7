# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each fault of a BMC does what somebody has reported of a real one, and nothing else."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from vepyc.bmc import Bmc, Faults

from .redfish_client import NPS4, Client

Start = Callable[..., Bmc]


def test_accepted_and_silently_dropped(bmc: Start) -> None:
    there = bmc("hpe", Faults(accept_and_drop=("NumaMemoryDomainsPerSocket",)))
    client = Client(there.access_data)
    assert client.patch({**NPS4["hpe"], "ProcSMT": "Disabled"}).status == 200
    assert there.pending_settings.keys() == {"NumaMemoryDomainsPerSocket", "ProcSMT"}
    there.boot_machine()
    assert (there.machine_state["nps"], there.machine_state["smt"], there.pending_settings) == (1, False, {})
    assert len(client.get(client.bios)["@Redfish.Settings"]["Messages"]) == 1


def test_success_with_a_refused_attribute(bmc: Start) -> None:
    there = bmc("lenovo", Faults(refused_at_boot=("Memory_NUMANodesperSocket",)))
    client = Client(there.access_data)
    client.patch(NPS4["lenovo"])
    there.boot_machine()
    _, refused = client.get(client.bios)["@Redfish.Settings"]["Messages"]
    assert (refused["RelatedProperties"], there.machine_state["nps"]) == (["#/Attributes/Memory_NUMANodesperSocket"], 1)


def test_somebody_elses_job(bmc: Start) -> None:
    there = bmc("dell", Faults(foreign_job=True, foreign_pending={"LogicalProc": "Disabled"}))
    assert Client(there.access_data).patch(NPS4["dell"]).code == "IDRAC.2.8.SYS011"
    there.boot_machine()
    assert there.machine_state["smt"] is False
    assert Client(there.access_data).patch(NPS4["dell"]).status == 202


def test_somebody_elses_job_that_changes_no_attribute(bmc: Start) -> None:
    there = bmc("dell", Faults(foreign_job=True))
    there.boot_machine()
    assert [job.state for job in there.jobs] == ["Completed"]


def test_two_boots(bmc: Start) -> None:
    there = bmc("lenovo", Faults(two_boots=True))
    Client(there.access_data).patch(NPS4["lenovo"])
    assert [there.boot_machine()["nps"], there.boot_machine()["nps"]] == [1, 4]


def test_settings_that_want_a_boot_from_cold(bmc: Start) -> None:
    there = bmc("dell", Faults(cold_only=True))
    client = Client(there.access_data)
    for cold, nodes in (("PowerCycle", "4"), ("ForceOff", "1")):
        assert client.patch({"NumaNodesPerSocket": nodes}).status == 202
        client.reset("ForceRestart")
        there.boot_machine()
        assert there.pending_settings == {"NumaNodesPerSocket": nodes}
        client.reset(cold)
        client.reset("On")
        assert (there.pending_settings, there.machine_state["nps"]) == ({}, int(nodes))


def test_a_child_waits_until_its_parent_is_active(bmc: Start) -> None:
    there = bmc("dell", Faults(parent_must_be_active=True))
    client = Client(there.access_data)
    assert client.patch({"SysProfile": "Custom", "ProcTurboMode": "Disabled"}).status == 400
    assert client.patch({"SysProfile": "Custom"}).status == 202
    there.boot_machine()
    assert client.patch({"ProcTurboMode": "Disabled"}).status == 202


def test_etag_race(bmc: Start) -> None:
    there = bmc("dell", Faults(etag_races=1))
    client = Client(there.access_data)
    etag = client("GET", client.pending).headers["ETag"]
    assert client.patch(NPS4["dell"], etag).status == 412
    assert there.pending_settings == {}
    assert client.patch(NPS4["dell"], client("GET", client.pending).headers["ETag"]).status == 202


def test_post_before_patch(bmc: Start) -> None:
    there = bmc("ami", Faults(post_first=True))
    client = Client(there.access_data)
    assert client.patch(NPS4["ami"]).status == 404
    assert client("POST", client.pending, {}).status == 201
    assert client.patch(NPS4["ami"]).status == 204


def test_no_licence(bmc: Start) -> None:
    there = bmc("supermicro", Faults(no_licence=True))
    reply = Client(there.access_data).patch(NPS4["supermicro"])
    assert (reply.status, reply.code) == (403, "SMC.1.0.OemLicenseNotPassed")
    assert there.pending_settings == {}


def test_sessions_exhausted_by_others(bmc: Start) -> None:
    there = bmc("hpe", Faults(sessions_exhausted=True))
    login = {"UserName": there.user, "Password": there.password}
    assert Client(there.access_data)("POST", "/redfish/v1/SessionService/Sessions", login).status == 503


def test_503_after_a_reset(bmc: Start) -> None:
    there = bmc("dell", Faults(busy_after_reset=0.3))
    client = Client(there.access_data)
    client.reset()
    reply = client("GET", client.bios)
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    time.sleep(0.35)
    assert client("GET", client.bios).status == 200


def test_a_hung_post_ends_at_the_next_reset(bmc: Start) -> None:
    there = bmc("hpe", Faults(hung_posts=1))
    client = Client(there.access_data)
    client.patch(NPS4["hpe"])
    client.reset()
    assert client.get(client.system)["BootProgress"]["LastState"] == "MemoryInitializationStarted"
    assert there.machine_state["nps"] == 1
    client.reset()
    assert (client.get(client.system)["BootProgress"]["LastState"], there.machine_state["nps"]) == ("OSRunning", 4)


def test_the_bmc_says_new_and_the_machine_keeps_the_old(bmc: Start) -> None:
    there = bmc("dell", Faults(os_unchanged=True))
    client = Client(there.access_data)
    client.patch(NPS4["dell"])
    there.boot_machine()
    assert (there.active_settings["NumaNodesPerSocket"], there.machine_state["nps"]) == ("4", 1)
    there.faults.os_unchanged = False
    assert there.boot_machine()["nps"] == 4


def test_new_values_are_shown_as_active_too_early(bmc: Start) -> None:
    there = bmc("dell", Faults(early_active=True))
    client = Client(there.access_data)
    client.patch(NPS4["dell"])
    assert client.get(client.bios)["Attributes"]["NumaNodesPerSocket"] == "4"
    assert there.machine_state["nps"] == 1


def test_what_a_bmc_may_leave_out(bmc: Start) -> None:
    client = Client(bmc("ami", Faults(no_settings_link=True, no_registry=True, opaque_names=True)).access_data)
    found = client.get(client.bios)
    assert not {"@Redfish.Settings", "AttributeRegistry"} & found.keys()
    assert "CbsDfCmnDramNps" not in found["Attributes"] and len(found["Attributes"]) > 20
    assert client.get("/redfish/v1/Registries")["Members"] == []


def test_a_bmc_that_sends_its_clients_elsewhere(bmc: Start) -> None:
    other = bmc("dell")
    there = bmc("dell", Faults(redirect_to=other.url))
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        Client(there.access_data)("GET", "/redfish/v1/Systems")
    assert (there.request_log[0].status, other.request_log) == (302, [])


def test_a_silent_bmc_answers_nobody(bmc: Start) -> None:
    there = bmc("dell", Faults(silent=True))
    context = ssl.create_default_context(cafile=str(there.ca))
    with pytest.raises(TimeoutError):
        urllib.request.urlopen(there.url + "/redfish/v1/", context=context, timeout=0.3)
