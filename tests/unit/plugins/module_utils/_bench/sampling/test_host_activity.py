# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host did beside a measured server, and by which rules a round is void; on trees of kernel files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import Server
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.sampling import (
    discard_reasons,
    host_activity,
    other_programs,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import UNIT, Service

METRICS = """\
llamacpp:prompt_tokens_total {}
llamacpp:tokens_predicted_total {}
llamacpp:requests_processing {}
llamacpp:requests_deferred {}
"""
SECONDS = 100  # ticks


class Scene:
    """A service on the small machine, what the host counts, and what the server tells; ``run`` lets a round pass."""

    def __init__(self, root: Path, url: str) -> None:
        self.service = Service(root)
        self.tree = self.service.tree
        self.server = Server(url)
        self.metrics: tuple[int, ...] | None = (1000, 500, 0, 0)
        self.own = 3.0
        self.ticks = {
            "user": 5000,
            "nice": 0,
            "system": 100,
            "idle": 9000,
            "iowait": 7,
            "irq": 2,
            "softirq": 3,
            "steal": 10,
        }
        self.used = 40.0
        self.swapped = 5
        self.cpus = other_programs.InstanceCpus(
            self.tree.topology(), [SimpleNamespace(cpus=(0, 1, 2, 3), draft_cpus=(), nodes=(0,))]
        )
        self.service.thread(100, "0-3", 0)
        self.service.thread(101, "4", 4)
        self.put()

    def put(self) -> None:
        line = " ".join(map(str, self.ticks.values()))
        rows = [f"cpu  {line} 0 0", f"cpu0 {line} 0 0", *(f"cpu{cpu} 1 1 1 1 1 1 1 1 0 0" for cpu in range(1, 16))]
        self.tree.put("/proc/stat", "\n".join(rows))
        self.tree.put("/proc/vmstat", f"pgfault 9\npswpin {self.swapped}\npswpout 2")
        self.tree.put(f"{UNIT}/cpu.stat", f"usage_usec {int(self.used * 1e6)}\nuser_usec 5\nsystem_usec 5")

    def look(self) -> host_activity.HostReading:
        clock = SimpleNamespace(monotonic=lambda: self.service.now, process_time=lambda: self.own)
        return host_activity.read_host_activity(
            self.tree.fs, ["llama.service"], self.server, ["/srv/my models/model.gguf"], clock
        )

    def quiet(self) -> None:
        """A round of ten seconds on four CPUs: the service computes for 20, we for 0.1, and all others for 0.4."""
        self.service.now += 10
        self.used += 20
        self.own += 0.1
        self.ticks["user"] += 20 * SECONDS + 50
        self.ticks["idle"] += 20 * SECONDS
        self.ticks["iowait"] += 3 * SECONDS
        if self.metrics:
            read, made, *rest = self.metrics
            self.metrics = (read + 60, made + 288, *rest)

    def run(self, *changes: Callable[[], object]) -> tuple[host_activity.HostReading, host_activity.HostReading]:
        before = self.look()
        self.quiet()
        for change in changes:
            change()
        self.put()
        return before, self.look()

    def activity(self, before: host_activity.HostReading, after: host_activity.HostReading) -> dict[str, Any]:
        energy = SimpleNamespace(joules=3600.0, seconds=10.0, source="rapl")
        return host_activity.activity_between_readings(self.tree.fs, before, after, self.cpus, energy, 288, "abc")

    def objections(self, *changes: Callable[[], object], nodes: set[int] | None = None) -> list[str]:
        before, after = self.run(*changes)
        return discard_reasons.discard_reasons(before, after, (60, 288), self.activity(before, after), nodes)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    scenes: list[Scene] = []
    monkeypatch.setattr(host_activity.os, "sched_getaffinity", lambda process: {3})

    def answer(request: BaseHTTPRequestHandler) -> None:
        metrics = scenes[0].metrics
        say(request, 200 if metrics else 501, METRICS.format(*metrics or [0] * 4).encode())

    with serving(answer) as http:
        scenes.append(Scene(tmp_path, http.url))
        yield scenes[0]


def test_a_quiet_round_counts(scene: Scene) -> None:
    assert scene.objections(nodes={0, 1}) == []


def test_the_recorded_activity_of_a_round(scene: Scene) -> None:
    before, after = scene.run()
    assert scene.activity(before, after) == {
        "others": 0.01,
        "steal": 0.0,
        "busiest": [],
        "freq_mhz": None,
        "joules": 3600.0,
        "seconds": 10.0,
        "power_source": "rapl",
        "tokens": 288,
        # On each node 512 pages of 4 kB of the model and 128 of the heap; a stack, zeros, and three huge pages.
        "pages_by_node": {"0": 2048 + 512 + 4 + 4, "1": 2048 + 512 + 3 * 2048},
        "settings_sha256": "abc",
    }


def test_other_programs(scene: Scene) -> None:
    def more() -> None:
        scene.ticks["softirq"] += 60

    assert scene.objections(more) == ["Other programs took 2.5% of the time of the instance's CPUs, above 2.0%."]


def test_our_own_time_is_not_that_of_others(scene: Scene) -> None:
    def work() -> None:
        scene.own += 5
        scene.ticks["user"] += 5 * SECONDS

    assert scene.activity(*scene.run(work))["others"] == 0.01


def test_a_service_that_did_nothing(scene: Scene) -> None:
    def idle() -> None:
        scene.used -= 20

    (sentence,) = scene.objections(idle)
    assert sentence.startswith("The service used no processor time: another server answered")


def test_steal(scene: Scene) -> None:
    def steal() -> None:
        scene.ticks["steal"] += 20

    before, after = scene.run(steal)
    assert scene.activity(before, after)["steal"] == pytest.approx(20 / 2070, abs=1e-5)
    assert scene.activity(after, after)["steal"] == 0
    assert scene.objections(steal) == ["The hypervisor took 1.0% of the CPU time, above 0.5%."]


def test_swap(scene: Scene) -> None:
    def swap() -> None:
        scene.swapped += 3

    assert scene.objections(swap) == ["The host swapped 3 pages."]


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ((1060, 800, 0, 0), "Other clients sent requests too: the server read 0 and generated 12 tokens for them."),
        ((1100, 788, 0, 0), "Other clients sent requests too: the server read 40 and generated 0 tokens for them."),
        ((1060, 788, 1, 2), "Requests of other clients were pending before or after the round: 3."),
        ((60, 288, 0, 0), "The server counted fewer tokens than were requested"),
        (
            None,
            "Requests of other clients cannot be detected: the server reports no counters; start it with --metrics.",
        ),
    ],
)
def test_requests_of_other_clients(scene: Scene, after: tuple[int, ...] | None, words: str) -> None:
    def told() -> None:
        scene.metrics = after

    (sentence,) = scene.objections(told)
    assert sentence.startswith(words)


