#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measures the gateway with real servers: its queue, hits of the prefix caches, and lost answers after a failure.

A container has HAProxy as playbooks/gateway.yml configures it, two real llama-servers with two slots and a small model,
and the clients. Figures of caches are shares of cached tokens, as the servers report them. The same turns are sent
twice: first each conversation stays on its host, then each request is a conversation of its own, which is plain
leastconn. The servers restart in between.

Run as `make bench-gateway`, as root. Exit code 1 when a figure misses its bar.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tools.bench.measurement import run_measurement
from vepyc import VepycError
from vepyc.container import Container, running_container
from vepyc.figures import Bar, Figures
from vepyc.images import debian_packages
from vepyc.llama.llama_cpp import NATIVE, ensure_llama, ensure_model
from vepyc.playbook_runs import clean_environment, quick_ansible_variables, write_inventory

ROOT = Path(__file__).resolve().parents[2]
CLIENTS, BUILD, MODELS, PACKAGES = "/srv/clients.py", "/opt/built", "/srv/models", "/srv/packages"
SERVERS = {"first": "10.9.0.1", "second": "10.9.0.2"}
PORT, SLOTS = 8081, 2
KEY, LIGHT_KEY = "key-of-the-bench", "key-of-the-light"
#: Addresses of two real hosts, and of a hundred hosts that do not exist.
HOSTS = {"h1": SERVERS["first"], "h2": SERVERS["second"]}
MANY = {f"m{number}": f"10.9.1.{number}" for number in range(100)}
VARIABLES: dict[str, Any] = {
    "epyc_gateway_bind": "127.0.0.1:8080",
    "epyc_gateway_plain_http": True,
    # A long timeout, so that a slow machine loses no request.
    "epyc_gateway_queue_timeout": "10m",
    "epyc_gateway_tenants": [
        {"name": name, "sha256": [hashlib.sha256(key.encode()).hexdigest()]}
        for name, key in (("bench", KEY), ("light", LIGHT_KEY))
    ],
}
#: The words of random texts of users.
WORDS = (
    *("core", "node", "socket", "cache", "memory", "channel", "thread", "page", "queue", "slot", "token", "prompt"),
    *("answer", "model", "weight", "layer", "batch", "draft", "server", "tenant", "stream", "latency", "interrupt"),
)
CONVERSATIONS, TURNS = 12, 5
#: The requests of a heavy tenant, which it sends at the same time, and of a light tenant, one after the other.
HEAVY, LIGHT = 60, 5
WATCHED = {
    **{name: (f"http://{address}:{PORT}/metrics", "llamacpp:requests_deferred ") for name, address in SERVERS.items()},
    "gateway": ("http://127.0.0.1:8405/metrics", 'haproxy_backend_current_queue{proxy="model_chat"}'),
}


