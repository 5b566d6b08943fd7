# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A benchmark of the real llama-server with a real model, by the playbook."""

from __future__ import annotations

import json

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports import run_report
from vepyc.playbook_runs import run_playbook

pytestmark = pytest.mark.slow

FOLDER = "/var/lib/sovereign-epyc/benchmarks"
COUNTED = "one two three four five six seven eight nine ten\n"
#: Long prompts would take most of the time on a machine that is shared, and so would many tokens.
PROMPTS = "".join(
    f"{json.dumps({'text': text, 'output_length': 12})}\n"
    for text in (f"{COUNTED}{COUNTED}one two", "Once upon a time")
)
#: Asks the server again and again.
OTHERS = """
import time, urllib.request
while True:
    request = urllib.request.Request("http://127.0.0.1:8080/completion", b'{"prompt": "a", "n_predict": 2}')
    urllib.request.urlopen(request).read()
    time.sleep(0.2)
"""
ASKED = {"epyc_benchmark_rounds": 1, "epyc_benchmark_prompts": "/srv/prompts.jsonl", "epyc_benchmark_streams": [2]}


@pytest.fixture(scope="module")
def served(service_host):
    service_host.run("cat >/srv/prompts.jsonl", text=PROMPTS)
    service_host.serve({"name": "chat", "port": 8080, "context": 4096, "slots": 2})
    return service_host


def run_benchmark(service_host, *arguments, **options):
    """Run the playbook; return its exit code, and what the module says."""
    played = run_playbook(
        service_host.folder, "playbooks/benchmark.yml", "-e", json.dumps({**ASKED, **options}), *arguments
    )
    return played.returncode, played["Measure"]["results"][0]


def list_plain_samples(document, streams):
    """Return the samples without a context before their prompt, of requests that were not sent at a rate."""
    plain = [one for one in document["samples"] if (one["turn"], one["depth"], one["rate"]) == (1, 0, None)]
    return [one for one in plain if one["streams"] == streams]


def list_result_files(service_host):
    return service_host.run(f"ls {FOLDER}", check=False).split()


def test_a_check_asks_nothing(served):
    before = served.read_metric(8080, "tokens_predicted_total")
    code, result = run_benchmark(served, "--check")
    assert code == 0
    assert result["text"].startswith("chat would be asked prompts in 1 rounds (2 of user), with 1 and 2 streams. ")
    assert served.read_metric(8080, "tokens_predicted_total") == before and list_result_files(served) == []
    done = served.box.run("sovereign-epyc bench chat", check=False)
    assert done.returncode == 1 and "a run of playbooks/benchmark.yml puts it here" in done.stderr


