# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Other options for the real llama-server with a real model, and that its own come back whatever happens.

An ablation leaves some out, a tuning tries others.
"""

from __future__ import annotations

import json
import re
import threading
import time

import pytest

from vepyc.playbook_runs import kill_playbook, run_playbook

pytestmark = pytest.mark.slow

FOLDER, JOURNAL = "/var/lib/sovereign-epyc/benchmarks", "/var/lib/sovereign-epyc/trial.json"
UNIT = "llama-chat.service"
#: What stands in the prompt again and again is guessed.
COUNTED = "one two three four five six seven eight nine ten\n"
PROMPTS = json.dumps({"text": f"{COUNTED}{COUNTED}one two", "output_length": 24})
ASKED = {"epyc_ablation_prompts": "/srv/prompts.jsonl", "epyc_ablation_rounds": 4, "epyc_ablation_seed": 1}
SERVED = {"name": "chat", "port": 8080, "context": 2048, "slots": 1, "cache_type_k": "q8_0"}


@pytest.fixture(scope="module")
def served(service_host):
    service_host.run("cat >/srv/prompts.jsonl", text=f"{PROMPTS}\n")
    service_host.serve(SERVED)
    return service_host


def run_ablation(service_host, *arguments, **options):
    """Run the playbook; return its exit code, and what the module says."""
    played = run_playbook(
        service_host.folder, "playbooks/ablation.yml", "-e", json.dumps({**ASKED, **options}), *arguments
    )
    return played.returncode, played["Remove one setting at a time"]["results"][0]


def read_arguments(service_host):
    """The arguments of the process that serves."""
    return service_host.run(f"tr '\\0' ' ' </proc/{service_host.main_pid('chat')}/cmdline")


def test_a_check_lists_the_options_and_starts_nothing(served):
    before = served.main_pid("chat")
    code, result = run_ablation(served, "--check")
    assert code == 0, result
    assert result["text"].startswith("chat would be measured without each of these in turn, and started anew again and")
    assert {"threads", "speculation", "KV cache types"} <= set(result["text"].replace(";", ",").split(", ")) | {
        word.partition("restart: ")[2] for word in result["text"].split(", ")
    }
    assert served.main_pid("chat") == before and served.run(f"ls {FOLDER}", check=False) == ""


def test_options_are_left_out_and_come_back(served):
    """Others use this machine too, so whether a round counts is chance; what the server was started with is not.

    Stock has a round only where rounds before it count. The minutes have to suffice for a confirmation.
    """
    before = read_arguments(served)
    assert "--spec-type" in before and "--cache-type-k" in before
    code, result = run_ablation(served, epyc_ablation_knobs=["speculation", "KV cache types"], epyc_ablation_minutes=15)
    assert "document" in result, result
    document = json.loads(served.run(f"cat {result['document']}"))
    assert code == (0 if result["clean"] else 2)
    assert {one["knob"] for one in result["verdicts"]} == {"speculation", "KV cache types"}
    guessed = {}
    for one in document["samples"]:
        guessed.setdefault(one["arm"], []).append(one["drafted"])
    assert not any(guessed["without speculation"]) and all(guessed["tuned"]) and not any(guessed.get("stock", []))
    starts = [(one["round"], one["arm"], one["start"]) for one in document["samples"]]
    assert len({start for dummy, dummy, start in starts}) == len(set(starts))
    assert document["plan"]["rejected"] == {} and document["restored"] is True
    assert read_arguments(served) == before
    assert served.run(f"ls {JOURNAL} /run/systemd/system/{UNIT}.d", check=False) == ""


def run_tuning(service_host, *arguments, **options):
    """Run the playbook; return its exit code, and what the module says."""
    asked = {
        "epyc_tune_prompts": "/srv/prompts.jsonl",
        "epyc_tune_seed": 1,
        "epyc_llama_instances": service_host.with_test_model(SERVED),
        **options,
    }
    played = run_playbook(service_host.folder, "playbooks/tune.yml", "-e", json.dumps(asked), *arguments)
    return played.returncode, played["Try other options"]["results"][0]


def test_a_check_of_a_tuning_lists_what_it_would_try_and_starts_nothing(served):
    before = served.main_pid("chat")
    code, result = run_tuning(served, "--check")
    assert code == 0 and result["tuned"] == {}, result
    assert "ngram_max 2, 4, 6, 8, 12, 16, 24, 32 (it is 8)" in result["text"]
    assert served.main_pid("chat") == before


def test_a_tuning_starts_what_the_planner_makes_of_other_options(served):
    """Whether a round counts is chance; what the server was started with is not, nor what the planner refuses."""
    before = read_arguments(served)
    code, result = run_tuning(served, epyc_tune_only=["speculation", "hugepages"], epyc_tune_minutes=20)
    # A run of which ten rounds in a row do not count ends with an error, which names the document.
    path = result["document"] if "document" in result else re.findall(r"/\S+\.json", result["msg"])[-1]
    assert code == (0 if result.get("clean") else 2)
    document = json.loads(served.run(f"cat {path}"))
    arms = {arm["name"]: arm["options"] for arm in document["plan"]["arms"]}
    assert arms["default"] == {"speculation": "ngram", "hugepages": "none"}
    rejected = {json.dumps(arms[name]): why for name, why in document["plan"]["rejected"].items()}
    assert "Make the pool larger" in rejected['{"hugepages": "pool"}'] and len(rejected) == 1
    guessed = {}
    for one in document["samples"]:
        guessed.setdefault(json.dumps(arms[one["arm"]]), []).append(one["drafted"])
    assert not any(guessed['{"speculation": "none"}'])
    assert all(guessed[json.dumps(arms["default"])]) and all(guessed['{"hugepages": "thp"}'])
    assert document["restored"] is True and read_arguments(served) == before
    assert served.run(f"ls {JOURNAL} /run/systemd/system/{UNIT}.d", check=False) == ""


def test_an_instance_that_runs_otherwise_is_not_tuned(served):
    dummy, result = run_tuning(served, epyc_llama_instances=served.with_test_model({**SERVED, "context": 1024}))
    assert "does not run as its options say" in result["msg"] and "Run site.yml first" in result["msg"]


@pytest.mark.parametrize("how", ["-KILL", "stop"])
def test_the_tuned_service_is_back_however_it_ends(served, how):
    before = read_arguments(served)
    command = "systemctl stop sovereign-epyc-trial" if how == "stop" else f"kill {how} $(cat /run/measures)"
    # As soon as the server runs without something.
    served.run(
        "cat >/srv/end.sh; systemd-run --quiet --unit=end sh /srv/end.sh",
        text=f"""
