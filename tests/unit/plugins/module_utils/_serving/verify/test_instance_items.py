# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the checklist says of instances of llama-server, from what was seen of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import INSTANCE_HEAD
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import keys
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import PLAN_MARK
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import instance_items
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import (
    MAIN,
    NOTHING,
    RIGHT,
    Instances,
    instances,
    plan,
    trial,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import NUMA_MAPS

RPC = "llama-chat-rpc.service"

# Speculation and speed

UNTOLD = {"drafts": None, "drafted": None, "accepted": None}


@pytest.mark.parametrize(
    ("seen", "verdict", "words"),
    [
        ({}, "ok", r"60 tokens were guessed in 3 drafts \(ngram-simple, draft\), and 45 of them right \(75 %\)\.$"),
        ({"drafts": None}, "ok", "^60 tokens were guessed \\("),
        ({"accepted": 0}, "ok", r"0 of them right \(0 %\)"),
        (
            {**NOTHING, "speculative": False},
            "wrong",
            r"does not speculate as planned \(ngram-simple, draft\): its unit",
        ),
        ({**UNTOLD, "speculative": False}, "wrong", "does not speculate"),
        (NOTHING, "wrong", "does not speculate"),
        ({**NOTHING, "speculative": True}, "unknown", "the server can guess, and guessed nothing"),
        (UNTOLD, "unknown", "the server counts no guesses"),
        ({**UNTOLD, "speculative": True}, "unknown", "the server counts no guesses"),
        ({**NOTHING, "tokens": 0, "reason": "busy: no slot."}, "unknown", r"^Not known: busy: no slot\.$"),
        ({**UNTOLD, "tokens": 0, "reason": "busy: no slot."}, "unknown", r"^Not known: busy: no slot\.$"),
    ],
)
def test_whether_it_speculates(seen: dict[str, Any], verdict: str, words: str) -> None:
    item = instance_items.build_speculation_item("chat", plan(), trial(**seen))
    assert (item.name, item.verdict) == ("speculation/chat", verdict)
    assert re.search(words, item.sentence), item.sentence


def test_who_was_not_told_to_speculate_is_not_asked() -> None:
    assert instance_items.build_speculation_item("chat", plan(speculation=[]), trial()).verdict == "not asked for"


@pytest.mark.parametrize(
    ("seen", "verdict", "sentence"),
    [
        ({}, "ok", "12.5 tokens per second, with 64 of a text that repeats itself."),
        (
            {"is_complete": False, "tokens": 3},
            "ok",
            "12.5 tokens per second, with 3 of a text that repeats itself, cut off after 60 s.",
        ),
        ({"tokens": 0, "rate": None, "reason": "busy."}, "unknown", "Not known: busy."),
        ({"tokens": 1, "rate": None}, "unknown", "Not known: a single token came."),
    ],
)
def test_the_speed_is_told(seen: dict[str, Any], verdict: str, sentence: str) -> None:
    item = instance_items.build_speed_item("chat", trial(**seen))
    assert (item.verdict, item.sentence, item.found) == (verdict, sentence, "12.5" if verdict == "ok" else None)


# Placement


@pytest.mark.parametrize(
    ("verdicts", "verdict", "sentence"),
    [
        (
            {"cpus": "ok", "busy_cpus": "ok", "spread": "ok", "nodes/weights": "ok"},
            "ok",
            "busy_cpus is ok. nodes/weights is ok.",
        ),
        (
            {"cpus": "drift", "busy_cpus": "unknown", "nodes/weights": "ok"},
            "wrong",
            "cpus is drift. Run the play with llama_server again.",
        ),
        ({"cpus": "ok", "busy_cpus": "unknown", "nodes/weights": "ok"}, "unknown", "busy_cpus is unknown."),
    ],
)
def test_the_worst_verdict_counts(verdicts: dict[str, str], verdict: str, sentence: str) -> None:
    rows = [{"name": name, "verdict": word, "sentence": f"{name} is {word}."} for name, word in verdicts.items()]
    item = instance_items.build_placement_item("chat", {"verdicts": rows}, "llama-chat.service")
    assert (item.name, item.verdict, item.sentence) == ("placement/chat", verdict, sentence)


# All of it


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instances]:
    with instances(tmp_path, monkeypatch) as host:
        yield host


