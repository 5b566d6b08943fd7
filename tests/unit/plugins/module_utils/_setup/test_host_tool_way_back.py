# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The host tool and its units, without a systemd: what is left when something is refused or does not run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.host_tool import BOOT, TIMER, WATCH
from ansible_collections.sovereign.epyc.tests.unit.fakes.host_tools import (
    TEXTFILE,
    bare,
    files,
    run,
    version,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.systemds import Systemd


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return bare(tmp_path, monkeypatch)


@pytest.mark.parametrize("verb", ["enable", "restart"])
def test_a_refusal_has_the_words_of_systemctl_and_leaves_a_bare_host_bare(systemd: Systemd, verb: str) -> None:
    before = files(systemd)
    systemd.refuses = verb
    with pytest.raises(
        TuningError, match=f"'systemctl {verb}' failed .* It says: no What this run had changed was put back"
    ):
        run(systemd, textfile=TEXTFILE)
    assert files(systemd) == before
    assert "active" not in systemd.active.values()


def test_a_unit_that_does_not_run_afterwards_is_a_failure(systemd: Systemd) -> None:
    before = files(systemd)
    systemd.breaks = {WATCH}
    with pytest.raises(
        NotApplied, match=f"host_tool:{WATCH}/active: .* wanted 'active', found 'failed'.* was put back"
    ):
        run(systemd)
    assert files(systemd) == before


def test_the_way_back_leads_to_the_older_version(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    run(systemd)
    systemd.file(BOOT).chmod(0o640)
    systemd.run(["systemctl", "stop", WATCH])
    before = files(systemd)
    version(monkeypatch, "two")
    systemd.refuses = "restart"
    with pytest.raises(TuningError, match="was put back"):
        run(systemd, textfile=TEXTFILE)
    assert files(systemd) == before
    assert systemd.file(BOOT).stat().st_mode & 0o7777 == 0o640
    assert systemd.active[WATCH] == "inactive"


def test_a_watch_that_ran_keeps_running_with_the_older_version(
    systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(systemd)
    before = files(systemd)
    version(monkeypatch, "two")
    systemd.refuses = f"enable {TIMER}"
    systemd.asked()
    with pytest.raises(TuningError, match="was put back"):
        run(systemd, textfile=TEXTFILE)
    assert files(systemd) == before
    assert systemd.active[WATCH] == "active"
    assert f"try-restart {WATCH}" in systemd.asked(), "it may have been started with the newer one"


def test_the_way_back_does_not_lead_to_what_was_passing(systemd: Systemd) -> None:
    run(systemd)
    systemd.active[WATCH] = "activating"  # It failed, and systemd waits before it tries again.
    systemd.breaks = {WATCH}
    with pytest.raises(NotApplied, match="was put back"):
        run(systemd)


@pytest.mark.parametrize("verb", ["stop", "disable", "daemon-reload"])
def test_a_removal_that_is_refused_removes_nothing(systemd: Systemd, verb: str) -> None:
    run(systemd, textfile=TEXTFILE)
    systemd.active[BOOT] = "active"
    before = files(systemd)
    systemd.refuses = verb
    with pytest.raises(TuningError, match=f"'systemctl {verb}' failed .* was put back"):
        run(systemd, present=False)
    assert files(systemd) == before
    assert systemd.active == dict.fromkeys([BOOT, WATCH, TIMER], "active")
