# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances come back after they were killed, hung or changed by others, and end a request before they stop."""

from __future__ import annotations

import json
import shlex

import pytest

from vepyc.playbook_runs import run_playbook

from ..fixtures.containers import REPETITIVE_PROMPT, SEND_REQUEST, wait_until

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}


@pytest.fixture(scope="module", autouse=True)
def chat_instance(service_host):
    service_host.serve(CHAT)


def test_it_comes_back_when_it_is_killed(service_host):
    before = service_host.main_pid("chat")
    service_host.run("systemctl kill --signal=KILL llama-chat.service")
    wait_until(lambda: service_host.main_pid("chat") not in (0, before))
    wait_until(lambda: service_host.run("systemctl is-active llama-chat.service", check=False) == "active\n")
    assert service_host.fetch_status(8080, "/health") == 200


def test_one_that_hangs_is_killed_and_comes_back(service_host):
    service_host.serve({**CHAT, "watchdog": 5})
    watches = "sovereign-epyc-watchdog-chat.service"
    wait_until(lambda: service_host.run(f"systemctl is-active {watches}", check=False) == "active\n")
    before = service_host.main_pid("chat")
    service_host.run(f"kill -STOP {before}")
    wait_until(
        lambda: (
            service_host.main_pid("chat") not in (0, before)
            and service_host.run(f"systemctl is-active {watches}", check=False)
        )
    )
    wait_until(lambda: service_host.run("systemctl is-active llama-chat.service", check=False) == "active\n")
    told = service_host.run(f"journalctl --sync; journalctl --output=cat --unit={watches}")
    assert "llama-chat.service has not answered for 5 s, at http://127.0.0.1:8080/metrics. It is killed" in told, told
    service_host.serve(CHAT)
    assert service_host.run(f"systemctl is-active {watches}", check=False) == "inactive\n"


def test_what_became_of_it_is_drift_and_the_role_puts_it_right(service_host):
    def drift():
        """Return what a check finds other than it should be, by the last word of the address."""
        rows = json.loads(service_host.run("sovereign-epyc check --json", check=False))["settings"]
        found = {row["address"]: row["found"] for row in rows if (row["live"], row["persistent"]) != ("ok", "ok")}
        assert found.pop("desired:", "") is None, "nothing is stored on this host, which is not known to be right"
        return {address.rpartition("/")[2]: text for address, text in found.items()}

    assert drift() == {}
    service_host.run("systemctl disable --now llama-chat.service")
    assert drift() == {"active": "inactive", "enabled": "disabled"}
    folder, unit = "/etc/systemd/system/llama-chat.service.d", "/etc/systemd/system/llama-chat.service"
    service_host.run(f"mkdir {folder} && printf '[Service]\nNice=5\n' >{folder}/own.conf")
    service_host.run(f"sed -i 's/^Restart=.*/Restart=no/' {unit} && systemctl daemon-reload")
    assert drift().keys() == {"active", "enabled", "file", "drop-ins"}
    service_host.serve(CHAT)
    assert drift() == {} and service_host.fetch_status(8080, "/health") == 200
    service_host.run(f"rm {unit} && systemctl daemon-reload")
    played = run_playbook(service_host.folder, "playbooks/drift.yml")
    assert played.returncode == 2, played.output
    found = {one["what"]: one for one in played["Check the host"]["findings"]}
    gone = found["unit of instance chat"]
    assert (gone["found"], gone["role"], gone["repair"]) == ("nothing", "llama", "sovereign.epyc.site --tags llama")
    service_host.serve(CHAT)
    assert drift() == {}


def test_a_request_in_work_ends_before_the_server(service_host):
    body = json.dumps({"prompt": REPETITIVE_PROMPT, "n_predict": 400, "ignore_eos": True})
    asking = shlex.join(["python3", "-c", SEND_REQUEST, "http://127.0.0.1:8080/completion", ""])
    service_host.run(f"cat >/run/body; {asking} </run/body >/run/answer 2>&1 &", text=body)
    wait_until(lambda: service_host.read_metric(8080, "requests_processing") == 1)
    service_host.run("systemctl stop llama-chat.service")
    wait_until(lambda: service_host.run("cat /run/answer"))
    status, dummy, answer = service_host.run("cat /run/answer").partition(" ")
    assert (status, json.loads(answer)["tokens_predicted"]) == ("200", 400)
    service_host.run("systemctl start llama-chat.service")
