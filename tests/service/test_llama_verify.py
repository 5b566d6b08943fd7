# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the checklist says of instances of the real llama-server: served, stopped, tampered with, behind a key."""

from __future__ import annotations

import json

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import heads
from ansible_collections.sovereign.epyc.tests.unit.fakes.instances import RIGHT
from vepyc.playbook_runs import run_playbook

pytestmark = pytest.mark.slow

UNIT = "/etc/systemd/system/llama-chat.service"
KEYS, KEY = "/etc/llama.keys", "a-key-that-nobody-shall-see"
QUESTION = "Write this line three times: The river runs past seven old mills, under a stone bridge."
#: Answers as a server does that has guessed all tokens right, and works as long as one would.
PARROT = """
import http.server, json, time

class Parrot(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = {"/health": {"status": "ok"}, "/slots": [{"speculative": True}]}.get(self.path)
        self.say(json.dumps(said) if said else "llamacpp:requests_processing 0")

    def do_POST(self):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            pass
        timings = {"predicted_n": 2, "predicted_per_second": 9.0, "draft_n": 2, "draft_n_accepted": 2}
        self.say(f'data: {json.dumps({"content": "a parrot", "stop": True, "timings": timings})}')

    def say(self, text):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"{text}\\n\\n".encode())

http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Parrot).serve_forever()
"""


def serve_chat(service_host, **options):
    """Have one instance, with these options; return what changed."""
    return run_verify_playbook(service_host, **options).changed_results


def run_verify_playbook(service_host, then_verify=False, **options):
    # systemd counts the starts that are asked for, too.
    common = {"name": "chat", "port": 8080, "context": 2048, "restart_limit": 100}
    return service_host.serve({**common, **options}, then_verify=then_verify)


def chat_and_verify(service_host, **options):
    """Have one instance, and verify it in the same run; return what ``verify`` does."""
    return items_and_measurements(run_verify_playbook(service_host, then_verify=True, **options))


def verify_instances(service_host, **options):
    """Return the items about instances by name, and what was measured."""
    playbook = service_host.folder / "verify.yml"
    task = {"name": "Verify", "sovereign.epyc.epyc_verify": options}
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    done = run_playbook(service_host.folder, playbook, "-vvv")
    assert done.returncode == 0, done.output
    assert KEY not in done.output
    return items_and_measurements(done)


def items_and_measurements(done):
    items = {item["name"]: item for item in done["Verify"]["checklist"] if "/" in item["name"]}
    return items, done["Verify"]["services"]


def ask_instance(service_host, **options):
    """Ask the instance a question with the playbook; return the exit code, and what it says."""
    options = {"epyc_ask_prompt": QUESTION, "epyc_ask_tokens": 48, "epyc_ask_guesses": True, **options}
    play = run_playbook(service_host.folder, "playbooks/ask.yml", "-e", json.dumps(options))
    return play.returncode, play["Ask"]["results"][0]


def verdicts_by_name(items):
    return {name: item["verdict"] for name, item in items.items()}


@pytest.mark.parametrize("kind", ["ngram", "draft"])
def test_an_instance_that_guesses_is_right(service_host, kind):
    more = {"draft_model": service_host.model, "draft_max": 3} if kind == "draft" else {}
    items, facts = chat_and_verify(service_host, speculation=kind, **more)
    assert verdicts_by_name(items) == RIGHT, items
    measured = facts["chat"]
    assert 0 < measured["drafts"] <= measured["accepted"] <= measured["drafted"]
    assert measured["tokens_per_second"] > 0
    assert sum(measured["locality"].values()) == pytest.approx(1, abs=0.01)


def test_an_instance_that_was_not_told_to_guess_is_not_asked(service_host):
    items, facts = chat_and_verify(service_host, speculation="none")
    assert verdicts_by_name(items) == {**RIGHT, "speculation/chat": "not asked for"}, items
    assert facts["chat"]["drafts"] == 0


def test_a_server_that_guesses_nothing_though_it_shall_is_wrong(service_host):
    serve_chat(service_host)
    service_host.run(
        f"sed -Ei 's/ --spec-type [^ ]+//' {UNIT} && systemctl daemon-reload && systemctl restart llama-chat"
    )
    items, dummy = verify_instances(service_host)
    assert verdicts_by_name(items) == {**RIGHT, "speculation/chat": "wrong"}, items
    assert items["speculation/chat"]["sentence"].startswith("It answers, but does not speculate as planned (ngram-")
    code, asked = ask_instance(service_host)
    assert code == 2 and asked["complaints"] == [f"speculation of chat: {items['speculation/chat']['sentence']}"]
    repaired = run_verify_playbook(service_host, then_verify=True)
    assert repaired.changed_results and verdicts_by_name(items_and_measurements(repaired)[0]) == RIGHT


