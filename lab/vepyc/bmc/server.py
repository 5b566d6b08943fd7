# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server: TLS, HTTP, and a log of all requests."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from .accounts import Accounts
from .errors import RefusedRequest, build_message
from .host import Host
from .recorded import Recording
from .requests import Answer, Requests
from .tls import TlsFiles

_MOST_BYTES = 1 << 20
_IDLE_SECONDS = 30


@dataclass(frozen=True)
class Request:
    """A line of the log, without passwords and tokens."""

    method: str
    path: str
    status: int
    auth: str  # `basic`, `session N`, or nothing
    body: Mapping[str, Any] | None = None  # of a PATCH or POST
    headers: Mapping[str, str] | None = None  # only those in Handler._LOGGED_HEADERS


class Server(ThreadingHTTPServer):
    """An HTTPS server on the loopback address."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, host: Host, accounts: Accounts, tls: TlsFiles, port: int, recording: Recording | None = None
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.host = host
        self.requests = Requests(host, accounts, recording)
        self.context = tls.build_context()
        self.log: list[Request] = []
        self.ending = threading.Event()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Do the TLS handshake in the connection's own thread, so that a silent client blocks no other."""
        request.settimeout(_IDLE_SECONDS)
        try:
            with self.context.wrap_socket(request, server_side=True) as secure:
                super().finish_request(secure, client_address)
        except (ssl.SSLError, OSError):
            pass  # the client does not trust the certificate, or has left


class _SlowWriter:
    """Writes some bytes in a second, to the end of the server at the latest."""

    def __init__(self, stream: Any, bytes_per_second: float, ending: threading.Event) -> None:
        self.stream, self.pause, self.ending = stream, 1 / bytes_per_second, ending

    def write(self, data: bytes) -> int:
        for number in range(len(data)):
            if self.ending.wait(self.pause):
                break
            self.stream.write(data[number : number + 1])
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of a connection."""

    protocol_version = "HTTP/1.1"
    server: Server
    _LOGGED_HEADERS: ClassVar = ("If-Match", "Accept-Encoding", "Content-Type", "OData-Version")

    def _serve_request(self) -> None:
        if self.server.host.faults.silent:
            self.server.ending.wait()
            self.close_connection = True
            return
        auth, body = "", None
        try:
            body = self._read_body()
            path, _, query = self.path.partition("?")
            if query.startswith("$") and not self.server.requests.recording:
                raise RefusedRequest(self.server.host.faults.query_status, "QueryNotSupported")
            self._fail_on_purpose(path)
            answer, auth = self.server.requests.answer_request(self.command, path, self.headers, body, query)
        except RefusedRequest as error:
            if kind := self.server.host.faults.repeats_request_as:
                error.messages.insert(0, build_message("GeneralError", text=self._repeat_request(kind, body)))
            answer, auth = Answer(error.status, error.error_document(), error.headers), error.auth
        if isinstance(body, dict) and "Password" in body:
            body = {**body, "Password": "********"}
        logged_headers = {name: self.headers[name] for name in self._LOGGED_HEADERS if name in self.headers}
        self.server.log.append(Request(self.command, self.path, answer.status, auth, body or None, logged_headers))
        self._send_answer(answer)

    def _repeat_request(self, kind: str, body: Any) -> str:
        """Return the request as a thoughtless BMC quotes it."""
        headers = {name: self.headers.get(name) for name in ("X-Auth-Token", "Authorization") if name in self.headers}
        values = [str(value) for value in {**headers, **(body or {})}.values()]
        if kind == "url":
            return "&".join(urllib.parse.quote(value, safe="") for value in values)
        return json.dumps([headers, body]) if kind == "json" else " ".join(values)

    def _fail_on_purpose(self, path: str) -> None:
        failing = self.server.host.faults.failing
        for end, (status, count) in failing.items():
            if path.rstrip("/").endswith(end) and count > 0:
                failing[end] = (status, count - 1)
                raise RefusedRequest(status, "GeneralError")

    def _garble_on_purpose(self, data: bytes) -> bytes:
        """Return what is sent in place of a good answer."""
        faults = self.server.host.faults
        for end, count in faults.garbled.items():
            if self.command == "GET" and self.path.rstrip("/").endswith(end) and count > 0:
                faults.garbled[end] = count - 1
                return data[: len(data) // 2] if faults.garbled_body == b"cut" else faults.garbled_body
        return data

    def setup(self) -> None:
        super().setup()
        if rate := self.server.host.faults.bytes_per_second:
            self.wfile = _SlowWriter(self.wfile, rate, self.server.ending)  # type: ignore[assignment]

    do_GET = do_HEAD = do_PATCH = do_POST = do_PUT = do_DELETE = _serve_request

    def _read_body(self) -> Any:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BYTES:
            self.close_connection = True
            raise RefusedRequest(413, "GeneralError")
        data = self.rfile.read(length)
        if self.command not in ("PATCH", "POST", "PUT"):
            return None
        try:
            body = json.loads(data) if data else {}
        except ValueError:
            raise RefusedRequest(400, "MalformedJSON") from None
        if not isinstance(body, dict):
            raise RefusedRequest(400, "MalformedJSON")
        return body

    def _send_answer(self, answer: Answer) -> None:
        data = answer.text.encode() or (b"" if answer.document is None else json.dumps(answer.document).encode())
        if itself := self.server.host.faults.calls_itself:
            data = data.replace(b'"/redfish', f'"{itself}/redfish'.encode())
            answer.headers.update(
                {"Location": itself + answer.headers["Location"]} if "Location" in answer.headers else {}
            )
        data = self._garble_on_purpose(data) if answer.status == 200 else data
        self.send_response(answer.status)
        self.send_header("OData-Version", "4.0")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Link", "</redfish/v1/$metadata>; rel=describedby")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if data:
            self.send_header("Content-Type", "application/xml" if answer.text else "application/json; charset=utf-8")
            if self._needs_gzip(answer):
                data = gzip.compress(data)
                self.send_header("Content-Encoding", "gzip")
        if answer.status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _needs_gzip(self, answer: Answer) -> bool:
        """True for a registry if the client accepts gzip, or the vendor always sends gzip."""
        registry = answer.document is not None and "RegistryEntries" in answer.document
        always = self.server.host.personality["registry"].get("gzip") == "always"
        return registry and (always or "gzip" in (self.headers.get("Accept-Encoding") or ""))

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing to stderr, because `Server.log` has all requests."""
