# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role gateway with the real HAProxy of the distribution, before servers that stand in for llama-server."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from vepyc import packages
from vepyc.container import Container, container
from vepyc.play import Play, run_playbook

from .rolling import Rolling

PROGRAMS = "/srv/programs"
#: A function of the shell that starts a server.
START = (
    "start() { systemd-run --quiet --unit=stub-$1 /usr/bin/python3 "
    f"{PROGRAMS}/llama_stub.py $1 $2 $3 of-the-servers; }}"
)
#: A repository on the disk with these packages, and a server at each address.
PREPARE = f"""
set -e
{START}
mkdir -p /srv/repository
cp /srv/packages/*.deb /srv/repository
cd /srv/repository
for deb in *.deb; do
    dpkg-deb --field $deb
    echo "Filename: ./$deb"
    echo "Size: $(stat --format=%s $deb)"
    echo "SHA256: $(sha256sum $deb | cut --delimiter=' ' --fields=1)"
    echo
done >Packages
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list
apt-get -qq update
ip address add 10.9.0.1/32 dev lo
ip address add 10.9.0.2/32 dev lo
start first 10.9.0.1 8081
start second 10.9.0.2 8081
start code 10.9.0.2 8082
"""
SERVERS = {"first": "10.9.0.1:8081", "second": "10.9.0.2:8081", "code": "10.9.0.2:8082"}
MEMBERS = {
    "h1": {"llama_instances": [{"name": "a", "alias": "chat", "model": "/m/8b.gguf", "host": "10.9.0.1", "slots": 2}]},
    "h2": {
        "gateway_member_address": "10.9.0.2",
        "llama_instances": [
            {"name": "a", "alias": "chat", "model": "/srv/8b.gguf", "host": "0.0.0.0", "slots": 1},
            {"name": "b", "alias": "org/code", "model": "/srv/c.gguf", "host": "10.9.0.2", "port": 8082},
        ],
        # As tune.yml has found out; it wins here as it does on the host.
        "llama_tuned": {"a": {"options": {"slots": 2}}},
    },
}
for one in MEMBERS.values():
    one["llama_instances"][0]["port"] = 8081  # type: ignore[index]
#: Hosts that are not there.
MANY = {
    f"m{n}": {
        "llama_instances": [{"name": "a", "alias": "many", "model": "/m.gguf", "host": f"10.9.1.{n}", "port": 8081}]
    }
    for n in range(100)
}
#: A new HAProxy hands conversations over to the next one only when it has waited so long for some itself.
LEARNING_SECONDS = 11
KEYS = {"team": "Key-of-the-team", "slow": "key-of-the-slow", "narrow": "key-of-the-narrow"}
ASKED = {
    "gateway_bind": "*:8443",
    "gateway_hosts": [*MEMBERS],
    "gateway_certificate": "/etc/gateway.pem",
    "gateway_server_key": "of-the-servers",
    "gateway_body_timeout": "1s",
    "gateway_tenants": [
        {"name": name, "sha256": [hashlib.sha256(key.encode()).hexdigest()], **limit}
        for (name, key), limit in zip(KEYS.items(), ({}, {"requests_per_minute": 3}, {"concurrent": 1}), strict=True)
    ],
}


