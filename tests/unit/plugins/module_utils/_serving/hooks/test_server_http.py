# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for a server and draining one: a real server on the loopback that answers as llama-server does."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import server_http
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving

LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'
UNAUTHORIZED = b'{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}'
METRICS = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 21
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing {}
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred {}
"""


class Llama:
    """What llama-server answers while it reads its model, and then; each answer is another moment."""

    def __init__(self) -> None:
        self.loading = 0
        self.key = ""
        self.work: list[tuple[int, int]] = []
        self.metrics = METRICS
        self.health = b'{"status":"ok"}'

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if self.loading:
            self.loading -= 1
            say(request, 503, LOADING)
        elif request.path == "/health":
            say(request, 200, self.health)
        elif self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            say(request, 401, UNAUTHORIZED)
        elif request.path == "/metrics" and self.metrics:
            work = self.work.pop(0) if len(self.work) > 1 else (self.work or [(0, 0)])[0]
            say(request, 200, self.metrics.format(*work).encode())
        else:
            say(request, 501, b'{"error":{"code":501,"message":"This server does not support metrics endpoint."}}')


@pytest.fixture
def llama() -> Llama:
    return Llama()


@pytest.fixture
def server(llama: Llama, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(server_http, "PAUSE_SECONDS", 0.01)
    monkeypatch.delenv("MAINPID", raising=False)
    with serving(llama) as server:
        yield server


def closed() -> str:
    """The address of a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


# Waiting until it serves


def test_it_waits_while_the_model_is_read(llama: Llama, server: Server) -> None:
    llama.loading = 3
    llama.key = "secret"  # /health needs none
    assert server_http.wait_for_health(server.url, 30).startswith(f"{server.url} serves after ")
    assert [path for dummy, path, dummy2 in server.requests] == ["/health"] * 4


def test_it_does_not_wait_for_ever(llama: Llama, server: Server) -> None:
    llama.loading = 10**6
    with pytest.raises(
        TuningError, match=r"does not serve after 0\.2 s: it is reading the model \(503\)\. The journal"
    ):
        server_http.wait_for_health(server.url, 0.2)
    with pytest.raises(TuningError, match=r"does not serve after 0\.2 s: the connection is refused\."):
        server_http.wait_for_health(closed(), 0.2)


def test_it_waits_until_somebody_listens(llama: Llama) -> None:
    address = closed()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(server_http.wait_for_health, address, 60)
        time.sleep(0.3)
        assert not waiting.done()
        with serving(llama, int(address.rpartition(":")[2])):
            assert "serves after" in waiting.result()


@pytest.mark.parametrize("health", [b"<html>It works!</html>", b"[]", b'{"state":"up"}'])
def test_another_program_on_the_port(llama: Llama, server: Server, health: bytes) -> None:
    llama.health = health
    with pytest.raises(TuningError, match="another program uses this port"):
        server_http.wait_for_health(server.url, 5)


def test_a_process_that_has_ended_is_not_waited_for(llama: Llama, server: Server) -> None:
    llama.loading = 10**6
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    ended = process.pid
    with pytest.raises(TuningError, match=rf"will not serve: its process {ended} has ended\. The journal"):
        server_http.wait_for_health(server.url, 30, ended)
    llama.loading = 2
    assert "serves" in server_http.wait_for_health(server.url, 30, os.getpid())


def test_a_router_serves_when_its_models_do(server: Server) -> None:
    states = iter(["unloaded", "loading", "loaded"])

    def answer(request: BaseHTTPRequestHandler) -> None:
        word = next(states) if request.path == "/models" else ""
        rows = [{"id": "a", "status": {"value": "loaded"}}, {"id": "b/c", "status": {"value": word}}]
        say(request, 200, json.dumps({"data": rows} if word else {"status": "ok"}).encode())

    server.answer = answer
    assert "serves after" in server_http.wait_for_health(server.url, 30, key="secret", models=["a", "b/c"])
    paths = [path for dummy, path, dummy2 in server.requests]
    assert paths == ["/health", "/models"] * 3
    states = iter(["unloaded"] * 1000)
    with pytest.raises(TuningError, match=r"does not serve after 1 s: b/c is unloaded\."):
        server_http.wait_for_health(server.url, 1, models=["a", "b/c"])
    with pytest.raises(TuningError, match=r"does not serve after 1 s: d is not there\."):
        server_http.wait_for_health(server.url, 1, models=["a", "d"])


