# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The prompts of a benchmark, and the files of users."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import prompts
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest


def repeated(text: str, size: int = 12) -> float:
    """The share of runs of so many characters that a text has had before."""
    runs = [text[at : at + size] for at in range(len(text) - size)]
    return 1 - len(set(runs)) / len(runs)


def test_the_built_in_prompts_have_three_kinds() -> None:
    found = prompts.built_in_prompts()
    assert sorted(found) == ["code_edit", "prose", "summary"]
    texts = [prompt.text for kind in found.values() for prompt in kind]
    assert len(texts) == len(set(texts)) and all(len(kind) >= 3 for kind in found.values())
    assert {prompt.tokens for kind in found.values() for prompt in kind} == {prompts.DEFAULT_TOKENS}
    assert all(prompt.kind == kind for kind, members in found.items() for prompt in members)
    assert {prompt.tokens for kind in prompts.built_in_prompts(500).values() for prompt in kind} == {500}


def test_prose_repeats_nothing_that_could_be_guessed() -> None:
    assert max(repeated(prompt.text) for prompt in prompts.built_in_prompts()["prose"]) < 0.05


@pytest.mark.parametrize(("kind", "quoted"), [("code_edit", "```python\n"), ("summary", "An article:\n\n")])
def test_what_is_copied_is_longer_than_the_answer(kind: str, quoted: str) -> None:
    """So that speculation has something to guess up to the last token; four characters make a token, about."""
    for prompt in prompts.built_in_prompts()[kind]:
        given = prompt.text.partition(quoted)[2].partition("```\n" if kind == "code_edit" else "\n\nA summary")[0]
        assert len(given) / 4 > prompts.DEFAULT_TOKENS
        assert prompt.text.endswith(("```python\n", '"'))


def test_a_users_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"text": "Once", "output_length": 200, "session_id": "a", "role": "user"}\n\n  \n'
        '{"type": "single_turn", "texts": ["Größe\\n"], "image": null}\r\n'
    )
    found = prompts.read_prompt_file(str(path), default_output_length=120)
    assert [(one.kind, one.text, one.tokens) for one in found] == [("user", "Once", 200), ("user", "Größe\n", 120)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 2: it is not JSON ("),
        ("[1]", "line 2: it is no JSON object"),
        ("{}", "line 2: it has no text"),
        ('{"text": ""}', "line 2: it has no text"),
        ('{"text": 5}', "line 2: it has no text"),
        ('{"texts": [5]}', "line 2: it has no text"),
        ('{"texts": ["a", "b"]}', "line 2: its texts are not one text"),
        ('{"texts": "a"}', "line 2: its texts are not one text"),
        ('{"text": "a", "texts": ["b"]}', "line 2: it has both text and texts"),
        ('{"text": "a", "image": "b.png"}', "line 2: 'image' cannot be asked here"),
        ('{"text": "a", "timestamp": 0}', "line 2: 'timestamp' cannot be asked here"),
        ('{"turns": [{"text": "a"}]}', "line 2: 'turns' cannot be asked here"),
        ('{"text": "a", "type": "multi_turn"}', "line 2: its type is 'multi_turn'"),
        ('{"text": "a", "output_length": 1}', "line 2: its output_length is 1"),
        ('{"text": "a", "output_length": true}', "line 2: its output_length is True"),
        ('{"text": "a", "output_length": 9.5}', "line 2: its output_length is 9.5"),
        ('{"text": "a", "kind": ""}', "line 2: its kind is ''; give a name of at most 40 plain characters"),
        ('{"text": "a", "kind": "a\\nb"}', "line 2: its kind is 'a\\nb'"),
        ('{"text": "a", "kind": 5}', "line 2: its kind is 5"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(BadRequest) as error:
        prompts.read_prompt_file(str(path))
    assert str(error.value).startswith(f"{path}, {words}") and str(error.value).endswith(".")


def test_files_that_hold_no_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.jsonl"
    with pytest.raises(BadRequest, match=r"cannot be read: No such file or directory\."):
        prompts.read_prompt_file(str(path))
    path.write_text("\n \n")
    with pytest.raises(BadRequest, match="are empty: write a line"):
        prompts.read_prompt_file(str(path))
    path.write_bytes(b'{"text": "Gr\xf6\xdfe"}')
    with pytest.raises(BadRequest, match="line 1: it is not UTF-8"):
        prompts.read_prompt_file(str(path))
    monkeypatch.setattr(prompts, "LARGEST_FILE", 10)
    with pytest.raises(BadRequest, match="are larger than"):
        prompts.read_prompt_file(str(path))


def test_the_digest_differs_between_prompts() -> None:
    one = prompts.Prompt("user", "Once", 100)
    others = [
        prompts.Prompt("prose", "Once", 100),
        prompts.Prompt("user", "Twice", 100),
        prompts.Prompt("user", "Once", 99),
    ]
    assert prompts.digest_prompts([one]) == prompts.digest_prompts([prompts.Prompt("user", "Once", 100)])
    assert len({prompts.digest_prompts([each]) for each in (one, *others)} | {prompts.digest_prompts([one, one])}) == 5