class Fleet:
    """The container with gateway, servers and clients, and the actions of the benchmark."""

    def __init__(self, box: Container, folder: Path, model: str) -> None:
        self.box = box
        self.model = model
        instance = {"name": "a", "model": model, "port": PORT, "slots": SLOTS}
        members = {
            name: {"epyc_llama_instances": [{**instance, "alias": alias, "host": address}]}
            for alias, hosts in (("chat", HOSTS), ("many", MANY))
            for name, address in hosts.items()
        }
        self.inventory = write_inventory(folder, members, epyc_gateway={box.name: box.inventory_variables()})
        box.run(f"dpkg --install {PACKAGES}/*.deb")
        for address in SERVERS.values():
            box.run(f"ip address add {address}/32 dev lo")

    def configure_gateway(self, *hosts: str) -> float:
        """Configure the gateway for these hosts; return the CPU seconds of the playbook on this machine."""
        variables = json.dumps({**VARIABLES, "epyc_gateway_hosts": hosts})
        command = ["ansible-playbook", "-i", str(self.inventory), "playbooks/gateway.yml", "-e", variables]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        environment = clean_environment(**quick_ansible_variables())
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise VepycError(f"gateway.yml failed: {done.stdout[-4000:]}{done.stderr[-1000:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    def restart_servers(self) -> None:
        """Restart the servers with empty caches, and wait until the gateway sends requests to both."""
        for name in SERVERS:
            self.box.run(f"systemctl stop llama-{name}; systemctl reset-failed llama-{name}", check=False)
        self.run_client_program(up=0)
        for name, address in SERVERS.items():
            self.box.run(
                f"systemd-run --quiet --unit=llama-{name} {BUILD}/bin/llama-server --model {self.model} --alias chat"
                f" --host {address} --port {PORT} --parallel {SLOTS} --ctx-size 8192 --cache-ram 1024"
                " --threads 1 --threads-batch 1 --metrics"
            )
        if self.run_client_program(up=len(SERVERS)) != len(SERVERS):
            raise VepycError(f"the servers did not come up: {self.box.run('journalctl -n 30 -u llama-*').stdout}")

    def run_client_program(self, **options: Any) -> Any:
        """Run gateway_clients.py with these options; return its output."""
        text = json.dumps({"key": KEY, "clients": 8, "tokens": 32, **options})
        return json.loads(self.box.run(f"python3 {CLIENTS}", input=text, timeout=900).stdout)

    @contextlib.contextmanager
    def client_program_running(self, **options: Any) -> Iterator[list[dict[str, Any]]]:
        """Run the clients during the block; the yielded list has their answers at the end of the block."""
        answers: list[dict[str, Any]] = []
        thread = threading.Thread(target=lambda: answers.extend(self.run_client_program(**options)["answers"]))
        thread.start()
        try:
            yield answers
        finally:
            thread.join()
        if not answers:
            raise VepycError("the clients had no answers")


def make_user_text(dice: random.Random, words: int = 12) -> str:
    """Return a random text with this number of words."""
    return " ".join(dice.choices(WORDS, k=words))


def count_cut_and_missing_answers(answers: list[dict[str, Any]]) -> tuple[int, int]:
    """Return the number of answers that were cut off, and the number of requests without any answer."""
    begun = sum(answer["status"] == 200 and not answer["whole"] for answer in answers)
    return begun, sum(answer["status"] != 200 for answer in answers)


def measure_waiting_times_in_queue(fleet: Fleet, figures: Figures, dice: random.Random) -> None:
    """Measure waiting times of eight clients on four slots."""
    fleet.restart_servers()
    result = fleet.run_client_program(conversations=[[make_user_text(dice)] for dummy in range(40)], watched=WATCHED)
    deferred = max(result["largest"][name] for name in SERVERS)
    whole = sum(answer["whole"] for answer in result["answers"])
    figures.print_figure("queue_deferred_by_servers", deferred, "requests", Bar("<=", 0))
    figures.print_figure("queue_longest_at_gateway", result["largest"]["gateway"], "requests", Bar(">=", 1))
    figures.print_figure("queue_answered", 100 * whole / len(result["answers"]), "%", Bar(">=", 100))


def measure_cached_tokens_of_conversations(fleet: Fleet, figures: Figures, dice: random.Random) -> None:
    """Measure cached tokens of the same turns, with conversations that stay on their hosts and with plain leastconn."""
    options: dict[str, Any] = {
        "system": make_user_text(dice, 110),
        "conversations": [[make_user_text(dice, 90) for dummy in range(TURNS)] for dummy in range(CONVERSATIONS)],
        "order": [number for number in range(CONVERSATIONS) for dummy in range(TURNS)],
        "clients": 4,
    }
    dice.shuffle(options["order"])
    computed: dict[str, int] = {}
    for name, apart, bar in (("kept", False, Bar(">=", 70)), ("leastconn", True, None)):
        fleet.restart_servers()
        answers = fleet.run_client_program(**options, apart=apart)["answers"]
        if not all(answer["whole"] for answer in answers):
            raise VepycError("a turn of a conversation has no answer")
        computed[name] = sum(answer["computed"] for answer in answers)
        cached = sum(answer["cached"] for answer in answers)
        figures.print_figure(f"prompt_tokens_cached_{name}", 100 * cached / (cached + computed[name]), "%", bar)
    figures.print_figure("prompt_tokens_computed_leastconn_over_kept", computed["leastconn"] / computed["kept"], "x")


def measure_waiting_times_beside_heavy_tenant(fleet: Fleet, figures: Figures, dice: random.Random) -> None:
    """Measure how long a light tenant waits while another one sends many requests at the same time."""
    fleet.restart_servers()

    def ask_as_light_tenant() -> float:
        result = fleet.run_client_program(
            conversations=[[make_user_text(dice)] for dummy in range(LIGHT)], clients=1, key=LIGHT_KEY
        )
        return float(median(answer["seconds"] for answer in result["answers"]))

    alone = ask_as_light_tenant()
    with fleet.client_program_running(
        conversations=[[make_user_text(dice)] for dummy in range(HEAVY)], clients=HEAVY
    ) as answers:
        time.sleep(2)
        beside = ask_as_light_tenant()
    if not all(answer["whole"] for answer in answers):
        raise VepycError("a request of the heavy tenant has no answer")
    figures.print_figure("light_tenant_seconds_over_alone", beside / alone, f"x (median of {LIGHT})", Bar("<=", 8))
    heavy = median(answer["seconds"] for answer in answers)
    figures.print_figure("light_over_heavy_tenant_seconds", beside / heavy, "x", Bar("<=", 0.4))


def measure_lost_answers_of_killed_server(fleet: Fleet, figures: Figures, dice: random.Random) -> None:
    """Measure lost answers of a server that is killed while all slots work and clients wait in the queue."""
    fleet.restart_servers()
    with fleet.client_program_running(
        conversations=[[make_user_text(dice)] for dummy in range(16)], tokens=100
    ) as answers:
        time.sleep(3)
        fleet.box.run("systemctl kill --signal=KILL llama-first")
    begun, before = count_cut_and_missing_answers(answers)
    figures.print_figure("killed_lost_before_they_began", before, "requests", Bar("<=", 0))
    figures.print_figure("killed_lost_after_they_began", begun, "streams", Bar("<=", SLOTS))
    figures.print_figure("killed_answered", 100 * (len(answers) - begun - before) / len(answers), "%")


def measure_configuring_many_hosts(fleet: Fleet, figures: Figures, dice: random.Random) -> None:
    """Measure the cost of configuring a hundred more hosts, and lost requests of reloads under load."""
    fleet.restart_servers()
    figures.print_figure("controller_processor_100_hosts", fleet.configure_gateway(*HOSTS, *MANY), "s", Bar("<", 5))
    stop = "/run/bench-stop"
    with fleet.client_program_running(
        conversations=[[make_user_text(dice)] for dummy in range(12)], clients=4, tokens=8, until=stop
    ) as answers:
        try:
            fleet.configure_gateway(*HOSTS)
            fleet.configure_gateway(*HOSTS, *MANY)
        finally:
            fleet.box.run(f"touch {stop}")
    figures.print_figure("reloads_lost", sum(count_cut_and_missing_answers(answers)), "requests", Bar("<=", 0))
    figures.print_figure(
        "reloads_answered", len(answers) - sum(count_cut_and_missing_answers(answers)), "requests", Bar(">=", 12)
    )


MEASURED = {
    "queue": measure_waiting_times_in_queue,
    "conversations": measure_cached_tokens_of_conversations,
    "shares": measure_waiting_times_beside_heavy_tenant,
    "kill": measure_lost_answers_of_killed_server,
    "many": measure_configuring_many_hosts,
}


def main() -> int:
    """Measure, and print a line for each figure; return 1 if one misses its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=MEASURED, nargs="+", default=list(MEASURED))
    parser.add_argument("--seed", type=int, default=1, help="of the texts of users and their order")
    options = parser.parse_args()

    def measure_all(figures: Figures) -> None:
        build, model = ensure_llama(NATIVE), ensure_model()
        debs = debian_packages.fetch_packages("trixie", *debian_packages.HAPROXY)[0].parent
        binds = {build: BUILD, model.parent: MODELS, debs: PACKAGES, ROOT / "tools/bench/gateway_clients.py": CLIENTS}
        with running_container("bench-gateway", binds) as box, tempfile.TemporaryDirectory() as place:
            fleet = Fleet(box, Path(place), f"{MODELS}/{model.name}")
            fleet.configure_gateway(*HOSTS)
            for name in options.only:
                MEASURED[name](fleet, figures, random.Random(options.seed))

    return run_measurement("bench-gateway", measure_all)


if __name__ == "__main__":
    sys.exit(main())
