# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for vLLM: its arguments as recorded, its binding, its key, and work to see.

A process on each CPU of VLLM_CPU_OMP_THREADS_BIND computes while a request is answered, up to 10 seconds or until the
client hangs up. It serves nothing a model would say. On several hosts its head waits for the workers and has them
compute too; when one of them is gone, it says so to the next request only, and a worker whose head is gone waits for
ever.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import re
import select
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

USAGE = Path(__file__).with_name("usage.txt")


def cpus(text: str) -> list[int]:
    found: list[int] = []
    for part in text.replace("|", ",").split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def compute(cpu: int, working: Any) -> None:
    os.sched_setaffinity(0, [cpu])
    while True:
        working.wait()
        end = time.monotonic() + 0.05
        while time.monotonic() < end:
            pass


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.answer(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            return self.answer(401, {"error": "Unauthorized"})
        if asked["model"] != self.server.alias:
            return self.answer(404, {"error": "no such model"})
        end = time.monotonic() + min(10, asked["max_tokens"] / 100)
        self.server.work(True)
        while time.monotonic() < end and not select.select([self.connection], [], [], 0.1)[0]:
            pass
        self.server.work(False)
        self.answer(200, {"choices": [{"text": " Paris"}]})

    def answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    alias: str
    key: str | None
    working: Any
    workers: list[socket.socket]

    def work(self, on: bool) -> None:
        """Compute, or not, on all hosts."""
        if select.select(self.workers, [], [], 0)[0]:
            os._exit(1)
        for worker in self.workers:
            worker.sendall(b"1" if on else b"0")
        (self.working.set if on else self.working.clear)()


def follow(address: tuple[str, int], working: Any) -> None:
    while True:
        try:
            head = socket.create_connection(address)
            break
        except OSError:
            time.sleep(0.1)
    while word := head.recv(1):
        (working.set if word == b"1" else working.clear)()
    time.sleep(3600)


def main() -> None:
    words = sys.argv[2:] if sys.argv[1:2] == ["serve"] else sys.argv[1:]
    if words == ["--help=all"]:
        print(USAGE.read_text())
        return
    flags = dict(itertools.pairwise(words))
    if unknown := [
        word for word in words if word.startswith("--") and word not in re.findall("--[a-z-]+", USAGE.read_text())
    ]:
        sys.exit(f"unrecognized arguments: {unknown[0]}")
    if flags.get("--quantization") == "broken":
        sys.exit("ValueError: Unknown quantization method: broken")
    working = multiprocessing.Event()
    for cpu in cpus(os.environ["VLLM_CPU_OMP_THREADS_BIND"]):
        multiprocessing.Process(target=compute, args=(cpu, working), daemon=True).start()
    address = flags.get("--master-addr", ""), int(flags.get("--master-port", 0))
    if "--headless" in words:
        follow(address, working)
    workers = []
    if address[0]:
        with socket.create_server(address) as meeting:
            workers = [meeting.accept()[0] for dummy in range(int(flags["--nnodes"]) - 1)]
    server = Server((flags["--host"], int(flags["--port"])), Handler)
    server.alias, server.key = flags["--served-model-name"], os.environ.get("VLLM_API_KEY")
    server.working, server.workers = working, workers
    server.serve_forever()


if __name__ == "__main__":
    main()
