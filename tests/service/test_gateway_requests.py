# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the gateway: which ones it refuses, and which server gets the others, also while servers come and go."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from typing import Any

import pytest

from ..fixtures.gateways import (
    ABSENT_MEMBERS,
    KEYS,
    MEMBERS,
    Gateway,
    build_get,
    build_request,
    build_turns,
    generate_load,
)

pytestmark = pytest.mark.slow

#: A new HAProxy hands conversations over to the next one only when it has waited so long for some itself.
LEARNING_SECONDS = 11

# Refusals


def test_bodies_up_to_the_size_and_in_time(gateway_of_two: Gateway) -> None:
    """Bodies have the largest size, a byte more, a byte more in chunks, or a client that waits for 100 Continue."""

    def sized(size: int, **more: Any) -> dict[str, Any]:
        text = json.dumps({"model": "chat", "prompt": ""})
        return build_request(text[:-2] + "x" * (size - len(text)) + text[-2:], **more)

    first = build_request()
    first["headers"].append(("Expect", "100-continue"))
    limit = 1 << 20
    asked = [sized(limit), sized(limit + 1), sized(limit + 1, chunked=True), first]
    assert gateway_of_two.fetch_statuses(*asked) == [200, 413, 413, 200]
    assert gateway_of_two.fetch_statuses(sized(500_000, part=1000), sized(500, trickle=True), clients=2) == [408, 408]


def test_keys(gateway_of_two: Gateway) -> None:
    key = KEYS["team"]
    by_header = build_request(key=None)
    by_header["headers"] = [("X-Api-Key", key)]
    twice = build_request()
    twice["headers"] = [("authorization", "Bearer of-the-servers"), ("Authorization", f"bearer {key}")]
    hop = build_request()
    hop["headers"].append(("Connection", "close, Authorization"))
    digest = hashlib.sha256(key.encode()).hexdigest()
    wrong = [
        build_request(key=one) for one in (None, "", "wrong", key.lower(), f"{key},{key}", digest, "of-the-servers")
    ]
    wrong.append({**build_request(), "headers": [("X_Api_Key", key), ("Proxy-Authorization", f"Bearer {key}")]})
    assert gateway_of_two.fetch_statuses(*wrong) == [401] * len(wrong)
    answers = gateway_of_two.send_requests(by_header, twice, hop)
    assert [answer["status"] for answer in answers] == [200] * 3
    assert not [answer for answer in answers if "x-api-key" in json.loads(answer["text"])["headers"]]
    without_key = [build_get(path, key=None) for path in ("/v1/models", "/health")]
    assert gateway_of_two.fetch_statuses(*without_key) == [401, 200]
    assert "of-the-servers" not in gateway_of_two.run("cat /etc/haproxy/haproxy.cfg")
    anywhere = " ".join(f"-e {one}" for one in KEYS.values())
    assert gateway_of_two.run(f"grep -rlaF {anywhere} /etc /root /run /tmp /var", check=False) == "", "the log included"
    assert gateway_of_two.run("stat --format=%a:%U /etc/haproxy/*.key").split() == ["600:root"]


def build_raw_request(*lines: str, body: str) -> dict[str, Any]:
    """Return the bytes of a request with a key, these lines of headers, and a body of any length."""
    head = ["POST /v1/completions HTTP/1.1", "Host: gateway", f"Authorization: Bearer {KEYS['team']}", *lines]
    return {"raw": "\r\n".join(head) + "\r\n\r\n" + body}


