# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attacks on the gateway, by a tenant and by somebody without a key."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator

import pytest

from ..fixtures.containers import wait_until
from ..fixtures.gateways import KEYS, PROGRAMS, Gateway, build_request

pytestmark = pytest.mark.slow

#: The most connections of the gateway, and of one address.
CONNECTIONS, OF_ADDRESS = 150, 100
#: An address of the host that no attack comes from.
ELSEWHERE = "127.0.0.2"
#: A line of the log from its tokens to its end.
END_OF_LINE = re.compile(r'\{(?P<tenant>[^|]*)\|(?P<model>[^}]*)\} tokens:(?P<tokens>\S+) "[^"]*"$')


@pytest.fixture(scope="module")
def gateway_of_two(bare_gateway: Gateway) -> Gateway:
    """A gateway with small limits, so that few connections reach them, and with tokens in its log."""
    played = bare_gateway.run_role(
        epyc_gateway_max_connections=CONNECTIONS,
        epyc_gateway_max_connections_of_address=OF_ADDRESS,
        epyc_gateway_client_timeout="2s",
        epyc_gateway_count_tokens=True,
    )
    assert played.returncode == 0, played.output
    return bare_gateway


def read_log(gateway: Gateway, marker: str) -> list[str]:
    """Return the lines that HAProxy has logged since this marker was put into the journal."""
    gateway.run("journalctl --sync")
    lines = gateway.run("journalctl --identifier=haproxy --identifier=attack --output=cat").splitlines()
    return [line for line in lines[lines.index(marker) + 1 :] if " clients" in line or "GET /" in line]


def put_marker(gateway: Gateway) -> str:
    """Put a line of its own into the journal and return it."""
    marker = f"marker {time.monotonic_ns()}"
    gateway.run(f"echo '{marker}' | systemd-cat --identifier=attack; journalctl --sync")
    return marker


