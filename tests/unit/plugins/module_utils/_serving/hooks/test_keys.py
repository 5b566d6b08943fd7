# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file of keys as the server reads it, and those that would leave a server open or closed to all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import keys


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_a_line_is_a_key_and_a_comment_is_none(file: Path) -> None:
    file.write_text("# of the team\n\nsecret key\nanother#one\n#third\nlast")
    assert keys.read_api_keys(str(file)) == ["secret key", "another#one", "last"]
    assert keys.has_comment_lines(str(file))
    file.write_text("secret\n")
    assert not keys.has_comment_lines(str(file))


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "# none yet\n", "#\n\n#secret"])
def test_a_file_without_a_key_is_refused(file: Path, text: str) -> None:
    """The server would start, and answer everyone."""
    file.write_text(text)
    with pytest.raises(TuningError, match="holds no key, so that everyone could use the server"):
        keys.read_api_keys(str(file))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("first\r\nsecond\r\n", "has a carriage return, as editors of Windows leave it, at an end of line 1"),
        ("first\nsecond \n", "has a blank, at an end of line 2"),
        (" # no comment\n", "has a blank, at an end of line 1"),
    ],
)
def test_a_key_that_nobody_can_send_is_refused(file: Path, text: str, words: str) -> None:
    file.write_bytes(text.encode())
    with pytest.raises(TuningError, match=words):
        keys.read_api_keys(str(file))


def test_a_file_that_cannot_be_read(file: Path) -> None:
    with pytest.raises(TuningError, match=f"key file {file} cannot be read: No such file or directory"):
        keys.read_api_keys(str(file))
    file.write_bytes(b"\xff")
    with pytest.raises(TuningError, match="is not text"):
        keys.read_api_keys(str(file))


def test_the_keys_that_a_server_has_loaded_are_read_through_its_process(tmp_path: Path) -> None:
    """A command that stops a unit does not see the credential of that unit, which the process of the server sees."""
    (tmp_path / "credential").write_text("# of the team\nloaded\n")
    reading, writing = os.pipe()
    ready, told = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(writing)
        os.chroot(tmp_path)
        os.write(told, b"1")
        os.read(reading, 1)
        os._exit(0)
    try:
        os.read(ready, 1)
        assert keys.read_api_key_loaded_by("/credential", [2**22 - 1, process]) == "loaded"
        assert keys.read_api_key_loaded_by("/credential", [os.getpid()]) is None
    finally:
        for descriptor in (reading, writing, ready, told):
            os.close(descriptor)
        os.waitpid(process, 0)