def test_no_request_hides_in_another(gateway_of_two: Gateway) -> None:
    """Two lengths of one request contradict each other: a request behind the shorter one is refused, or has no key."""
    hidden, outer = (json.dumps({"model": "chat", "prompt": text}) for text in ("smuggled", "outer"))
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(hidden)}\r\n\r\n"
    behind = outer + head + hidden
    chunks = f"{len(outer):x}\r\n{outer}\r\n0\r\n\r\n{head}{hidden}"
    length, chunked = f"Content-Length: {len(outer)}", "Transfer-Encoding: chunked"
    answers = gateway_of_two.send_requests(
        build_raw_request(length, f"Content-Length: {len(behind)}", body=behind),
        build_raw_request("Transfer-Encoding : chunked", length, body=behind),
        build_raw_request(chunked, "Transfer-Encoding: identity", body=chunks),
        build_raw_request(f"Content-Length: {len(chunks)}", chunked, body=chunks),
        build_raw_request(length, body=behind),
    )
    assert [answer["status"] for answer in answers] == [400, 400, 400, 200, 200]
    assert "HTTP/1.1 401" in answers[-1]["text"], "one behind the other is two requests"
    asked = [text for server in ("first", "second") for text in gateway_of_two.fetch_counts(server)["asked"]]
    assert "outer" in asked and "smuggled" not in asked


def test_tenants_have_rates_and_numbers(gateway_of_two: Gateway) -> None:
    answers = gateway_of_two.send_requests(*[build_request(key=KEYS["slow"])] * 4)
    assert [answer["status"] for answer in answers] == [200, 200, 200, 429]
    assert answers[-1]["headers"]["retry-after"] == "20"
    narrow = build_request({"seconds": 0.5}, key=KEYS["narrow"])
    assert sorted(gateway_of_two.fetch_statuses(narrow, narrow, clients=2)) == [200, 429]
    assert gateway_of_two.fetch_statuses(narrow, narrow) == [200, 200], "one after the other"


def read_error(answer: dict[str, Any]) -> str:
    """Return the sentence of a refusal, which has to be JSON whatever the request named."""
    return str(json.loads(answer["text"])["error"]["message"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"model": "chat", "model": "org/code"}', "The field model is in the body twice."),
        ('{"model": "chat", "mod\\u0065l": "org/code"}', "The field model is in the body twice."),
        ('{"model": "chat", "id_slot": 0}', "The field id_slot is not for clients of the gateway."),
        ('{"model": "chat", "id\\u005fslot": 0}', "The field id_slot is not for clients of the gateway."),
        ('{"model": "chat", "grammar": "root ::= x"}', "The field grammar is not for clients of the gateway."),
        ('{"model": "chat", "\\"}\\n%": 1, "\\"}\\n%": 2}', "A field is in the body twice."),
        ('{"model": "chat", "messages": [{"content": [{"image_url": {"url": "http://10.0.0.1/"}}]}]}', "The field url"),
        ('{"model": "chat", "input": [{"content": [{"image_url": "file:///etc/passwd"}]}]}', "The field image_url"),
        ('{"model": "chat", "messages": [{"content": [{"source": {"url": "\\u0068ttp://x"}}]}]}', "The field url"),
        ('{"model": "chat", "x": {"url": "' + " " * 300 + 'http://x"}}', "The field url"),
        ('{"model": "chat", "x": {"url": "\\u0001h\\nttp://x"}}', "The field url"),
        ('{"model": "chat", "x": {"input_audio": {"data": "http://x"}}}', "The field data"),
        ('{"model": "chat", "x": ' + "[" * 1001 + "]" * 1001 + "}", "The body has more than 1000 levels."),
        ('{"model": "chat\\u0000", "prompt": "x"}', "The name of the model has a control character."),
        ('{"prompt": "x"}', "The body names no model."),
        ('{"model": 7}', "The body names no model."),
        ('{"model": ["chat"]}', "The body names no model."),
        ('[{"model": "chat"}]', "The body is no JSON object."),
        ('{"model": "chat"} {"model": "org/code"}', "The body is no JSON object."),
        ('{"model": "chat", "prompt": "x', "The body is no JSON object."),
        ('{"model": "chat", "prompt": [[[', "The body is no JSON object."),
        ('{"model": "chat", "prompt"', "The body is no JSON object."),
        ('\ufeff{"model": "chat"}', "The body is no JSON object."),
        ("", "The body is no JSON object."),
    ],
)
def test_bodies_that_are_refused(gateway_of_two: Gateway, text: str, words: str) -> None:
    (answer,) = gateway_of_two.send_requests(build_request(text))
    assert answer["status"] == 400 and words in read_error(answer), answer