until ls /run/systemd/system/{UNIT}.d/*trial* >/dev/null 2>&1; do sleep 0.1; done
sed -nE 's/.*"process": ([0-9]+).*/\\1/p' {JOURNAL} >/run/measures
sleep 1
{command}
""",
    )
    played = run_playbook(
        served.folder, "playbooks/ablation.yml", "-e", json.dumps({**ASKED, "epyc_ablation_knobs": ["speculation"]})
    )
    assert played.returncode == 2
    end = time.monotonic() + 60
    while time.monotonic() < end and served.run(f"ls {JOURNAL}", check=False):
        time.sleep(0.5)
    assert served.run(f"ls {JOURNAL} /run/systemd/system/{UNIT}.d", check=False) == ""
    assert read_arguments(served) == before
    served.run("systemctl is-active llama-chat")


def wait_for_arm(served):
    """Wait until the server runs without an option."""
    until = time.monotonic() + 300
    while not served.run(f"ls /run/systemd/system/{UNIT}.d/*trial*", check=False):
        assert time.monotonic() < until
        time.sleep(0.2)


def wait_for_end(served):
    until = time.monotonic() + 180
    while served.run(f"ls {JOURNAL}", check=False):
        assert time.monotonic() < until
        time.sleep(0.5)


def remarks_of_last_run(served):
    """Return the remarks of the newest run, whose document ends after all was put back."""
    until = time.monotonic() + 60
    while True:
        (path,) = served.run(f"ls -t {FOLDER}/*.json | head -1").split()
        document = json.loads(served.run(f"cat {path}"))
        if document["ended"] or time.monotonic() > until:
            break
        time.sleep(0.5)
    assert document["restored"] is True
    return " ".join(document["remarks"])


def test_a_run_ends_with_its_controller(served):
    """The controller is killed, so that it cannot say goodbye."""
    before = read_arguments(served)
    words = ("-e", json.dumps({**ASKED, "epyc_ablation_knobs": ["speculation"]}))
    assert kill_playbook(served.folder, "playbooks/ablation.yml", *words, after=1, kill=lambda: wait_for_arm(served))
    wait_for_end(served)
    assert read_arguments(served) == before
    assert "It ended early: its controller does not ask any more." in remarks_of_last_run(served)


def test_a_run_is_ended_on_its_host(served):
    before = read_arguments(served)
    results = []
    play = threading.Thread(target=lambda: results.append(run_ablation(served, epyc_ablation_knobs=["speculation"])))
    play.start()
    wait_for_arm(served)
    said = served.run("sovereign-epyc bench --stop")
    assert "the ablation of chat (process " in said and said.splitlines()[-1].startswith("The run has ended")
    assert read_arguments(served) == before and not served.run(f"ls {JOURNAL}", check=False)
    play.join()
    ((code, result),) = results
    assert code == 2 and "somebody ended it. All was put back." in result["msg"]
    assert served.run("sovereign-epyc bench --stop").strip() == "No run measures on this host."


def test_another_build_is_planned_and_measured_as_an_arm(served):
    """A build in another folder, which is the same one; and one that does not exist is refused before anything."""
    before, process = read_arguments(served), served.main_pid("chat")
    served.run(f"mkdir -p /opt/other && cp -a {served.binary.rpartition('/bin/')[0]} /opt/other/build")
    asked = {"epyc_llama_instances": served.with_test_model(SERVED)}
    code, result = run_ablation(served, epyc_ablation_arms=[{"binary": "/opt/none/bin/llama-server"}], **asked)
    assert code == 2 and "cannot be planned, and nothing was stopped" in result["msg"]
    assert served.main_pid("chat") == process
    arms = [{"name": "other", "binary": "/opt/other/build/bin/llama-server"}, {"name": "plain", "cache_type_k": "f16"}]
    code, result = run_ablation(served, "--check", epyc_ablation_arms=arms, **asked)
    assert code == 0 and "compared with: other, plain" in result["text"], result
    assert served.main_pid("chat") == process
    results = []
    play = threading.Thread(target=lambda: results.append(run_ablation(served, epyc_ablation_arms=arms, **asked)))
    play.start()
    seen = set()
    until = time.monotonic() + 400
    while time.monotonic() < until and not {"other", "plain"} <= seen and play.is_alive():
        drop_in = served.run(f"cat /run/systemd/system/{UNIT}.d/*trial*", check=False)
        seen |= {"other"} if "/opt/other/build/bin/llama-server" in drop_in else set()
        seen |= {"plain"} if "ExecStart" in drop_in and "q8_0" not in drop_in else set()
        time.sleep(0.2)
    served.run("sovereign-epyc bench --stop")
    play.join()
    assert seen == {"other", "plain"}, results
    assert read_arguments(served) == before and not served.run(f"ls {JOURNAL}", check=False)
    (path,) = served.run(f"ls -t {FOLDER}/*.json | head -1").split()
    plan = json.loads(served.run(f"cat {path}"))["plan"]
    assert plan["rejected"] == {} and "variant other" in [arm["name"] for arm in plan["arms"]]
