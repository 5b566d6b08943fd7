# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role llama with the real llama-server and a real model: it serves, speculates, comes back, and goes."""

from __future__ import annotations

import json
import random
import shlex
import struct
from pathlib import Path

import yaml

from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, heads
from vepyc import llama
from vepyc.play import run_playbook

from .conftest import ASK, until

RECOMMEND = Path(__file__).parents[2] / "playbooks/recommend.yml"
#: Each otherwise than by default, so that the server shows that it was told.
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
CHAT = {"name": "chat", "port": 8080}
#: The name of the model of the tests in the catalogue of the role.
NAME = "smollm2-135m-q4"
#: Goes on with what stands in it already.
PROMPT = "one two three four five six seven eight nine ten\n" * 3 + "one two three"
#: A repository on the disk with a package that has the server.
PACKAGE = """
set -e
mkdir -p /run/package/usr/bin /run/package/DEBIAN /srv/repository
cp /opt/built/bin/llama-server /run/package/usr/bin/
cat >/run/package/DEBIAN/control <<'END'
Package: llama.cpp
Version: 0.1
Architecture: amd64
Maintainer: nobody
Description: for tests
END
cd /srv/repository
dpkg-deb --root-owner-group -Znone --build /run/package llama.deb >/dev/null
{
    cat /run/package/DEBIAN/control
    echo "Filename: ./llama.deb"
    echo "Size: $(stat --format=%s llama.deb)"
    echo "SHA256: $(sha256sum llama.deb | cut --delimiter=' ' --fields=1)"
} >Packages
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get update
"""
#: Notes the user and the rights of each run in a folder that is open to all, and does what it is asked.
WRAPPED = r"""
set -e
install -d -m 1777 /run/told && install -m 666 /dev/null /run/told/log
mkdir -p /opt/wrapped
cat >/opt/wrapped/llama-server <<'END'
#!/bin/sh
{
    id | tr '\n' ' '
    sed -nE 's/^(NoNewPrivs|CapBnd):\t0*(.)/\1:\2/p' /proc/self/status | tr '\n' ' '
    echo
} >>/run/told/log
exec /opt/built/bin/llama-server "$@"
END
chmod 755 /opt/wrapped/llama-server
"""


def strange(host):
    """Return a model that only the server itself refuses: nobody else knows which architectures it has."""
    host.run(f"sed '0,/llama/s//lalma/' {host.model} >/var/lib/strange.gguf")
    return "/var/lib/strange.gguf"


def test_a_check_of_a_bare_host_changes_nothing(host):
    played = host.play("--check", llama_instances=host.asked(CHAT))
    assert played.returncode == 0, played.output
    services = played["Run the instances"]
    assert services["changed"] and "llama:llama-chat.service/active" in services["diff"]["after"]
    assert host.run("ls /etc/systemd/system").count("llama") == 0


def test_it_serves_and_a_second_run_changes_nothing(host):
    host.serve(CHAT)
    assert host.ask(8080, "/health")[0] == 200
    assert host.run("systemctl is-enabled llama-chat.service") == "enabled\n"
    before = host.pid("chat")
    assert host.serve(CHAT, engine_is_there=False).changed == {}
    assert host.pid("chat") == before


def test_it_is_installed_from_sources(host):
    """The lab's build was made of the same, by the same module, so that it is the one that is found here."""
    dummy, asked = llama.source()
    wants = {"llama_source_archive": asked["archive"], "llama_source_checksum": asked["checksum"]}
    host.serve(CHAT, llama_install="source", llama_cmake_options=asked["cmake_options"], **wants)
    assert host.run(f"readlink /proc/{host.pid('chat')}/exe").startswith(f"{llama.HOME}/")
    assert host.ask(8080, "/health")[0] == 200


def test_it_is_installed_as_a_package(host):
    host.run(PACKAGE)
    wants = {"llama_install": "package", "llama_binary": "/usr/bin/llama-server"}
    played = host.play("--check", llama_instances=[{"model": host.model, **CHAT}], **wants)
    assert played.returncode == 0 and list(played.changed) == ["Install the package with the server"], played.output
    host.serve(CHAT, **wants)
    assert host.run(f"readlink /proc/{host.pid('chat')}/exe") == "/usr/bin/llama-server\n"