def test_a_body_may_be_deep_and_its_conversation_stays(gateway_of_two: Gateway) -> None:
    """Schemas of tools have many levels, and stand before the model."""
    for depth in (19, 50, 900):
        tools = "[" * depth + '{"a": "]"}' + "]" * depth
        messages = json.dumps([{"role": "user", "content": f"deep {depth}"}])
        turn = f'{{"tools": {tools}, "messages": {messages}, "model": "chat"}}'
        asked = [build_request(turn), build_request({"prompt": f"between {depth}"}), build_request(turn)]
        one, dummy, two = gateway_of_two.fetch_servers(*asked)
        assert one == two


def test_contents_come_in_the_request(gateway_of_two: Gateway) -> None:
    """A field of any name may hold an address, if it is none of those that a server fetches."""
    parts = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"text": "http://example.com"}]
    tools = [{"function": {"parameters": {"properties": {"url": {"type": "string"}}}}}]
    body = {"messages": [{"role": "user", "content": parts}], "tools": tools, "metadata": {"page": "https://x"}}
    assert gateway_of_two.fetch_statuses(build_request(body)) == [200]


def test_a_tenant_has_its_models_and_a_length_of_answers(gateway_of_two: Gateway) -> None:
    key = KEYS["short"]
    (listed,) = gateway_of_two.send_requests(build_get("/v1/models", key=key))
    assert [one["id"] for one in json.loads(listed["text"])["data"]] == ["chat"]
    lengths: list[dict[str, Any]] = [
        *({"max_tokens": 100}, {"max_tokens": 50, "n": 2}, {"max_tokens": 100.0, "max_completion_tokens": 1}),
        *({}, {"max_tokens": None}, {"max_tokens": 101}, {"max_tokens": -1}, {"max_tokens": "7"}, {"max_tokens": 0}),
        *({"max_tokens": 5, "n_predict": -1}, {"max_tokens": 51, "n": 2}, {"max_tokens": 1e30}),
    ]
    answers = gateway_of_two.send_requests(*[build_request(one, key=key) for one in lengths])
    assert [answer["status"] for answer in answers] == [200] * 3 + [400] * 9
    assert "from 1 to 100 for all its answers together" in read_error(answers[-1])
    other = gateway_of_two.send_requests(build_request({"model": "org/code", "max_tokens": 5}, key=key))[0]
    assert other["status"] == 403 and "/v1/models lists those" in read_error(other)
    assert gateway_of_two.fetch_statuses(build_request({"input": "x"}, key=key, path="/v1/embeddings")) == [200]


#: The fields that each server reads at a path, and one that some pass over there, so that it limits nothing.
LENGTH_FIELDS = [
    ("/v1/chat/completions", "max_tokens", "max_output_tokens"),
    ("/v1/chat/completions", "max_tokens", "max_completion_tokens"),
    ("/v1/completions", "max_tokens", "n_predict"),
    ("/v1/messages", "max_tokens", "n_predict"),
    ("/v1/responses", "max_output_tokens", "max_tokens"),
    ("/completion", "n_predict", "max_output_tokens"),
    ("/infill", "n_predict", "max_completion_tokens"),
]


def test_a_length_that_a_server_passes_over_is_none(gateway_of_two: Gateway) -> None:
    asked = [(path, field) for path, *fields in LENGTH_FIELDS for field in fields]
    requests = [build_request({field: 5}, key=KEYS["short"], path=path) for path, field in asked]
    assert gateway_of_two.fetch_statuses(*requests) == [200, 400] * len(LENGTH_FIELDS)


