#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures what an instance gains over a plain llama-server, with the playbooks that a user would run.

A container on this machine's own processor is the host: site.yml puts a real llama-server and a real small model into
service there, benchmark.yml says how fast they are, and ablation.yml which options pay. The plain server is `stock` of
the ablation: the same service without options for its computation. A figure is the median over the rounds that
confirm. The files of both runs and their pages are in build/bench-llama afterwards.

Run as `make bench-llama`, as root, on a machine that does nothing else. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.ablation_report import ablation_headline
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from vepyc import VepycError
from vepyc.container import running_container
from vepyc.figures import Bar, Figures
from vepyc.llama.llama_cpp import NATIVE, ensure_llama, ensure_wide_model
from vepyc.playbook_runs import clean_environment, quick_ansible_variables

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build/bench-llama"
BUILD, MODELS = "/opt/built", "/srv/models"
#: What the gain of the defaults over a plain server has to be, by kind of prompt.
BARS = {"prose": 1.0, "code_edit": 1.6, "summary": 1.5}
#: Seconds between two looks of Ansible at its own tasks. It runs on the processor that it has measured, and at every
#: look takes time from it: with the 0.01 s of ansible.cfg so much that most rounds are void.
POLL = "0.5"
#: A core for the operating system is one of a hundred on an EPYC, and one of two on a small machine.
ASKED: dict[str, Any] = {
    "epyc_plan_housekeeping": {"cores": 0},
    "epyc_steps": ["base", "llama"],
    "epyc_llama_binary": f"{BUILD}/bin/llama-server",
}
#: No prompt comes twice, so memory for a cache of prompts would be reserved in vain.
INSTANCE = {"name": "chat", "port": 8080, "context": 4096, "slots": 1, "prompt_cache": "0MiB", "checkpoints": 0}


def run_playbook(inventory: Path, name: str, **variables: Any) -> None:
    """Run a playbook, and print its output."""
    command = ["ansible-playbook", "-i", str(inventory), f"playbooks/{name}.yml", "-e", json.dumps(variables)]
    environment = clean_environment(**quick_ansible_variables(), ANSIBLE_INTERNAL_POLL_INTERVAL=POLL)
    if subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL).returncode:
        raise VepycError(f"{name}.yml failed; what it said is above, and files of runs are in {KEPT}")


def run_measurement(inventory: Path, kind: str, **options: Any) -> None:
    """Run a playbook that measures, with these options, and return the file of its run."""
    options["folder"] = str(KEPT / kind)
    run_playbook(inventory, kind, **{f"{kind}_{name}": value for name, value in options.items()})


def run_of(kind: str) -> Path:
    """Return the file of the only run of a kind."""
    (found,) = KEPT.glob(f"{kind}/*.json")
    return found


def main() -> int:
    """Measure, and print a line for each figure; return 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=90, help="of the ablation; the more, the more it decides")
    parser.add_argument("--knobs", nargs="*", help="leave out only these options of the instance")
    parser.add_argument("--kinds", nargs="*", choices=[*BARS], default=[*BARS], help="of prompts; all by default")
    parser.add_argument("--tokens", type=int, help="of an answer; fewer make a run shorter, and scatter more")
    options = parser.parse_args()
    figures = Figures()
    try:
        build, model = ensure_llama(NATIVE), ensure_wide_model()
        shutil.rmtree(KEPT, ignore_errors=True)
        with (
            running_container("bench-llama", {build: BUILD, model.parent: MODELS}) as box,
            tempfile.TemporaryDirectory() as place,
        ):
            hosts = Path(place, "hosts.json")
            instance = {**INSTANCE, "model": f"{MODELS}/{model.name}"}
            variables = {**box.inventory_variables(), **ASKED, "epyc_llama_instances": [instance]}
            hosts.write_text(json.dumps({"all": {"hosts": {box.name: variables}}}))
            run_playbook(hosts, "site")
            questions = {
                "streams": [],
                "kinds": options.kinds,
                **({"tokens": options.tokens} if options.tokens else {}),
            }
            knobs = {"knobs": options.knobs} if options.knobs else {}
            run_measurement(hosts, "benchmark", **questions)
            run_measurement(hosts, "ablation", minutes=options.minutes, **questions, **knobs)
            for kind in ("benchmark", "ablation"):
                run = run_of(kind)
                run_playbook(hosts, "analyse", epyc_analyse_file=str(run), epyc_analyse_page=str(KEPT / f"{kind}.html"))
        judgement = Judgement(json.loads(run_of("ablation").read_text()))
        if not judgement.confirmation.confirmed:
            raise VepycError(
                f"{ablation_headline(judgement)} Give it more --minutes, or a machine that does nothing else."
            )
        fresh = [one for one in judgement.rounds if one.phase == schedule.CONFIRMATION]
        for kind in options.kinds:
            gains = measured_rounds.log_ratios(fresh, schedule.STOCK, (measured_rounds.DECODE, kind, 1))
            figures.print_figure(f"default_over_plain_{kind}", math.exp(median(gains)), "x", Bar(">=", BARS[kind]))
    except VepycError as error:
        print(f"bench-llama: {error}", file=sys.stderr)
        return 1
    return int(figures.missed)


if __name__ == "__main__":
    sys.exit(main())