def test_a_completion_is_streamed(host):
    """At temperature 0: chance ended a short answer after one token now and then. A line may hold several tokens."""
    asked = [{"role": "user", "content": "Tell a story."}]
    body = {"messages": asked, "max_tokens": 48, "temperature": 0, "ignore_eos": True, "stream": True}
    status, text = host.ask(8080, "/v1/chat/completions", body)
    assert status == 200
    lines = [line[len("data: ") :] for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]" and len(lines) > 5
    words = [json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines[:-1] if "choices" in line]
    assert "".join(words).strip()


def test_the_unit_is_closed(host):
    """The score goes from 0, closed, to 10."""
    said = host.run("systemd-analyze security --no-pager llama-chat.service")
    assert float(said.split("Overall exposure level for llama-chat.service:")[1].split()[0]) <= 1.5, said
    assert host.run("ps -o user= -p $(systemctl show -P MainPID llama-chat.service)").strip() != "root"


def test_it_speculates_and_says_the_same(host):
    """By the text so far, by tables of it, and by a draft model; a model drafts for itself as well as any could.

    The draft has its name in the catalogue, which proves that the real file is the one that is meant there.
    """
    draft = {"speculation": "draft", "draft_model": NAME, "draft_max": 3, "draft_cache_type_k": "q8_0"}
    plain = {"name": "plain", "port": 8081, "speculation": "none"}
    tables = [
        {"name": kind, "port": port, "speculation": kind} for port, kind in ((8083, "ngram_map"), (8084, "ngram_mod"))
    ]
    host.serve(CHAT, plain, {"name": "draft", "port": 8082, **draft}, *tables, llama_models=[{"name": NAME}])
    told = host.complete(8081, PROMPT)
    assert "draft_n" not in told["timings"]
    for port in (8080, 8082, 8083, 8084):
        accepted = host.metric(port, "spec_decode_num_accepted_tokens_total")
        assert host.complete(port, PROMPT)["content"] == told["content"]
        assert host.metric(port, "spec_decode_num_accepted_tokens_total") > accepted
    assert told["content"].split()[:3] == ["four", "five", "six"]


def test_heads_guess_too(host):
    """Made for models that always say the same letter: what is right is known, and a real server takes the files."""
    made = {"target": heads.model(), "eagle3": heads.eagle3(), "dflash": heads.dflash(), "mtp": heads.with_mtp()}
    paths = {name: f"/srv/heads/{name}.gguf" for name in made}
    for name, content in made.items():
        host.put(paths[name], content)
    instances = [
        {"name": kind, "port": port, "speculation": kind, "draft_max": 3, "model": paths["target"], "context": 512}
        for port, kind in enumerate(("eagle3", "dflash", "mtp"), 8082)
    ]
    for one in instances[:2]:
        one["draft_model"] = paths[one["name"]]
    instances[2]["model"] = paths["mtp"]
    host.serve(CHAT, *instances)
    for one in instances:
        told = host.complete(one["port"], "abc", 24)
        assert told["content"] == "C" * 24
        assert 0 < told["timings"]["draft_n_accepted"] == told["timings"]["draft_n"]
    said = host.refuse({**CHAT, "speculation": "eagle3", "draft_model": paths["eagle3"]})
    assert "it was made for a model of the width 256, and this one has 576" in said


