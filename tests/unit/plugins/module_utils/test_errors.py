# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Damaged


def test_a_sentence_keeps_both_ends_of_what_it_repeats() -> None:
    sentence = str(BadRequest(f"cpus is '{'9' * 5000}'; say numbers."))
    assert sentence.startswith("cpus is '999") and sentence.endswith("999'; say numbers.") and "9...9" in sentence
    assert len(sentence) < 300
    pasted = str(BadRequest(f"cpus is '{'x ' * 5000}'; say numbers."))
    assert pasted.startswith("cpus is 'x x") and pasted.endswith("x '; say numbers.") and len(pasted) <= 4000


def test_a_sentence_of_usual_words_stays_as_it_is() -> None:
    sentence = " ".join(["word"] * 199)
    assert str(BadRequest(sentence)) == sentence
    assert str(Damaged("/var/lib/x", "it is no JSON")) == "/var/lib/x is damaged: it is no JSON."
