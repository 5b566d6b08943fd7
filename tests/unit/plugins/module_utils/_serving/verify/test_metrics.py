# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host tells of its instances, and of which it is silent; tests/service has it from the real programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._drift.metrics import render_metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import metrics
from ansible_collections.sovereign.epyc.tests.unit.fakes.completions import events
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import MAIN, Instances
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

INTERRUPTS = "  CPU0 CPU4 CPU5\n 44: 9 1 2 nvme\nLOC: 9 30 40 Local timer interrupts\nRES: 9 5 6 Rescheduling\n"


class Told(Instances):
    """One instance on CPUs 4 and 5; ``busy`` are the requests that it has in work."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.busy = 0
        self.asked: list[dict[str, Any]] = []
        self.service.tree.put("/proc/interrupts", INTERRUPTS)
        self.service.thread(100, "0-3", 0, waited=9, switches=(1, 900))
        self.service.thread(101, "4", 4, waited=0.25, switches=(5, 3))
        self.service.thread(102, "5", 5, waited=0.5, switches=(5, 4))

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/metrics":
            say(request, 200, f"llamacpp:requests_processing {self.busy}\n".encode())
            return
        self.asked.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        say(request, 200, "".join(f"data: {json.dumps(event)}\n\n" for event in events(1)).encode())

    def told(self) -> dict[str, list[tuple[dict[str, str], float]]]:
        found = metrics.read_samples_of_running_instances(Host(self.service.tree.fs))
        assert render_metrics(found, metrics.HELP).count("# HELP") == len(found)
        return {name: [(dict(labels), value) for labels, value in samples] for name, samples in found.items()}


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Told]:
    here = Told(tmp_path)
    with serving(here.serve) as server:
        here.url = server.url
        here.planned(expect={"cpus": "0-5", "busy_cpus": "4-5", "nodes": "1", "interleaved": False})
        yield here


def test_what_a_host_tells_of_an_instance(here: Told) -> None:
    chat = {"service": "chat"}
    found = here.told()
    assert found[metrics.INTERRUPTS] == [
        ({**chat, "kind": "ticks"}, 70),
        ({**chat, "kind": "devices"}, 3),
        ({**chat, "kind": "sent"}, 11),
    ]
    # The thread that may run elsewhere does not compute.
    assert found[metrics.SWITCHES] == [(chat, 7)] and found[metrics.WAITED] == [(chat, 0.75)]
    planned = {(row["kind"], row["node"]): row["planned"] for row, dummy in found[metrics.MEMORY]}
    assert planned == {
        ("weights", "0"): "false",
        ("weights", "1"): "true",
        ("anonymous", "0"): "false",
        ("anonymous", "1"): "true",
    }
    ((labels, seconds),) = found[metrics.FIRST_TOKEN]
    assert labels == chat and 0 < seconds < 20
    (asked,) = here.asked
    assert (asked["n_predict"], asked["cache_prompt"], asked["stream"]) == (1, False, True)


def test_what_the_last_benchmark_said(here: Told) -> None:
    here.service.tree.put(
        metrics.BENCHMARK_SHARES, json.dumps({"chat": {"prose": 0.62, "code_edit": 0.4}, "gone": {"prose": 1}})
    )
    assert here.told()[metrics.CEILING] == [
        ({"service": "chat", "kind": "code_edit"}, 0.4),
        ({"service": "chat", "kind": "prose"}, 0.62),
    ]
    for nonsense in ("no JSON", "[]", '{"chat": 1}'):
        here.service.tree.put(metrics.BENCHMARK_SHARES, nonsense)
        assert metrics.CEILING not in here.told()


def test_one_that_works_is_not_asked(here: Told) -> None:
    here.busy = 1
    assert metrics.FIRST_TOKEN not in here.told() and here.asked == []


def test_one_that_makes_no_text_is_not_asked(here: Told) -> None:
    here.planned(task="embedding")
    assert metrics.FIRST_TOKEN not in here.told() and here.asked == []


def test_one_that_does_not_answer_has_no_time(here: Told) -> None:
    here.url = "http://127.0.0.1:1"
    here.planned()
    found = here.told()
    assert metrics.FIRST_TOKEN not in found and found[metrics.SWITCHES]


def test_where_no_thread_is_bound_all_of_them_count(here: Told) -> None:
    for tid in (101, 102):
        here.service.thread(tid, "0-5", 4, waited=1, switches=(0, 1))
    assert here.told()[metrics.SWITCHES] == [({"service": "chat"}, 902)]


def test_a_host_without_instances_tells_nothing_of_them(here: Told) -> None:
    here.service.tree.drop(f"etc/systemd/system/{MAIN}")
    assert here.told() == {}


def test_one_that_is_stopped_or_carries_no_plan_is_left_out(here: Told) -> None:
    here.service.tree.put(f"/sys/fs/cgroup/system.slice/{MAIN}/cgroup.procs", "")
    here.service.tree.drop("proc/interrupts")
    found = here.told()
    assert found[metrics.SWITCHES] == [({"service": "chat"}, 0)]
    here.unit(MAIN, "# Written by the collection sovereign.epyc: do not change it here.\n[Service]\n")
    assert here.told() == {}