def test_a_request_has_a_number_of_answers(gateway_of_two: Gateway) -> None:
    """Each prompt of a list has an answer of its own; a list with a number in it is one prompt."""
    numbers = [
        *({"prompt": ["a"] * 8}, {"prompt": [1] * 99}, {"prompt": ["a", 1] * 9}, {"prompt": [[1, 2]] * 4, "n": 2}),
        *(
            {"prompt": ["a"] * 9},
            {"prompt": [[1]] * 5, "n": 2},
            {"n_cmpl": 9},
            {"n": "2"},
            {"prompt": [{"a": [1]}] * 9},
        ),
    ]
    for path in ("/v1/completions", "/completion"):
        answers = gateway_of_two.send_requests(*[build_request(one, path=path) for one in numbers])
        assert [answer["status"] for answer in answers] == [200] * 4 + [400] * 5
        assert "The request asks for more than 8 answers" in read_error(answers[-1])
    many = build_request({"max_tokens": 30, "prompt": ["a"] * 4}, key=KEYS["short"], path="/v1/completions")
    assert gateway_of_two.fetch_statuses(many) == [400]
    assert gateway_of_two.fetch_statuses(build_request({"input": ["x"] * 99}, path="/v1/embeddings")) == [200]


# Servers


def test_requests_wait_at_the_gateway(gateway_of_two: Gateway) -> None:
    """Eight clients share four slots: no server ever has more than its two requests, and both servers are busy."""
    requests = [build_request({"seconds": 0.1, "prompt": f"q{n}"}) for n in range(32)]
    assert gateway_of_two.fetch_statuses(*requests, clients=8) == [200] * 32
    assert [gateway_of_two.fetch_counts(server)["most"] for server in ("first", "second")] == [2, 2]


def test_a_tenant_with_many_requests_lets_another_one_pass(gateway_of_two: Gateway) -> None:
    heavy = [build_request({"seconds": 0.4, "prompt": f"heavy {n}"}) for n in range(24)]
    load = threading.Thread(target=lambda: gateway_of_two.send_requests(*heavy, clients=24))
    load.start()
    until = time.monotonic() + 20
    while gateway_of_two.fetch_counts("first")["busy"] < 2:
        assert time.monotonic() < until
    light = build_request({"prompt": "light", "max_tokens": 5}, key=KEYS["short"])
    assert gateway_of_two.fetch_statuses(light) == [200]
    load.join()
    # A server notes requests in the order in which it gets them.
    orders = [[*gateway_of_two.fetch_counts(server)["asked"]] for server in ("first", "second")]
    (order,) = [texts for texts in orders if "light" in texts]
    behind = [text for text in order[order.index("light") :] if text.startswith("heavy")]
    assert len(behind) >= 6, order


CONVERSATIONS = {
    "plain": build_turns("What is a node?"),
    "parts": build_turns([{"role": "user", "content": [{"type": "text", "text": "Look \\ / at this"}]}]),
    "system": build_turns([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "And now?"}]),
    "escapes": build_turns("\u4e2d\u6587 \U0001f600 \\u4e2d"),
    "named": [build_request({"messages": [{"role": "user", "content": str(turn)}]}) for turn in range(3)],
    "prompt": [build_request({"prompt": "Once upon a time"}, path="/v1/completions")] * 3,
    "messages": [{**one, "path": "/v1/messages"} for one in build_turns("What is a socket?")],
    "chunked": [{**one, "chunked": True} for one in build_turns("What is a core?")],
    "long": build_turns("What is a book? " + "x" * 300_000),
    "expect": build_turns("What is a die?"),
}
for one_request in CONVERSATIONS["named"]:
    one_request["headers"].append(("X-Conversation-Id", "c1"))
for one_request in CONVERSATIONS["expect"]:
    one_request["headers"].append(("Expect", "100-continue"))


def test_conversations_keep_their_server(gateway_of_two: Gateway) -> None:
    """A request of another conversation comes in between, with which leastconn alone would change the server."""
    for name, (first, second, third) in CONVERSATIONS.items():
        between = build_request({"prompt": f"odd {name}"})
        one, two, dummy, three = gateway_of_two.fetch_servers(first, second, between, third)
        assert one == two == three, (name, one, two, three)
    begun = [build_request({"prompt": f"new {n}", "seconds": 0.1}) for n in range(4)]
    fresh = gateway_of_two.send_requests(*begun, clients=4)
    assert Counter(json.loads(answer["text"])["server"] for answer in fresh) == {"first": 2, "second": 2}


