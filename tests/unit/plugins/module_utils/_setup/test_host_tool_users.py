# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Units of others that call the command: it is not taken away from them, but from those that are removed before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import host_tool_files
from ansible_collections.sovereign.epyc.tests.unit.fakes.host_tools import bare, files, run
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return bare(tmp_path, monkeypatch)


def test_the_command_is_not_taken_away_from_units_that_call_it(systemd: Systemd) -> None:
    run(systemd)
    unit = systemd.file("llama-chat.service")
    unit.write_text(f"[Service]\nExecStartPre=+{host_tool_files.HOST_TOOL} llama place\n")
    before = files(systemd)
    for check in (True, False):
        with pytest.raises(BadRequest, match=r"llama-chat\.service calls .*epyc_restore_instances=true"):
            run(systemd, present=False, check=check)
    assert files(systemd) == before
    unit.unlink()
    assert run(systemd, present=False).changes


def test_units_of_instances_that_are_removed_before_it_do_not_keep_the_command(systemd: Systemd) -> None:
    run(systemd)
    unit = systemd.file("llama-chat.service")
    unit.write_text(f"{INSTANCE_HEAD}[Service]\nExecStartPre=+{host_tool_files.HOST_TOOL} llama place\n")
    assert run(systemd, present=False, check=True, removes_instances=True).changes
    other = systemd.file("backup.service")
    other.write_text(f"[Service]\nExecStart={host_tool_files.HOST_TOOL} check\n")
    with pytest.raises(BadRequest, match=r"^backup\.service calls "):
        run(systemd, present=False, check=True, removes_instances=True)
