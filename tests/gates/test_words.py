# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of words has every word that a report prints as a verdict or a state, and no other word.

Page: docs/words.md, where the first cell of a row has the word between backticks.
"""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils import _agent
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.compare import run_comparison
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts import comparison, variant_verdicts
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.repair import Repair
from ansible_collections.sovereign.epyc.plugins.module_utils._drift.words import STATUS_WORDS
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import member
from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import ROLES
from ansible_collections.sovereign.epyc.plugins.module_utils._host.map_data import OFFLINE
from ansible_collections.sovereign.epyc.plugins.module_utils._redfish import probe, settings_table
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import boot_service, checklist_items
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity import fleet
from ansible_collections.sovereign.epyc.plugins.plugin_utils._drift_report import fleet_report, wording

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/words.md"
REPORTS = "module_utils/_bench/reports"


def texts_of_constants(module: object) -> set[str]:
    """Return the values of a module's constants that are words: a name in capital letters, a text in small ones."""
    return {
        value
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str) and re.fullmatch("[a-z][a-z -]*", value)
    }


WORDS = {
    "Drift": {
        *STATUS_WORDS,
        *STATUS_WORDS.values(),
        *filter(None, wording.NO_STATUS_WORDS),
        *wording.NO_STATUS_WORDS.values(),
        *fleet_report.STATES,
        *wording.STATE_WORDS.values(),
        *wording.CHECK_WORDS.values(),
        *(name for name, value in vars(Repair()).items() if value == [] and name not in ("changes", "remarks")),
    },
    "Verify": texts_of_constants(checklist_items)
    | texts_of_constants(boot_service)
    | texts_of_constants(settings_table)
    | {probe.WORKS, probe.HINDERS, probe.REMARK},
    "Plan": {*ROLES, OFFLINE},
    "Measuring": {
        *texts_of_constants(comparison),
        *schedule.FIXED_ARMS,
        *(arm.strip() for arm in (schedule.WITHOUT, schedule.CANDIDATE, schedule.SCREEN, schedule.VARIANT)),
        *texts_of_constants(run_comparison),
    },
    "Gateway": {*member.STATES, _agent.OUT, fleet.OVER, fleet.UNDER, fleet.EVEN, fleet.NOT_KNOWN},
}
#: Words of the page that are parts of longer texts in the sources.
IN_SENTENCES = {
    "Plan": dict.fromkeys(("FAULT", "Note", "Cannot do", "Missing"), "module_utils/_host/plan_text.py"),
    "Measuring": {
        **dict.fromkeys(("confirmed", "not confirmed", "not sound"), f"{REPORTS}/ablation_report.py"),
        "discarded": f"{REPORTS}/first_screen.py",
    },
    "Gateway": {
        **dict.fromkeys(("up", "stopped", "no answer"), "module_utils/_agent.py"),
        **dict.fromkeys(("in reach", "at best", "no"), "plugin_utils/_capacity/paper_tiers.py"),
    },
}


def words_by_section() -> dict[str, set[str]]:
    """Return the words of the page's tables by section."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {text.partition("\n")[0]: set(re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)) for text in sections}


def test_the_page_has_every_word_of_the_reports_and_no_other() -> None:
    on_page = words_by_section()
    assert on_page.keys() == WORDS.keys()
    for section, words in WORDS.items():
        assert on_page[section] == words | IN_SENTENCES.get(section, {}).keys(), section


def test_words_that_stand_in_sentences_are_printed() -> None:
    for words in IN_SENTENCES.values():
        for word, path in words.items():
            source = (ROOT / "plugins" / path).read_text(encoding="utf-8")
            assert re.search(rf'"[^"\n]*\b{word}\b', source), (word, path)


def test_the_page_has_the_advice_on_each_variant() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert [advice for advice in variant_verdicts.ADVICE.values() if f"`{advice}`" not in text] == []