class Fleet:
    """The container of the gateway, and what Ansible and clients do with it."""

    def __init__(self, box: Container, folder: Path) -> None:
        self.box = box
        self.folder = folder
        children = {"gateway": {"hosts": {box.name: {}}}}
        inventory = {"all": {"hosts": {box.name: box.inventory(), **MEMBERS, **MANY}, "children": children}}
        (folder / "hosts.json").write_text(json.dumps(inventory))

    def play(self, *arguments: str, **changed: Any) -> Play:
        """Run the playbook with these variables."""
        (self.folder / "asked.json").write_text(json.dumps({**ASKED, **changed}))
        return run_playbook(
            self.folder, "playbooks/gateway.yml", "--extra-vars", f"@{self.folder}/asked.json", *arguments
        )

    def run(self, command: str, check: bool = True, text: str = "") -> str:
        return self.box.run(command, check=check, input=text).stdout

    def ask(self, *requests: dict[str, Any], clients: int = 1, **more: Any) -> list[dict[str, Any]]:
        """Send requests, by so many clients at a time; return their answers in the same order."""
        asked = json.dumps({"port": 8443, "clients": clients, "requests": requests, **more})
        return list(json.loads(self.run(f"python3 {PROGRAMS}/gateway_client.py", text=asked)))

    def statuses(self, *requests: dict[str, Any], clients: int = 1) -> list[int]:
        return [answer["status"] for answer in self.ask(*requests, clients=clients)]

    def served_by(self, *requests: dict[str, Any]) -> list[str]:
        """Return the server of each request, one after the other."""
        return [json.loads(answer["text"])["server"] for answer in self.ask(*requests)]

    def counted(self, server: str) -> dict[str, Any]:
        """Return what a server has counted."""
        address = SERVERS[server]
        script = f"from urllib.request import urlopen; print(urlopen('http://{address}/counted').read().decode())"
        return dict(json.loads(self.run(f'python3 -c "{script}"')))

    def state(self) -> str:
        """Return the files of HAProxy, and its process."""
        files = "find /etc/haproxy -type f -printf '%p %m %T@ ' -exec sha256sum {} ';' 2>/dev/null | sort"
        return self.run(f"{files}; systemctl show --property=MainPID,NRestarts,UnitFileState haproxy", check=False)


def request(
    body: Any = None, key: str | None = KEYS["team"], path: str = "/v1/chat/completions", **more: Any
) -> dict[str, Any]:
    """Return a request for the model chat, unless its body is given as a text."""
    text = body if isinstance(body, str) else json.dumps({"model": "chat", **(body or {})})
    headers = [] if key is None else [("Authorization", f"Bearer {key}")]
    return {"method": "POST", "path": path, "headers": headers, "text": text, **more}


def get(path: str, key: str | None = KEYS["team"]) -> dict[str, Any]:
    return request("", key, path, method="GET")


def certificate() -> str:
    """Return a certificate that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (built.sign(key, hashes.SHA256()).public_bytes(pem) + secret).decode()


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The gateway before its first play."""
    binds = {packages.fetch("trixie", *packages.HAPROXY)[0].parent: "/srv/packages", Path(__file__).parent: PROGRAMS}
    with container("gateway", binds) as box:
        box.run(PREPARE)
        box.run("install -m 600 /dev/stdin /etc/gateway.pem", input=certificate())
        yield Fleet(box, tmp_path_factory.mktemp("gateway"))


@pytest.fixture(scope="module")
def fleet(bare: Fleet) -> Fleet:
    """The gateway, when it serves."""
    checked = bare.play("--check")
    assert checked.returncode == 0 and list(checked.changed) == ["Install HAProxy"], checked.output
    assert bare.run("ls /etc/haproxy 2>&1", check=False).startswith("ls: cannot access")
    played = bare.play("-vvv", "--diff")
    assert played.returncode == 0, played.output
    assert "server h1:a 10.9.0.1:8081 maxconn 2" in played.output, "the difference is shown"
    assert not [key for key in ("of-the-servers", *KEYS.values()) if key in played.output]
    return bare


def test_the_next_run_changes_nothing(fleet: Fleet) -> None:
    before = fleet.state()
    played = fleet.play()
    assert played.returncode == 0 and played.changed == {}, played.output
    assert fleet.state() == before


def test_a_check_shows_what_would_change_and_changes_nothing(fleet: Fleet) -> None:
    before = fleet.state()
    played = fleet.play("--check", "--diff", gateway_queue_timeout="7s", gateway_server_key="another")
    assert played.returncode == 0 and "timeout queue 7s" in played.output, played.output
    assert fleet.state() == before


def test_what_haproxy_does_not_take_leaves_the_configuration_before(fleet: Fleet) -> None:
    before = fleet.state()
    played = fleet.play(gateway_queue_timeout="soon")
    assert played.returncode == 2 and "in 'timeout queue'" in played.output, played.output
    assert fleet.state() == before
    assert fleet.statuses(request()) == [200]


