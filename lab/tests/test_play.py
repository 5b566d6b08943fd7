# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks as the tests run them, on this machine itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from vepyc.playbook_runs import run_playbook, write_inventory

pytestmark = pytest.mark.slow

PLAY = [{"hosts": "all", "gather_facts": False, "tasks": [{"name": "Ping", "ansible.builtin.ping": {}}]}]


def test_archives_of_modules_are_kept_and_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VEPYC_HOME", str(tmp_path))
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    write_inventory(tmp_path, {"here": here})
    playbook = tmp_path / "ping.yml"
    playbook.write_text(json.dumps(PLAY))
    assert run_playbook(tmp_path, playbook)["Ping"]["ping"] == "pong"
    (kept,) = tmp_path.glob("archives/*/*")
    good = kept.read_bytes()
    kept.write_bytes(b"no archive")
    assert run_playbook(tmp_path, playbook).returncode != 0, "what is kept is what runs"
    assert kept.read_bytes() == b"no archive"
    kept.write_bytes(good)
    assert run_playbook(tmp_path, playbook)["Ping"]["ping"] == "pong"
