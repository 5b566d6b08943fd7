# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module epyc_history, and modules that count what they change between the begin and the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import HISTORY, HOME
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.history.run import ORIGIN, RUN
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernel_settings import ASKED, Settings
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import request


class Host:
    """A host that a playbook works on."""

    def __init__(self, root: Path) -> None:
        self.kernel = Kernel(root)
        Settings(self.kernel)
        self.file = root / HOME[1:] / HISTORY

    def note(self, **options: Any) -> dict[str, Any]:
        return request(self.kernel.fs, "epyc_history", **options)

    def tune(self, **options: Any) -> dict[str, Any]:
        return request(self.kernel.fs, "sysfs_settings", **{**ASKED, **options})

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.note()["ansible_facts"]["epyc_history"]
        return found


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.delenv(RUN, raising=False)
    monkeypatch.setenv(ORIGIN, '{"user": "ops", "controller": "ctl", "playbook": "site.yml", "tags": ["numa"]}')
    return Host(tmp_path)


def test_a_run_counts_what_its_modules_change(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = host.note(state="begun", layers=["numa"], requested=["base", "numa"])
    assert begun["changed"] is False, "a note is no change of the host"
    assert "did not end" in host.note()["unfinished"]
    monkeypatch.setenv(RUN, begun["run"])
    assert host.tune(check=True)["changed"]
    assert host.tune()["changed"]
    assert not host.tune()["changed"]
    ended = host.note(state="ended", run=begun["run"])
    assert (ended["changed"], ended["remarks"]) == (False, [])
    (run,) = host.runs()
    assert (run["layers"], run["requested"], run["tags"]) == (["numa"], ["base", "numa"], ["numa"])
    assert run["changed"] == {"numa": 3, "irq": 2}
    assert (run["user"], run["controller"], run["outcome"], run["left"]) == ("ops", "ctl", "done", [])
    assert host.note()["unfinished"] == ""
    assert "ops@ctl" in host.note()["lines"][1]


def test_a_module_of_another_playbook_notes_nothing(host: Host) -> None:
    assert host.tune()["changed"]
    assert host.runs() == []
    assert not host.file.exists()


def test_a_check_notes_nothing(host: Host) -> None:
    for options in ({"state": "begun"}, {"state": "ended", "run": "x"}, {"state": "absent"}):
        assert host.note(check=True, **options)["changed"] is False
    assert host.note(check=True)["lines"] == ["No run is noted on this host."]
    assert not host.file.parent.exists()


def test_an_end_without_a_begin_is_remarked(host: Host) -> None:
    (remark,) = host.note(state="ended", run="another")["remarks"]
    assert "has no begin of this run any more" in remark


def test_the_history_is_removed_except_in_check_mode(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    for dummy in range(2):
        begun = host.note(state="begun", layers=["numa"], requested=["numa"])
        monkeypatch.setenv(RUN, begun["run"])
        host.tune()
        host.tune(state="original")
        host.note(state="ended", run=begun["run"])
    assert len(host.runs()) == 2
    assert host.note(state="absent", check=True) == {"changed": True, "forgotten": 1, "remarks": []}
    assert len(host.runs()) == 2
    assert host.note(state="absent")["changed"] is True
    assert len(host.runs()) == 1, "what site.yml was asked for last stays"
    assert host.note(state="absent")["changed"] is False
