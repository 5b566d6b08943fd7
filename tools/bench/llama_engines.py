# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the speed of ik_llama.cpp beside llama.cpp, with and without repacking at the start, on the same models.

It also measures whether an instance with default options is as fast as ``llama-server -m MODEL``, for both engines.
All instances of a model are in service at the same time, and only one of them is asked at a time. A ratio is the median
over rounds, in each of which every instance answers the same request.
"""

from __future__ import annotations

import json
import os
import random
import shlex
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from vepyc.container import Container
from vepyc.figures import Bar, Figures

ROUNDS = 5
#: Tokens of an answer, and words of a prompt.
TOKENS, WORDS = 64, 450
#: The first instance is what the others are compared with.
ENGINES: dict[str, dict[str, Any]] = {
    "llama_cpp": {"engine": "llama.cpp"},
    "ik": {"engine": "ik_llama.cpp"},
    "ik_repacked": {"engine": "ik_llama.cpp", "repack_at_start": True},
}
COMMON = {"context": 4096, "slots": 1, "prompt_cache": "0MiB", "checkpoints": 0, "speculation": "none"}
#: The rates of an answer by their names in figures.
RATES = {"prefill": "prompt_per_second", "decode": "predicted_per_second"}
#: Each plain server has a port of its own, since ik_llama.cpp does not start on one while the kernel keeps closed
#: connections of another server there.
FIRST_PORT, FIRST_PLAIN_PORT = 8080, 8090
#: The least ratio of the speed of a default instance to that of a plain server.
DEFAULT_BAR = Bar(">=", 0.97)
#: A machine with so many cores keeps one for the operating system, which costs speed, so its figures have no bar.
CORES_WITHOUT_BAR = 8
DEFAULT_ROUNDS = 25
#: Words of prompts. They are drawn at random, so that a server that looks tokens up in its text finds next to none.
SHORT_WORDS = "the a of to in is on at by as we he it or an if so no up do go me my us am be"
#: Starts a server as anybody would, and waits until it answers, or fails with its log when it ends. Each request has a
#: time limit, since ik_llama.cpp may leave one that comes while it loads the model without an answer.
START_PLAIN_SERVER = """
systemd-run --quiet --collect --unit=plain {server} -m {model} --port {port}
until python3 -c "import urllib.request as web; web.urlopen('http://127.0.0.1:{port}/health', timeout=2)" 2>/dev/null
do
    systemctl is-active --quiet plain || {{ journalctl --unit=plain --no-pager --lines=20; exit 1; }}
    sleep 0.5
done
"""
#: Sends the request at standard input to a port, and prints the timings of the answer.
ASK = """
import json, sys, urllib.request
request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/completion", sys.stdin.read().encode())
with urllib.request.urlopen(request, timeout=600) as answer:
    print(json.dumps(json.load(answer)["timings"]))
"""


def measure_engines(
    box: Container,
    serve: Callable[..., None],
    binaries: Mapping[str, str],
    models: Mapping[str, str],
    figures: Figures,
) -> None:
    """Print a row of a table for each model and engine, with its rates, and a figure for each ratio to llama.cpp.

    ``serve`` puts instances into service in the container, ``binaries`` has the path of the server of each engine, and
    ``models`` the paths of models by their names in figures.
    """
    print(f"| model | server | {' | '.join(RATES)} |", flush=True)
    for model_name, path in models.items():
        instances = [
            {"name": name.replace("_", "-"), "port": FIRST_PORT + at, "model": path, **COMMON, **options}
            for at, (name, options) in enumerate(ENGINES.items())
        ]
        serve(*({**instance, "binary": binaries[instance["engine"]]} for instance in instances))
        # The first round warms the servers up.
        rounds = [_measure_round(box, number) for number in range(ROUNDS + 1)][1:]
        first, *others = ENGINES
        ratios = {
            (name, rate): median(measured[name][rate] / measured[first][rate] for measured in rounds)
            for name in ENGINES
            for rate in RATES
        }
        for name in ENGINES:
            cells = [
                f"{median(measured[name][rate] for measured in rounds):.1f} tokens/s ({ratios[name, rate]:.2f})"
                for rate in RATES
            ]
            print(f"| {model_name} | {name} | {' | '.join(cells)} |", flush=True)
        for name in others:
            for rate in RATES:
                figures.print_figure(f"{model_name}_{name}_over_{first}_{rate}", ratios[name, rate], "x")


def _measure_round(box: Container, number: int) -> dict[str, dict[str, float]]:
    """Return the rates of each instance, which answer the same request one after the other."""
    prompt = " ".join(f"Room {key} has the key {key * 7919 % 9973}." for key in range(number, number + WORDS // 6))
    return {name: _measure_rates_of_one_answer(box, FIRST_PORT + at, prompt) for at, name in enumerate(ENGINES)}


def _measure_rates_of_one_answer(box: Container, port: int, prompt: str) -> dict[str, float]:
    """Return the rates of an answer of the server at a port."""
    body = {"prompt": prompt, "n_predict": TOKENS, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
    command = shlex.join(["python3", "-c", ASK, str(port)])
    timings = json.loads(box.run(command, input=json.dumps(body), timeout=600).stdout)
    return {rate: float(timings[key]) for rate, key in RATES.items()}


def measure_default_instances(
    box: Container, serve: Callable[[dict[str, Any]], None], binaries: Mapping[str, str], model: str, figures: Figures
) -> None:
    """Print the rates of an instance with default options over those of a plain server, for each engine, with a bar.

    ``serve`` puts an instance into service in the container, with the default number of cores for the operating system.
    """
    bar = DEFAULT_BAR if (os.cpu_count() or 1) < CORES_WITHOUT_BAR else None
    default_port = FIRST_PORT
    for plain_port, (engine, binary) in enumerate(binaries.items(), start=FIRST_PLAIN_PORT):
        serve({"name": "chat", "port": default_port, "model": model, "binary": binary})
        box.run(START_PLAIN_SERVER.format(server=binary, model=model, port=plain_port), timeout=300)
        rounds = []
        for number in range(DEFAULT_ROUNDS + 1):
            prompt = " ".join(random.Random(number).choices(SHORT_WORDS.split(), k=WORDS))
            ports = (default_port, plain_port) if number % 2 else (plain_port, default_port)
            rounds.append({port: _measure_rates_of_one_answer(box, port, prompt) for port in ports})
        box.run("systemctl stop plain")
        for rate in RATES:
            ratios = [rates[default_port][rate] / rates[plain_port][rate] for rates in rounds[1:]]
            name = f"default_instance_over_plain_{rate}_{engine.replace('.', '_')}"
            figures.print_figure(name, median(ratios), "x", bar)
