# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checklist of a host that must be tuned: every finding of a check is an item."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import survey as surveys
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.verdict import Verdict, unreadable_address_verdict
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._verify import test_checklist
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._verify.test_checklist import check, verdict

tree = test_checklist.tree


def unit(kind: str, wanted: str, found: str | None) -> Verdict:
    return verdict(f"llama:llama-chat.service/{kind}", wanted, found, request="", reason="'journalctl' says why")


def test_a_host_that_must_be_tuned_begins_with_what_it_lacks_as_a_whole(tree: hosts.Host) -> None:
    run = verdict("run:site", "ended", "did not end", request="", reason="the run of site.yml by ops did not end")
    nothing = unreadable_address_verdict("", "desired:", surveys.NOTHING_STORED)
    for tuned in (False, True):
        items = check(tree, [run, nothing], tuned=tuned)
        assert list(items)[:2] == (["run", "stored"] if tuned else ["nps", "smt"])
    assert (items["run"].verdict, items["run"].sentence) == (
        "wrong",
        "the run of site.yml by ops did not end. Run site.yml.",
    )
    assert items["stored"].verdict == "unknown"
    assert items["stored"].sentence == f"stored requests: unknown: {surveys.NOTHING_STORED}. Run site.yml."


def test_a_layer_that_is_asked_for_and_is_not_there_is_wrong(tree: hosts.Host) -> None:
    missing = verdict("resctrl:", "stored", None, request="resctrl/resctrl", reason="the layer cat is asked for")
    item = check(tree, [missing])["resctrl"]
    assert (item.verdict, item.sentence) == (
        "wrong",
        "found nothing, wanted stored; the layer cat is asked for. Run site.yml --tags cat.",
    )


def test_units_are_items_and_what_was_not_looked_at_is_said(tree: hosts.Host) -> None:
    wrong = [unit("active", "active", "failed"), unit("file", "as it was written", "changed by hand")]
    assert "units" not in check(tree, wrong), "where the host need not be tuned"
    seen = check(tree, wrong, tuned=True)
    assert seen["units"].title == "unit of instance chat", "the service has an item"
    assert seen["units"].sentence.startswith("found changed by hand")
    assert "services" not in seen
    left_out = check(tree, wrong[:1], tuned=True, services=False)
    assert left_out["units"].verdict == "wrong" and not left_out["units"].is_clean
    assert left_out["units"].sentence == (
        "found failed, wanted active; 'journalctl' says why. Run site.yml --tags llama."
    )
    assert (left_out["services"].verdict, left_out["services"].is_clean) == ("not looked at", True)
    assert "epyc_verify_services is false" in left_out["services"].sentence
    starting = unit("active", "active", "activating")
    assert "units" not in check(tree, [starting], tuned=True, services=False), "it has time to start"
