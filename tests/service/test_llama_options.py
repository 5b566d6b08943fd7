# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options of an instance that its server shows: keys, sampling, adapters, settings of the unit, several models."""

from __future__ import annotations

import random
import struct

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, heads

from ..fixtures.containers import REPETITIVE_PROMPT

pytestmark = pytest.mark.slow

CHAT = {"name": "chat", "port": 8080}
#: Options of sampling, none of which is the default of the server.
SAMPLING = {
    "temperature": 0.6,
    "top_k": 20,
    "top_p": 0.8,
    "min_p": 0.01,
    "repeat_penalty": 1.05,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
}
#: An adapter for the queries of the first layer of the model of the tests.
WIDTH, RANK = 576, 4
ADAPTER = [
    ggufs.entry("general.architecture", "8", b"llama"),
    ggufs.entry("general.type", "8", b"adapter"),
    ggufs.entry("adapter.type", "8", b"lora"),
    ggufs.entry("adapter.lora.alpha", "f", float(RANK)),
]
SHAPES = [
    ggufs.tensor("blk.0.attn_q.weight.lora_a", (WIDTH, RANK), 0, 0),
    ggufs.tensor("blk.0.attn_q.weight.lora_b", (RANK, WIDTH), 0, 4 * RANK * WIDTH),
]


def test_keys(service_host):
    """Requests need a key; a server that stops is idle first, and the role loads new keys."""
    text = "# of the team\nfirst-key\nsecond-key\n"
    service_host.run("install -d -m 700 /etc/llama && install -m 600 /dev/stdin /etc/llama/keys", text=text)
    keyed = {**CHAT, "api_key_file": "/etc/llama/keys"}
    played = service_host.serve(keyed)
    body = {"prompt": "a", "n_predict": 1}

    def fetch_statuses(*keys):
        return [service_host.fetch_status(8080, "/completion", body, key) for key in keys]

    assert fetch_statuses("", "wrong", "second-key") == [401, 401, 200]
    assert "first-key" not in played.output + service_host.run("cat /etc/systemd/system/llama-chat.service; ps -ef")
    service_host.run("systemctl restart llama-chat.service")
    told = service_host.run("journalctl --sync; journalctl --output=cat --unit=llama-chat.service")
    stopped = told.rpartition("Stopping llama-chat.service")[2]
    assert "http://127.0.0.1:8080 is idle after" in stopped and "/metrics answers" not in stopped, told
    service_host.run("echo third-key >/etc/llama/keys")
    service_host.serve(keyed)
    assert fetch_statuses("second-key", "third-key") == [401, 200]
    assert service_host.serve(keyed).changed_results == {}
    service_host.run(": >/etc/llama/keys")
    assert "/etc/llama/keys holds no key" in service_host.expect_refusal(keyed)
    assert fetch_statuses("third-key") == [200]


