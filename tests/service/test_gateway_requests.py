# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests that the gateway refuses: too large, too slow, without a key, hidden in another, or over a limit."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from ..fixtures.gateways import KEYS, Gateway, build_get, build_request

pytestmark = pytest.mark.slow


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
    assert [json.loads(answer["text"])["keys"] for answer in answers] == [None] * 3, "no key of a tenant goes on"
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


def test_what_is_for_operators_is_not_for_clients(gateway_of_two: Gateway) -> None:
    paths = ("/metrics", "/configuration", "/slots", "/props", "/v1/../metrics", "/", "/haproxy?stats", "/%73lots")
    paths += ("//slots", "https://127.0.0.1:8443/metrics", "/v1/chat/completions/../../slots")
    assert gateway_of_two.fetch_statuses(*map(build_get, paths)) == [404] * len(paths)
    script = "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8405/metrics').read().decode())"
    metrics = gateway_of_two.run(f'python3 -c "{script}"')
    assert 'haproxy_server_limit_sessions{proxy="model_chat",server="h2:a"} 2' in metrics
    listening = gateway_of_two.run("ss -Hltn").split()
    assert {one for one in listening if one.endswith((":8405", ":8406"))} == {"127.0.0.1:8405", "127.0.0.1:8406"}
    assert gateway_of_two.run("stat --format=%a:%U:%G /run/haproxy/admin.sock").strip() == "660:root:haproxy"
