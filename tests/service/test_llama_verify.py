# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of the real llama-server under a real systemd, and what the checklist says of each."""

from __future__ import annotations

import json

import pytest

from vepyc.container import container
from vepyc.llama import ensure_llama, ensure_model
from vepyc.play import run_playbook

MODEL = "/srv/model.gguf"
UNIT = "/etc/systemd/system/llama-chat.service"
KEY = "a-key-that-nobody-shall-see"


class Host:
    """A container with the engine and a model of its own."""

    def __init__(self, box, folder):
        self.box = box
        self.folder = folder
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": {"box": box.inventory()}}}))

    def task(self, module, **options):
        """Run a module as a task of a play; return its result, and all that Ansible said."""
        task = {"name": module, f"sovereign.epyc.{module}": options}
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([{"hosts": "box", "gather_facts": False, "tasks": [task]}]))
        play = run_playbook(self.folder, playbook, "-vvv")
        assert play.returncode == 0, play.output
        return play[module], play.output

    def serve(self, **options):
        """Have the instance `chat` with these options."""
        # systemd counts the starts that are asked for, too.
        common = {"binary": "/opt/llama/bin/llama-server", "port": 8080, "context": 2048, "restart_limit": 100}
        return self.task("llama_server", name="chat", model=MODEL, **common, **options)[0]

    def verify(self, **options):
        """Return the items about instances by name, and what was measured."""
        result, said = self.task("epyc_verify", **options)
        assert KEY not in said
        items = {item["name"]: item for item in result["checklist"] if "/" in item["name"]}
        return items, result["services"]

    def process(self):
        return self.box.run("systemctl show --value --property=MainPID llama-chat.service").stdout.strip()


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    binds = {ensure_llama(): "/opt/llama", ensure_model().parent: "/opt/model"}
    with container("llama-verify", binds) as box:
        box.run(f"cp /opt/model/{ensure_model().name} {MODEL} && chmod 644 {MODEL}")
        host = Host(box, tmp_path_factory.mktemp("llama-verify"))
        host.task("epyc_engine")
        yield host


def verdicts(items):
    return {name: item["verdict"] for name, item in items.items()}


DRAFT = {"speculation": "draft", "draft_model": MODEL, "draft_max": 3}
RIGHT = {"service/chat": "ok", "speculation/chat": "ok", "placement/chat": "ok", "speed/chat": "ok"}


@pytest.mark.parametrize("options", [{}, DRAFT], ids=["ngram", "draft"])
def test_an_instance_that_guesses_is_right(host, options):
    host.serve(**options)
    items, facts = host.verify()
    assert verdicts(items) == RIGHT, items
    chat = facts["chat"]
    assert 0 < chat["drafts"] <= chat["accepted"] <= chat["drafted"]
    assert chat["tokens_per_second"] > 0
    assert sum(chat["locality"].values()) == pytest.approx(1, abs=0.01)


def test_an_instance_that_was_not_told_to_guess_is_not_asked(host):
    host.serve(speculation="none")
    items, facts = host.verify()
    assert verdicts(items) == {**RIGHT, "speculation/chat": "unasked"}, items
    assert facts["chat"]["drafts"] == 0


def test_a_server_that_guesses_nothing_though_it_shall_is_wrong(host):
    host.serve()
    host.box.run(f"sed -Ei 's/ --spec-type [^ ]+//' {UNIT} && systemctl daemon-reload && systemctl restart llama-chat")
    items, dummy = host.verify()
    assert verdicts(items) == {**RIGHT, "speculation/chat": "wrong"}, items
    assert items["speculation/chat"]["sentence"].startswith("It answers, but does not speculate, and shall (ngram-")
    assert host.serve()["changed"]
    assert verdicts(host.verify()[0]) == RIGHT


def test_threads_that_may_go_elsewhere_are_wrong(host):
    host.serve(cpus="1")
    host.box.run(f"taskset --all-tasks --pid --cpu-list 0,1 {host.process()}")
    items, dummy = host.verify()
    assert verdicts(items) == {**RIGHT, "placement/chat": "wrong"}, items
    assert "busy thread may run outside 1: " in items["placement/chat"]["sentence"]


def test_a_service_that_was_stopped_is_wrong(host):
    host.serve()
    host.box.run("systemctl stop llama-chat")
    items, facts = host.verify()
    assert verdicts(items) == {**dict.fromkeys(RIGHT, "unknown"), "service/chat": "wrong"}
    assert items["service/chat"]["sentence"].startswith("llama-chat.service is inactive.")
    assert facts["chat"]["tokens_per_second"] is None


def test_a_key_is_read_on_the_host_and_told_to_nobody(host):
    host.box.run("install -m 600 /dev/stdin /etc/llama.keys", input=f"{KEY}\n")
    host.serve(api_key_file="/etc/llama.keys")
    assert verdicts(host.verify()[0]) == RIGHT
    assert KEY not in host.box.run("journalctl --no-pager").stdout
    host.box.run("install -m 600 /dev/stdin /etc/llama.keys", input="another\n")
    items, dummy = host.verify()
    assert items["service/chat"]["verdict"] == "ok", "its health is no secret"
    assert items["speed/chat"]["verdict"] == items["speculation/chat"]["verdict"] == "unknown"
    assert items["speed/chat"]["sentence"] == "Not known: /completion answers 401: Invalid API Key."


def test_a_model_that_was_replaced_is_read_anew(host):
    host.serve()
    before = host.process()
    assert not host.serve()["changed"] and host.process() == before
    host.box.run(f"touch {MODEL}")
    assert host.serve()["changed"] and host.process() != before


def test_a_unit_that_lost_its_plan_is_not_passed_over(host):
    host.serve()
    host.box.run(f"sed -i '/^Plan=/s/.$//' {UNIT}")
    items, facts = host.verify()
    assert verdicts(items) == {"service/chat": "unknown"} and facts == {}
    assert items["service/chat"]["sentence"].startswith("Its unit carries no plan to hold it against")
    assert host.verify(services=False) == ({}, {})