def test_a_round_that_began_while_requests_were_waiting(scene: Scene) -> None:
    """All requests have ended after the round, so only the reading before it shows them."""

    def end_requests() -> None:
        scene.metrics = (1060, 788, 0, 0)

    scene.metrics = (1000, 500, 1, 2)
    assert scene.objections(end_requests) == ["Requests of other clients were pending before or after the round: 3."]


def test_a_thread_that_was_moved(scene: Scene) -> None:
    def move() -> None:
        scene.service.thread(101, "4-7", 4)

    sentence = "1 thread may run elsewhere than before: thread 101 on CPUs 4-7 instead of 4."
    assert scene.objections(move) == [sentence]


def test_threads_that_come_and_go_are_not_moved(scene: Scene) -> None:
    def change() -> None:
        scene.service.thread(101, "0", 0, started=900)
        scene.service.thread(102, "5", 5, started=900)

    assert scene.objections(change) == []


def test_a_server_that_began_anew(scene: Scene) -> None:
    def again() -> None:
        scene.service.thread(100, "0-3", 0, started=900)

    assert scene.objections(again) == ["Process 100 of the service was replaced by 100: the server began anew."]


def test_pages_on_other_nodes(scene: Scene) -> None:
    sentence = "22.8% of the service's memory lies on other nodes than 1."
    assert scene.objections(nodes={1}) == [sentence]


def test_pages_that_cannot_be_read(scene: Scene) -> None:
    scene.tree.drop("proc/100/numa_maps")
    scene.tree.drop("proc/100/smaps_rollup")
    found = scene.activity(*scene.run())
    assert found["pages_by_node"] == {}
    (sentence,) = scene.objections(nodes={0})
    assert sentence.startswith(
        "The placement of the service's memory is not known: the nodes of the pages of process 100"
    )
    assert scene.objections() == []


def test_each_rule_speaks_for_itself(scene: Scene) -> None:
    def all_at_once() -> None:
        scene.ticks["steal"] += 50
        scene.ticks["irq"] += 500
        scene.swapped += 1
        scene.metrics = (9999, 9999, 0, 0)
        scene.service.thread(101, "5", 5)

    found = scene.objections(all_at_once, nodes={0})
    assert len(found) == 6 and all(sentence.endswith(".") for sentence in found)


def test_a_service_that_does_not_run(scene: Scene) -> None:
    scene.tree.put(f"{UNIT}/cgroup.procs", "999")
    with pytest.raises(TuningError, match=r"llama\.service has no process: it ended while it was measured"):
        scene.look()
    with pytest.raises(BadRequest, match=r"other\.service has no control group"):
        host_activity.read_host_activity(scene.tree.fs, ["other.service"], scene.server)
