# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How settings are sent: never to be applied at once, and with the entity tag that a BMC wants, if it wants one."""

from __future__ import annotations

import pytest

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
