# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for llama-server that computes nothing: ``llama_stub.py NAME ADDRESS PORT KEY``, where KEY may be empty.

It needs nothing but Python, answers after the ``seconds`` of a request, and counts how many it had at a time. A request
with ``break_off`` loses its connection: ``before`` the first byte, once for each text, or ``after`` it.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME, ADDRESS, PORT, KEY = sys.argv[1:]
LOCK = threading.Lock()
COUNTED: dict[str, Any] = {"busy": 0, "most": 0, "asked": {}}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer whether it is well, what it counted, or the one of its metrics by which an instance is drained."""
        if self.path == "/metrics":
            self.send(200, f"llamacpp:requests_processing {COUNTED['busy']}\n".encode())
        else:
            self.answer(200, COUNTED if self.path == "/counted" else {"status": "ok"})

    def do_POST(self) -> None:
        """Work on a request for its time."""
        body = json.loads(self.read())
        if KEY and self.headers.get_all("Authorization") != [f"Bearer {KEY}"]:
            self.answer(401, {"error": {"code": 401, "message": "Invalid API Key"}})
            return
        text = str(body.get("prompt", ""))
        with LOCK:
            COUNTED["busy"] += 1
            COUNTED["most"] = max(COUNTED["most"], COUNTED["busy"])
            COUNTED["asked"][text] = COUNTED["asked"].get(text, 0) + 1
        time.sleep(body.get("seconds", 0))
        # Before the answer: whoever has it may send the next request at once.
        with LOCK:
            COUNTED["busy"] -= 1
        self.work(body, text)

    def read(self) -> bytes:
        """Return the body of a request."""
        if length := self.headers["Content-Length"]:
            return self.rfile.read(int(length))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def work(self, body: dict[str, Any], text: str) -> None:
        """Answer, or break off."""
        told = {"server": NAME, "path": self.path, "keys": self.headers.get_all("X-Api-Key")}
        if body.get("break_off") == "after":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"data: ")
            self.close_connection = True
        elif body.get("break_off") == "before" and COUNTED["asked"][text] == 1:
            self.close_connection = True
        else:
            self.answer(200, told)

    def answer(self, status: int, told: Any) -> None:
        """Send an answer as JSON."""
        self.send(status, json.dumps(told).encode())

    def send(self, status: int, data: bytes) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *dummy: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """The server; connections wait for it."""

    request_queue_size = 128

    def handle_error(self, *dummy: Any) -> None:
        """Pass over health checks that hang up early."""


Server((ADDRESS, int(PORT)), Handler).serve_forever()
