#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the load driver of the collection's benchmark with AIPerf, on a real llama-server with a real model.

Both drivers send the same prompts in turns, with 1 and with 4 streams. A figure is the median over all rounds of a
ratio: our median time over AIPerf's median time. The times are the time to first token and the time per token. Each
time has prompts and answers of its own in which it dominates, because with several streams the prompts of other streams
are part of the time per token.

Run as `make bench-driver`. AIPerf and its dependencies take more than a gigabyte in the cache. Exit code 1 when a
figure misses its bar.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load import built_in_prompts, closed_loop, prompts
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.load.answer import Answer, Server
from tools.bench.llama_root import running_llama_server
from tools.bench.measurement import run_measurement
from vepyc.figures import Bar, Figures
from vepyc.llama.llama_cpp import ensure_llama, ensure_model
from vepyc.paths import ensure_directory, run_tool
from vepyc.venvs import ensure_venv

AIPERF = "aiperf==0.13.0"
STREAMS = (1, 4)
#: Prompts and tokens of an answer for each time. The time to first token has the long prompts of a benchmark: after a
#: prompt of a few words it is about 20 ms, most of which the clients themselves take.
LOADS: dict[str, tuple[Sequence[str], int]] = {
    "ttft": (built_in_prompts.PROMPT_TEXTS["prose"], 16),
    "tpot": (("Once upon a time", "The old house", "In the morning", "Far from home"), 96),
}
REQUESTS = 12
#: The largest relative difference between our time and AIPerf's time.
MAX_DIFFERENCE = 0.03
#: A tokenizer that knows one word. AIPerf requires a tokenizer, although the server counts the tokens.
TOKENIZER = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
    "pre_tokenizer": {"type": "Whitespace"},
}
TOKENIZER_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}


def measure_latencies_with_own_driver(url: str, requests: Sequence[prompts.Prompt], streams: int) -> dict[str, float]:
    """Return median milliseconds to the first text and per token, as our driver measures them."""
    server = Server(url)
    answers: list[Answer]
    if streams == 1:
        answers = closed_loop.fetch_answers_sequentially(
            server, [requests[number % len(requests)] for number in range(REQUESTS)]
        )
    else:
        by_stream = closed_loop.fetch_answers_in_parallel(server, requests, streams, REQUESTS // streams)
        answers = [answer for stream in by_stream for answer in stream]
    return {"ttft": median(answer.ttft_ms for answer in answers), "tpot": median(answer.tpot_ms for answer in answers)}


def measure_latencies_with_aiperf(
    program: Path, url: str, folder: Path, requests: Sequence[prompts.Prompt], streams: int
) -> dict[str, float]:
    """Return median milliseconds to the first text and per token, as AIPerf measures them."""
    rows = ({"text": prompt.text, "output_length": prompt.tokens} for prompt in requests)
    (folder / "prompts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    out = folder / f"out-{time.monotonic_ns()}"
    command = [str(program), "profile", "--model", "model", "--url", url, "--streaming"]
    command += ["--endpoint-type", "completions"]
    command += ["--input-file", str(folder / "prompts.jsonl"), "--custom-dataset-type", "single-turn"]
    command += ["--concurrency", str(streams), "--request-count", str(REQUESTS), "--use-server-token-count"]
    extra = {"max_tokens": requests[0].tokens, "temperature": 0, "ignore_eos": "true", "cache_prompt": "false"}
    command += [word for name, value in extra.items() for word in ("--extra-inputs", f"{name}:{value}")]
    command += ["--use-legacy-max-tokens", "--tokenizer", str(folder / "tokenizer"), "--output-artifact-dir", str(out)]
    run_tool([*command, "--ui", "none"], ensure_directory("logs") / "aiperf.log")
    report = json.loads(next(out.rglob("profile_export_aiperf.json")).read_text())
    return {"ttft": float(report["time_to_first_token"]["p50"]), "tpot": float(report["inter_token_latency"]["p50"])}


def print_latency_ratios_of_drivers(figures: Figures, url: str, program: Path, folder: Path, rounds: int) -> None:
    """Measure with both drivers in turns, and print the ratio of each time for each number of streams."""
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer/tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "tokenizer/tokenizer_config.json").write_text(json.dumps(TOKENIZER_CONFIG))
    for name, (words, tokens) in LOADS.items():
        requests = [prompts.Prompt(prompts.USER_KIND, text, tokens) for text in words]
        measure_latencies_with_own_driver(url, requests, 1)
        for streams in STREAMS:
            ratios: list[float] = []
            for number in range(rounds):
                mine = measure_latencies_with_own_driver(url, requests, streams) if number % 2 else None
                other = measure_latencies_with_aiperf(program, url, folder, requests, streams)
                mine = mine or measure_latencies_with_own_driver(url, requests, streams)
                ratios.append(mine[name] / other[name])
            ratio = median(ratios)
            figures.print_figure(f"{name}_over_aiperf_{streams}_streams", ratio, "x")
            figures.print_figure(
                f"{name}_off_{streams}_streams", 100 * abs(ratio - 1), "%", Bar("<=", 100 * MAX_DIFFERENCE)
            )


def main() -> int:
    """Measure, and print a line for each figure; return 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()

    def measure_all(figures: Figures) -> None:
        program = ensure_venv(AIPERF) / "aiperf"
        words = [str(ensure_llama() / "bin/llama-server"), "--model", str(ensure_model())]
        words += ["--threads", "1", "--parallel", str(STREAMS[-1]), "--ctx-size", "4096"]
        with tempfile.TemporaryDirectory() as folder, running_llama_server("bench-driver", *words) as url:
            print_latency_ratios_of_drivers(figures, url, program, Path(folder), options.rounds)

    return run_measurement("bench-driver", measure_all)


if __name__ == "__main__":
    sys.exit(main())
