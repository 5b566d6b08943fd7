# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plugin in real runs of plan.yml, on a host that is this machine and one that nobody answers for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.sovereign.epyc.plugins.callback import plan
from ansible_collections.sovereign.epyc.tests.unit.fakes import plays
from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import plans

Run = Callable[..., "tuple[str, str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a playbook, and return the output and the page."""

    def run(playbook: str, *arguments: str) -> tuple[str, str]:
        page = tmp_path / "pages/plan.html"
        done = plays.run(
            tmp_path,
            ("one", "two", "gone"),
            ("gone",),
            playbook,
            *arguments,
            ANSIBLE_CALLBACKS_ENABLED="sovereign.epyc.plan",
            SOVEREIGN_EPYC_PLAN_HTML=str(page),
        )
        return done.stdout, page.read_text(encoding="utf-8")

    return run


def test_plan_yml_draws_its_hosts_in_check_mode_too(run: Run, tmp_path: Path) -> None:
    output, page = run("playbooks/plan.yml", "--check")
    assert "3 hosts: 1 plan, 1 without a plan." in page
    assert "<h2>one, two (2 hosts)</h2>" in page and page.count("<svg ") == 1
    assert "unreachable: gone</h2>" in page
    assert f"3 hosts: 1 plan, 1 without a plan. They are drawn in {tmp_path}/pages/plan.html." in output


def ended(
    monkeypatch: pytest.MonkeyPatch, path: Path | None, *actions: str, planned: tuple[str, ...] = ("one",)
) -> str:
    """Return what the plugin says at the end of a run with tasks of these modules, on hosts that have a plan."""
    screen = plays.Screen()
    plugin = plan.CallbackModule(display=screen)
    for host in planned:
        plugin.collector.add_plan(host, plans.result("9354"))
    monkeypatch.setattr(plugin, "get_option", {"html": str(path) if path else None}.get)
    for action in actions:
        plugin.v2_playbook_on_task_start(SimpleNamespace(action=action), False)
    plugin.v2_playbook_on_stats(None)
    return "".join(screen.said)


def test_plans_are_drawn_only_in_runs_without_other_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "plan.html"
    assert ended(monkeypatch, None, plan.MODULE) == ""
    assert ended(monkeypatch, page, "ansible.builtin.debug") == ""
    assert ended(monkeypatch, page, plan.MODULE, "sovereign.epyc.hugepages") == ""
    assert not page.exists()
    assert ended(monkeypatch, page, plan.MODULE, "ansible.builtin.debug") == (
        f"1 host: 1 plan. They are drawn in {page}."
    )
    drawn = page.read_text()
    assert ended(monkeypatch, page, plan.MODULE, planned=()) == f"No host has a plan, so nothing was written to {page}."
    assert page.read_text() == drawn


def test_a_page_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    said = ended(monkeypatch, tmp_path / "file/plan.html", plan.MODULE)
    assert said.startswith(f"error: The page of plans could not be written to {tmp_path}/file/plan.html: ")
    assert said.rstrip().endswith("Name another file with SOVEREIGN_EPYC_PLAN_HTML.")
