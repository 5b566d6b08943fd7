# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures whether an instance with default options is as fast as ``llama-server -m MODEL``, for both engines.

Both servers stand at the same time, and are asked in turn, so that what else the machine does slows both down. On a
machine with a few cores, the default must leave none of them to the operating system.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from vepyc.container import Container
from vepyc.figures import Bar, Figures

#: The least ratio of the speed of the default instance to that of the plain server.
BAR = Bar(">=", 0.97)
#: Machines with at least so many cores keep one for the operating system, which costs speed, so they have no bar.
CORES_WITHOUT_BAR = 8
ROUNDS = 9
PORT, PLAIN_PORT = 8080, 8090
SPEEDS = {"prefill": "prompt_per_second", "decode": "predicted_per_second"}
#: Asks both servers in turn with prompts that no server has seen; prints for each round the speeds of both. The words
#: of a prompt are drawn at random, so that a server that looks tokens up in its text finds next to none.
ASK = """
import json, random, sys, urllib.request

def ask(port, prompt):
    body = {"prompt": prompt, "n_predict": 64, "ignore_eos": True, "temperature": 0, "seed": 1, "cache_prompt": False}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["timings"]

ports, rounds, words = json.loads(sys.argv[1]), int(sys.argv[2]), sys.stdin.read().split()
# The first round warms up and is not printed.
for number in range(rounds + 1):
    prompt = " ".join(random.Random(number).choices(words, k=700))
    timings = {port: ask(port, prompt) for port in (ports if number % 2 else ports[::-1])}
    if number:
        print(json.dumps([timings[port] for port in ports]))
"""
#: Starts a server as anybody would, and waits until it answers.
PLAIN = """
systemctl stop plain 2>/dev/null
systemd-run --quiet --collect --unit=plain {server} -m {model} --port {port}
until python3 -c "import urllib.request as web; web.urlopen('http://127.0.0.1:{port}/health')" 2>/dev/null
do sleep 0.5; done
"""


def measure_default_instance(
    box: Container, serve: Callable[[dict[str, Any]], None], servers: Mapping[str, str], model: str, figures: Figures
) -> None:
    """Print the speed of a default instance over that of a plain server, for each engine, with a bar.

    ``serve`` puts an instance into service in the container, ``servers`` has the program of each engine.
    """
    bar = BAR if (os.cpu_count() or 1) < CORES_WITHOUT_BAR else None
    words = "the a of to in is on at by as we he it or an if so no up do go me my us am be"
    for engine, server in servers.items():
        serve({"name": "chat", "port": PORT, "model": model, "binary": server})
        box.run(PLAIN.format(server=server, model=model, port=PLAIN_PORT), timeout=300)
        command = ["python3", "-c", ASK, json.dumps([PORT, PLAIN_PORT]), str(ROUNDS)]
        lines = box.run(shlex.join(command), input=words, timeout=3600).stdout.splitlines()
        box.run("systemctl stop plain")
        rounds = [json.loads(line) for line in lines]
        for name, key in SPEEDS.items():
            ratio = median(default[key] / plain[key] for default, plain in rounds)
            figures.print_figure(f"default_instance_over_plain_{name}_{engine}", ratio, "x", bar)