def test_drafts_are_made_of_a_model_and_their_acceptance_is_told(host):
    """How good a smaller file drafts is said by the answers, not by the file."""
    host.run("mkdir -p /srv/made")
    paths = {kind: f"/srv/made/{kind}.gguf" for kind in ("Q8_0", "Q2_K")}
    dummy, asked = llama.source()
    wants = {
        "llama_install": "source",
        "llama_source_archive": asked["archive"],
        "llama_source_checksum": asked["checksum"],
        "llama_cmake_options": asked["cmake_options"],
        "llama_quantized": [
            {"source": host.model, "path": path, "type": kind, "requantize": True} for kind, path in paths.items()
        ],
    }
    drafting = {"speculation": "draft", "draft_max": 3, "draft_p_min": 0}
    instances = [
        {"name": kind.lower(), "port": port, "draft_model": path, **drafting}
        for port, (kind, path) in enumerate(paths.items(), 8081)
    ]
    host.serve(CHAT, *instances, **wants)
    shares = {}
    for kind, one in zip(paths, instances, strict=True):
        told = host.complete(one["port"], "The sea was calm, and the old man")["timings"]
        shares[kind] = told["draft_n_accepted"] / told["draft_n"]
    print("accepted of the drafts:", {kind: f"{share:.2f}" for kind, share in shares.items()})
    assert 0 < shares["Q2_K"] < shares["Q8_0"] <= 1
    assert host.serve(CHAT, *instances, **wants).changed == {}
    host.serve(CHAT, {"name": "plain", "port": 8081, "speculation": "none"})


def test_only_what_changed_is_started_again(host):
    before = host.pid("chat"), host.pid("plain")
    played = host.serve(CHAT, {"name": "plain", "port": 8081, "speculation": "none", "context": 4096})
    assert "-8192" not in json.dumps(played.changed)
    assert host.pid("chat") == before[0] and host.pid("plain") not in (0, before[1])
    assert host.pid("draft") == 0 and "llama-draft" not in host.run("ls /etc/systemd/system")
    host.serve(CHAT)
    assert host.pid("plain") == 0


def test_it_comes_back_when_it_is_killed(host):
    before = host.pid("chat")
    host.run("systemctl kill --signal=KILL llama-chat.service")
    until(lambda: host.pid("chat") not in (0, before))
    until(lambda: host.run("systemctl is-active llama-chat.service", check=False) == "active\n")
    assert host.ask(8080, "/health")[0] == 200


def test_one_that_hangs_is_killed_and_comes_back(host):
    host.serve({**CHAT, "watchdog": 5})
    watches = "sovereign-epyc-watchdog-chat.service"
    until(lambda: host.run(f"systemctl is-active {watches}", check=False) == "active\n")
    before = host.pid("chat")
    host.run(f"kill -STOP {before}")
    until(lambda: host.pid("chat") not in (0, before) and host.run(f"systemctl is-active {watches}", check=False))
    until(lambda: host.run("systemctl is-active llama-chat.service", check=False) == "active\n")
    told = host.run(f"journalctl --sync; journalctl --output=cat --unit={watches}")
    assert "llama-chat.service has not answered for 5 s, at http://127.0.0.1:8080/metrics. It is killed" in told, told
    host.serve(CHAT)
    assert host.run(f"systemctl is-active {watches}", check=False) == "inactive\n"


def test_what_became_of_it_is_drift_and_the_role_puts_it_right(host):
    def drift():
        """What a check says of the instance, by the last word of the address."""
        rows = json.loads(host.run("sovereign-epyc check --json", check=False))["settings"]
        found = {row["address"]: row["found"] for row in rows if (row["live"], row["persistent"]) != ("ok", "ok")}
        assert found.pop("desired:", "") is None, "nothing is stored on this host, which is not known to be right"
        return {address.rpartition("/")[2]: text for address, text in found.items()}

    assert drift() == {}
    host.run("systemctl disable --now llama-chat.service")
    assert drift() == {"active": "inactive", "enabled": "disabled"}
    folder, unit = "/etc/systemd/system/llama-chat.service.d", "/etc/systemd/system/llama-chat.service"
    host.run(f"mkdir {folder} && printf '[Service]\nNice=5\n' >{folder}/own.conf")
    host.run(f"sed -i 's/^Restart=.*/Restart=no/' {unit} && systemctl daemon-reload")
    assert drift().keys() == {"active", "enabled", "file", "drop-ins"}
    host.serve(CHAT)
    assert drift() == {} and host.ask(8080, "/health")[0] == 200
    host.run(f"rm {unit} && systemctl daemon-reload")
    played = run_playbook(host.folder, "playbooks/drift.yml")
    assert played.returncode == 2, played.output
    found = {one["what"]: one for one in played["Check the host"]["findings"]}
    gone = found["unit of instance chat"]
    assert (gone["found"], gone["role"], gone["repair"]) == ("nothing", "llama", "sovereign.epyc.site --tags llama")
    host.serve(CHAT)
    assert drift() == {}


