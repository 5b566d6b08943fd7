#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast a llama-server is with the plan of an instance, against the same one with its own defaults.

All servers run at the same time and are asked in turns, one at a time. A figure is the median over all rounds of the
ratio of generated tokens per second in one round, so that what else goes on hits both sides. The real llama.cpp and the
real small model of the lab serve on this machine's own processor, which llama.cpp is built for.

Run as `make bench-llama`, as root for the arms with huge pages. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from tools.llama_arms import Answer, Arm, Server, huge_pages, served
from tools.llama_prompts import PROMPTS
from tools.llama_root import run_in_debian
from vepyc import VepycError
from vepyc.figures import Bar, Figures
from vepyc.llama import NATIVE, ensure_llama, ensure_wide_model

PLAIN, DEFAULT = "plain", "default"
ARMS = (
    Arm(PLAIN),
    Arm(DEFAULT, PLAIN),
    Arm("no_speculation", PLAIN, {"speculation": "none"}),
    Arm("ngram_3_6", PLAIN, {"ngram_lookup": 3, "ngram_max": 6}),
    Arm("ngram_4_8", PLAIN, {"ngram_lookup": 4, "ngram_max": 8}),
    Arm("ngram_8_24", PLAIN, {"ngram_lookup": 8, "ngram_max": 24}),
    Arm("housekeeping", PLAIN, intent={}),
    Arm("hugepages_thp", DEFAULT, {"hugepages": "thp"}),
    Arm("hugepages_pool", DEFAULT, {"hugepages": "pool"}),
    Arm("hugepages_hugetlbfs", DEFAULT, {"hugepages": "hugetlbfs"}),
)
BARS = {
    (DEFAULT, "prose"): Bar(">=", 0.97),
    (DEFAULT, "code_edit"): Bar(">=", 1.3),
    (DEFAULT, "summary"): Bar(">=", 1.3),
}
#: Processors that all servers together use while none is asked, and all other programs while they are.
IDLE = Bar("<=", 0.05)
OTHERS = Bar("<=", 0.2)

#: The answers of an arm to the prompts of a kind, round by round.
Answers = dict[tuple[str, str], list[list[Answer]]]


def rate(answers: Sequence[Answer]) -> float:
    """Generated tokens per second."""
    return sum(answer.tokens for answer in answers) / sum(answer.milliseconds for answer in answers) * 1000


def ratios(answers: Answers, arm: Arm, kind: str) -> list[float]:
    """How many times as fast as the other an arm was in each round."""
    ours, others = answers[arm.name, kind], answers[str(arm.against), kind]
    return [rate(mine) / rate(other) for mine, other in zip(ours, others, strict=True)]


def ask_all(servers: Mapping[str, Server], rounds: int) -> Answers:
    """Ask every server every prompt, in turns, and in the opposite order in every second round."""
    answers: Answers = {(name, kind): [] for name in servers for kind in PROMPTS}
    for server in servers.values():
        server.ask(PROMPTS["prose"][0])
    for number in range(rounds):
        order = list(servers)[:: -1 if number % 2 else 1]
        for kind, prompts in PROMPTS.items():
            for name in order:
                answers[name, kind].append([servers[name].ask(prompt) for prompt in prompts])
    return answers


class Watch:
    """How many processors the servers used, and how many all other programs, since it was made."""

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = list(servers.values())
        self._before = self._seconds()

    def used(self) -> tuple[float, float]:
        """The processors of the servers, and of all others with this program itself."""
        wall, servers, everybody = (now - then for now, then in zip(self._seconds(), self._before, strict=True))
        return servers / wall, (everybody - servers) / wall

    def _seconds(self) -> tuple[float, float, float]:
        words = Path("/proc/stat").read_text().split()[1:9]
        busy = sum(int(word) for at, word in enumerate(words) if at not in (3, 4))  # idle, and waiting for a disk
        servers = sum(server.processor_seconds() for server in self._servers)
        return time.monotonic(), servers, busy / os.sysconf("SC_CLK_TCK")


