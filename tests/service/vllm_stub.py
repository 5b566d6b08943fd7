# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for vLLM: its arguments as recorded, its binding, its key, its counters, and work to see.

A process on each CPU of VLLM_CPU_OMP_THREADS_BIND computes while a request is answered, up to 10 seconds or until the
client hangs up; where the answer is streamed, 10 ms a token. It serves nothing a model would say, and counts what it
did only after it has sent it. On several hosts its head waits for the workers and has them
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
import threading
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
        said = {"/health": "", "/version": '{"version": "0.32.0"}', "/metrics": self.server.metrics()}
        self.answer(200 if self.path in said else 404, said.get(self.path, ""))

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            return self.answer(401, '{"error": "Unauthorized"}')
        if asked["model"] != self.server.alias:
            return self.answer(404, '{"error": "no such model"}')
        self.server.work(1)
        try:
            (self.stream if asked.get("stream") else self.whole)(asked)
        finally:
            self.server.work(-1)

    def whole(self, asked: dict[str, Any]) -> None:
        end = time.monotonic() + min(10, asked["max_tokens"] / 100)
        while time.monotonic() < end and not select.select([self.connection], [], [], 0.1)[0]:
            pass
        self.answer(200, json.dumps({"choices": [{"text": " Paris"}]}))

    def stream(self, asked: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": asked["max_tokens"]}
        for number in range(asked["max_tokens"]):
            time.sleep(0.01)
            self.event({"choices": [{"text": f" {number}"}], "usage": None})
        self.event({"choices": [], "usage": usage})
        time.sleep(0.2)
        self.server.count(**usage)

    def event(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def answer(self, status: int, body: str) -> None:
        text = body.encode()
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

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.lock = threading.Lock()
        self.running = self.read = self.made = 0

    def work(self, more: int) -> None:
        """Compute, or not, on all hosts."""
        if select.select(self.workers, [], [], 0)[0]:
            os._exit(1)
        with self.lock:
            self.running += more
            for worker in self.workers:
                worker.sendall(b"1" if self.running else b"0")
            (self.working.set if self.running else self.working.clear)()

    def count(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Count the tokens of an answer."""
        with self.lock:
            self.read += prompt_tokens
            self.made += completion_tokens

    def metrics(self) -> str:
        """Return the counters as Prometheus reads them."""
        told = {"prompt_tokens_total": self.read, "generation_tokens_total": self.made}
        told |= {"num_requests_running": self.running, "num_requests_waiting": 0}
        return "".join(f'vllm:{name}{{engine="0",model_name="{self.alias}"}} {told[name]:.1f}\n' for name in told)


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
