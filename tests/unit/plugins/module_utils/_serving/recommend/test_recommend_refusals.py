# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests for a recommendation that are refused, each with the sentence that says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.recommendations import (
    free_all_ports,
    refused,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import (
    sized,
)


@pytest.fixture(autouse=True)
def all_ports_free(monkeypatch: pytest.MonkeyPatch) -> None:
    free_all_ports(monkeypatch)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "models is empty: name at least one model"),
        ("", "models is empty: name at least one model"),
        (None, "models is empty: name at least one model"),
        (5, "models: model is 5; say the path of a GGUF file on the host, or its URL."),
        ([["x"]], "models: model is ['x']; say the path"),
        ({"model": "/x", "size": 5}, "models: a model has no 'size'; it takes model, draft, checksum"),
        ({"draft": "/x"}, "models: model is ''; say the path"),
        ({"model": "/x", "context": 0}, "models: context is 0; say a whole number from 1 up."),
        ({"model": "/x", "slots": True}, "models: slots is True; say a whole number from 1 up."),
        ({"model": "/x", "checksum": [5]}, "models: checksum is [5]; say a list with sha256:HEX for each file."),
        ({"model": "/x", "draft_checksum": "x"}, "draft_checksum is given without a draft."),
        ({"model": "/x", "checksum": "x"}, "is on the host already, so its checksum is not asked for."),
        (["/x", "/x"], "models: /x is named twice."),
        ("/srv/{{ x }}.gguf", "with signs that Ansible takes for a template"),
        ("/srv/a\nb.gguf", "or that no unit file can hold"),
        ("models/x.gguf", "'models/x.gguf' is neither a URL nor a whole path"),
        ("/srv/nowhere.gguf", "/srv/nowhere.gguf cannot be read: No such file or directory."),
        ("/etc/passwd", "/etc/passwd is not a GGUF file."),
        ("ftp://127.0.0.1/x.gguf", "say one that begins with https:// or http://."),
    ],
)
def test_bad_requests(tmp_path: Path, asked: object, words: str) -> None:
    assert words in refused(sized("9754"), asked, tmp_path)


def test_a_folder_that_is_no_path(tmp_path: Path) -> None:
    assert "folder is 'models'" in refused(sized("9754"), "/x", tmp_path, folder="models")


def test_a_program_whose_path_ansible_would_run(tmp_path: Path, models: dict[str, str]) -> None:
    program = tmp_path / "{{ lookup('pipe', 'id') }}"
    program.write_text("")
    said = refused(sized("9754"), models["dense 8B"], tmp_path, binary=str(program))
    assert f"would hold {str(program)!r}, in which Ansible would run the braces" in said


def test_a_header_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(ggufs.WHOLE[:500])
    assert "is truncated or damaged" in refused(sized("9754"), str(path), tmp_path)