def test_a_key_in_place_of_its_hash_is_refused_and_not_shown(fleet: Fleet) -> None:
    before = fleet.state()
    played = fleet.play("-vvv", gateway_tenants=[{"name": "a", "sha256": ["Key-of-the-team"]}])
    assert played.returncode == 2 and "64 hexadecimal digits" in played.output, played.output
    assert "Key-of-the-team" not in played.output
    assert fleet.state() == before


def test_models_are_listed_and_reached_by_their_names(fleet: Fleet) -> None:
    (listed,) = fleet.ask(get("/v1/models"))
    assert [one["id"] for one in json.loads(listed["text"])["data"]] == ["chat", "org/code"]
    last = json.dumps({"prompt": "x" * 900_000, "model": "org/code"})
    escaped = [request(text) for text in ('{"model":"org\\/code"}', '{"model":"\\u006frg/code"}')]
    assert fleet.served_by(request(last), *escaped) == ["code"] * 3
    assert fleet.served_by(request())[0] in ("first", "second")
    answers = fleet.ask(request({"model": "none"}), request("{}"), request("no JSON"), request(last, path="/slots/0"))
    assert [answer["status"] for answer in answers] == [404, 400, 400, 404]
    assert "No host serves this model" in json.loads(answers[0]["text"])["error"]["message"]


def test_bodies_up_to_the_size_and_in_time(fleet: Fleet) -> None:
    """Also one of which only the end is too much, one of unknown length, and one for which the client asks first."""

    def sized(size: int, **more: Any) -> dict[str, Any]:
        text = json.dumps({"model": "chat", "prompt": ""})
        return request(text[:-2] + "x" * (size - len(text)) + text[-2:], **more)

    first = request()
    first["headers"].append(("Expect", "100-continue"))
    limit = 1 << 20
    asked = [sized(limit), sized(limit + 1), sized(limit + 1, chunked=True), first]
    assert fleet.statuses(*asked) == [200, 413, 413, 200]
    assert fleet.statuses(sized(500_000, part=1000), sized(500, trickle=True), clients=2) == [408, 408]


def test_keys(fleet: Fleet) -> None:
    key = KEYS["team"]
    by_header = request(key=None)
    by_header["headers"] = [("X-Api-Key", key)]
    twice = request()
    twice["headers"] = [("authorization", "Bearer of-the-servers"), ("Authorization", f"bearer {key}")]
    hop = request()
    hop["headers"].append(("Connection", "close, Authorization"))
    digest = hashlib.sha256(key.encode()).hexdigest()
    wrong = [request(key=one) for one in (None, "", "wrong", key.lower(), f"{key},{key}", digest, "of-the-servers")]
    wrong.append({**request(), "headers": [("X_Api_Key", key), ("Proxy-Authorization", f"Bearer {key}")]})
    assert fleet.statuses(*wrong) == [401] * len(wrong)
    answers = fleet.ask(by_header, twice, hop)
    assert [answer["status"] for answer in answers] == [200] * 3
    assert [json.loads(answer["text"])["keys"] for answer in answers] == [None] * 3, "no key of a tenant goes on"
    assert fleet.statuses(get("/v1/models", key=None), get("/health", key=None)) == [401, 200]
    assert "of-the-servers" not in fleet.run("cat /etc/haproxy/haproxy.cfg")
    anywhere = " ".join(f"-e {one}" for one in KEYS.values())
    assert fleet.run(f"grep -rlaF {anywhere} /etc /root /run /tmp /var", check=False) == "", "the log included"
    assert fleet.run("stat --format=%a:%U /etc/haproxy/*.key").split() == ["600:root"]


def raw(*lines: str, body: str) -> dict[str, Any]:
    """Return a request with a key, these headers, and whatever comes after."""
    head = ["POST /v1/completions HTTP/1.1", "Host: gateway", f"Authorization: Bearer {KEYS['team']}", *lines]
    return {"raw": "\r\n".join(head) + "\r\n\r\n" + body}