def test_a_request_in_work_ends_before_the_server(host):
    body = json.dumps({"prompt": PROMPT, "n_predict": 400, "ignore_eos": True})
    asking = shlex.join(["python3", "-c", ASK, "http://127.0.0.1:8080/completion", ""])
    host.run(f"cat >/run/body; {asking} </run/body >/run/answer 2>&1 &", text=body)
    until(lambda: host.metric(8080, "requests_processing") == 1)
    host.run("systemctl stop llama-chat.service")
    until(lambda: host.run("cat /run/answer"))
    status, dummy, answer = host.run("cat /run/answer").partition(" ")
    assert (status, json.loads(answer)["tokens_predicted"]) == ("200", 400)
    host.run("systemctl start llama-chat.service")


def test_keys(host):
    """They are asked for, and a request in work ends before a server that is stopped; new ones are loaded."""
    text = "# of the team\nfirst-key\nsecond-key\n"
    host.run("install -d -m 700 /etc/llama && install -m 600 /dev/stdin /etc/llama/keys", text=text)
    keyed = {**CHAT, "api_key_file": "/etc/llama/keys"}
    played = host.serve(keyed)
    body = {"prompt": "a", "n_predict": 1}
    assert [host.ask(8080, "/completion", body, key)[0] for key in ("", "wrong", "second-key")] == [401, 401, 200]
    assert "first-key" not in played.output + host.run("cat /etc/systemd/system/llama-chat.service; ps -ef")
    host.run("systemctl restart llama-chat.service")
    told = host.run("journalctl --sync; journalctl --output=cat --unit=llama-chat.service")
    stopped = told.rpartition("Stopping llama-chat.service")[2]
    assert "http://127.0.0.1:8080 is idle after" in stopped and "/metrics answers" not in stopped, told
    host.run("echo third-key >/etc/llama/keys")
    host.serve(keyed)
    assert [host.ask(8080, "/completion", body, key)[0] for key in ("second-key", "third-key")] == [401, 200]
    assert host.serve(keyed).changed == {}
    host.run(": >/etc/llama/keys")
    assert "/etc/llama/keys holds no key" in host.refuse(keyed)
    assert host.ask(8080, "/completion", body, "third-key")[0] == 200


def test_what_is_tried_runs_behind_walls_and_only_before_a_start(host):
    """A server that says who runs it stands in for the real one."""
    host.run(WRAPPED)
    wrapped = {**CHAT, "binary": "/opt/wrapped/llama-server", "model": "/home/Ann/hub/m.gguf"}
    wrapped["unit_settings"] = {"ReadWritePaths": "/run/told"}
    host.run(f"install -d -m 700 /home/Ann /home/Ann/blobs /home/Ann/hub && cp {host.model} /home/Ann/blobs/abc")
    host.run("chmod 644 /home/Ann/blobs/abc && ln -s ../blobs/abc /home/Ann/hub/m.gguf")
    assert "/home/Ann/hub cannot be entered by the user that systemd makes for it." in host.refuse(wrapped)
    host.run("chmod 755 /home/Ann/hub /home/Ann/blobs; : >/run/told/log")
    host.serve(wrapped)
    told = host.run("cat /run/told/log").splitlines()
    # One asks for help, one for the version, one takes the arguments, one computes a token, and one serves.
    assert len(told) == 5 and all("uid=0" not in line and "CapBnd:0 NoNewPrivs:1" in line for line in told), told
    assert host.serve({**wrapped, "drain_timeout": 7}).changed
    assert len(host.run("cat /run/told/log").splitlines()) == 7, "help and version, and nothing was started"
    before = host.pid("chat")
    host.run("touch /opt/wrapped/llama-server")
    host.serve({**wrapped, "drain_timeout": 7})
    assert host.pid("chat") not in (0, before), "it was replaced"


