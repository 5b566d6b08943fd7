# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stands in for vllm.entrypoints.openai.api_server: its arguments as recorded, its binding, its key, and work to see.

A process on each CPU of VLLM_CPU_OMP_THREADS_BIND computes while a request is answered, up to 10 seconds or until the
client hangs up. It serves nothing a model would say.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import re
import select
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
        self.server.working.set()
        while time.monotonic() < end and not select.select([self.connection], [], [], 0.1)[0]:
            pass
        self.server.working.clear()
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


def main() -> None:
    words = sys.argv[1:]
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
    server = Server((flags["--host"], int(flags["--port"])), Handler)
    server.alias, server.key = flags["--served-model-name"], os.environ.get("VLLM_API_KEY")
    server.working = multiprocessing.Event()
    for cpu in cpus(os.environ["VLLM_CPU_OMP_THREADS_BIND"]):
        multiprocessing.Process(target=compute, args=(cpu, server.working), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
