# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BMCs with several systems: the only server among them is taken, and of two servers none is."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish.server_reset import reset_server
from vepyc.bmc import Faults

from .runs import Start


def test_of_two_servers_none_is_taken_and_each_named_one_is(start: Start) -> None:
    """The sled of two nodes, whose Ids are 1 and 2."""
    run = start("lenovo", Faults(more_systems={"2": {}}))
    run.refused(r"has several servers, 2, 1\. Choose one with the option system", wish={"nps": "4"})
    with pytest.raises(TuningError, match="Choose one with the option system"), run.client() as client:
        reset_server(client, None, "force")
    assert (run.writes, run.bmc.host.boots) == ([], 0)
    assert run.until_done(system="1", wish={"nps": "4"}) == 1
    assert run(check=True, system="2", wish={"nps": "2"})["changed"] is True
    run.refused("has no system 3, but 2, 1", system="3")


@pytest.mark.parametrize(
    "card",
    [
        {"DPU.Slot.1": {"SystemType": "DPU"}},
        {"HGX_Baseboard_0": {}},
        {"Bluefield": {}},
        {"Composed1": {"SystemType": "Composed"}},
        {"Chassis": {"Bios": None}},
    ],
    ids=lambda card: next(iter(card)),
)
def test_the_only_server_among_others_is_taken(start: Start, card: dict[str, dict[str, object]]) -> None:
    run = start("hpe", Faults(more_systems=card))
    assert run.until_done(wish={"nps": "4"}) == 1
    with run.client() as client:
        assert reset_server(client, None, "force")["sent"] == ["ForceRestart"]


def test_the_id_may_differ_from_the_path(start: Start) -> None:
    run = start("hpe", Faults(system_shows={"Id": "Server-ABC"}))
    assert run.until_done(wish={"nps": "4"}) == 1
    run.bmc.faults.more_systems = {"2": {"Id": "Server-DEF"}}
    said = run.refused("has several servers, Server-DEF, Server-ABC", wish={"nps": "1"})
    assert "Choose" in said
    for name in ("Server-ABC", "1"):
        assert run(check=True, system=name, wish={"nps": "4"})["changed"] is False
    with run.client() as client:
        assert reset_server(client, "Server-ABC", "force", check=True)["sent"] == ["ForceRestart"]


def test_a_system_in_error_ends_no_run_for_the_other(start: Start) -> None:
    run = start("hpe", Faults(more_systems={"HGX_Baseboard_0": {"status": 500}}))
    assert run.until_done(wish={"nps": "4"}) == 1


def test_a_system_in_error_that_may_be_the_server_is_not_passed_over_in_silence(start: Start) -> None:
    run = start("hpe", Faults(more_systems={"2": {"status": 500}}))
    told = run(check=True, wish={"nps": "4"})
    assert "2 answers with an error" in told["remarks"][0]
    run.refused("not sure that 1 is the server.*option system", wish={"nps": "4"})
    with pytest.raises(TuningError, match="not sure that 1 is the server"), run.client() as client:
        reset_server(client, None, "force")
    assert (run.writes, run.bmc.host.boots) == ([], 0)
    assert run.until_done(system="1", wish={"nps": "4"}) == 1