def test_no_request_hides_in_another(fleet: Fleet) -> None:
    """Where two lengths contradict each other, what hides behind the shorter one is refused, or has no key."""
    hidden, outer = (json.dumps({"model": "chat", "prompt": text}) for text in ("smuggled", "outer"))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(hidden)}\r\n\r\n"
    behind = outer + head + hidden
    chunks = f"{len(outer):x}\r\n{outer}\r\n0\r\n\r\n{head}{hidden}"
    length, chunked = f"Content-Length: {len(outer)}", "Transfer-Encoding: chunked"
    answers = fleet.ask(
        raw(length, f"Content-Length: {len(behind)}", body=behind),
        raw("Transfer-Encoding : chunked", length, body=behind),
        raw(chunked, "Transfer-Encoding: identity", body=chunks),
        raw(f"Content-Length: {len(chunks)}", chunked, body=chunks),
        raw(length, body=behind),
    )
    assert [answer["status"] for answer in answers] == [400, 400, 400, 200, 200]
    assert "HTTP/1.1 401" in answers[-1]["text"], "one behind the other is two requests"
    asked = [text for server in ("first", "second") for text in fleet.counted(server)["asked"]]
    assert "outer" in asked and "smuggled" not in asked


def test_tenants_have_rates_and_numbers(fleet: Fleet) -> None:
    answers = fleet.ask(*[request(key=KEYS["slow"])] * 4)
    assert [answer["status"] for answer in answers] == [200, 200, 200, 429]
    assert answers[-1]["headers"]["retry-after"] == "20"
    narrow = request({"seconds": 0.5}, key=KEYS["narrow"])
    assert sorted(fleet.statuses(narrow, narrow, clients=2)) == [200, 429]
    assert fleet.statuses(narrow, narrow) == [200, 200], "one after the other"


def test_what_is_for_operators_is_not_for_clients(fleet: Fleet) -> None:
    paths = ("/metrics", "/configuration", "/slots", "/props", "/v1/../metrics", "/", "/haproxy?stats", "/%73lots")
    paths += ("//slots", "https://127.0.0.1:8443/metrics", "/v1/chat/completions/../../slots")
    assert fleet.statuses(*map(get, paths)) == [404] * len(paths)
    script = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8405/metrics').read().decode())"
    assert 'haproxy_server_limit_sessions{proxy="model_chat",server="h2:a"} 2' in fleet.run(f'python3 -c "{script}"')
    listening = fleet.run("ss -Hltn").split()
    assert {one for one in listening if one.endswith((":8405", ":8406"))} == {"127.0.0.1:8405", "127.0.0.1:8406"}
    assert fleet.run("stat --format=%a:%U:%G /run/haproxy/admin.sock").strip() == "660:root:haproxy"


def test_requests_wait_at_the_gateway(fleet: Fleet) -> None:
    """8 clients on 4 slots: no server ever has more than its two, and all are busy."""
    assert fleet.statuses(*[request({"seconds": 0.1, "prompt": f"q{n}"}) for n in range(32)], clients=8) == [200] * 32
    assert [fleet.counted(server)["most"] for server in ("first", "second")] == [2, 2]