#: Other spellings of a model that the tenant was not given, and the status of each.
SPELLINGS = [
    (400, '{"Model": "org/code"}'),
    (400, '{"x": {"model": "org/code"}}'),
    (400, '{"model": {"model": "org/code"}}'),
    (400, '{"model": ["org/code"]}'),
    (400, '{"model": null}'),
    (400, '{"model": 1}'),
    (400, '{"model": true}'),
    (400, '{"model": "chat", "model ": 1, "m\\u006fdel": "org/code"}'),
    (400, '{"model": "chat\\u0000org/code"}'),
    (400, '{"model": "org/code\\u0000"}'),
    (400, "\0".join('{"model": "org/code"}')),
    (400, "model=org/code"),
    (400, '--x\r\nContent-Disposition: form-data; name="model"\r\n\r\norg/code\r\n--x--\r\n'),
    (403, '{"model": "org\\u002Fcode"}'),
    (404, '{"model": ""}'),
    (404, '{"model": "ORG/code"}'),
    (404, '{"model": " org/code"}'),
    (404, '{"model": "org/code "}'),
    (404, '{"model": "org\uff0fcode"}'),
    (404, '{"model": "chat org/code"}'),
    (200, '{"model": "chat", "MODEL": "org/code", "model ": "org/code", "x": {"model": "org/code"}}'),
]
TYPES = ("application/json", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/plain", "")


def test_a_model_that_was_not_given_is_reached_by_no_spelling(gateway_of_two: Gateway) -> None:
    for kind in TYPES:
        for path in ("/v1/completions", "/v1/completions?model=org/code&autoload=1"):
            requests = [build_request(text, key=KEYS["short"], path=path) for dummy, text in SPELLINGS]
            requests[-1]["text"] = requests[-1]["text"][:-1] + ', "max_tokens": 5}'
            for request in requests:
                request["headers"] += [("Content-Type", kind), ("X-Model", "org/code")]
            answers = gateway_of_two.send_requests(*requests)
            assert [answer["status"] for answer in answers] == [status for status, dummy in SPELLINGS], kind
            got = json.loads(answers[-1]["text"])
            assert got["server"] != "code" and got["path"] == "/v1/completions"
            assert got["headers"]["content-type"] == "application/json"


def test_instances_get_no_header_that_steers_them(gateway_of_two: Gateway) -> None:
    """llama-server would go on without its client, and end the answer of another client with the same conversation."""
    hostile = [
        *(("X-Conversation-Id", "c"), ("x-data-parallel-rank", "1"), ("Content-Encoding", "gzip"), ("Cookie", "a=b")),
        *(("Forwarded", "for=x"), ("X-Request-Id", "1"), ("Range", "bytes=0-1"), ("X-Forwarded-For", "10.0.0.1")),
    ]
    request = build_request()
    request["headers"] += [*hostile, ("Accept", "text/event-stream"), ("Traceparent", "00-1-2-01")]
    (answer,) = gateway_of_two.send_requests(request)
    headers = json.loads(answer["text"])["headers"]
    assert headers.pop("authorization") == "Bearer of-the-servers"
    assert {name: headers.get(name) for name in ("accept", "traceparent")} == {
        "accept": "text/event-stream",
        "traceparent": "00-1-2-01",
    }
    assert headers.keys() <= {"accept", "accept-encoding", "content-length", "content-type", "host", "traceparent"}


def test_there_is_no_http_2(gateway_of_two: Gateway) -> None:
    """The limits count connections, and each of HTTP/2 could have a hundred requests."""
    offered = "import socket, ssl; c = ssl._create_unverified_context(); c.set_alpn_protocols(['h2', 'http/1.1']);"
    offered += "print(c.wrap_socket(socket.create_connection(('127.0.0.1', 8443))).selected_alpn_protocol())"
    assert gateway_of_two.run(f'python3 -c "{offered}"').strip() == "http/1.1"
    settings = "\0\0\0\4\0\0\0\0\0"
    (answer,) = gateway_of_two.send_requests({"raw": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings})
    assert answer["text"].startswith("HTTP/1.1 400"), answer


def test_each_request_is_one_line_of_the_log(gateway_of_two: Gateway) -> None:
    forged = "\r\nJan 1 00:00:00 haproxy[1]: 10.9.9.9:1 forged"
    requests = [
        build_request(json.dumps({"model": "org/code" + forged})),
        build_request(json.dumps({"model": "chat\0" + forged})),
        build_request('{"model": "chat\\r\\n\\"} x"}'),
        build_request(json.dumps({"model": "chat", "messages": [{"role": "user", "content": forged}]})),
        build_request(path="/v1/chat/completions?" + "%0d%0a" * 50),
        build_request(path='/v1/"} {x|y} "'.replace(" ", "%20")),
        build_request(path="/v1/" + "x" * 20000),
    ]
    for value in ("\u00e9\u0080", "\t\u001b[2J", '"} {x|y} "', "a" * 60000, "a,b", ""):
        requests.append(build_request())
        requests[-1]["headers"].append(("X-Conversation-Id", value))
    marker = put_marker(gateway_of_two)
    answers = gateway_of_two.send_requests(*requests)
    lines = read_log(gateway_of_two, marker)
    assert len(lines) == len([answer for answer in answers if answer["status"]]) == len(requests), lines
    assert not [line for line in lines if "forged" in line or not line.isprintable()]
    models = [found["model"] for line in lines if (found := END_OF_LINE.search(line))]
    assert {*models} == {"chat", ""} and len(models) >= len(lines) - 1, "all but the line of the long path"


ANSWERS: dict[str, tuple[list[str], str]] = {
    "whole": (
        ['{"choices": ["\\"prompt_tokens\\":9"], "usage": {"prompt_tokens": 12, "completion_tokens": 34}}'],
        "12/34",
    ),
    "cut in two": (['data: {"usage": {"completion_to', 'kens": 7, "prompt_tokens": 1}}\n\ndata: [DONE]\n\n'], "1/7"),
    "timings": (["x" * 9000, 'data: {"timings":{"cache_n":5,"prompt_n":3,"predicted_n":4}}\n\ndata: [DONE]'], "8/4"),
    "input": (['{"usage": {"cache_read_input_tokens": 10,"input_tokens": 2, "output_tokens": 6}}'], "12/6"),
    "vectors": (['{"usage": {"prompt_tokens": 3}, "data": [', "1.0," * 90000, "1.0]}"], "3/-"),
    "nothing": (["{}"], "-/-"),
}


def test_the_log_has_the_tokens_of_each_answer(gateway_of_two: Gateway) -> None:
    marker = put_marker(gateway_of_two)
    requests = [build_request({"pieces": pieces}) for pieces, dummy in ANSWERS.values()]
    answers = gateway_of_two.send_requests(*requests)
    assert [answer["text"] for answer in answers] == ["".join(pieces) for pieces, dummy in ANSWERS.values()]
    found = [END_OF_LINE.search(line) for line in read_log(gateway_of_two, marker)]
    counted = [(one["tenant"], one["model"], one["tokens"]) for one in found if one]
    assert counted == [("team", "chat", tokens) for dummy, tokens in ANSWERS.values()]


# Connections


@contextlib.contextmanager
def attack(gateway: Gateway, habit: str, count: int) -> Iterator[None]:
    """Have an attacker keep so many connections busy until the block ends."""
    started = f"/run/attack-{habit}"
    command = f"python3 {PROGRAMS}/gateway_attacker.py 8443 {habit} {count} {started} {KEYS['team']}"
    thread = threading.Thread(target=gateway.run, args=(command,))
    thread.start()
    try:
        wait_until(lambda: gateway.run(f"ls {started}", check=False))
        yield
    finally:
        gateway.run(f"rm -f {started}")
        thread.join()


def count_connections(gateway: Gateway) -> int:
    """Return how many connections HAProxy has with clients."""
    script = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8405/metrics').read().decode())"
    lines = gateway.run(f'python3 -c "{script}"').splitlines()
    wanted = 'haproxy_frontend_current_sessions{proxy="clients"} '
    return next(int(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


@pytest.mark.parametrize(
    ("habit", "count"),
    [
        *((habit, 2 * CONNECTIONS) for habit in ("silent", "handshake", "head", "body")),
        *(("reader", 12), ("trickle", 12)),
    ],
)
def test_many_connections_of_one_client_leave_others_served(gateway_of_two: Gateway, habit: str, count: int) -> None:
    """The client needs a key where it sends a whole head only. All of its connections end."""
    asked = [build_request({"prompt": f"beside {habit} {number}"}, key=KEYS["narrow"]) for number in range(2)]
    with attack(gateway_of_two, habit, count):
        answers = gateway_of_two.send_requests(*asked, source=ELSEWHERE)
        assert [answer["status"] for answer in answers] == [200] * 2, answers
        wait_until(lambda: count_connections(gateway_of_two) == 0)