def test_settings_of_ones_own(host):
    own = {"StateDirectory": "llama-chat", "MemoryMax": "2G", "BindReadOnlyPaths": ["/etc/llama:/mnt"]}
    random.seed(1)
    noise = struct.pack(f"<{2 * RANK * WIDTH}f", *(random.gauss(0, 1) for number in range(2 * RANK * WIDTH)))
    host.put("/srv/own/noise.gguf", ggufs.gguf(ADAPTER, SHAPES) + noise)
    host.put("/srv/own/own.jinja", b"{% for one in messages %}own: {{ one.content }}{% endfor %}")
    files = {"adapters": {"/srv/own/noise.gguf": 0.5}, "chat_template": "/srv/own/own.jinja"}
    host.serve({**CHAT, **files, "unit_settings": own, "sampling": {**SAMPLING, "max_tokens": 24}})
    usual = json.loads(host.ask(8080, "/props")[1])["default_generation_settings"]["params"]
    assert {name: round(usual[name], 3) for name in SAMPLING} == SAMPLING
    told = json.loads(host.ask(8080, "/completion", {"prompt": PROMPT, "ignore_eos": True})[1])
    assert told["timings"]["predicted_n"] == 24
    asked = {"messages": [{"role": "user", "content": "hello"}]}
    assert json.loads(host.ask(8080, "/apply-template", asked)[1])["prompt"] == "own: hello"
    (adapter,) = json.loads(host.ask(8080, "/lora-adapters")[1])
    assert (adapter["path"], adapter["scale"]) == ("/srv/own/noise.gguf", 0.5)
    noisy = host.complete(8080, PROMPT)["content"]
    assert host.ask(8080, "/lora-adapters", [{"id": 0, "scale": 0.0}])[0] == 200
    assert host.complete(8080, PROMPT)["content"] != noisy, "noise changes what it says"
    assert host.run("systemctl show --property=MemoryMax --value llama-chat.service") == f"{2 << 30}\n"
    assert "keys" in host.run(f"ls /proc/{host.pid('chat')}/root/mnt /var/lib/private/llama-chat")
    said = host.refuse({**CHAT, "unit_settings": {**own, "MemoryMax": "2 buckets"}})
    assert "unit_settings: systemd does not take them: 'MemoryMax=2 buckets'" in said


def test_a_unit_that_does_not_come_up_leaves_the_one_before(host):
    host.serve(CHAT)
    before = host.run("cat /etc/systemd/system/llama-chat.service")
    played = host.play(llama_instances=host.asked({**CHAT, "model": strange(host)}))
    assert played.returncode == 2 and "unknown model architecture: 'lalma'" in played.output, played.output
    assert host.run("cat /etc/systemd/system/llama-chat.service") == before
    assert host.ask(8080, "/health")[0] == 200


def test_what_would_not_serve_stops_nothing_and_what_does_is_ready_first(host):
    """With start_first the new one serves beside the one that runs, which is stopped only then."""
    first = {**CHAT, "update_order": "start_first"}
    host.serve(first)
    before = host.pid("chat")
    played = host.play(llama_instances=host.asked({**first, "model": strange(host)}))
    assert played.returncode == 2 and "unknown model architecture: 'lalma'" in played.output, played.output
    assert "It was started beside the one that runs, which was left alone, and does not serve" in played.output
    assert host.pid("chat") == before and "-next" not in host.run("ls /run/systemd/system")
    host.run("journalctl --rotate --vacuum-time=1s")
    host.serve({**first, "context": 4096})
    assert host.pid("chat") not in (0, before)
    told = host.run("journalctl --sync; journalctl --output=cat --unit='llama-*'")
    steps = ("Started llama-chat-next.service", "Stopped llama-chat-next.service", "Stopping llama-chat.service")
    assert [word for step in steps for word in [step] if step in told] == list(steps), told
    assert sorted(steps, key=told.index) == list(steps), told
    assert "-next" not in host.run("ls /run/systemd/system; systemctl list-units --all 'llama-*'")


