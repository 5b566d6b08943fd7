# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in for Prometheus that knows the queries of the page of what is served, and a made-up fleet for it."""

from __future__ import annotations

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import sin
from typing import Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._serving_page import serving_html


class Prometheus(ThreadingHTTPServer):
    """Answers each query of the page with the samples that are given for its name: labels and value."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        #: Tokens per second of each minute of the last hour.
        self.hour = [str(round(10 + 3 * sin(at / 9) + at / 60, 2)) for at in range(60)]
        #: What is answered to each query instead of its result, where it is not empty.
        self.body = b""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Prometheus

    def do_GET(self) -> None:
        path, dummy, words = self.path.partition("?")
        query = urllib.parse.parse_qs(words)["query"][0]
        (name,) = [name for name, text in serving_html.QUERIES.items() if text == query]
        found = self.server.samples.get(name, [])
        if path.endswith("/query_range"):
            hour = [[at, text] for at, text in enumerate(self.server.hour)]
            result: list[dict[str, Any]] = [{"metric": one, "values": hour} for one, dummy in found]
        else:
            result = [{"metric": one, "value": [0, str(number)]} for one, number in found]
        body = self.server.body or json.dumps({"status": "success", "data": {"result": result}}).encode()
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", "*")  # as Prometheus does by default
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *dummy: Any) -> None:
        """Say nothing."""


def make_fleet_metrics(hosts: int, model: str = "<b>m</b>") -> dict[str, list[tuple[dict[str, str], float]]]:
    """Hosts with one instance each; every tenth is down, and every seventh has drifted in two settings."""
    names = [f"epyc-{number:03d}" for number in range(1, hosts + 1)]
    of = {name: {"host": name, "service": "chat", "model": model} for name in names}
    up = [name for number, name in enumerate(names, 1) if number % 10]
    return {
        "up": [(of[name], int(name in up)) for name in names],
        "tokens": [(of[name], 12.5) for name in up],
        "busy": [(of[name], 2) for name in up],
        "seconds": [(of[name], 0.08) for name in up],
        "right": [(of[name], 0.75) for name in up],
        "cached": [(of[name], 0.6) for name in up],
        "ceiling": [({"host": name, "service": "chat"}, 0.55) for name in up],
        "memory": [({"host": name}, 250e9) for name in up],
        "drift": [({"host": name}, 2) for name in names[6::7]],
        "queue": [({}, 3)],
    }
