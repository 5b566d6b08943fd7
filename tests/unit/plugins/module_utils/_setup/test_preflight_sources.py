# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the server and the models come from is part of the one look at a host before the first change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._setup.test_preflight import Machine

#: Of a host whose kernel is said, and whose package lists are not asked for.
SOURCES: dict[str, Any] = {"install": "source", "packages": [], "archive": None, "checksum": None, "models": []}


def test_sources_are_refused_with_what_else_is_refused_of_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = hosts.small(tmp_path)
    tree.put("/proc/sys/kernel/osrelease", "6.12.0-1-amd64")
    machine = Machine(tree, monkeypatch)
    url = "http://h.example.com/m.gguf"
    models = [{"path": "/nonexistent/m.gguf", "url": url, "checksum": [], "size": None, "hub": False}]
    sources = {**SOURCES, "archive": "/a.tar.gz", "checksum": "x", "models": models, "hub_needs_token": False}
    archive, model, other = machine.of_instance(sources=sources, fetched=[], present=[])
    assert archive.startswith("There is no file /a.tar.gz on the host (epyc_llama_source_archive).")
    assert model.startswith(f"epyc_llama_models[0].checksum, of /nonexistent/m.gguf: {url} is not taken without")
    assert other.startswith("Instance chat: /none.gguf cannot be read")
    assert machine.refusals("base", sources=sources) == [], "the layer llama does not run"
