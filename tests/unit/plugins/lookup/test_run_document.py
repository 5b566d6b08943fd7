# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lookup that reads runs on the controller, and the filter that compares them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from ansible.errors import AnsibleError, AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.filter.run_comparison import run_comparison
from ansible_collections.sovereign.epyc.plugins.lookup.run_document import LookupModule
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    text = json.dumps(bench_documents.benchmark())
    (tmp_path / "plain.json").write_text(text)
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "bad.json").write_text("{}")
    return tmp_path


def read(*paths: str) -> list[dict[str, object]]:
    return LookupModule(loader=None, templar=None).run(list(paths), {})


def test_relative_paths_begin_where_the_command_is_run(folder: Path) -> None:
    plain, packed = read("plain.json", "packed.json.gz")
    assert plain == packed == read(str(folder / "plain.json"))[0]


@pytest.mark.parametrize(
    ("path", "message"),
    [("missing.json", "There is no /"), ("bad.json", "bad.json cannot be used as the document of a run: schema is")],
)
def test_what_is_no_run_is_refused_with_its_path(path: str, message: str) -> None:
    with pytest.raises(AnsibleError, match=message):
        read(path)


def test_documents_are_compared() -> None:
    compared = run_comparison(read("plain.json", "packed.json.gz"), ["old", "new"])
    assert compared["code"] == 0 and compared["runs"][1]["label"] == "new" and "not paired" in compared["text"]
    json.dumps(compared)
    assert run_comparison(read("plain.json"))["code"] == 1
    with pytest.raises(AnsibleFilterError, match="This cannot be used as the document of a run"):
        run_comparison([{}])
