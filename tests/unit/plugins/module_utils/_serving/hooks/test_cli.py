# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The words of the host's command for servers; what the commands do is tested with each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import cli
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("start",),
        ("await", URL),
        ("await", "--timeout", "5"),
        ("await", URL, "--timeout"),
        ("await", URL, "--timeout", "5", "--timeout", "6"),
        ("await", URL, URL, "--timeout", "5"),
        ("await", URL, "--timeout", "5", "--key-file", "x"),
        ("stage", "model.gguf"),
        ("stage", "model.gguf", "folder", "--json"),
        ("place", "model.gguf", "--policy", "bind"),
        ("room", "1", "--nodes", "0"),
        ("home", "12"),
    ],
)
def test_what_it_does_not_know_is_answered_by_its_usage(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _cli.main(("llama", *words)) == 1
    assert capsys.readouterr().err == cli.USAGE


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("await", URL, "--timeout", "soon"), "--timeout: 'soon' is not a number of seconds."),
        (("room", "many", "--nodes", "0", "--files", "[]"), "'many' is no number of bytes."),
        (("room", "1", "--nodes", "0", "--files", "x"), "--files: 'x' is no list of files in JSON."),
        (("place", "x", "--policy", "preferred", "--nodes", "0"), "--policy: 'preferred' is unknown; use bind, inter"),
        (("place", "x", "--policy", "bind", "--nodes", "9"), "--nodes: there is no node 9 with memory on this host"),
        (("place", "/none", "--policy", "bind", "--nodes", "0"), "/none cannot be read: No such file or directory."),
        (("place", "/no\x1b\u202e", "--policy", "bind", "--nodes", "0"), r"/no\x1b\u202e cannot be read: No such file"),
        (("stage", "x", "/dev", "--policy", "local"), "--policy: a copy cannot be staged with 'local'; use bind or"),
        (("stage", "x", "/proc", "--nodes", "0-9"), "--nodes: there is no node 4 with memory on this host, only 0-3."),
        (
            ("stage", "x", "/proc", "--nodes", "0"),
            "/proc is not on a hugetlbfs. Mount one, for example with 'mount -t hugetl",
        ),
        (("home", "main", "--cpus", "0"), "'main' is not a process ID."),
        (("home", "4194305", "--cpus", "0"), "Process 4194305 has ended."),
        (("stage", "x", "/none"), "/none cannot be looked at: No such file or directory. It must be a folder on a hu"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    words: tuple[str, ...],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hosts.small(tmp_path)
    monkeypatch.setattr(cli, "KernelFS", lambda read_only: KernelFS(str(tmp_path), read_only=read_only))
    assert _cli.main(("llama", *words)) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(sentence) and said.err.count("\n") == 1


def test_what_a_command_says_has_its_control_characters_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "room", (*cli.COMMANDS["room"][:3], lambda options: "\x1b]0;x\x07 \u202e"))
    assert _cli.main(("llama", "room", "1", "--nodes", "0", "--files", "[]")) == 0
    assert capsys.readouterr().out == "\\x1b]0;x\\x07 \\u202e\n"
