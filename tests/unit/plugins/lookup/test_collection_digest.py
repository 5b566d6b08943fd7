# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleError

from ansible_collections.sovereign.epyc.plugins.lookup import collection_digest


@pytest.fixture
def lookup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> collection_digest.LookupModule:
    monkeypatch.setattr(collection_digest, "ROOT", str(tmp_path))
    for path in ("plugins/modules/one.py", "roles/one/tasks/main.yml", "playbooks/site.yml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("text")
    return collection_digest.LookupModule()


@pytest.mark.parametrize("path", ["plugins/modules/one.py", "roles/two.yml", "playbooks/site.yml"])
def test_it_changes_with_the_code(lookup: collection_digest.LookupModule, tmp_path: Path, path: str) -> None:
    (before,) = lookup.run([])
    assert lookup.run([]) == [before]
    (tmp_path / path).write_text("another text")
    assert lookup.run([]) != [before]


def test_it_does_not_change_with_anything_else(lookup: collection_digest.LookupModule, tmp_path: Path) -> None:
    before = lookup.run([])
    (tmp_path / "plugins/modules/__pycache__").mkdir()
    (tmp_path / "plugins/modules/__pycache__/one.pyc").write_text("bytecode")
    (tmp_path / "README.md").write_text("words")
    assert lookup.run([]) == before


def test_terms_are_refused(lookup: collection_digest.LookupModule) -> None:
    with pytest.raises(AnsibleError, match="takes no terms"):
        lookup.run(["a term"])
