#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures how long a draft should be: accepted tokens by length and temperature, best lengths by model size and host.

First a real llama-server generates texts at several temperatures with a small model, and with the same model in 2 bits
as draft model. The tokens of each step do not depend on the machine's speed. Then the planner of instances computes the
best draft lengths for large models on other hosts from the measured acceptance rates.

Run as `make bench-draft`, as root. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import built_in_prompts
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._models.token_cost import TokenWork
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import json_request
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan import draft_estimate
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from tools.bench.llama_root import debian_command_line, running_llama_server
from tools.bench.measurement import run_measurement
from vepyc.figures import Bar, Figures
from vepyc.llama.llama_cpp import ensure_llama, ensure_model
from vepyc.paths import ensure_directory, run_tool

NAME = "bench-draft"
TEMPERATURES = (0.0, 0.7, 1.0)
LENGTHS = (2, 4, 8)
TOKENS = 48
TEXTS = tuple(text for kind in built_in_prompts.PROMPT_TEXTS.values() for text in kind)
MACHINES = ("9754", "9354", "9655")
#: Gigabytes of weights in Q4_K_M and billions of parameters: of models by name, and of a draft model.
SIZES = {"8B": (4.9, 8.0), "32B": (19.8, 32.8), "70B": (42.5, 70.6), "405B": (243.0, 405.9)}
DRAFT = (0.81, 1.24)


def measure_draft_acceptance(figures: Figures, server: Sequence[str]) -> dict[float, float]:
    """Print tokens per step by length and temperature; return the accepted share of short drafts by temperature."""
    shares: dict[float, float] = {}
    for length in LENGTHS:
        with running_llama_server(NAME, *server, "--spec-draft-n-max", str(length)) as url:
            for temperature in TEMPERATURES:
                generated, drafted, accepted = generate_and_count_tokens(url, temperature)
                figures.print_figure(
                    f"tokens_per_step_t{temperature:g}_k{length}", generated / (generated - accepted), "tokens"
                )
                figures.print_figure(f"accepted_t{temperature:g}_k{length}", 100 * accepted / drafted, "%")
                shares.setdefault(temperature, accepted / drafted)
    # The draft model proposes the most probable token, which a model at a high temperature takes less often.
    figures.print_figure("accepted_warm_over_cold", shares[TEMPERATURES[-1]] / shares[0.0], "x", Bar("<", 1))
    return shares


def generate_and_count_tokens(url: str, temperature: float) -> tuple[int, int, int]:
    """Return the numbers of generated, drafted and accepted tokens over all texts."""
    generated = drafted = accepted = 0
    for text in TEXTS:
        body = {"prompt": text, "n_predict": TOKENS, "temperature": temperature, "seed": 1, "ignore_eos": True}
        timings = json_request.post_json(url, "/completion", body, time.monotonic() + 300, None)["timings"]
        generated += timings["predicted_n"]
        drafted += timings.get("draft_n", 0)
        accepted += timings.get("draft_n_accepted", 0)
    return generated, drafted, accepted


def print_best_draft_lengths(figures: Figures, shares: dict[float, float]) -> None:
    """Print the best draft length for each model size and host, and its computed gain, with these accepted shares."""
    draft = TokenWork(DRAFT[0] * 1e9, DRAFT[1] * 1e9)
    for machine in MACHINES:
        top = Host(hosts.standing(machine).fs).topology
        box = draft_estimate.count_cores_and_bandwidth(top, top.online, [node.id for node in top.nodes])
        for size, (gigabytes, billions) in SIZES.items():
            for temperature, share in shares.items():
                start = draft_estimate.estimate_best_draft_length(
                    TokenWork(gigabytes * 1e9, billions * 1e9), draft, box, box, share
                )
                name = f"{machine}_{size}_t{temperature:g}"
                figures.print_figure(f"length_{name}", start.draft_max, "tokens")
                figures.print_figure(f"gain_{name}", start.rate / start.rate_without_draft, "x")


def measure_all(figures: Figures) -> None:
    """Measure acceptance rates, and print every figure."""
    programs, model = ensure_llama() / "bin", ensure_model()
    with tempfile.TemporaryDirectory(dir=ensure_directory("models")) as folder:
        draft = Path(folder, "draft.gguf")
        words = [str(programs / "llama-quantize"), "--allow-requantize", str(model), str(draft), "Q2_K"]
        run_tool(debian_command_line(NAME, *words), ensure_directory("logs") / f"{NAME}.log")
        words = [str(programs / "llama-server"), "--model", str(model), "--ctx-size", "2048", "--parallel", "1"]
        words += ["--spec-type", "draft-simple", "--spec-draft-model", str(draft), "--spec-draft-p-min", "0"]
        print_best_draft_lengths(figures, measure_draft_acceptance(figures, words))


if __name__ == "__main__":
    sys.exit(run_measurement(NAME, measure_all))
