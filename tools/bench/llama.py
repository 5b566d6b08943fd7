#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures what an instance gains over a plain llama-server, with the playbooks that a user would run.

The host is a container on the CPU of this machine. site.yml starts a real llama-server with a real small model there,
benchmark.yml measures its speed, and ablation.yml measures which options pay. The plain server is the arm `stock` of
the ablation: the same service without options for its computation. A figure is the geometric mean over the rounds of
the confirmation, as in the report. Afterwards build/bench-llama has the documents of both runs and their pages. Then
the server is restarted with and without slot files, and a client waits for the first token of a prompt of 8,000 tokens,
and it is updated 30 times while clients send requests. Last, ik_llama.cpp answers beside llama.cpp, and an instance of
each engine with default options beside a plain server.

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
from statistics import mean
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.ablation_report import ablation_headline
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import measured_rounds, schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from tools.bench.llama_engines import measure_default_instances, measure_engines
from tools.bench.llama_restarts import measure_restarts
from tools.bench.llama_updates import PACKAGE_FOLDER, fetch_nftables_packages, measure_outages, measure_updates
from tools.bench.measurement import run_measurement
from vepyc import VepycError
from vepyc.container import running_container
from vepyc.figures import Bar, Figures
from vepyc.llama.llama_cpp import (
    NATIVE,
    ensure_deep_model,
    ensure_ik_llama,
    ensure_k_quantized_model,
    ensure_llama,
    ensure_wide_model,
)
from vepyc.playbook_runs import clean_environment, quick_ansible_variables, write_inventory
from vepyc.playbook_runs import run_playbook as run_playbook_for_results

#: What this program measures: speed over a plain server, the wait for a token after a restart, failed requests and
#: outages of updates, the speed of ik_llama.cpp beside llama.cpp, and that of default options beside plain servers.
PARTS = ("gains", "restarts", "updates", "outages", "engines", "default")
ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build/bench-llama"
BUILD, IK_BUILD, MODELS = "/opt/built", "/opt/ik", "/srv/models"
#: The least gain of the default options over a plain server, by kind of prompt. New prose has nothing to guess from, so
#: that its gain is 1; the means of ten rounds of the same arguments differ by up to 3 percent.
BARS = {"prose": 0.97, "code_edit": 1.6, "summary": 1.5}
#: Seconds between two polls of Ansible for the results of its tasks. Ansible runs on the CPU that is measured, and each
#: poll takes CPU time: with the 0.01 s of ansible.cfg most rounds would be discarded.
POLL = "0.5"
#: No core is reserved for housekeeping: that would be one of two cores on a small machine, and one of a hundred on an
#: EPYC.
VARIABLES: dict[str, Any] = {
    "epyc_plan_housekeeping": {"cores": 0},
    "epyc_steps": ["base", "llama"],
    "epyc_llama_binary": f"{BUILD}/bin/llama-server",
}
#: No prompt is sent twice, so a prefix cache would only take memory.
INSTANCE = {"name": "chat", "port": 8080, "context": 4096, "slots": 1, "prompt_cache": "0MiB", "checkpoints": 0}


def run_playbook(inventory: Path, name: str, **variables: Any) -> None:
    """Run a playbook, and print its output."""
    command = ["ansible-playbook", "-i", str(inventory), f"playbooks/{name}.yml", "-e", json.dumps(variables)]
    environment = clean_environment(**quick_ansible_variables(), ANSIBLE_INTERNAL_POLL_INTERVAL=POLL)
    if subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL).returncode:
        raise VepycError(f"{name}.yml failed; its output is above, and documents of runs are in {RESULTS}")


def run_measuring_playbook(inventory: Path, kind: str, **options: Any) -> Path:
    """Run the playbook of a kind of run with these options of the playbook; return the document of the run."""
    options["folder"] = str(RESULTS / kind)
    run_playbook(inventory, kind, **{f"epyc_{kind}_{name}": value for name, value in options.items()})
    (document,) = RESULTS.glob(f"{kind}/*.json")
    return document


