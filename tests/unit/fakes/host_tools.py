# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host tool and its units on a tree with a systemd of its own: for tests of an install and of the way back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import managed_units
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import Outcome, converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import host_tool_files
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.host_tool import STARTED_BY, HostTool
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd

MODULE = f"{host_tool_files.PACKAGE}/_knobs/protocol/knob.py"
TEXTFILE = "/var/lib/node-exporter/sovereign-epyc.prom"


def bare(root: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """A host without the host tool, of which version one would be installed."""
    fake = Systemd(root, STARTED_BY)
    monkeypatch.setattr(managed_units.command, "run_command", fake.run)
    (root / "usr/sbin").mkdir(parents=True)
    version(monkeypatch, "one")
    return fake


def version(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have another version of the host tool to install; the launcher is the same in all."""
    monkeypatch.setattr(
        host_tool_files, "_read_host_tool_files", lambda: {MODULE: text, host_tool_files.HOST_TOOL: "launch"}
    )


def run(systemd: Systemd, present: bool = True, check: bool = False, **options: Any) -> Outcome:
    root = str(systemd.root)
    ledger = Ledger(Store(root, read_only=check), KernelFS(root, read_only=check))
    return converge_knobs([HostTool(present, root=root, **options)], ledger, check)


def files(systemd: Systemd) -> dict[str, str]:
    """Return every file and link but the lock, with what is in it or where it leads."""
    found = {}
    for path in sorted(systemd.root.rglob("*")):
        if path.is_symlink():
            found[str(path)] = os.readlink(path)
        elif path.is_file() and "var/lib/sovereign-epyc" not in str(path):
            found[str(path)] = path.read_text()
    return found
