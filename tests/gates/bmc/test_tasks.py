# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BMCs that answer before they have done it, or that say in a good answer why they did not.

What the BMC does later is never denied: it is waited for, or it is said that it is not known yet.
"""

from __future__ import annotations

import json

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from vepyc.bmc import Faults

from .runs import Start

NPS4 = {"nps": "4"}


@pytest.mark.parametrize("place", ["location", "task", "body", "nowhere"])
def test_a_task_is_followed_to_its_end(start: Start, place: str) -> None:
    run = start("lenovo", Faults(task_polls=4, task_named_in=place))
    told = run(wish=NPS4)
    assert (told["changed"], told["reboot_required"]) == (True, True)
    assert run.bmc.pending_settings == {"Memory_NUMANodesperSocket": "NPS4"}
    # The BMC says how long to wait, where there is a task to ask.
    assert run.slept == ([1, 2, 4] if place == "nowhere" else [2, 2, 2])
    run.bmc.boot_machine()
    assert run(wish=NPS4)["settings"][0]["verdict"] == "claimed by firmware"


@pytest.mark.parametrize("place", ["location", "nowhere"])
def test_what_others_left_is_cleared_by_a_task_too(start: Start, place: str) -> None:
    faults = Faults(task_polls=3, task_named_in=place, foreign_pending={"Processors_SMTMode": "Disabled"})
    run = start("lenovo", faults)
    run(wish=NPS4, foreign="clear")
    assert run.bmc.pending_settings == {"Memory_NUMANodesperSocket": "NPS4"}


def test_a_task_that_fails_puts_its_reason_into_the_sentence(start: Start) -> None:
    run = start("lenovo", Faults(task_polls=2, task_fails="NPS4 needs DIMMs in all channels."))
    said = run.refused("'NPS4 needs DIMMs in all channels.'", wish=NPS4)
    assert "task" in said and "put back" not in said
    assert json.loads(run.file.read_text())["sent"] == {}


def test_nothing_is_claimed_of_settings_that_a_bmc_hides(start: Start) -> None:
    run = start("supermicro", Faults(task_polls=2, task_fails="NPS4 needs DIMMs in all channels."))
    said = run.refused("'NPS4 needs DIMMs in all channels.'", wish=NPS4)
    assert "it is not known whether a boot would apply some of it" in said and "Nothing is pending" not in said
    assert json.loads(run.file.read_text())["sent"] != {}


def test_a_bmc_that_shows_it_at_the_last_moment(start: Start) -> None:
    """Seven pauses are sixty seconds, and what the last reading shows counts."""
    run = start("lenovo", Faults(task_polls=8, task_named_in="nowhere"))
    assert run(wish=NPS4)["changed"] is True
    assert run.slept == [1, 2, 4, 8, 15, 15, 15]


@pytest.mark.parametrize("place", ["location", "nowhere"])
def test_a_task_that_does_not_end_is_not_denied_and_stays_remembered(start: Start, place: str) -> None:
    run = start("lenovo", Faults(task_polls=10**6, task_named_in=place))
    with pytest.raises(TuningError, match="not known yet") as failed:
        run(wish=NPS4)
    assert "put back" not in str(failed.value) and failed.value.details["again"] is True
    assert sum(run.slept) <= 60
    # The BMC does it after all, and the run knows it as its own.
    assert json.loads(run.file.read_text())["sent"] == {"Memory_NUMANodesperSocket": "NPS4"}
    run.bmc.host.bios.pending["Memory_NUMANodesperSocket"] = "NPS4"
    run.bmc.faults.task_polls = 0
    assert run(check=True, wish={"smt": "off"})["pending"] == {"Memory_NUMANodesperSocket": "NPS4"}


def test_the_reason_in_a_good_answer_is_told(start: Start) -> None:
    run = start("lenovo", Faults(refused_in_success="The value NPS4 is not in the list."))
    said = run.refused("'The value NPS4 is not in the list.'", wish=NPS4)
    assert "dropped Memory_NUMANodesperSocket" in said and "put back" not in said


def test_the_reason_of_the_job_that_failed_at_the_boot_is_told(start: Start) -> None:
    run = start("dell", Faults(job_fails="Invalid BIOS attribute dependency."))
    run(wish=NPS4)
    run.bmc.boot_machine()
    row = run(check=True, wish=NPS4)["settings"][0]
    assert row["verdict"] == "wrong"
    assert "'Invalid BIOS attribute dependency.'" in row["sentence"] and "JID_" in row["sentence"]


def test_what_is_put_back_is_read_before_it_is_said(start: Start) -> None:
    """One of two is dropped at once, and the other one cannot be taken back."""
    run = start("lenovo", Faults(pending_stays=True))
    run.bmc.faults.accept_and_drop_at_once = ("Processors_SMTMode",)
    with pytest.raises(TuningError, match="dropped Processors_SMTMode") as failed:
        run(wish={"nps": "4", "smt": "off"})
    assert "Memory_NUMANodesperSocket is still pending" in str(failed.value)
    assert json.loads(run.file.read_text())["sent"] == {"Memory_NUMANodesperSocket": "NPS4"}
    run.bmc.faults.pending_stays = False
    run.refused("dropped Processors_SMTMode", wish={"nps": "4", "smt": "off"})
