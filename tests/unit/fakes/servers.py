# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Servers of HTTP on the loopback, for what is fetched from one: what they answer is written in each test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


class BacklogServer(ThreadingHTTPServer):
    """A server on which many connections may wait at once, as on a machine that is busy with something else."""

    request_queue_size = 128


class Server:
    """A server, its URL, and the requests that it got: the method, the path and the headers of each."""

    def __init__(self, answer: Answer, port: int) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append((self.command, self.path, dict(self.headers.items())))
                self.close_connection = True
                server.answer(self)

            do_HEAD = do_POST = do_GET

            def log_message(self, *args: object) -> None:
                """Log nothing: the server above records the requests."""

        self.http = BacklogServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@contextmanager
def serving(answer: Answer, port: int = 0) -> Iterator[Server]:
    """Have a server for as long as the block lasts."""
    server = Server(answer, port)
    thread = threading.Thread(target=server.http.serve_forever, args=(0.005,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        server.http.server_close()
        thread.join()


def say(request: BaseHTTPRequestHandler, code: int, body: bytes = b"", **headers: str) -> None:
    """Answer with all of a body; names of headers are written with an underscore."""
    request.send_response(code)
    for name, value in {"Content_Length": str(len(body)), **headers}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
