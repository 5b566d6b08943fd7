# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts for suffixes: those that ik_llama.cpp takes, and those that it would leave out with a line in its log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.suffix_corpus import (
    validate_suffix_corpus,
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("texts.json", '["one two three"]'),
        ("text.json", '"one two three"'),
        ("chats.json", '[{"messages": [{"role": "user", "content": "one"}]}, 5]'),
        ("objects.json", '[{"content": "", "messages": ["one"]}, {"content": "two"}]'),
        ("tokens.bin", "12345678"),
    ],
)
def test_what_is_taken(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    validate_suffix_corpus(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("a.json", "one two three", r"a\.json is no JSON \(Expecting value"),
        ("a.json", "\x80", r"a\.json is no JSON \("),
        ("a.json", "[" * 100_000, r"a\.json is no JSON \(it has too many levels\)"),
        ("a.json", '["one", NaN]', r"a\.json is no JSON \(NaN is no number of JSON\)"),
        ("a.json", "{}", r"a\.json has no text\. It is a list of texts, or of objects with content or messages\.$"),
        ("a.json", '[{"content": "", "messages": ["one"]}, {"text": "two"}]', "has no text"),
        ("a.bin", "12345", r"a\.bin has 5 bytes, and a token has 4\. Texts are in a file whose name ends in \.json"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadRequest, match=sentence):
        validate_suffix_corpus(str(tmp_path / name))


def test_too_many_tokens_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.touch()
    os.truncate(path, 4 << 22)
    validate_suffix_corpus(str(path))
    os.truncate(path, (4 << 22) + 4)
    with pytest.raises(BadRequest, match=r"a\.bin has 4194305 tokens, and 4194304 is the most\. Make it shorter"):
        validate_suffix_corpus(str(path))