def test_a_model_that_failed_is_not_waited_for(server: Server) -> None:
    row = {"id": "a", "status": {"value": "unloaded", "failed": True, "exit_code": 1}}
    body = json.dumps({"status": "ok", "data": [row]}).encode()
    server.answer = lambda request: say(request, 200, body)
    with pytest.raises(TuningError, match=r"has no a: its server ended\. The journal of the unit says why\."):
        server_http.wait_for_health(server.url, 30, models=["a"])


# Draining


def test_a_router_is_idle_when_all_its_models_are(llama: Llama, server: Server) -> None:
    """One that is not loaded has nothing in work, and is not loaded for the question."""
    work = iter([(0, 0), (1, 0), (0, 0), (0, 0), (0, 0), (0, 0)])

    def answer(request: BaseHTTPRequestHandler) -> None:
        if "model=cold" in request.path:
            say(request, 400, b'{"error":{"code":400,"message":"model is not loaded"}}')
        else:
            say(request, 200, llama.metrics.format(*next(work)).encode())

    server.answer = answer
    assert "is idle after" in server_http.wait_until_idle(server.url, 30, models=["a", "b/c", "cold"])
    paths = [path for dummy, path, dummy2 in server.requests]
    assert paths == [f"/metrics?model={name}&autoload=false" for name in ("a", "b%2Fc", "cold")] * 3


def test_it_waits_until_nothing_is_in_work(llama: Llama, server: Server) -> None:
    llama.work = [(2, 1), (1, 0), (0, 1), (0, 0)]
    assert server_http.wait_until_idle(server.url, 30).startswith(f"{server.url} is idle after ")
    assert len(server.requests) == 5


def test_a_request_that_was_not_counted_yet_is_waited_for(llama: Llama, server: Server) -> None:
    llama.work = [(0, 0), (1, 0), (0, 0)]
    server_http.wait_until_idle(server.url, 30)
    assert len(server.requests) == 4


