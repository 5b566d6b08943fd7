# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines that show less or more than the standard asks for, and answers that are slow, large or torn."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.bios_info import read_result_of_bios_info_module
from vepyc.bmc import Faults

from .runs import Runs, Start

NPS4 = {"nps": "4"}


def info(run: Runs, **more: Any) -> dict[str, Any]:
    with run.client(**more) as client:
        return read_result_of_bios_info_module(client, None, ["catalogue"])


@pytest.mark.parametrize(
    ("vendor", "faults"),
    [("cisco", {}), ("ami", {"no_settings_link": True, "pending_404": True})],
    ids=["Cisco UCS C225 M6", "an older board of AMI"],
)
def test_a_machine_without_a_pending_object_is_read_and_not_set(start: Start, vendor: str, faults: Any) -> None:
    run = start(vendor, Faults(**faults))
    told = info(run)
    assert told["claims"]["smt"]["active"] == "on" and told["pending"] == {}
    assert "no link to its pending settings" in told["remarks"][0]
    assert run(check=True, wish={"smt": "on"})["changed"] is False
    for check in (True, False):
        run.refused("no link to its pending settings.*Nothing was changed", wish=NPS4, check=check)
    assert (run.writes, run.bmc.open_sessions) == ([], [])


def test_the_next_page_of_a_collection_is_read(start: Start) -> None:
    """The server is the last system, its registry the last one, and somebody's job the last job."""
    faults = Faults(page_size=1, more_systems={"DPU.1": {"SystemType": "DPU"}, "DPU.2": {"SystemType": "DPU"}})
    run = start("dell", faults)
    assert run.until_done(wish=NPS4) == 1
    bios = run.bmc.host.bios
    bios.pending["LogicalProc"] = "Disabled"
    bios.jobs["JID_200"] = type(next(iter(bios.jobs.values())))("JID_200")
    run.refused("in the job JID_200: LogicalProc", wish=NPS4)


def test_a_collection_whose_pages_never_end(start: Start) -> None:
    run = start("hpe", Faults(page_size=1))
    run.bmc.faults.rewrite = lambda path, document: (
        {**document, "Members@odata.nextLink": f"{path}?skip=0"} if path.endswith("/Systems") else document
    )
    assert run(check=True, wish=NPS4)["changed"] is True


def test_a_dell_that_knows_no_queries(start: Start) -> None:
    run = start("dell", Faults(query_status=400))
    assert run.until_done(wish=NPS4) == 1


@pytest.mark.parametrize("named_by", ["extref", "odd name"])
def test_a_registry_is_found_however_it_is_named(start: Start, named_by: str) -> None:
    run = start("cisco", Faults(registry_named_by=named_by))
    assert info(run)["claims"]["nps"]["attribute"] == "CbsDfCmnDramNps"


@pytest.mark.parametrize("fingerprint", [False, True])
def test_a_bmc_of_four_bytes_a_second_is_left_within_twice_the_timeout(start: Start, fingerprint: bool) -> None:
    run = start("hpe")
    how = {"ca_path": None, "fingerprint": run.bmc.fingerprint} if fingerprint else {}
    begun = time.monotonic()
    with (
        pytest.raises(TuningError, match="did not answer within 1 seconds") as failed,
        run.client(timeout=1, **how) as c,
    ):
        run.bmc.faults.bytes_per_second = 4
        read_result_of_bios_info_module(c, None, [])
    assert time.monotonic() - begun < 2 + 1, "one request and the end of the session, and the time of this machine"
    assert "Traceback" not in str(failed.value)
    assert "could not be ended" in c.remarks[0]


@pytest.mark.parametrize("address", ["[::1", "bmc7:99999", "bmc7:-1", "https://bmc7:x", "bmc 7", "bmc7\n", ""])
def test_an_address_that_is_none_is_one_sentence(address: str) -> None:
    from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.connection.client import BmcAccess

    with pytest.raises(TuningError, match="is no BMC"):
        BmcAccess(address, "u", "p")
