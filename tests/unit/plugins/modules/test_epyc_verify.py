# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which order the module looks; what it finds is tested on a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.modules import epyc_verify
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

NOTHING: dict[str, Any] = dict.fromkeys(("nps", "smt", "cores", "memory_channels", "memory_speed"))
PARAMS = {
    **NOTHING,
    "layers": [],
    "units": {},
    "services": False,
    "memory_bandwidth": True,
    "allow_pending_reboot": False,
    "tuned": False,
    "before": None,
}


def test_a_boot_service_that_ends_while_the_settings_are_read_has_not_been_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of them is from before it."""
    active = ["activating"]

    def survey(*dummy: Any) -> list[Any]:
        active[0] = "active"
        return []

    def run(words: list[str]) -> str:
        return f"LoadState=loaded\nUnitFileState=enabled\nActiveState={active[0]}\n"

    monkeypatch.setattr(epyc_verify.boot_service.command, "run_command", run)
    monkeypatch.setattr(epyc_verify, "load_stored_requests", lambda store: (Intent.from_options({}), {}))
    monkeypatch.setattr(epyc_verify.judge, "judge_requests", survey)
    host = hosts.small(tmp_path)
    host.put("/proc/cmdline", "ro")
    host.put("/proc/sys/kernel/random/boot_id", "1")
    assert epyc_verify.verify_host(PARAMS, host.fs)["boot_service"] == "starting"
    assert epyc_verify.verify_host(PARAMS, host.fs)["boot_service"] == "done"