def turns(first: Any) -> list[dict[str, Any]]:
    """Return the requests of a conversation of three turns."""
    messages = first if isinstance(first, list) else [{"role": "user", "content": first}]
    more = [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    return [request({"messages": messages + more * turn}) for turn in range(3)]


CONVERSATIONS = {
    "plain": turns("What is a node?"),
    "parts": turns([{"role": "user", "content": [{"type": "text", "text": "Look \\ / at this"}]}]),
    "system": turns([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And now?"}]),
    "escapes": turns("\u4e2d\u6587 \U0001f600 \\u4e2d"),
    "named": [request({"messages": [{"role": "user", "content": str(turn)}]}) for turn in range(3)],
    "prompt": [request({"prompt": "Once upon a time"}, path="/v1/completions")] * 3,
    "messages": [{**one, "path": "/v1/messages"} for one in turns("What is a socket?")],
    "chunked": [{**one, "chunked": True} for one in turns("What is a core?")],
    "long": turns("What is a book? " + "x" * 300_000),
    "expect": turns("What is a die?"),
}
for one_request in CONVERSATIONS["named"]:
    one_request["headers"].append(("X-Conversation-Id", "c1"))
for one_request in CONVERSATIONS["expect"]:
    one_request["headers"].append(("Expect", "100-continue"))


def test_conversations_keep_their_server(fleet: Fleet) -> None:
    """Leastconn alone has requests take turns on the servers, and an odd one comes in between only once."""
    for name, (first, second, third) in CONVERSATIONS.items():
        one, two, dummy, three = fleet.served_by(first, second, request({"prompt": f"odd {name}"}), third)
        assert one == two == three, (name, one, two, three)
    fresh = fleet.ask(*[request({"prompt": f"new {n}", "seconds": 0.1}) for n in range(4)], clients=4)
    assert Counter(json.loads(answer["text"])["server"] for answer in fresh) == {"first": 2, "second": 2}


@pytest.mark.parametrize("body", [{}, {"prompt": ""}, {"messages": [{"role": "user", "content": ""}]}])
def test_requests_of_no_conversation_are_spread(fleet: Fleet, body: dict[str, Any]) -> None:
    answers = fleet.ask(*[request({**body, "seconds": 0.1})] * 4, clients=4)
    assert Counter(json.loads(answer["text"])["server"] for answer in answers) == {"first": 2, "second": 2}


def test_only_what_has_not_begun_is_tried_again(fleet: Fleet) -> None:
    before, after = ({"prompt": f"broken {when}", "break_off": when} for when in ("before", "after"))
    answers = fleet.ask(request(before), request(after))
    assert answers[0]["status"] == 200
    assert "IncompleteRead" in answers[1]["text"]
    asked = [fleet.counted(server)["asked"] for server in ("first", "second")]
    assert sum(one.get("broken before", 0) for one in asked) >= 2
    assert sum(one.get("broken after", 0) for one in asked) == 1


@contextlib.contextmanager
def load(fleet: Fleet) -> Iterator[list[dict[str, Any]]]:
    """Have six clients ask until the block ends; then the list has their answers."""
    answers: list[dict[str, Any]] = []
    asked = [request({"prompt": f"load {n}", "seconds": 0.05}) for n in range(30)]
    thread = threading.Thread(target=lambda: answers.extend(fleet.ask(*asked, clients=6, until="/run/stop")))
    fleet.run("rm -f /run/stop")
    thread.start()
    try:
        yield answers
    finally:
        fleet.run("touch /run/stop")
        thread.join()


def test_a_reload_under_load_loses_nothing(fleet: Fleet) -> None:
    """It brings a hundred hosts more; conversations keep their servers, and the process stays."""
    fleet.run(f"sleep $(({LEARNING_SECONDS} - $(ps -o etimes= -p $(systemctl show -P MainPID haproxy)))) || true")
    kept = [request({"prompt": f"kept {number}"}) for number in range(6)]
    first = [one for one, server in zip(kept, fleet.served_by(*kept), strict=True) if server == "first"]
    before = fleet.state()
    with load(fleet) as answers:
        played = fleet.play(gateway_hosts=[*MEMBERS, *MANY])
    assert played.returncode == 0 and "Load the configuration" in played.changed, played.output
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 60
    assert "server m99:a 10.9.1.99:8081 maxconn 1" in fleet.run("cat /etc/haproxy/haproxy.cfg")
    assert fleet.state().splitlines()[-3:] == before.splitlines()[-3:], "the process and its starts"
    assert len(first) > 1 and set(fleet.served_by(*first)) == {"first"}


def test_a_host_that_dies_loses_no_request_that_had_not_begun(fleet: Fleet) -> None:
    with load(fleet) as answers:
        while not fleet.counted("first")["busy"]:
            time.sleep(0.05)
        fleet.run("systemctl kill --signal=KILL stub-first")
        time.sleep(1)
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 30
    assert set(fleet.served_by(*[request()] * 3)) == {"second"}
    fleet.run(f"systemctl reset-failed; {START}; start first 10.9.0.1 8081")
    deadline = time.monotonic() + 20
    while "first" not in fleet.served_by(*[request()] * 3):
        assert time.monotonic() < deadline, "it never came back"


#: Asks a server for a token, as llama_ask does on a real host.
QUESTION = (
    'python3 -c \'from urllib.request import *; urlopen(Request("http://ADDRESS/completion", b"{}",'
    ' {"Authorization": "Bearer of-the-servers"}))\''
)
STANDINS = {"h1": ("first",), "h2": ("second", "code")}


@pytest.fixture(scope="module")
def rolling(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Rolling:
    """The hosts behind the gateway, each of which restarts its own servers."""
    played = fleet.play()
    assert played.returncode == 0, played.output
    hosts = {fleet.box.name: fleet.box.inventory()}
    for name, servers in STANDINS.items():
        restart = "systemctl restart " + " ".join(f"stub-{server}" for server in servers)
        address = SERVERS[servers[0]].partition(":")[0]
        hosts[name] = {
            **fleet.box.inventory(),
            # The stand-ins listen on one address, and no others of their host.
            "llama_instances": [{**one, "host": address} for one in MEMBERS[name]["llama_instances"]],
            "llama_tuned": MEMBERS[name].get("llama_tuned", {}),
            "restarts": True,
            "restart": restart,
            "question": QUESTION.replace("ADDRESS", SERVERS[servers[0]]),
            "boots": f"cat /run/boots-{name} 2>&1",
            "reboot": f"echo again >>/run/boots-{name}; {restart}",
        }
    return Rolling(tmp_path_factory.mktemp("rolling"), hosts, [fleet.box.name])


#: A HAProxy that ended ("Known faults" in docs/gateway.md) is there again within a second, and knows who was out.
SHOW_STATES = """
import socket, time
for since in range(100):
    try:
        s = socket.socket(socket.AF_UNIX)
        s.connect("/run/haproxy/admin.sock")
        break
    except OSError:
        time.sleep(0.1)
s.sendall(b"show servers state\\n")
print(s.makefile().read())
"""


def service_states(fleet: Fleet) -> dict[str, str]:
    """Return the administrative state of each server, as HAProxy has it, and the processes of the servers."""
    rows = [line.split() for line in fleet.run("python3 -", text=SHOW_STATES).splitlines()]
    pids = fleet.run("systemctl show --property=Id,MainPID 'stub-*'")
    return {**{row[3]: row[6] for row in rows if len(row) > 20 and row[0] != "#"}, "pids": pids}


def stopped(played: Play) -> str:
    """Return why a roll ended."""
    (failed,) = [
        one for one in played.results if one["status"] == "failed" and one["task"].startswith("Stop at a host")
    ]
    return str(failed["msg"])


OURS = {"epyc_steps": ["llama"], "gateway_drain_timeout": 20, "gateway_ready_timeout": 20}


def test_a_check_of_a_roll_says_what_it_would_do(fleet: Fleet, rolling: Rolling) -> None:
    before = fleet.state(), service_states(fleet)
    played = rolling.play("roll", "--check", "-l", "h1", **OURS)
    assert "Take it out of service at each gateway" in played.changed, played.output
    assert (fleet.state(), service_states(fleet)) == before


def test_hosts_are_rolled_under_load_without_a_lost_request(fleet: Fleet, rolling: Rolling) -> None:
    """h2 alone serves a second model, so that it is refused until somebody accepts that."""
    before = service_states(fleet)
    with load(fleet) as answers:
        refused = rolling.play("roll", **OURS)
        between = service_states(fleet)
        played = rolling.play("roll", "-l", "h2", gateway_drain_last=True, **OURS)
    assert refused.returncode == 2, refused.output
    message = stopped(refused)
    assert "h2 was not taken out of service" in message and "No host but h2 serves model_org_code" in message
    assert played.returncode == 0, played.output
    after = service_states(fleet)
    assert {one["h1:a"] for one in (before, between, after)} == {"0"} and after["h2:a"] == after["h2:b"] == "0"
    assert len({one["pids"] for one in (before, between, after)}) == 3, "each of them was restarted"
    assert [answer["text"] for answer in answers if answer["status"] != 200] == [] and len(answers) >= 60
    print(f"{len(answers)} requests answered while both hosts were restarted")


def test_a_host_that_does_not_come_back_stops_the_roll(fleet: Fleet, rolling: Rolling) -> None:
    """It stays out of service over a reload, until it is put back."""
    fails = {"restart": "systemctl stop stub-first; false", **OURS}
    with load(fleet) as answers:
        played = rolling.play("roll", **fails)
    while_out = service_states(fleet)
    reloaded = fleet.play(gateway_queue_timeout="50s")
    assert service_states(fleet) == while_out
    fleet.run(f"{START}; start first 10.9.0.1 8081")
    ready = rolling.play("ready", "-l", "h1", **OURS)
    assert played.returncode == 2 and played.output.count("TASK [sovereign.epyc.plan") > 0, played.output
    assert {result["host"] for result in played.results if result["task"] == "Run the instances"} == {"h1"}
    message = stopped(played)
    assert "h1 did not come back, at 'Run the instances'" in message
    assert f"h1 stays out of service at {fleet.box.name}." in message and "sovereign.epyc.ready -l h1" in message
    assert (while_out["h1:a"], while_out["h2:a"]) == ("1", "0")
    assert "Load the configuration" in reloaded.changed, reloaded.output
    assert ready.returncode == 0 and service_states(fleet)["h1:a"] == "0", ready.output
    assert [answer["text"] for answer in answers if answer["status"] != 200] == [] and len(answers) >= 60
    # HAProxy 3.0.11 at times ends by a segmentation fault under the first load after such a reload; systemd starts it
    # anew, and docs/gateway.md says so. The tests below count on one that does not.
    fleet.run("systemctl restart haproxy")


def test_a_host_is_rebooted_out_of_service(fleet: Fleet, rolling: Rolling) -> None:
    """That nothing is lost under load is for the tests of roll.yml, which takes hosts out by the same tasks."""
    played = rolling.play("reboot", "-l", "h1", epyc_reboot_ok=True, **OURS)
    assert played.returncode == 0, played.output
    order = ["Take it out of service at each gateway", "Reboot the host", "Have each instance that makes text answer"]
    tasks = [result["task"] for result in played.results]
    assert [task for task in tasks if task in order] == order
    assert service_states(fleet)["h1:a"] == "0"


def test_a_host_is_drained_before_it_stops(fleet: Fleet) -> None:
    """Without a server of a model, its clients are told when to come back."""
    with load(fleet) as answers:
        played = fleet.play(gateway_drained=["h2"])
        while_it_runs = fleet.ask(*[request()] * 3, request({"model": "org/code"}))
        fleet.run("systemctl stop stub-second stub-code")
    assert played.returncode == 0, played.output
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 60
    assert {json.loads(answer["text"]).get("server") for answer in while_it_runs[:3]} == {"first"}
    assert (while_it_runs[3]["status"], while_it_runs[3]["headers"]["retry-after"]) == (503, "5")
    assert fleet.statuses(get("/health", key=None)) == [200]


def test_it_goes_as_it_came(fleet: Fleet) -> None:
    played = fleet.play(gateway_state="absent")
    assert played.returncode == 0, played.output
    assert fleet.run("dpkg --verify haproxy", check=False) == ""
    assert fleet.run("find /etc/haproxy -name '*sovereign*'") == ""
    assert fleet.run("systemctl is-active haproxy; systemctl is-enabled haproxy") == "active\nenabled\n"
    assert fleet.run("ss -Hltn 'sport = 8443'") == ""