def measure_gains(inventory: Path, options: argparse.Namespace, figures: Figures) -> None:
    """Print what the default options gain over a plain server, for each kind of prompt."""
    load = {"streams": [], "kinds": options.kinds, **({"tokens": options.tokens} if options.tokens else {})}
    limits = {"minutes": options.minutes, **({"knobs": options.knobs} if options.knobs else {})}
    for kind, kind_options in (("benchmark", load), ("ablation", {**load, **limits})):
        document = run_measuring_playbook(inventory, kind, **kind_options)
        page = str(RESULTS / f"{kind}.html")
        run_playbook(inventory, "analyse", epyc_analyse_file=str(document), epyc_analyse_page=page)
    judgement = Judgement(json.loads(document.read_text()))
    if not judgement.confirmation.confirmed:
        raise VepycError(f"{ablation_headline(judgement)} Give it more --minutes, or a machine that does nothing else.")
    rounds = [measured for measured in judgement.rounds if measured.phase == schedule.CONFIRMATION]
    for kind in options.kinds:
        gains = measured_rounds.log_ratios_of_counting_rounds(rounds, schedule.STOCK, (measured_rounds.DECODE, kind, 1))
        figures.print_figure(f"default_over_plain_{kind}", math.exp(mean(gains)), "x", Bar(">=", BARS[kind]))


def main() -> int:
    """Measure, and print a line for each figure; return 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=90, help="of the ablation; the more, the more it decides")
    parser.add_argument("--knobs", nargs="*", help="leave out only these options of the instance")
    parser.add_argument("--kinds", nargs="*", choices=[*BARS], default=[*BARS], help="of prompts; all by default")
    parser.add_argument("--tokens", type=int, help="of an answer; fewer make a run shorter, and scatter more")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=PARTS, help="of this program; all by default")
    options = parser.parse_args()

    def measure_all(figures: Figures) -> None:
        build, model = ensure_llama(NATIVE), ensure_wide_model()
        ik_builds = {ensure_ik_llama(): IK_BUILD} if {"engines", "default"}.intersection(options.parts) else {}
        shutil.rmtree(RESULTS, ignore_errors=True)
        with (
            running_container(
                "bench-llama",
                {build: BUILD, model.parent: MODELS, fetch_nftables_packages(): PACKAGE_FOLDER, **ik_builds},
            ) as box,
            tempfile.TemporaryDirectory() as place,
        ):
            model_path = f"{MODELS}/{model.name}"
            instance = {**INSTANCE, "model": model_path}
            variables = {**box.inventory_variables(), **VARIABLES, "epyc_llama_instances": [instance]}
            hosts = write_inventory(Path(place), {box.name: variables})

            def serve(*others: dict[str, Any]) -> None:
                run_playbook(hosts, "site", epyc_llama_instances=others)

            def serve_with_default_plan(other: dict[str, Any]) -> None:
                run_playbook(hosts, "site", epyc_llama_instances=[other], epyc_plan_housekeeping={})

            def update(other: dict[str, Any]) -> list[dict[str, Any]]:
                variables = json.dumps({"epyc_llama_instances": [other]})
                played = run_playbook_for_results(hosts.parent, "playbooks/site.yml", "-e", variables)
                if played.returncode:
                    raise VepycError(f"site.yml failed: {played.output}")
                return list(played["Run the instances"]["restarts"])

            if "gains" in options.parts:
                run_playbook(hosts, "site")
                measure_gains(hosts, options, figures)
            if "restarts" in options.parts:
                measure_restarts(box, serve, model_path, figures)
            if "updates" in options.parts:
                measure_updates(box, update, model_path, figures)
            if "outages" in options.parts:
                measure_outages(update, f"{MODELS}/{ensure_deep_model().name}", figures)
            binaries = {"llama.cpp": f"{BUILD}/bin/llama-server", "ik_llama.cpp": f"{IK_BUILD}/bin/llama-server"}
            if "engines" in options.parts:
                paths = {"bf16": model_path, "q4_k": f"{MODELS}/{ensure_k_quantized_model().name}"}
                measure_engines(box, serve, binaries, paths, figures)
            if "default" in options.parts:
                measure_default_instances(box, serve_with_default_plan, binaries, model_path, figures)

    return run_measurement("bench-llama", measure_all)


if __name__ == "__main__":
    sys.exit(main())