def test_several_models_behind_one_port(host):
    """Each is asked by its name; of three, two are in memory at once, and the plan has the memory of these."""
    host.run("install -d -m 700 /etc/llama && install -m 600 /dev/stdin /etc/llama/keys", text="secret\n")
    host.run(f"cp {host.model} /var/lib/second.gguf")
    models = {"one": host.model, "two": "/var/lib/second.gguf", "heads/small": "/var/lib/small.gguf"}
    host.put("/var/lib/small.gguf", heads.model())
    desk = {"name": "desk", "port": 8085, "models": models, "models_loaded": 2, "context": 512}
    desk["api_key_file"] = "/etc/llama/keys"
    played = host.serve(CHAT, desk)
    need = {name: plan["need"] for name, plan in played["Run the instances"]["services"].items()}
    assert need["desk"]["weights"] == 2 * need["chat"]["weights"]
    again = host.serve(CHAT, desk, then_verify=True)
    assert again.changed == {}
    items = {item["name"]: item for item in again["Verify"]["checklist"] if "/desk" in item["name"]}
    asked = {f"{kind}/desk/{name}" for kind in ("speculation", "placement", "speed") for name in ("one", "two")}
    assert all(items[name]["verdict"] == "ok" for name in ("service/desk", *asked)), items
    assert items["speed/desk/heads/small"]["sentence"].startswith("The model is unloaded, and is read when"), items

    def states():
        rows = json.loads(host.ask(8085, "/models", key="secret")[1])["data"]
        return {row["id"]: row["status"]["value"] for row in rows}

    assert states() == {"one": "loaded", "two": "loaded", "heads/small": "unloaded"}
    body = {"prompt": PROMPT, "n_predict": 4, "temperature": 0}
    assert host.ask(8085, "/completion", {**body, "model": "one"})[0] == 401
    said = {
        name: json.loads(host.ask(8085, "/completion", {**body, "model": name}, "secret")[1])["content"]
        for name in ("one", "two")
    }
    assert said["one"] == said["two"] == host.complete(8080, PROMPT, 4)["content"]
    assert json.loads(host.ask(8085, "/completion", {**body, "model": "heads/small"}, "secret")[1])["content"] == "CCCC"
    assert states() == {"one": "unloaded", "two": "loaded", "heads/small": "loaded"}, "one was idle for the longest"
    host.run("systemctl restart llama-desk.service")
    told = host.run("journalctl --sync; journalctl --output=cat --unit=llama-desk.service")
    assert "http://127.0.0.1:8085 is idle after" in told.rpartition("Stopping llama-desk.service")[2], told
    assert states()["one"] == "loaded"
    host.serve(CHAT)


def test_what_is_recommended_is_served(host):
    """As recommend.yml prints it, beside the instance that runs until then."""
    host.serve(CHAT)
    asked = {"recommend_models": host.model, "llama_binary": host.binary}
    recommended = run_playbook(host.folder, RECOMMEND, "--extra-vars", json.dumps(asked))
    assert recommended.returncode == 0, recommended.output
    told = recommended["Recommend"]
    assert "llama-chat.service: installed on this host and not recommended here" in told["remarks"][0]
    written = yaml.safe_load(told["text"])
    served = host.play(**written)
    assert served.returncode == 0, served.output
    (instance,) = written["llama_instances"]
    (plan,) = served["Run the instances"]["services"].values()
    assert plan["need"] == told["services"][instance["name"]]["need"]
    assert instance["port"] == CHAT["port"], "the other one has left it"
    assert host.complete(CHAT["port"], PROMPT)["content"]
    assert host.pid("chat") == 0


def test_none_is_left(host):
    host.serve()
    assert "llama-" not in host.run("ls /etc/systemd/system /etc/systemd/system/multi-user.target.wants")
    assert "llama-" not in host.run("systemctl list-units --all 'llama-*'")
