# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sessions end and resources are found, however a BMC spells its own name; and BMCs without sessions."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import reset_server
from vepyc.bmc import Faults

from .runs import Start

#: The names that a BMC was seen to give itself, other than that of the inventory.
NAMES = ("https://172.17.21.120", "https://BMC7.example.com", "https://127.0.0.1:443", "HTTP://127.0.0.1", "//bmc7")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("vendor", ["dell", "ami"])
def test_no_session_is_left_by_a_bmc_of_another_name(start: Start, vendor: str, name: str) -> None:
    """All is found on our own way to the BMC; the name that it gives itself is never followed."""
    run = start(vendor, Faults(calls_itself=name, pending_404=vendor == "ami"))
    for dummy in range(5):
        run(check=True)
    assert run.bmc.open_sessions == []
    assert run.until_done() == 1
    with run.client() as client:
        assert reset_server(client, None, "force")["sent"] == ["ForceRestart"]
    assert run.bmc.open_sessions == []


@pytest.mark.parametrize("place", ["body", "id", "nowhere"])
def test_a_session_ends_wherever_the_bmc_names_it(start: Start, place: str) -> None:
    run = start("hpe", Faults(session_named_in=place))
    run(check=True)
    assert run.bmc.open_sessions == []


def test_a_session_without_a_name_among_others_is_remarked(start: Start) -> None:
    run = start("hpe")
    with run.client() as other:
        run.bmc.faults.session_named_in = "nowhere"
        with run.client() as client:
            pass
        assert "could not be ended" in client.remarks[0] and run.bmc.open_sessions == ["1", "2"]
    assert (other.remarks, run.bmc.open_sessions) == ([], ["2"])


@pytest.mark.parametrize("status", [500, 403])
def test_a_session_that_could_not_be_ended_is_remarked(start: Start, status: int) -> None:
    run = start("hpe", Faults(session_end_status=status))
    with run.client() as client:
        pass
    (remark,) = client.remarks
    assert f"could not be ended: status {status}" in remark
    assert run.bmc.open_sessions == ["1"]


def test_a_bmc_without_sessions_gets_the_password_with_each_request(start: Start) -> None:
    run = start("hpe", Faults(no_session_service=404))
    run.refused("no service of sessions.*auth: basic")
    run.rules = {"auth": "basic"}
    assert run.until_done() == 1
    assert {one.auth for one in run.bmc.request_log[1:]} == {"basic"}
    run.bmc.faults.no_session_service = 401
    run.rules = {}
    run.refused("refuses the user or the password.*auth: basic")


def test_a_wrong_password_without_sessions_is_sent_once(start: Start) -> None:
    run = start("dell")
    with run.client(password="wrong", auth="basic") as client:
        for words in ("refuses the user or the password", "has refused the password"):
            with pytest.raises(TuningError, match=words):
                client.fetch_resource_body("/redfish/v1/Systems")
    assert (run.bmc.failed_logins, len(run.bmc.request_log)) == (1, 1)


def test_a_login_that_is_sent_on_to_the_same_place(start: Start) -> None:
    """Older boards of Supermicro answer the login with a redirection to the same path with a slash."""
    run = start("supermicro", Faults(login_wants_slash=True))
    assert run.until_done() == 1
    assert run.bmc.open_sessions == []
