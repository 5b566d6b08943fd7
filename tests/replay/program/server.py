# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for llama-server of build 11434: its command line and its HTTP, with the speed that the truth says."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import socketserver
import sys
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from . import truth
from .arguments import Refused, Table
from .engine import Engine, Request
from .pace import Pace, Start

BUILD = "b11434-replay"
TRUTH = "LLAMA_REPLAY_TRUTH"
#: Tokens of an answer where the request names no number; a text of so many characters is a token.
TOKENS, CHARACTERS = 64, 4
#: So much of a model file is looked at, so that pages of it are in memory.
TOUCHED = 64 << 20
WORDS = ("river", "mill", "stone", "bridge", "green", "field", "quiet", "village", "grey", "sea", "ship", "wind")


class Server(socketserver.ThreadingTCPServer):
    """Listens, and knows the engine and how it was started."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, engine: Engine, arguments: Mapping[str, str]) -> None:
        self.engine = engine
        self.arguments = arguments
        self.context = int(arguments.get("--ctx-size", 4096)) // engine.slots
        super().__init__((arguments.get("--host", "127.0.0.1"), int(arguments.get("--port", 8080))), Handler)


class Handler(BaseHTTPRequestHandler):
    """Answers one request of a connection, and closes it."""

    protocol_version = "HTTP/1.1"
    # Each event is to leave at once.
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        """Tell of the server."""
        told = {"/health": self._health, "/props": self._props, "/slots": self._slots, "/metrics": self._metrics}
        path = self.path.partition("?")[0]
        if path not in told:
            self._refuse(404, "File Not Found")
        elif path == "/metrics" and "--metrics" not in self.server.arguments:
            self._refuse(501, "This server does not support metrics endpoint. Start it with `--metrics`")
        else:
            self._say(200, told[path]())

    def do_POST(self) -> None:
        """Go on with a text."""
        asked = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/completion":
            self._refuse(404, "File Not Found")
            return
        try:
            body = json.loads(asked)
            prompt, tokens = body["prompt"], int(body.get("n_predict", -1))
            prompt_n = len(prompt) if isinstance(prompt, list) else 1 + len(prompt) // CHARACTERS
        except (ValueError, KeyError, TypeError):
            self._refuse(400, "the request is not understood")
            return
        room = self.server.context - prompt_n
        if room < 1:
            self._refuse(400, "the request exceeds the available context size, try increasing it")
            return
        request = Request(prompt_n, min(room, tokens if tokens > 0 else TOKENS))
        self.server.engine.submit(request)
        (self._stream if body.get("stream") else self._whole)(request, _words(prompt), body)

    def _stream(self, request: Request, words: Iterator[str], body: Mapping[str, Any]) -> None:
        self.send_response(200)
        for name, value in (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")):
            self.send_header(name, value)
        self._end_of_head()
        more = bool(body.get("timings_per_token"))
        try:
            while (came := request.events.get()) is not None:
                for dummy in range(came):
                    event: dict[str, Any] = {"index": 0, "content": next(words), "stop": False}
                    self._send({**event, "timings": request.timings()} if more else event)
            self._send(self._final(request, ""))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            request.gone = True

    def _whole(self, request: Request, words: Iterator[str], body: Mapping[str, Any]) -> None:
        text = ""
        while (came := request.events.get()) is not None:
            text += "".join(next(words) for dummy in range(came))
        self._say(200, self._final(request, text))

    def _final(self, request: Request, text: str) -> dict[str, Any]:
        told = {"index": 0, "content": text, "stop": True, "stop_type": "limit", "truncated": False}
        counts = {"tokens_evaluated": request.prompt_n, "tokens_predicted": request.predicted_n, "tokens_cached": 0}
        return {**told, "model": self.server.arguments.get("--model"), **counts, "timings": request.timings()}

    def _health(self) -> Any:
        return {"status": "ok"}

    def _props(self) -> Any:
        model, slots = self.server.arguments.get("--model"), self.server.engine.slots
        settings = {"n_ctx": self.server.context}
        return {"build_info": BUILD, "model_path": model, "total_slots": slots, "default_generation_settings": settings}

    def _slots(self) -> Any:
        engine = self.server.engine
        told = {"n_ctx": self.server.context, "speculative": engine.speculates}
        busy = len(engine.seated)
        return [{"id": slot, **told, "is_processing": slot < busy} for slot in range(engine.slots)]

    def _metrics(self) -> str:
        engine = self.server.engine
        ended = engine.ended
        rows = {
            "prompt_tokens_total": ended["prompt_n"],
            "prompt_seconds_total": ended["prompt_ms"] / 1000,
            "tokens_predicted_total": ended["predicted_n"],
            "tokens_predicted_seconds_total": ended["predicted_ms"] / 1000,
            "spec_decode_num_drafts_total": ended["drafts"],
            "spec_decode_num_draft_tokens_total": ended["drafted"],
            "spec_decode_num_accepted_tokens_total": ended["accepted"],
            "requests_processing": len(engine.seated),
            "requests_deferred": len(engine.waiting),
        }
        return "".join(f"llamacpp:{name} {value}\n" for name, value in rows.items())

    def _refuse(self, status: int, why: str) -> None:
        self._say(status, {"error": {"code": status, "message": why, "type": "invalid_request_error"}})

    def _say(self, status: int, told: Any) -> None:
        data = (told if isinstance(told, str) else json.dumps(told)).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(told, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self._end_of_head()
        self.wfile.write(data)

    def _end_of_head(self) -> None:
        self.send_header("Connection", "close")
        self.end_headers()

    def _send(self, event: Mapping[str, Any]) -> None:
        data = f"data: {json.dumps(event)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *args: object) -> None:
        """Log nothing: a line in the journal for each request costs the host time."""


def serve(given: Mapping[str, str], table: Table) -> None:
    """Serve until the process is ended; Refused where it cannot begin."""
    if TRUTH not in os.environ:
        raise Refused(f"The environment names no truth: set {TRUTH} to the path of the file.")
    known = truth.read(os.environ[TRUTH], table)
    model = _mapped(given.get("--model"))
    taken = {name: value for name, value in given.items() if name not in known.ignores}
    cpus = _cpus(taken)
    threads = int(taken.get("--threads", -1))
    # A thread that spins hands the interpreter over to those that send.
    sys.setswitchinterval(0.0005)
    engine = Engine(
        Pace(known, taken, Start()),
        slots=int(taken.get("--parallel", 1)),
        threads=threads if threads > 0 else len(cpus or os.sched_getaffinity(0)),
        cpus=cpus,
        speculates=taken.get("--spec-type", "none") != "none",
    )
    with model, Server(engine, given) as server:
        print(f"{BUILD} replays {os.environ[TRUTH]} at port {server.server_address[1]}", flush=True)
        server.serve_forever()


def _cpus(given: Mapping[str, str]) -> set[int]:
    """Return the CPUs that the threads are pinned to, none where they may run on all."""
    mask = int(given.get("--cpu-mask", "0"), 16)
    return {cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1} if given.get("--cpu-strict") == "1" else set()


def _mapped(path: str | None) -> mmap.mmap:
    """Map a model, as the placement of its weights is looked at."""
    if path is None:
        raise Refused("error: --model is required")
    try:
        with open(path, "rb") as file:
            model = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except (OSError, ValueError) as error:
        raise Refused(f"error: failed to load model, '{path}': {error}") from None
    for at in range(0, min(len(model), TOUCHED), mmap.PAGESIZE):
        model[at]
    return model


def _words(prompt: object) -> Iterator[str]:
    """Yield the text that follows on a prompt, always the same one."""
    chosen = random.Random(hashlib.sha256(json.dumps(prompt).encode()).hexdigest())
    while True:
        yield f"{chosen.choice(WORDS)} "