def verdicts(items: dict[str, tuple[str, str]]) -> dict[str, str]:
    return {name: verdict for name, (verdict, sentence) in items.items()}


def test_an_instance_as_it_shall_be(here: Instances) -> None:
    here.planned()
    items, facts = here.check()
    assert verdicts(items) == RIGHT, items
    assert items["placement/chat"][1] == (
        "2 busy threads may run on 4-5 and nowhere else. 100.0 % of the mapped weights (4 MiB) lies on nodes 0-1: "
        "node 0 50.0 %, node 1 50.0 %. 100.0 % of anonymous memory (7176 KiB) lies on nodes 0-1: node 0 7.2 %, node 1 "
        "92.8 %."
    )
    assert facts == {
        "chat": {
            "drafts": 3,
            "drafted": 60,
            "accepted": 45,
            "acceptance": 0.75,
            "tokens_per_second": 12.5,
            "locality": {"0": 0.5, "1": 0.5},
            "jitter": None,
        }
    }


def test_of_several_models_those_in_memory_are_asked(here: Instances) -> None:
    def state(word: str, **more: Any) -> dict[str, Any]:
        return {"value": word, **more}

    here.planned(models=["a", "b", "c", "d"])
    states = {"a": state("loaded"), "b": state("unloaded"), "c": state("unloaded", failed=True, exit_code=1)}
    rows = [{"id": name, "status": one} for name, one in states.items()]
    here.health = (200, json.dumps({"status": "ok", "data": rows}).encode())
    items, facts = here.check()
    assert here.models == ["a"] and list(facts) == ["chat/a"]
    assert verdicts(items) == {
        "service/chat": "ok",
        **{name.replace("/chat", "/chat/a"): word for name, word in RIGHT.items() if name != "service/chat"},
        "speed/chat/b": "not asked for",
        "speed/chat/c": "wrong",
        "speed/chat/d": "not asked for",
    }
    assert items["speed/chat/c"][1].startswith("The model is failed, and is read when")


def test_an_instance_that_makes_no_tokens_is_asked_for_what_it_does(here: Instances) -> None:
    here.planned(task="embedding", speculation=[])
    here.trial = trial(drafts=None, drafted=None, accepted=None)
    assert verdicts(here.check()[0]) == {**RIGHT, "speculation/chat": "not asked for"}
    assert here.task == "embedding"


def test_weights_that_are_not_mapped_lie_in_anonymous_memory(here: Instances) -> None:
    rows = [row for row in NUMA_MAPS.splitlines() if ".gguf" not in row]
    here.service.tree.put("/proc/100/numa_maps", "\n".join(rows))
    here.planned()
    assert here.check()[1]["chat"]["locality"] == {"0": 0.072, "1": 0.928}


def test_a_busy_server_is_seen_at_work_all_the_same(here: Instances) -> None:
    here.trial = trial(tokens=0, rate=None, other_requests=2, reason="busy: 2 requests were in progress.", **UNTOLD)
    here.planned()
    here.service.in_window = [lambda: here.service.thread(100, "0-3", 0, worked=2)]
    items, dummy = here.check()
    assert verdicts(items) == {
        **RIGHT,
        "speculation/chat": "unknown",
        "placement/chat": "wrong",
        "speed/chat": "unknown",
    }
    assert items["speculation/chat"][1] == items["speed/chat"][1] == "Not known: busy: 2 requests were in progress."


def test_both_processes_are_watched_during_one_request(here: Instances) -> None:
    here.runs(RPC)
    here.planned(rpc={"unit": RPC, "expect": {"cpus": "4-5"}})
    here.unit(RPC, INSTANCE_HEAD)
    items, dummy = here.check()
    assert verdicts(items) == {**RIGHT, "placement/chat-rpc": "wrong"}
    assert len(here.keys) == 1 and items["placement/chat-rpc"][1].startswith("1 of 3 threads may run outside 4-5")