def show(figures: Figures, arms: Sequence[Arm], answers: Answers) -> None:
    """Print all figures, and then the same as the table that docs/llama-benchmarks.md has."""
    print_texts(arms, answers)
    rows = []
    for arm in arms:
        if arm.against is None:
            continue
        cells = []
        for kind in PROMPTS:
            found = ratios(answers, arm, kind)
            figures.show(f"{arm.name}_against_{arm.against}_{kind}", median(found), "x", BARS.get((arm.name, kind)))
            drafted = sum(answer.drafted for answer in answers[arm.name, kind][0])
            accepted = sum(answer.accepted for answer in answers[arm.name, kind][0])
            cells.append(f"{median(found):.2f} ({min(found):.2f} to {max(found):.2f}), {accepted} of {drafted}")
        rows.append([arm.name, arm.against, *cells])
    print("\n| Arm | Against | " + " | ".join(kind.replace("_", " ") for kind in PROMPTS) + " |")
    print("| --- " * (2 + len(PROMPTS)) + "|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def print_texts(arms: Sequence[Arm], answers: Answers) -> None:
    """Print where the answer of an arm first differs from that of the arm it is compared with."""
    for arm in arms:
        for kind, prompts in PROMPTS.items() if arm.against else ():
            for number in range(len(prompts)):
                mine, other = (answers[name, kind][-1][number].text for name in (arm.name, str(arm.against)))
                if mine != other:
                    same = next(
                        (n for n, (one, two) in enumerate(zip(mine, other, strict=False)) if one != two),
                        min(len(mine), len(other)),
                    )
                    print(
                        f"text {arm.name} {kind} {number + 1}: as {arm.against} for {same} of {len(other)} characters"
                    )


def measure(figures: Figures, binary: Path, model: Path, rounds: int) -> None:
    """Start all servers that this machine can have, ask them, and show every figure."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        stack.enter_context(huge_pages(binary, model, folder))
        servers: dict[str, Server] = {}
        for arm in ARMS:
            try:
                servers[arm.name] = stack.enter_context(served(arm, binary, model, folder))
            except TuningError as error:
                print(f"left out {arm.name}: {error}", flush=True)
                figures.missed |= any(name == arm.name for name, dummy in BARS)
        watch = Watch(servers)
        time.sleep(2)
        figures.show("idle_servers", watch.used()[0], "processors", IDLE)
        watch = Watch(servers)
        arms = [arm for arm in ARMS if arm.name in servers and arm.against in (None, *servers)]
        answers = ask_all({arm.name: servers[arm.name] for arm in arms}, rounds)
        # Threads that wait for each other are slowed down by orders of magnitude when others take their processors.
        figures.show("other_programs", watch.used()[1], "processors", OTHERS)
        for name, server in servers.items():
            for kind, least in server.huge.items():
                figures.show(f"{name}_in_huge_pages", server.huge_mebibytes(kind), "MiB", Bar(">=", least))
        show(figures, arms, answers)


def main() -> int:
    """Print one line for each figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--binary", type=Path, help="another llama-server than that of the lab; needs --model")
    parser.add_argument("--model", type=Path, help="another model than that of the lab, in a folder of the lab")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    # What was reserved is given back when a person or a job ends this.
    signal.signal(signal.SIGTERM, lambda *dummy: sys.exit(1))
    figures = Figures()
    try:
        if not asked.binary:
            binary, model = ensure_llama(NATIVE) / "bin/llama-server", asked.model or ensure_wide_model()
            words = ["--binary", binary, "--model", model, "--rounds", asked.rounds]
            run_in_debian("tools/bench_llama.py", *map(str, words))
        measure(figures, asked.binary, asked.model, asked.rounds)
    except VepycError as error:
        print(f"bench-llama: {error}", file=sys.stderr)
        return 1
    return int(figures.missed)


if __name__ == "__main__":
    sys.exit(main())
