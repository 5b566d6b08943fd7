# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how long a client waits for the first token of a known long prompt after a restart of the server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from statistics import median
from typing import Any

from vepyc import VepycError
from vepyc.container import Container
from vepyc.figures import Bar, Figures

#: The least ratio of the wait without slot files to the wait with them.
BAR = Bar(">=", 10)
ROUNDS = 3
#: Sentences of the prompt, which have about 8,000 tokens.
SENTENCES = 570
INSTANCE = {"name": "chat", "port": 8080, "context": 10240, "slots": 1, "prompt_cache": "0MiB", "speculation": "none"}
#: The server is restarted more often than a host restarts a server.
MANY_STARTS = {"restart_limit": 1000}
#: Continues the prompt at standard input by one token; prints the seconds, the tokens of the prompt, and the token.
FIRST_TOKEN = """
import json, sys, time, urllib.request
body = {"prompt": sys.stdin.read(), "n_predict": 1, "temperature": 0, "seed": 1, "cache_prompt": True}
request = urllib.request.Request("http://127.0.0.1:8080/completion", json.dumps(body).encode())
begin = time.monotonic()
with urllib.request.urlopen(request, timeout=600) as answer:
    told = json.load(answer)
print(json.dumps([time.monotonic() - begin, told["tokens_evaluated"], told["content"]]))
"""


def measure_restarts(box: Container, serve: Callable[[dict[str, Any]], None], model: str, figures: Figures) -> None:
    """Print the wait for the first token after a restart, with and without slot files, and their ratio with a bar.

    ``serve`` puts an instance into service in the container. VepycError where the token is another than before.
    """
    prompt = " ".join(f"Room {number} has the key {number * 7919 % 9973}." for number in range(SENTENCES))
    waits = {}
    for name, options in (("without", {}), ("with", {"slot_files": "16GiB"})):
        serve({**INSTANCE, **MANY_STARTS, **options, "model": model})
        dummy, tokens, token = _time_first_token(box, prompt)
        seconds = []
        for dummy in range(ROUNDS):
            box.run("systemctl restart llama-chat.service")
            wait, dummy, again = _time_first_token(box, prompt)
            if again != token:
                raise VepycError(f"{name} slot files, the first token after a restart is {again!r}, and was {token!r}")
            seconds.append(wait)
        waits[name] = median(seconds)
        figures.print_figure(f"first_token_after_restart_{name}_slot_files", waits[name], f"s ({tokens} tokens)")
    figures.print_figure("first_token_without_over_with_slot_files", waits["without"] / waits["with"], "x", BAR)


def _time_first_token(box: Container, prompt: str) -> tuple[float, int, str]:
    seconds, tokens, token = json.loads(box.run(shlex.join(["python3", "-c", FIRST_TOKEN]), input=prompt).stdout)
    return float(seconds), int(tokens), str(token)