def test_settings_of_ones_own(service_host):
    own = {"StateDirectory": "llama-chat", "MemoryMax": "2G", "BindReadOnlyPaths": ["/etc/llama:/mnt"]}
    random.seed(1)
    noise = struct.pack(f"<{2 * RANK * WIDTH}f", *(random.gauss(0, 1) for number in range(2 * RANK * WIDTH)))
    service_host.write_file("/srv/own/noise.gguf", ggufs.gguf(ADAPTER, SHAPES) + noise)
    service_host.write_file("/srv/own/own.jinja", b"{% for one in messages %}own: {{ one.content }}{% endfor %}")
    files = {"adapters": {"/srv/own/noise.gguf": 0.5}, "chat_template": "/srv/own/own.jinja"}
    service_host.serve({**CHAT, **files, "unit_settings": own, "sampling": {**SAMPLING, "max_tokens": 24}})
    usual = service_host.fetch_json(8080, "/props")["default_generation_settings"]["params"]
    assert {name: round(usual[name], 3) for name in SAMPLING} == SAMPLING
    told = service_host.fetch_json(8080, "/completion", {"prompt": REPETITIVE_PROMPT, "ignore_eos": True})
    assert told["timings"]["predicted_n"] == 24
    asked = {"messages": [{"role": "user", "content": "hello"}]}
    assert service_host.fetch_json(8080, "/apply-template", asked)["prompt"] == "own: hello"
    (adapter,) = service_host.fetch_json(8080, "/lora-adapters")
    assert (adapter["path"], adapter["scale"]) == ("/srv/own/noise.gguf", 0.5)
    noisy = service_host.complete_text(8080, REPETITIVE_PROMPT)["content"]
    assert service_host.fetch_status(8080, "/lora-adapters", [{"id": 0, "scale": 0.0}]) == 200
    assert service_host.complete_text(8080, REPETITIVE_PROMPT)["content"] != noisy, "noise changes what it says"
    assert service_host.run("systemctl show --property=MemoryMax --value llama-chat.service") == f"{2 << 30}\n"
    assert "keys" in service_host.run(f"ls /proc/{service_host.main_pid('chat')}/root/mnt /var/lib/private/llama-chat")
    said = service_host.expect_refusal({**CHAT, "unit_settings": {**own, "MemoryMax": "2 buckets"}})
    assert "unit_settings: systemd does not take them: 'MemoryMax=2 buckets'" in said


def test_several_models_behind_one_port(service_host):
    """A request names its model. Of three models two are in memory at once, and the plan counts the memory of two."""
    service_host.run("install -d -m 700 /etc/llama && install -m 600 /dev/stdin /etc/llama/keys", text="secret\n")
    service_host.run(f"cp {service_host.model} /var/lib/second.gguf")
    models = {"one": service_host.model, "two": "/var/lib/second.gguf", "heads/small": "/var/lib/small.gguf"}
    service_host.write_file("/var/lib/small.gguf", heads.model())
    desk = {"name": "desk", "port": 8085, "models": models, "models_loaded": 2, "context": 512}
    desk["api_key_file"] = "/etc/llama/keys"
    played = service_host.serve(CHAT, desk)
    need = {name: plan["need"] for name, plan in played["Run the instances"]["services"].items()}
    assert need["desk"]["weights"] == 2 * need["chat"]["weights"]
    again = service_host.serve(CHAT, desk, then_verify=True)
    assert again.changed_results == {}
    items = {item["name"]: item for item in again["Verify"]["checklist"] if "/desk" in item["name"]}
    asked = {f"{kind}/desk/{name}" for kind in ("speculation", "placement", "speed") for name in ("one", "two")}
    assert all(items[name]["verdict"] == "ok" for name in ("service/desk", *asked)), items
    assert items["speed/desk/heads/small"]["sentence"].startswith("The model is unloaded, and is read when"), items

    def states():
        rows = service_host.fetch_json(8085, "/models", key="secret")["data"]
        return {row["id"]: row["status"]["value"] for row in rows}

    assert states() == {"one": "loaded", "two": "loaded", "heads/small": "unloaded"}
    body = {"prompt": REPETITIVE_PROMPT, "n_predict": 4, "temperature": 0}
    assert service_host.fetch_status(8085, "/completion", {**body, "model": "one"}) == 401
    said = {
        name: service_host.fetch_json(8085, "/completion", {**body, "model": name}, "secret")["content"]
        for name in ("one", "two")
    }
    assert said["one"] == said["two"] == service_host.complete_text(8080, REPETITIVE_PROMPT, 4)["content"]
    assert service_host.fetch_json(8085, "/completion", {**body, "model": "heads/small"}, "secret")["content"] == "CCCC"
    assert states() == {"one": "unloaded", "two": "loaded", "heads/small": "loaded"}, "one was idle for the longest"
    service_host.run("systemctl restart llama-desk.service")
    told = service_host.run("journalctl --sync; journalctl --output=cat --unit=llama-desk.service")
    assert "http://127.0.0.1:8085 is idle after" in told.rpartition("Stopping llama-desk.service")[2], told
    assert states()["one"] == "loaded"
    service_host.serve(CHAT)
