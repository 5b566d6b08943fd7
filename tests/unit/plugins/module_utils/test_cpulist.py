# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils import _cpulist


@given(st.sets(st.integers(0, _cpulist.LARGEST_CPU)))
def test_what_is_rendered_parses_back(cpus: set[int]) -> None:
    assert _cpulist.parse(_cpulist.render(cpus)) == tuple(sorted(cpus))


@given(st.text(alphabet="0123456789,- \n", max_size=20))
def test_any_text_parses_or_is_refused_with_a_sentence(text: str) -> None:
    try:
        cpus = _cpulist.parse(text)
    except ValueError as error:
        assert str(error).startswith(("'", "the range"))
    else:
        assert _cpulist.parse(_cpulist.render(cpus)) == cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("", ()), ("\n", ()), ("5", (5,)), ("0-3,8", (0, 1, 2, 3, 8)), (" 8 , 0-1", (0, 1, 8)), ("1,1", (1,))],
)
def test_notation(text: str, cpus: tuple[int, ...]) -> None:
    assert _cpulist.parse(text) == cpus


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3-1", "backwards"),
        ("a", "no CPU number"),
        ("1-", "no CPU number"),
        ("-1", "no CPU number"),
        ("99999", "beyond"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        _cpulist.parse(text)


def test_rendering_is_the_shortest_form() -> None:
    assert _cpulist.render([3, 1, 2, 7, 9, 8]) == "1-3,7-9"