def test_the_packets_of_a_hook_are_marked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a handover can let them pass; each connection is marked before its first packet."""
    marks: list[tuple[int, int]] = []

    class Marked(socket.socket):
        def connect_ex(self, address: tuple[str, int]) -> int:
            marks.append((self.getsockopt(socket.IPPROTO_IP, socket.IP_TOS), self.fileno()))
            return super().connect_ex(address)

    monkeypatch.setattr(server_http.socket, "socket", Marked)
    server_http.wait_for_health(server.url, 5)
    server_http.send_get_request(server.url, "/health", 5)
    assert [mark for mark, dummy in marks] == [43 << 2]


def test_what_is_in_work_at_the_end_is_told(llama: Llama, server: Server) -> None:
    llama.work = [(1, 2)]
    with pytest.raises(TuningError, match=r"is not idle after 0\.2 s: 3 requests in progress\. Stopping it now cuts"):
        server_http.wait_until_idle(server.url, 0.2)


def test_who_has_nothing_in_work(llama: Llama, server: Server) -> None:
    assert server_http.wait_until_idle(closed(), 5).endswith("refuses connections: it has no request in progress.")
    llama.loading = 1
    assert server_http.wait_until_idle(server.url, 5).endswith(
        "is still reading its model: it has no request in progress."
    )


def test_a_server_that_hangs_is_not_idle(server: Server) -> None:
    server.answer = lambda request: request.rfile.read(1) and None
    with pytest.raises(TuningError, match=r"is not idle after 0\.3 s: it does not answer \(timed out\)"):
        server_http.wait_until_idle(server.url, 0.3)


@pytest.mark.parametrize("is_hook", [True, False])
@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_sends_a_byte_now_and_then_has_not_answered(
    llama: Llama, server: Server, begin: bytes, is_hook: bool
) -> None:
    """Each byte comes in time, and the answer as a whole does not."""

    def send_byte_after_byte(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(begin)
        with suppress(OSError):
            for dummy in range(20):
                request.wfile.write(b"X")
                time.sleep(0.1)

    server.answer = send_byte_after_byte
    status, text = server_http.send_get_request(server.url, "/health", 0.3, is_hook=is_hook)
    assert (status, text) == (None, "it does not answer (timed out)")


def test_the_key(llama: Llama, server: Server) -> None:
    llama.key = "secret"
    with pytest.raises(TuningError, match=r"/metrics answers 401: it needs a key; name the key file with --key-file\."):
        server_http.wait_until_idle(server.url, 5)
    with pytest.raises(TuningError, match=r"/metrics answers 401: it does not accept this key\."):
        server_http.wait_until_idle(server.url, 5, "wrong")
    assert "is idle" in server_http.wait_until_idle(server.url, 5, "secret")


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("", "/metrics answers 501: it has no metrics; start the server with --metrics."),
        ("up 1\n", "has no llamacpp:"),
    ],
)
def test_a_server_without_metrics(llama: Llama, server: Server, metrics: str, words: str) -> None:
    llama.metrics = metrics
    with pytest.raises(TuningError) as refusal:
        server_http.wait_until_idle(server.url, 5)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("metrics", "count"),
    [
        (METRICS.format(0, 0), 0),
        (METRICS.format(3, 4), 7),
        ("llamacpp:requests_processing 1.0\n", 1),
        ('llamacpp:requests_processing{model="a"} 1\nllamacpp:requests_processing{model="b"} 2\n', 3),
    ],
)
def test_what_metrics_tell(metrics: str, count: int) -> None:
    assert server_http.parse_unfinished_request_count("http://x", metrics) == count


def test_metrics_are_numbers_by_name() -> None:
    text = (
        METRICS.format(1, 2) + 'a{b="c d"} 1\na{b="e"} 0.5 1764000000\nstrange\nvalue none\na NaN\na +Inf\na 1e300\n\n'
    )
    assert server_http.parse_prometheus_metrics(text) == {
        "llamacpp:prompt_tokens_total": 21,
        "llamacpp:requests_processing": 1,
        "llamacpp:requests_deferred": 2,
        "a": 1.5,
    }


@pytest.mark.parametrize("url", ["127.0.0.1:8080", "https://127.0.0.1", "http://", "http://x:port", "http://x/?a=b"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(BadRequest, match=r"is not the URL of a server; write it like http://127\.0\.0\.1:8080\."):
        server_http.wait_for_health(url, 1)


# The command


def test_the_command(llama: Llama, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    llama.key = "secret"
    (tmp_path / "key").write_text("# of the team\n\nsecret\n")
    assert _cli.main(["llama", "await", server.url, "--timeout", "5"]) == 0
    assert _cli.main(["llama", "drain", "--key-file", str(tmp_path / "key"), server.url, "--timeout", "0.5"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["serves", "is"]
    assert _cli.main(["llama", "drain", server.url, "--timeout", "5"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.endswith("name the key file with --key-file.\n")


def test_the_credential_that_the_servers_process_sees(
    llama: Llama, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that stops a unit has MAINPID, and the credential is not there for itself."""
    drain = ["llama", "drain", server.url, "--timeout", "5", "--credential", str(tmp_path / "key")]
    monkeypatch.setenv("MAINPID", str(os.getpid()))
    assert _cli.main(drain) == 0, "it was started before it had keys"
    llama.key = "secret"
    assert _cli.main(drain) == 1
    assert "/metrics answers 401: it needs a key" in capsys.readouterr().err
    (tmp_path / "key").write_text("# of the team\nsecret\n")
    assert _cli.main(drain) == 0


def test_the_process_that_systemd_names(
    llama: Llama, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llama.loading = 10**6
    monkeypatch.setenv("MAINPID", str(2**22 - 1))
    assert _cli.main(["llama", "await", server.url, "--timeout", "30"]) == 1
    assert "has ended" in capsys.readouterr().err