@pytest.mark.parametrize("task", ["embedding", "rerank"])
def test_an_instance_that_makes_no_tokens_is_right(service_host, task):
    more = {"pooling": "mean"}
    if task == "rerank":
        service_host.write_file("/var/lib/models/ranks.gguf", heads.ranks())
        more = {"model": "/var/lib/models/ranks.gguf"}
    items, facts = chat_and_verify(service_host, task=task, **more)
    assert verdicts_by_name(items) == {**RIGHT, "speculation/chat": "not asked for"}, items
    assert facts["chat"]["tokens_per_second"] > 0 and facts["chat"]["drafts"] is None


def test_threads_that_may_go_elsewhere_are_wrong(service_host):
    serve_chat(service_host, cpus="1")
    service_host.run(f"taskset --all-tasks --pid --cpu-list 0,1 {service_host.main_pid('chat')}")
    items, dummy = verify_instances(service_host)
    assert verdicts_by_name(items) == {**RIGHT, "placement/chat": "wrong"}, items
    assert "busy thread may run outside 1: " in items["placement/chat"]["sentence"]
    code, asked = ask_instance(service_host)
    assert code == 2 and "busy thread may run outside 1: " in asked["complaints"][0]
    # Nothing of its unit differs, so that no play would start it anew.
    service_host.run("systemctl restart llama-chat")


def test_an_answer_comes_with_its_proof(service_host):
    serve_chat(service_host)
    code, asked = ask_instance(service_host)
    assert code == 0, asked.get("text", asked)
    assert asked["answer"].strip() and asked["text"].startswith(asked["answer"].strip())
    assert asked["measured"]["accepted"] > 0 and 0 < asked["measured"]["tokens"] <= 48
    assert verdicts_by_name({item["name"]: item for item in asked["checklist"]}) == RIGHT
    assert ask_instance(service_host)[1]["answer"] == asked["answer"]
    code, refused = ask_instance(service_host, epyc_ask_instance="other")
    assert code == 2 and refused["msg"] == "There is no instance other on this host, which has chat."


def test_what_answers_without_the_model_is_not_believed(service_host):
    """Another program under the name of the unit, which says what a llama-server says."""
    serve_chat(service_host)
    service_host.run("cat >/srv/parrot.py", text=PARROT)
    service_host.run(
        f"sed -Ei 's|^ExecStart=[^ ]+|ExecStart=/usr/bin/python3 /srv/parrot.py|; /^ExecStartP/d' {UNIT} && "
        "systemctl daemon-reload && systemctl restart llama-chat"
    )
    code, asked = ask_instance(service_host)
    assert code == 2 and asked["answer"] == "a parrot"
    assert asked["complaints"][0].startswith("service of chat: llama-chat.service answers, and has no model in memory")


def test_a_service_that_was_stopped_is_wrong(service_host):
    serve_chat(service_host)
    service_host.run("systemctl stop llama-chat")
    items, facts = verify_instances(service_host)
    assert verdicts_by_name(items) == {
        **dict.fromkeys(RIGHT, "unknown"),
        "jitter/chat": "not asked for",
        "service/chat": "wrong",
    }
    assert items["service/chat"]["sentence"].startswith("llama-chat.service is inactive.")
    assert facts["chat"]["tokens_per_second"] is None


def test_a_key_is_read_on_the_host_and_told_to_nobody(service_host):
    service_host.run(f"install -m 600 /dev/stdin {KEYS}", text=f"{KEY}\n")
    serve_chat(service_host, api_key_file=KEYS)
    assert verdicts_by_name(verify_instances(service_host)[0]) == RIGHT
    assert KEY not in service_host.run("journalctl --no-pager")
    service_host.run(f"install -m 600 /dev/stdin {KEYS}", text="another\n")
    items, dummy = verify_instances(service_host)
    assert verdicts_by_name(items) == {**RIGHT, "service/chat": "wrong"}, "it still takes the key that it has loaded"
    assert f"{KEYS} was replaced or removed since llama-chat.service was planned" in items["service/chat"]["sentence"]
    before = service_host.main_pid("chat")
    assert serve_chat(service_host, api_key_file=KEYS) and service_host.main_pid("chat") not in (0, before)
    assert service_host.fetch_status(8080, "/slots", key="another") == 200
    assert verdicts_by_name(verify_instances(service_host)[0]) == RIGHT


def test_a_model_that_was_replaced_is_read_anew(service_host):
    own = "/srv/own.gguf"
    service_host.run(f"cp {service_host.model} {own} && chmod 644 {own}")
    serve_chat(service_host, model=own)
    before = service_host.main_pid("chat")
    assert not serve_chat(service_host, model=own) and service_host.main_pid("chat") == before
    service_host.run(f"touch {own}")
    assert serve_chat(service_host, model=own) and service_host.main_pid("chat") not in (0, before)


def test_a_unit_that_lost_its_plan_is_not_passed_over(service_host):
    serve_chat(service_host)
    service_host.run(f"sed -i '/^Plan=/s/.$//' {UNIT}")
    items, facts = verify_instances(service_host)
    assert verdicts_by_name(items) == {"service/chat": "unknown"} and facts == {}
    assert items["service/chat"]["sentence"].startswith("llama-chat.service carries no plan")
    assert verify_instances(service_host, services=False) == ({}, {})
