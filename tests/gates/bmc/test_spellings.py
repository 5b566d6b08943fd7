# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The same value in several spellings: a run converges, and nothing is somebody else's that only looks different."""

from __future__ import annotations

from itertools import combinations

import pytest

from vepyc.bmc import Faults

from .runs import Start

PLACES = ("registry", "active", "pending")
SUBSETS = [places for number in (1, 2, 3) for places in combinations(PLACES, number)]


@pytest.mark.parametrize("places", SUBSETS, ids="-".join)
def test_numbers_as_text_and_texts_as_numbers_converge(start: Start, places: tuple[str, ...]) -> None:
    run = start("dell", Faults(numbers_in=places))
    assert run(check=True, wish={"nps": "1"})["changed"] is False
    assert run.until_done(wish={"nps": "4"}) == 1
    run.until_done(undo=True)
    assert not run.file.exists()


@pytest.mark.parametrize("places", SUBSETS, ids="-".join)
@pytest.mark.parametrize("fault", ["blanks_in", "capitals_in"])
def test_blanks_and_capitals_converge(start: Start, fault: str, places: tuple[str, ...]) -> None:
    """The pending object of this maker repeats the active values, so a difference would be somebody else's."""
    faults = Faults()
    setattr(faults, fault, places)
    run = start("lenovo", faults)
    wish = {"nps": "4", "smt": "off"}
    assert run.until_done(wish=wish) == 1
    assert run(check=True, wish=wish)["settings"][0]["verdict"] == "claimed by firmware"
    run.until_done(undo=True)


def test_attributes_that_only_the_pending_object_has_are_no_foreign_change(start: Start) -> None:
    run = start("lenovo", Faults(only_in_pending={"DevicesandIOPorts_Device_Slot6": "Enable"}))
    assert run.until_done(wish={"nps": "4"}) == 1
    run.bmc.host.bios.pending["Processors_SMTMode"] = "Disabled"
    said = run.refused("Somebody else has settings pending", wish={"nps": "1"})
    assert "Slot6" not in said
    run(wish={"nps": "1"}, foreign="clear")
    assert all(
        None not in (one.body or {})["Attributes"].values() for one in run.bmc.request_log if one.method == "PATCH"
    )
