# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The threads of a service: where they may run, how busy they were, and whether they share CPUs or cores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._verify.placement.watch import ServiceWatch
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import Service, one_waits_two_compute


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return one_waits_two_compute(tmp_path)


# What is told of each


def test_threads_with_a_window(service: Service) -> None:
    waiting, first, second = service.prove(window=2)["threads"]
    assert waiting == {
        "process": 100,
        "thread": 100,
        "name": "llama-server",
        "allowed": "0-3",
        "cpu": 1,
        "l3": 0,
        "node": 0,
        "groups": None,
        "busy": 0.05,
        "worked": 0.1,
        "waited": 0,
        "voluntary": 20,
        "involuntary": 1,
    }
    assert (first["busy"], first["l3"], first["node"], first["involuntary"]) == (1, 1, 1, 3)
    assert second["busy"] == pytest.approx(0.95) and second["waited"] == pytest.approx(0.4)


@pytest.mark.parametrize(("seconds", "busy"), [(20, [False, True, True]), (500, [False] * 3)])
def test_threads_that_had_work_for_a_part_of_the_window(service: Service, seconds: int, busy: list[bool]) -> None:
    """Nobody was busy for half of it. After 500 s they count as idle: what they did may be anything."""
    watch = ServiceWatch(Host(service.tree.fs), {"service": "llama.service", "busy_cpus": "4-5"}, clock=service)
    service.sleep(seconds)
    result: dict[str, Any] = watch.prove_placement_since_start(relative_to_busiest=True)
    assert [row["busy"] >= 0.5 for row in result["threads"]] == busy
    assert result["clean"] is any(busy)


def test_threads_without_a_window_are_not_measured(service: Service) -> None:
    result = service.prove()
    assert result["seconds"] is None and service.now == 0
    for row in result["threads"]:
        assert {row[key] for key in ("busy", "worked", "waited", "voluntary", "involuntary")} == {None}


def test_a_thread_that_came_in_the_window_is_not_measured(service: Service) -> None:
    """Nor is one with the number of another that has ended: its counts are from its own start."""
    service.in_window += [
        lambda: service.thread(103, "6", 6, worked=1),
        lambda: service.thread(100, "7", 7, worked=1, started=8),
    ]
    rows = {row["thread"]: row for row in service.prove(window=2)["threads"]}
    assert rows[103]["busy"] is rows[100]["busy"] is rows[100]["voluntary"] is None
    assert rows[100]["allowed"] == "7"


def test_a_thread_that_ends_while_it_is_read_is_left_out(service: Service) -> None:
    service.tree.drop("/proc/100/task/101/stat")
    assert [row["thread"] for row in service.prove()["threads"]] == [100, 102]


# Where they may run


@pytest.mark.parametrize(
    ("option", "cpus", "verdict", "words"),
    [
        ("cpus", "0-5", "ok", "3 threads may run on 0-5 and nowhere else."),
        ("cpus", "node0,ccd0,5", "ok", "3 threads may run on 0-7"),
        ("cpus", "1-5", "drift", "1 of 3 threads may run outside 1-5: thread 100 (llama-server) on 0-3."),
        ("busy_cpus", "l3:1", "ok", "2 busy threads may run on 4-7"),
        ("busy_cpus", "4", "drift", "1 of 2 busy threads may run outside 4: thread 102 (llama-server) on 5."),
    ],
)
def test_where_threads_may_run(service: Service, option: str, cpus: str, verdict: str, words: str) -> None:
    found, sentence = service.judge(window=2, **{option: cpus})
    assert found == verdict and sentence.startswith(words)


@pytest.mark.parametrize(
    ("least", "verdict", "words"),
    [
        (1, "ok", "2 of 3 threads busy, at least 1 requested."),
        (2, "ok", "2 of 3 threads busy, at least 2 requested."),
        (3, "drift", "Only 2 of 3 threads busy, at least 3 requested, each for half of the 2.0 s."),
    ],
)
def test_how_many_threads_are_busy(service: Service, least: int, verdict: str, words: str) -> None:
    assert service.judge(window=2, busy_threads=least) == (verdict, words)


