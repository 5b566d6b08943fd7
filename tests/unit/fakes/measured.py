# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An instance that can be measured: its unit and counters on a tree of kernel files, and a server that moves them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench import run
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory import bandwidth
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory.bandwidth import Bandwidth
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import measuring_run
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import instance_items, metrics

from . import ggufs
from .instances import Instances
from .servers import say, serving

UNIT = "/sys/fs/cgroup/system.slice/llama-chat.service"
#: Tokens of each prompt, and the milliseconds that the server tells for it and for each token.
PROMPT, PROMPT_MS, TOKEN_MS = 20, 100.0, 10.0
#: Bytes of the weights, and the bandwidth that is said to be measured.
WEIGHTS, GBPS = 400 << 20, 100.0


class Measured(Instances):
    """One instance chat of two slots, which answers at once and says that it took its time.

    ``before_answer`` is called with the number of each request to ``/completion``; ``drafted`` and ``accepted`` are of
    each answer.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.slots = 2
        self.drafted, self.accepted = 4, 3
        self.before_answer: Callable[[int], None] = lambda number: None
        self.asked: list[dict[str, Any]] = []
        self.counters = {"prompt_tokens_total": 1000, "tokens_predicted_total": 500, "requests_processing": 0}
        self.used = 40.0
        self.others = 0.0
        #: Whether the connection ends in the middle of the answer.
        self.cut_off = False
        #: The largest number of tokens of a slot, None where the server does not say it, and whether the server keeps
        #: the beginning of a prompt.
        self.slot_context: int | None = None
        self.keeps_prefix = True
        self._last_prompt: Any = ""
        self.set_aside: list[set[int]] = []
        self._lock = threading.Lock()
        self.model = str(root / "model.gguf")
        ggufs.written(Path(self.model), WEIGHTS)
        self.service.tree.put("/proc/meminfo", "MemTotal: 99 kB\nMemAvailable: 99000000 kB")
        self.service.tree.put("/proc/uptime", "1234.5 99.0")
        self.service.tree.put("/proc/cmdline", "quiet")
        words = ["/opt/llama-server", "--model", self.model, "--parallel", "2"]
        self.service.tree.put("/proc/100/cmdline", "\0".join(words))
        self.put()

    def put(self) -> None:
        """Have the kernel count what was used so far."""
        ticks = round(100 * (5000 + self.used + self.others))
        self.service.tree.put(
            "/proc/stat", f"cpu  {ticks} 0 100 9000 7 2 3 10 0 0\ncpu0 {ticks} 0 100 9000 7 2 3 10 0 0"
        )
        self.service.tree.put("/proc/vmstat", "pgfault 9\npswpin 5\npswpout 2")
        self.service.tree.put(f"{UNIT}/cpu.stat", f"usage_usec {int(self.used * 1e6)}\nuser_usec 5\nsystem_usec 5")

    def ready(self) -> None:
        """Have a plan in the unit, with the model among its files."""
        self.planned(files={self.model: [1, 1]}, mapped=[self.model])

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        """Answer as a llama-server does."""
        if request.path == "/completion":
            self._complete(request)
            return
        if request.path == "/tokenize":
            body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
            say(request, 200, json.dumps({"tokens": list(range(len(body["content"]) // 5))}).encode())
            return
        metrics = "".join(f"llamacpp:{name} {value}\n" for name, value in self.counters.items())
        said = {
            "/health": json.dumps({"status": "ok"}),
            "/slots": json.dumps([{"id": number, "n_ctx": self.slot_context} for number in range(self.slots)]),
            "/props": json.dumps({"build_info": "b11434"}),
            "/metrics": metrics,
        }
        say(request, 200, said[request.path].encode())

    def _complete(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        tokens, cached = body["n_predict"], 0
        # A context of tokens comes before a text, and a second turn begins with the first one.
        prompt, context = body["prompt"], 0
        if isinstance(prompt, list):
            context = len(prompt) - 1
        with self._lock:
            self.asked.append(body)
            self.before_answer(len(self.asked))
            if body["cache_prompt"] and self.keeps_prefix:
                last = self._last_prompt
                if context:
                    cached = context if isinstance(last, list) and last[:context] == prompt[:context] else 0
                else:
                    cached = PROMPT if isinstance(last, str) and prompt.startswith(last) else 0
            self._last_prompt = prompt
            read = PROMPT + context - (cached if context else 0)
            self.counters["prompt_tokens_total"] += read
            self.counters["tokens_predicted_total"] += tokens
            # So much that the time of the test itself, which is taken off, is nothing beside it.
            self.used += 10_000
            self.put()
        timings = {
            "cache_n": cached,
            "prompt_n": read,
            "prompt_ms": PROMPT_MS * read / PROMPT,
            "predicted_n": tokens,
            "predicted_ms": TOKEN_MS * tokens,
            "draft_n": self.drafted,
            "draft_n_accepted": self.accepted,
        }
        request.send_response(200)
        request.end_headers()
        for number in range(tokens):
            request.wfile.write(f"data: {json.dumps({'content': f'{number} ', 'stop': False})}\n\n".encode())
        if not self.cut_off:
            request.wfile.write(f"data: {json.dumps({'content': '', 'stop': True, 'timings': timings})}\n\n".encode())

    def host(self) -> Host:
        return Host(self.service.tree.fs)


@contextmanager
def measured(root: Path, patch: pytest.MonkeyPatch) -> Iterator[Measured]:
    """A host whose one instance can be measured as long as the block lasts."""
    here = Measured(root)
    patch.setattr(instance_items, "read_unit_properties", here.show)
    patch.setattr(run, "FOLDER", str(root / "benchmarks"))
    patch.setattr(metrics, "BENCHMARK_SHARES", str(root / "measured.json"))
    patch.setattr(measuring_run, "STEP", str(root / "run/benchmark"))
    patch.setattr(measuring_run, "LOCK", str(root / "run/benchmark.lock"))
    patch.setattr(measuring_run, "ASKED", str(root / "run/benchmark.asked"))
    patch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    patch.setattr(os, "sched_setaffinity", lambda process, cpus: here.set_aside.append(set(cpus)))
    patch.setattr(
        bandwidth,
        "measure_bandwidth",
        lambda top, cpus, nodes, policy: Bandwidth(cpus, nodes, GBPS, "reader"),
    )
    with serving(here.serve) as server:
        here.url = server.url
        here.ready()
        yield here