def test_the_playbook_measures_and_brings_the_file(served, tmp_path):
    """Others use this machine too, so whether a round counts is chance; what the samples say is not."""
    before = served.read_units()
    code, result = run_benchmark(served, epyc_benchmark_folder=str(tmp_path))
    assert code == (0 if result["clean"] else 2), result
    assert served.read_units() == before
    (copy,) = tmp_path.iterdir()
    document = json.loads(copy.read_text())
    assert f"{FOLDER}/{copy.name.partition('-')[2]}".endswith(list_result_files(served)[0])
    alone = [one for one in list_plain_samples(document, 1) if one["round"] == 1]
    assert [one["predicted_n"] for one in alone] == [12, 12]
    # The client waits for the time of the server and little more.
    for one in alone:
        assert one["prompt_ms"] + one["predicted_ms"] <= one["output_ms"] < 2 * (one["prompt_ms"] + one["predicted_ms"])
    # What stands in the prompt again and again is guessed.
    assert alone[0]["accepted"] > 0 and sum(alone[0]["gaps_ms"]) > 0
    (window, *dummy) = list_plain_samples(document, 2)
    assert window["predicted_n"] == 12 * len(window["ttfts_ms"]) and window["output_n"] >= window["predicted_n"]
    # No request but ours was seen, and all threads and pages are where they were planned.
    said = " ".join(str(one["void"]) for one in document["samples"])
    assert not any(word in said for word in ("Others asked", "cannot be seen", "elsewhere", "other nodes", "replaced"))
    assert document["fingerprint"]["engine_build"] and document["restored"] is True
    known = [document["fingerprint"][name] for name in ("host", "engine", "model", "quantization")]
    assert known[1] == "llama.cpp" and all(known), known
    witness = alone[0]["witness"]
    assert witness["seconds"] > 0 and witness["tokens"] >= 10 * 12 and witness["others"] >= 0
    (memory,) = document["bandwidth"]
    assert memory["source"] in ("reader", "paper", "nothing") and document["steps"][0]["parts"]["layers"] > 10_000_000
    assert {row["streams"] for row in result["figures"]} == {1, 2}
    assert run_report.render_run_report(document) == result["text"]
    # From now on the host does the same on its own.
    words = "chat --rounds 1 --streams 2 --prompts /srv/prompts.jsonl --output /srv/own.json"
    done = served.box.run(f"sovereign-epyc bench {words}", check=False)
    own = json.loads(served.run("cat /srv/own.json"))
    assert done.stdout == run_report.render_run_report(own) and done.returncode in (0, 2), done.stderr
    same = ("engine_build", "engine_sha256", "model_sha256", "prompts_sha256", "arguments")
    assert [own["fingerprint"][name] for name in same] == [document["fingerprint"][name] for name in same]
    assert [one["predicted_n"] for one in list_plain_samples(own, 1) if one["round"] == 1] == [12, 12]


def test_depths_second_turns_and_arrivals(served):
    """The second turn finds the first in the prefix cache, and a prompt the context before it."""
    others = {"epyc_benchmark_depths": [256, 1024, 4096], "epyc_benchmark_rate": 2}
    limits = {"first_ms": 3_600_000, "per_token_ms": 3_600_000}
    dummy, result = run_benchmark(served, epyc_benchmark_streams=[4], epyc_benchmark_slo=limits, **others)
    document = json.loads(served.run(f"cat {result['document']}"))
    second = [one for one in document["samples"] if one["turn"] == 2]
    first = [one for one in list_plain_samples(document, 1) if one["round"] == second[0]["round"]][-1]
    assert second[0]["depth"] >= 0.8 * (first["prompt_n"] + 12) and second[0]["prompt_n"] < first["prompt_n"] + 40
    deep = [one for one in document["samples"] if one["depth"] and one["turn"] == 1]
    assert {one["depth"] for one in deep} == {256, 1024} and {one["prompt_n"] for one in deep} == {deep[0]["prompt_n"]}
    assert any(one.startswith("Depth 4096 was not measured") for one in document["remarks"])
    contexts = {step["depth"]: step["context"] for step in document["steps"] if step["streams"] == 1}
    assert contexts[1024] - contexts[256] == 1024 - 256
    # Four streams of two slots, and requests that do not wait for each other.
    assert list_plain_samples(document, 4)
    arrivals = [one for one in document["samples"] if one["rate"]]
    assert len(arrivals[0]["ttfts_ms"]) == 24 and arrivals[0]["within_slo"] == 1
    rows = {(row["streams"], row["depth"], row["turn"], row["rate"]) for row in result["figures"]}
    assert {(1, 0, 1, None), (1, 256, 1, None), (1, 1024, 1, None), (4, 0, 1, None)} < rows


def test_it_sees_who_else_asks(served):
    served.run("cat >/srv/others.py", text=OTHERS)
    served.run("systemd-run --quiet --unit=others python3 /srv/others.py")
    code, result = run_benchmark(served, epyc_benchmark_streams=[])
    served.run("systemctl stop others")
    assert code == 2 and not result["clean"]
    said = " ".join(result["text"].split())
    assert said.startswith("No round counts, and this proves nothing.")
    assert "Other clients sent requests too" in said or "Requests of other clients were pending" in said
