# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Answers that are no Redfish, and gateways of a service that starts: asked again, and never taken for "nothing"."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import reset_server
from vepyc.bmc import Faults

from .runs import Start

NPS4 = {"nps": "4"}
BODIES = [Faults().garbled_body, b"cut", b"[]", b"", b'"x"', b"\x1f\x8bnothing"]


@pytest.mark.parametrize("body", BODIES, ids=["page", "cut", "list", "empty", "text", "torn gzip"])
def test_an_answer_that_is_no_redfish_is_asked_for_again(start: Start, body: bytes) -> None:
    """Somebody's pending settings are not passed over because the BMC once answered with something else."""
    run = start("hpe", Faults(foreign_pending={"ProcSMT": "Disabled"}, garbled={"/Settings": 2}, garbled_body=body))
    run.refused("Somebody else has settings pending", wish=NPS4)
    assert run.slept == [1, 2]


@pytest.mark.parametrize("place", ["/Systems", "/Settings", "/Bios", "/Registries"])
def test_a_bmc_that_keeps_to_answer_so_is_named(start: Start, place: str) -> None:
    run = start("hpe", Faults(garbled={place: 99}))
    if place == "/Registries":
        run.bmc.faults.garbled = {str(run.bmc.host.personality["registry"]["uri"]): 99}
    with pytest.raises(TuningError, match="with what is no Redfish") as failed:
        run(wish=NPS4)
    assert failed.value.details["again"] is True
    assert sum(run.slept) <= 60
    assert (run.bmc.pending_settings, run.bmc.open_sessions) == ({}, [])


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("place", ["/Sessions", "/Bios", "/Settings"])
def test_a_service_that_starts_is_asked_again(start: Start, status: int, place: str) -> None:
    run = start("hpe", Faults(failing={place: (status, 2)}))
    assert run.until_done(wish=NPS4) == 1
    assert run.slept[:2] == [1, 2]


def test_a_reset_that_may_have_been_done_is_not_sent_again(start: Start) -> None:
    run = start("hpe", Faults(failing={"ComputerSystem.Reset": (504, 1)}))
    with pytest.raises(TuningError, match="refuses the reset ForceRestart: status 504"), run.client() as client:
        reset_server(client, None, "force")
    assert run.slept == []