@pytest.mark.parametrize("body", [{}, {"prompt": ""}, {"messages": [{"role": "user", "content": ""}]}])
def test_requests_of_no_conversation_are_spread(gateway_of_two: Gateway, body: dict[str, Any]) -> None:
    answers = gateway_of_two.send_requests(*[build_request({**body, "seconds": 0.1})] * 4, clients=4)
    assert Counter(json.loads(answer["text"])["server"] for answer in answers) == {"first": 2, "second": 2}


def test_only_what_has_not_begun_is_tried_again(gateway_of_two: Gateway) -> None:
    before, after = ({"prompt": f"broken {when}", "break_off": when} for when in ("before", "after"))
    answers = gateway_of_two.send_requests(build_request(before), build_request(after))
    assert answers[0]["status"] == 200
    assert "IncompleteRead" in answers[1]["text"]
    asked = [gateway_of_two.fetch_counts(server)["asked"] for server in ("first", "second")]
    assert sum(one.get("broken before", 0) for one in asked) >= 2
    assert sum(one.get("broken after", 0) for one in asked) == 1


def test_a_reload_under_load_loses_nothing(gateway_of_two: Gateway) -> None:
    """The reload adds a hundred hosts. Conversations keep their servers, and HAProxy keeps its process."""
    age = "$(ps -o etimes= -p $(systemctl show -P MainPID haproxy))"
    gateway_of_two.run(f"sleep $(({LEARNING_SECONDS} - {age})) || true")
    kept = [build_request({"prompt": f"kept {number}"}) for number in range(6)]
    first = [one for one, server in zip(kept, gateway_of_two.fetch_servers(*kept), strict=True) if server == "first"]
    before = gateway_of_two.read_state()
    with generate_load(gateway_of_two) as answers:
        played = gateway_of_two.run_role(epyc_gateway_hosts=[*MEMBERS, *ABSENT_MEMBERS])
    assert played.returncode == 0, played.output
    assert "haproxy:loaded" in played["Configure HAProxy"]["diff"]["changes"]["after"]
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 60
    assert "server m99:a 10.9.1.99:8081 maxconn 1" in gateway_of_two.run("cat /etc/haproxy/haproxy.cfg")
    assert gateway_of_two.read_state().splitlines()[-3:] == before.splitlines()[-3:], "the process and its starts"
    assert len(first) > 1 and set(gateway_of_two.fetch_servers(*first)) == {"first"}


def test_a_host_that_dies_loses_no_request_that_had_not_begun(gateway_of_two: Gateway) -> None:
    with generate_load(gateway_of_two) as answers:
        while not gateway_of_two.fetch_counts("first")["busy"]:
            time.sleep(0.05)
        gateway_of_two.run("systemctl kill --signal=KILL stub-first")
        time.sleep(1)
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 30
    assert set(gateway_of_two.fetch_servers(*[build_request()] * 3)) == {"second"}
    gateway_of_two.start_server("first")
    deadline = time.monotonic() + 20
    while "first" not in gateway_of_two.fetch_servers(*[build_request()] * 3):
        assert time.monotonic() < deadline, "it never came back"


def test_a_host_is_drained_before_it_stops(gateway_of_two: Gateway) -> None:
    """Clients of a model that no server is left for get the status 503 and a time to retry."""
    with generate_load(gateway_of_two) as answers:
        played = gateway_of_two.run_role(epyc_gateway_drained=["h2"])
        while_it_runs = gateway_of_two.send_requests(*[build_request()] * 3, build_request({"model": "org/code"}))
        gateway_of_two.run("systemctl stop stub-second stub-code")
    assert played.returncode == 0, played.output
    assert Counter(answer["status"] for answer in answers).keys() == {200} and len(answers) >= 60
    assert {json.loads(answer["text"]).get("server") for answer in while_it_runs[:3]} == {"first"}
    assert (while_it_runs[3]["status"], while_it_runs[3]["headers"]["retry-after"]) == (503, "5")
    assert gateway_of_two.fetch_statuses(build_get("/health", key=None)) == [200]
