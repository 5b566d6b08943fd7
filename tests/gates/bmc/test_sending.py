# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How settings are sent: never to be applied at once, and with the entity tag that a BMC wants, if it wants one."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from vepyc.bmc import Faults

from .runs import Start

NPS4 = {"nps": "4"}
TIMES = [("Immediate",), ("Immediate", "AtMaintenanceWindowStart"), ("InMaintenanceWindowOnReset",)]


@pytest.mark.parametrize("place", ["bios", "pending", "operations"])
@pytest.mark.parametrize("times", TIMES, ids=lambda times: times[-1])
def test_a_bmc_that_does_not_wait_for_a_reset_gets_nothing(start: Start, times: tuple[str, ...], place: str) -> None:
    run = start("lenovo", Faults(apply_times=times, apply_times_named_in=place))
    for check in (True, False):
        said = run.refused(f"only at {', '.join(times)}", wish=NPS4, check=check)
        assert "Nothing was changed" in said
    assert (run.writes, run.bmc.host.boots, run.bmc.machine_state["nps"]) == ([], 0, 1)
    # What is active already needs no request, and is no refusal.
    assert run(check=True, wish={"nps": "1"})["changed"] is False


def test_pending_settings_of_others_are_not_cleared_at_once(start: Start) -> None:
    faults = Faults(foreign_pending={"Processors_SMTMode": "Disabled"}, apply_times=("Immediate",))
    run = start("lenovo", faults)
    run.refused("only at Immediate", wish={"nps": "1"}, foreign="clear")
    assert run.writes == []


IF_MATCH = ["refused", "no tags", "real", "of bios", "unquoted", "weak", "strong"]


@pytest.mark.parametrize("rule", IF_MATCH)
@pytest.mark.parametrize("vendor", ["dell", "lenovo", "ami"])
def test_whatever_a_bmc_wants_of_an_entity_tag_it_gets(start: Start, vendor: str, rule: str) -> None:
    run = start(vendor, Faults(if_match=rule))
    assert run.until_done(wish=NPS4) == 1
    run.until_done(undo=True)
    tags = [(one.headers or {}).get("If-Match") for one in run.bmc.request_log if one.method == "PATCH"]
    if rule in ("no tags", "real"):
        assert "*" not in tags, "it is an error for this BMC, and none was needed"


def test_no_tag_is_sent_where_none_was_given(start: Start) -> None:
    run = start("lenovo", Faults(if_match="no tags"))
    run(wish=NPS4)
    assert [(one.headers or {}).get("If-Match") for one in run.bmc.request_log if one.method == "PATCH"] == [None]


def test_without_a_tag_nothing_is_sent_over_what_somebody_changed_meanwhile(start: Start) -> None:
    """A BMC that refuses each tag gets one request without, but only if its settings are those that were read."""
    run = start("lenovo", Faults(if_match="refused"))
    bios, refuse = run.bmc.host.bios, run.bmc.host.bios.compute_etag
    seen = []

    def change_meanwhile(shown: object) -> str:
        seen.append(shown)
        if len(seen) == 2:
            bios.pending["Processors_SMTMode"] = "Disabled"
        return refuse(shown)  # type: ignore[arg-type]

    bios.compute_etag = change_meanwhile  # type: ignore[method-assign]
    with pytest.raises(TuningError, match="Somebody else changes the BIOS settings"):
        run(wish=NPS4)
    assert run.bmc.pending_settings == {"Processors_SMTMode": "Disabled"}


def test_both_refusals_are_told_where_no_tag_helps(start: Start) -> None:
    run = start("lenovo", Faults(if_match="all refused"))
    said = run.refused("412", wish=NPS4)
    assert "with an entity tag and without" in said