def test_a_process_that_does_not_run_has_no_place(here: Instances) -> None:
    here.planned(rpc={"unit": RPC, "expect": {"cpus": "4-5"}})
    verdict, sentence = here.check()[0]["placement/chat-rpc"]
    assert verdict == "unknown" and sentence.startswith(f"Not known: The unit {RPC} has no control group")


@pytest.mark.parametrize(
    ("state", "health", "verdict", "words"),
    [
        (
            "failed",
            (200, b"{}"),
            "wrong",
            f"{MAIN} is failed. 'journalctl -u {MAIN}' says why. Run site.yml --tags llama.",
        ),
        ("active", (500, b"no"), "wrong", "/health answers 500."),
        ("activating", (503, b"{}"), "unknown", "is being started"),
        ("active", (503, b"{}"), "unknown", "is being started"),
    ],
)
def test_one_that_does_not_serve_is_asked_nothing(
    here: Instances, state: str, health: tuple[int, bytes], verdict: str, words: str
) -> None:
    here.planned()
    here.states[MAIN], here.health = state, health
    items, facts = here.check()
    assert verdicts(items) == {
        **dict.fromkeys(RIGHT, "unknown"),
        "jitter/chat": "not asked for",
        "service/chat": verdict,
    }
    assert words in items["service/chat"][1]
    assert here.keys == [] and facts["chat"]["tokens_per_second"] is None and facts["chat"]["locality"] == {}
    assert {items[name][1] for name in list(RIGHT)[1:]} == {"Not known: it does not serve."}


def test_a_model_that_was_overwritten_in_place_is_told_from_a_replaced_one(here: Instances, tmp_path: Path) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(b"old")
    status = model.stat()
    here.planned(files={str(model): [status.st_size, status.st_mtime_ns]}, mapped=[str(model)])

    def sentence_with_mapping(mapped: str) -> str:
        here.service.tree.put(
            "/proc/100/maps", f"7f00-7f01 r--s 00000000 08:01 42    {mapped}\n7f02-7f03 rw-p 0 00:00 0\n"
        )
        return here.check()[0]["service/chat"][1]

    assert "serves at" in sentence_with_mapping(str(model))
    said = sentence_with_mapping(f"{model} (deleted)")
    assert said.startswith(
        f"{model} was replaced, and {MAIN} still runs with the old file, whose name is gone. Run the"
    )
    model.write_bytes(b"news")
    said = sentence_with_mapping(str(model))
    assert said.startswith(f"{model} was overwritten in place while {MAIN} maps it: the server computes with the new")
    assert verdicts(here.check()[0])["service/chat"] == "wrong"
    said = sentence_with_mapping("/srv/other.gguf")
    assert said.startswith(
        f"{model} was replaced or removed since {MAIN} was planned, which may still run with the old"
    )


def test_one_that_refuses_requests_of_its_task_is_wrong(here: Instances) -> None:
    here.planned(task="embedding", speculation=[])
    reason = "/v1/embeddings answers 400: Pooling type 'none' is not OAI compatible."
    here.trial = trial(tokens=0, rate=None, reason=reason, is_refused=True)
    items, dummy = here.check()
    assert verdicts(items)["service/chat"] == "wrong"
    assert items["service/chat"][1] == (
        f"{MAIN} is active, and refuses each request of its task embedding: {reason} Its clients get the same answer."
    )
    here.trial = trial(tokens=0, rate=None, reason="/v1/embeddings does not answer in time.")
    assert verdicts(here.check()[0])["service/chat"] == "ok"


def test_one_at_whose_port_nobody_listens_is_wrong(here: Instances) -> None:
    here.url = "http://127.0.0.1:1"
    here.planned()
    verdict, sentence = here.check()[0]["service/chat"]
    assert verdict == "wrong"
    assert sentence.startswith(f"{MAIN} is active, and at http://127.0.0.1:1 the connection is refused.")


