# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last lines of runs: of a real one that is refused, and of results as the modules return them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible import context

from ansible_collections.sovereign.epyc.plugins.callback import run_end
from ansible_collections.sovereign.epyc.tests.unit.fakes import plays

ENABLED = {"ANSIBLE_CALLBACKS_ENABLED": "sovereign.epyc.run_end"}
PENDING = {"pending": ["nohz_full", "rcu_nocbs"], "reboot_required": True}
WAIT = "nohz_full, rcu_nocbs wait for a reboot."


class Run:
    """A run of site.yml with an inventory, whose results a test gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        words = {"inventory": ["inventories/mine"], "args": ["playbooks/site.yml"], "check": False, **options}
        monkeypatch.setattr(context, "CLIARGS", words)
        self.screen = plays.Screen()
        self.plugin = run_end.CallbackModule(display=self.screen)
        self.plugin.v2_playbook_on_start(None)
        self.failed: set[str] = set()
        self.hosts: list[str] = []

    def take_result(self, host: str, module: str, **result: Any) -> None:
        task = SimpleNamespace(action=f"sovereign.epyc.{module}")
        self.plugin.v2_playbook_on_task_start(task, False)
        self.plugin.v2_runner_on_ok(
            SimpleNamespace(host=SimpleNamespace(get_name=lambda: host), task=task, result=result)
        )
        self.hosts = list(dict.fromkeys([*self.hosts, host]))

    def tune_host(self, host: str, changes: dict[str, int], **boot: Any) -> None:
        """Go through site.yml on a host."""
        self.take_result(host, "epyc_last_run", holds=False, reason="never asked")
        self.take_result(host, "kernel_cmdline", **{"pending": [], **boot})
        self.take_result(host, "epyc_last_run", holds=True)
        self.take_result(host, "epyc_history", changes=changes)

    def last_lines(self) -> list[str]:
        def summarize(host: str) -> dict[str, int]:
            return {"failures": int(host in self.failed), "unreachable": 0}

        self.plugin.v2_playbook_on_stats(SimpleNamespace(processed=self.hosts, summarize=summarize))
        return [line for text in self.screen.said for line in text.split("\n")]


@pytest.fixture
def site_run(monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(monkeypatch)


def test_hosts_of_one_kind_share_a_line_and_the_reboot_comes_next(site_run: Run) -> None:
    for host in ("epyc-1", "epyc-2"):
        site_run.tune_host(host, {"numa": 3, "grub_params": 2}, **PENDING)
    site_run.tune_host("epyc-3", {"numa": 1})
    assert site_run.last_lines() == [
        f"DONE epyc-[1-2] (2 hosts): 5 settings changed (numa 3, grub_params 2). {WAIT}",
        "DONE epyc-3: 1 setting changed (numa 1).",
        "Next:",
        "  ansible-playbook -i inventories/mine sovereign.epyc.reboot -l epyc-1,epyc-2 -e epyc_reboot_ok=true",
    ]


def test_a_host_on_which_nothing_is_left_to_do_still_waits(site_run: Run) -> None:
    site_run.take_result("one", "epyc_last_run", holds=True, **PENDING)
    assert site_run.last_lines()[0] == f"DONE one: nothing had to change. {WAIT}"


def test_when_nothing_waits_the_proof_comes_next(site_run: Run) -> None:
    site_run.tune_host("one", {})
    assert site_run.last_lines() == [
        "DONE one: nothing had to change.",
        "Next:",
        "  ansible-playbook -i inventories/mine sovereign.epyc.verify -l one",
    ]


def test_the_same_run_comes_next_for_hosts_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    site_run = Run(monkeypatch, tags=["numa"], extra_vars=["secret=swordfish"])
    site_run.tune_host("one", {"numa": 3}, **PENDING)
    site_run.take_result("two", "epyc_last_run", holds=False)
    site_run.failed = {"two"}
    assert site_run.last_lines()[1:] == [
        "FAILED two: the message is above.",
        "Next, when that is mended, with the same -e:",
        "  ansible-playbook -i inventories/mine playbooks/site.yml --tags numa -l two",
    ]


def test_other_runs_and_checks_have_no_such_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Run(monkeypatch)
    other.take_result("one", "epyc_verify")
    assert other.last_lines() == []
    check = Run(monkeypatch, check=True)
    check.tune_host("one", {})
    assert check.last_lines() == []


def test_a_real_run_that_is_refused(tmp_path: Path) -> None:
    done = plays.run(tmp_path, ("one",), (), "playbooks/site.yml", "-e", '{"epyc_steps": ["nonsense"]}', **ENABLED)
    lines = done.stdout.splitlines()
    assert lines[-3:-1] == ["FAILED one: the message is above.", "Next, when that is mended, with the same -e:"], lines
    assert lines[-1].endswith("hosts.json playbooks/site.yml -l one")
