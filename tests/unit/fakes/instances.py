# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host with instances of llama-server as the checklist sees it: units, threads, and a server that says its health."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.catalogue import EngineRow
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import PLAN_MARK
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import instance_items
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import trial as trials
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify.trial import Question, Trial

from .servers import say, serving
from .services import Service

MAIN = "llama-chat.service"
EXPECT = {"cpus": "0-5", "busy_cpus": "4-5", "nodes": "0-1", "interleaved": False, "spread": "core"}
#: What a trial counts of speculation where there was none.
NOTHING = {"drafts": 0, "drafted": 0, "accepted": 0}
RIGHT = {
    "service/chat": "ok",
    "speculation/chat": "ok",
    "placement/chat": "ok",
    "jitter/chat": "not asked for",
    "speed/chat": "ok",
}


def trial(**seen: Any) -> Trial:
    """A request that went well on a server that guesses, but for what is said otherwise."""
    one = Trial()
    seen = {"tokens": 64, "rate": 12.5, "is_complete": True, "drafts": 3, "drafted": 60, "accepted": 45, **seen}
    for name, value in seen.items():
        setattr(one, name, value)
    return one


def plan(**changes: Any) -> dict[str, Any]:
    kinds = ["ngram-simple", "draft"]
    url = "http://127.0.0.1:1"
    one = {
        "name": "chat",
        "engine": "llama",
        "unit": MAIN,
        "url": url,
        "key_file": None,
        "speculation": kinds,
        "expect": EXPECT,
        "rpc": None,
    }
    return {
        **one,
        "task": "completion",
        "files": {},
        "mapped": [],
        "models": [],
        "programs": {},
        "keys": None,
        "rate": None,
        "details": {},
        **changes,
    }


class Instances:
    """A host with units, whose systemd says what the test puts into ``states``, and a server that says its health."""

    def __init__(self, root: Path) -> None:
        self.service = Service(root)
        self.states = {MAIN: "active"}
        self.health: tuple[int, bytes] = (200, b'{"status":"ok"}')
        self.url = ""
        self.keys: list[object] = []
        self.questions: list[Question] = []
        self.task = ""
        self.models: list[str | None] = []
        self.trial = trial()
        self.service.thread(100, "0-3", 0)
        self.service.thread(101, "4", 4)
        self.service.thread(102, "5", 5)
        self.runs(MAIN)

    def runs(self, unit: str) -> None:
        self.service.tree.put(f"/sys/fs/cgroup/system.slice/{unit}/cgroup.procs", "100")

    def unit(self, name: str, text: str) -> None:
        self.service.tree.put(f"{UNIT_FOLDER}/{name}", text)

    def planned(self, unit: str = MAIN, **changes: Any) -> None:
        self.unit(unit, f"{INSTANCE_HEAD}\n{PLAN_MARK}{json.dumps(plan(url=self.url, unit=unit, **changes))}\n")

    def show(self, names: list[str]) -> dict[str, dict[str, str]]:
        return {name: {"ActiveState": self.states[name]} for name in names if name in self.states}

    def run(
        self, url: str, key: object, clock: object, task: str, question: Question, model: str | None = None
    ) -> Trial:
        """Stand for the request: meanwhile two threads compute."""
        self.keys.append((url, key))
        self.questions.append(question)
        self.task = task
        self.models.append(model)
        self.service.sleep(2)
        self.service.thread(101, "4", 4, worked=0.5)
        self.service.thread(102, "5", 5, worked=0.4)
        return self.trial

    def run_with_usage(
        self, url: str, key: object, clock: object, question: Question, model: str, row: EngineRow
    ) -> Trial:
        return self.run(url, key, clock, "completion", question, model)

    def check(self) -> tuple[dict[str, tuple[str, str]], dict[str, Any]]:
        items, facts = instance_items.check_all_instances(Host(self.service.tree.fs), self.service)
        return {item.name: (item.verdict, item.sentence) for item in items}, facts


@contextmanager
def instances(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Instances]:
    """A host whose one instance serves as long as the block lasts."""
    here = Instances(root)
    patch.setattr(instance_items, "read_unit_properties", here.show)
    patch.setattr(trials, "run_trial_of_task", here.run)
    patch.setattr(trials, "run_openai_trial", here.run_with_usage)
    with serving(lambda request: say(request, *here.health)) as server:
        here.url = server.url
        yield here