def test_without_a_systemd_nothing_is_known(here: Instances, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(names: list[str]) -> dict[str, dict[str, str]]:
        raise TuningError("systemd does not answer.")

    monkeypatch.setattr(instance_items, "read_unit_properties", show)
    here.planned()
    assert here.check()[0]["service/chat"] == ("unknown", "systemd does not answer.")


def test_the_key_comes_from_its_file(here: Instances, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("first\nsecond\n")
    here.planned(key_file=str(tmp_path / "keys"))
    assert verdicts(here.check()[0]) == RIGHT and here.keys == [(here.url, "first")]
    (tmp_path / "keys").unlink()
    items, dummy = here.check()
    assert items["speed/chat"] == (
        "unknown",
        f"Not known: The key file {tmp_path}/keys cannot be read: No such file or directory. It must hold one key per "
        "line.",
    )
    assert items["placement/chat"] == items["speed/chat"], "without a request nobody computes"


def test_a_key_that_was_rotated_is_not_the_one_that_was_loaded(
    here: Instances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = tmp_path / "credential"
    loaded.write_text("first\n")
    monkeypatch.setattr(keys, "list_processes", lambda fs, unit: [2**22 - 1, os.getpid()] if unit == MAIN else [])
    monkeypatch.setattr(keys, "api_key_path_in_unit", lambda unit: str(loaded) if unit == MAIN else "")
    file = tmp_path / "keys"
    file.write_text("second\n")
    here.planned(key_file=str(file), keys=file.stat().st_mtime_ns - 1)
    items, dummy = here.check()
    assert verdicts(items) == {**RIGHT, "service/chat": "wrong"} and here.keys == [(here.url, "first")]
    assert items["service/chat"][1] == (
        f"{file} was replaced or removed since {MAIN} was planned, which may still run with the old one. Run the play "
        "with llama_server again."
    )


@pytest.mark.parametrize("kind", ["programs", "files"])
def test_a_program_or_a_model_that_was_replaced_is_wrong(here: Instances, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "loaded"
    path.write_text("x")
    changed = path.stat().st_mtime_ns
    here.planned(**{kind: {str(path): [1, changed]}})
    assert here.check()[0]["service/chat"][0] == "ok"
    here.planned(**{kind: {str(path): [1, changed - 1]}})
    items, dummy = here.check()
    assert items["service/chat"][0] == "wrong" and str(path) in items["service/chat"][1]
    assert items["speed/chat"][0] == "ok", "it serves, and is measured"
    here.health = (503, b"{}")
    assert here.check()[0]["service/chat"][0] == "unknown", "it may be reading the new one"


def test_units_of_others_are_passed_over_and_torn_ones_are_not(here: Instances) -> None:
    here.unit("llama-other.service", "[Service]\nExecStart=/bin/true\n")
    here.unit("llama-torn.service", f"{INSTANCE_HEAD}\n{PLAN_MARK}{{")
    here.unit("llama-torn-rpc.service", INSTANCE_HEAD)
    here.unit("ollama.service", INSTANCE_HEAD)
    items, facts = here.check()
    here.unit("llama-newer.service", f"{INSTANCE_HEAD}\n{PLAN_MARK}{{}}\n")
    assert here.check()[0]["service/newer"][1] == (
        "llama-newer.service carries the plan of another version of the collection. Run the play with llama_server "
        "again."
    )
    assert items == {
        "service/torn": (
            "unknown",
            "llama-torn.service carries no plan, or a part of one. Run the play with llama_server again.",
        )
    }
    assert facts == {}


def test_no_instance_is_nothing_to_say(here: Instances) -> None:
    assert here.check() == ({}, {})


def test_a_server_without_its_model_in_memory_is_not_the_planned_one(here: Instances, tmp_path: Path) -> None:
    """Mapped, or read into memory as large as half of it: with less than that, something else answers."""
    rows = [row for row in NUMA_MAPS.splitlines() if ".gguf" not in row]
    here.service.tree.put("/proc/100/numa_maps", "\n".join(rows))
    model = tmp_path / "model.gguf"
    for size, verdict in ((14 << 20, "ok"), (28 << 20, "wrong")):
        model.write_bytes(b"")
        os.truncate(model, size)
        here.planned(files={str(model): [size, model.stat().st_mtime_ns]})
        items, dummy = here.check()
        assert items["service/chat"][0] == verdict
    assert items["service/chat"][1].startswith(
        f"{MAIN} answers, and has no model in memory: what runs there is not the server"
    )
