# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hooks that save and restore prompts, and are killed before any of their changes, as amid an update of a server."""

from __future__ import annotations

import json

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import slot_files
from ansible_collections.sovereign.epyc.tests.unit.fakes.killed_runs import killed_runs
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import serving
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.hooks.test_slot_files import (
    EACH,
    Llama,
    Service,
    filled,
    service,  # noqa: F401 - a fixture
)

# The threads of pytest's workers hold nothing that the child needs.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

TEXTS = {0: "oldest", 2: "newest prompt"}


class KilledHooks:
    """The hooks of a service, in processes that are killed; each server answers in this process."""

    def __init__(self, service: Service) -> None:  # noqa: F811
        self.service = service

    def restore(self, url: str) -> None:
        files = json.dumps([str(self.service.model)])
        self.run("restore-slots", url, "--options", "same", "--files", files)

    def save(self, url: str) -> None:
        self.run("save-slots", url, "--limit", "1000000", "--slot-bytes", f"0,{EACH + 1}")

    def run(self, verb: str, url: str, *words: str) -> None:
        assert _cli.main(("llama", verb, url, str(self.service.folder), *words, "--timeout", "60")) == 0


def require_whole_prompts(server: Llama) -> None:
    for slot, text in enumerate(server.slots):
        assert text in ("", TEXTS.get(slot, ""))


def test_what_a_killed_save_has_left_is_whole_or_left_out(service: Service) -> None:  # noqa: F811
    turns, restored = 0, set()

    def begin() -> None:
        filled(service)
        service.server.requests.clear()

    with serving(lambda request: service.server(request)) as server:
        for dummy in killed_runs(begin, lambda: KilledHooks(service).save(server.url)):
            turns += 1
            service.start()
            require_whole_prompts(service.server)
            restored.add(sum(map(bool, service.server.slots)))
            assert service.names() == ["server.json"]
    assert turns > 6 and restored == {0, 1, 2}


def test_a_prompt_is_restored_once_although_the_hook_is_killed(service: Service) -> None:  # noqa: F811
    """A file that makes a server end with its hook is not read by the next server."""
    turns = 0
    asked: list[str] = []

    def begin() -> None:
        filled(service).stop()
        service.server = Llama(service.folder)

    with serving(lambda request: service.server(request)) as server:
        for dummy in killed_runs(begin, lambda: KilledHooks(service).restore(server.url)):
            turns += 1
            asked = list(service.server.requests)
            service.start()
            require_whole_prompts(service.server)
            assert not set(asked) & set(service.server.requests)
            assert service.names() == ["server.json"]
    assert turns > 6 and asked


def test_a_server_whose_hook_was_killed_saves_no_prompt_as_those_of_the_server_before(
    service: Service,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the next server would take the KV cache of another model for its own."""
    monkeypatch.setattr(slot_files, "_read_start_time", lambda fs, process: float("inf"))
    with serving(lambda request: service.server(request)) as server:

        def begin() -> None:
            monkeypatch.setenv("MAINPID", "101")
            filled(service)
            monkeypatch.setenv("MAINPID", "102")
            service.server = Llama(service.folder)

        other = ("restore-slots", server.url, "--options", "other", "--files", json.dumps([str(service.model)]))
        for dummy in killed_runs(begin, lambda: KilledHooks(service).run(*other)):
            service.server.read(0, "of other options", 3)
            service.stop()
            monkeypatch.setenv("MAINPID", "103")
            service.start()
            assert service.server.slots == ["", "", ""]
