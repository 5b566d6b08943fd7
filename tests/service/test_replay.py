# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The replay server behind the walls of a unit: the role takes it for the real one, the benchmark finds its truth."""

from __future__ import annotations

import json

import pytest

from ansible_collections.sovereign.epyc.tests.replay import install
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import RIGHT
from vepyc.playbook_runs import run_playbook

pytestmark = pytest.mark.slow

#: The machine is shared: a server that is busy most of the time keeps the share of others small.
TRUTH = {
    "noise": 0.0,
    "base_ms": 5.0,
    "prompt_ms": 1.0,
    "busy": 0.9,
    "accepted": 0.5,
    "effects": [
        {"file": "/etc/knob", "equals": "1", "factor": 0.8},
        {"argument": "--cache-type-k", "equals": "q8_0", "factor": 1.5},
        {"environment": "OMP_WAIT_POLICY", "equals": "passive", "factor": 3},
    ],
}
REPLAYED = {
    "name": "chat",
    "port": 8080,
    "context": 4096,
    "slots": 2,
    "cache_type_k": "q8_0",
    "extra_environment": {"LLAMA_REPLAY_TRUTH": install.TRUTH, "OMP_WAIT_POLICY": "passive"},
    "unit_settings": {"StateDirectory": "llama-replay"},
}
STARTS = "/var/lib/llama-replay/starts.json"
PROMPTS = json.dumps({"text": "Once upon a time", "output_length": 12})


@pytest.fixture(scope="module")
def served(service_host):
    service_host.run("cat >/etc/knob", text="0\n")
    service_host.run("cat >/srv/prompts.jsonl", text=PROMPTS)
    install.by_shell(service_host.box.run, TRUTH)
    played = service_host.serve(REPLAYED, epyc_llama_binary=install.BINARY)
    assert "could not be tried" not in played.output
    return service_host


def step_ms(timings):
    """Return the milliseconds of a step, by what the server tells."""
    return timings["predicted_ms"] / (timings["predicted_n"] - timings.get("draft_n_accepted", 0))


def test_effects_hold_behind_the_walls(served):
    """Arguments and variables reach the server, and a knob is looked at anew for each request."""
    assert step_ms(served.complete_text(8080, "Once")["timings"]) == pytest.approx(5 * 1.5 * 3)
    served.run("echo 1 >/etc/knob")
    assert step_ms(served.complete_text(8080, "Once")["timings"]) == pytest.approx(0.8 * 5 * 1.5 * 3)
    served.run("echo 0 >/etc/knob")


def test_the_checklist_finds_a_server_that_guesses_where_it_was_planned(served):
    playbook = served.folder / "verify.yml"
    task = {"name": "Verify", "sovereign.epyc.epyc_verify": {}}
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    play = run_playbook(served.folder, playbook, "-vvv")
    items = {item["name"]: item for item in play["Verify"]["checklist"] if item["name"].endswith("/chat")}
    assert {name: item["verdict"] for name, item in items.items()} == RIGHT, items


def test_the_benchmark_finds_the_truth(served, tmp_path):
    """Whether a round counts is chance on a machine that is shared; what the samples say is not."""
    asked = {
        "epyc_benchmark_rounds": 1,
        "epyc_benchmark_prompts": "/srv/prompts.jsonl",
        "epyc_benchmark_streams": [2],
        "epyc_benchmark_folder": str(tmp_path),
    }
    played = run_playbook(served.folder, "playbooks/benchmark.yml", "-e", json.dumps(asked))
    (result,) = played["Measure"]["results"]
    assert played.returncode == (0 if result["clean"] else 2), result
    (copy,) = tmp_path.iterdir()
    document = json.loads(copy.read_text())
    assert document["fingerprint"]["engine_build"] == "b11434-replay"
    alone = [one for one in document["samples"] if one["streams"] == 1]
    assert alone and {one["predicted_n"] for one in alone} == {12}
    for one in alone:
        assert one["predicted_ms"] / (one["predicted_n"] - one["accepted"]) == pytest.approx(5 * 1.5 * 3)
        assert one["witness"]["others"] is not None
    assert any(one["streams"] == 2 for one in document["samples"])
    said = " ".join(str(one["void"]) for one in document["samples"])
    words = ("Others asked", "cannot be seen", "elsewhere", "other nodes", "replaced", "no processor time")
    assert not any(word in said for word in words), said


def test_it_counts_its_starts(served):
    """Those behind the walls of a trial are none: they have no folder."""
    assert json.loads(served.run(f"cat {STARTS}"))["starts"] == 1
    served.run("systemctl restart llama-chat.service")
    assert json.loads(served.run(f"cat {STARTS}"))["starts"] == 2


def test_a_bad_truth_is_one_sentence_in_the_journal(served):
    served.run(f"echo '{{\"sped\": 1}}' >{install.TRUTH}")
    assert served.box.run("systemctl restart llama-chat.service", check=False).returncode
    said = served.run("journalctl -u llama-chat.service --output=cat")
    assert f"The truth {install.TRUTH}: it has the unknown key 'sped'.\n" in said and "Traceback" not in said