def test_no_busy_thread_is_too_few(service: Service) -> None:
    service.in_window = []
    verdict, sentence = service.judge(window=2, busy_threads=1)
    assert verdict == "drift"
    assert sentence.startswith("Only 0 of 3 threads busy") and sentence.endswith(
        "; give the service work while it is looked at."
    )


def test_how_many_are_busy_is_not_known_without_a_window(service: Service) -> None:
    verdict, sentence = service.judge(busy_threads=2)
    assert verdict == "unknown" and "without a window" in sentence


@pytest.mark.parametrize("least", [-1, "some"])
def test_a_number_of_busy_threads_that_is_none(service: Service, least: object) -> None:
    with pytest.raises(BadRequest, match=r"busy_threads: '.*' is no whole number from 0 up\."):
        service.prove(window=2, busy_threads=least)


def test_many_threads_astray_are_told_by_the_first_three(service: Service) -> None:
    for tid in range(103, 110):
        service.thread(tid, "8-9", 8)
    sentence = service.judge(cpus="0-7")[1]
    assert sentence.startswith("7 of 10 threads") and sentence.endswith("thread 105 (llama-server) on 8-9, and 4 more.")


# Who shares


def test_spread(service: Service) -> None:
    assert service.judge(window=2, spread="cpu") == ("ok", "2 busy threads, each on a CPU of its own.")


@pytest.mark.parametrize(
    ("allowed", "earlier", "later"),
    [("4", 4, 4), ("4-5", 5, 4), ("4-5", 4, 5), ("4", 5, 5)],
    ids=["always", "at the end", "at the begin", "bound to it and not there yet"],
)
def test_busy_threads_that_share_a_cpu(service: Service, allowed: str, earlier: int, later: int) -> None:
    """A crowd on one CPU is busy although each runs but a little: it waits for the CPU."""
    service.tree.drop("/proc/100/task/102/*")
    service.thread(103, allowed, earlier)
    service.in_window = [
        lambda: service.thread(101, "4", 4, worked=0.02, waited=1.9),
        lambda: service.thread(103, allowed, later, worked=0.02, waited=1.9),
    ]
    assert service.judge(window=2, spread="cpu") == (
        "drift",
        "Busy threads share a CPU. CPU 4: thread 101 (llama-server), thread 103 (llama-server).",
    )


def test_threads_that_are_not_bound_are_said_to_float(service: Service) -> None:
    service.in_window[2] = lambda: service.thread(102, "5-7", 5, worked=2)
    verdict, sentence = service.judge(window=2, spread="cpu")
    assert verdict == "ok" and sentence.endswith("; 1 of them may move to other CPUs and come together later.")


def test_siblings_share_a_core(tmp_path: Path) -> None:
    service = Service(tmp_path, smt=True)
    service.thread(101, "4", 4)
    service.thread(102, "20", 20)
    service.in_window = [
        lambda: service.thread(101, "4", 4, worked=2),
        lambda: service.thread(102, "20", 20, worked=2),
    ]
    assert service.judge(window=2, spread="cpu")[0] == "ok"
    for tid, cpu in ((101, 4), (102, 20)):
        service.thread(tid, str(cpu), cpu)
    verdict, sentence = service.judge(window=2, spread="core")
    assert verdict == "drift" and sentence.startswith("Busy threads share a core. core 4: thread 101")


@pytest.mark.parametrize(
    ("window", "drop", "words"),
    [
        (0, "", "set window"),
        (2, "/proc/100/task/*/schedstat", "no time that threads waited"),
        (2, "idle", "no thread was"),
    ],
)
def test_who_is_busy_is_unknown(service: Service, window: float, drop: str, words: str) -> None:
    if drop.startswith("/"):
        service.in_window = [lambda: service.tree.drop(drop)]
    elif drop:
        service.in_window = []
    for option in ({"spread": "cpu"}, {"busy_cpus": "4-5"}):
        verdict, sentence = service.judge(window=window, **option)
        assert verdict == "unknown" and words in sentence
        if drop.startswith("/"):
            service.thread(101, "4", 4)
