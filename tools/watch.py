#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shows what an operator sees: two hosts that serve, a gateway before them, and the page of served models.

The hosts are containers on this machine, each with a real llama-server and a small model. The first host also has
HAProxy, Prometheus and Alertmanager of Debian. site.yml, gateway.yml and monitoring.yml set up all of this, and a
client keeps the gateway busy. The page shows live figures of Prometheus. Ctrl-C ends everything, and only the page
remains.

Run as `make watch`, as root.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vepyc import VepycError
from vepyc.container import Container, running_container
from vepyc.images import debian_packages
from vepyc.llama.llama_cpp import NATIVE, ensure_llama, ensure_model
from vepyc.monitoring import FOLDER, PARTS, PORTS, TEXTFILES, ensure_programs, start_as_unit, start_monitoring
from vepyc.playbook_runs import quick_ansible_variables, run_command

PAGE = Path(__file__).resolve().parents[1] / "build/watch/serving.html"
BUILD, MODELS, HAPROXY, KEY_FILE = "/opt/built", "/srv/models", "/srv/packages", "/etc/llama.key"
KEY = "key-of-make-watch"
ADDRESSES = {"watch-1": "10.8.0.1", "watch-2": "10.8.0.2"}
#: A client that sends requests to the gateway one after the other; some texts repeat themselves, and others do not.
CLIENT = """
import itertools, json, urllib.request

texts = ["one two three four five six seven eight nine ten\\n" * 3 + "one two", "Once upon a time", "The old house"]
for text in itertools.cycle(texts):
    body = json.dumps({"model": "small", "prompt": text, "max_tokens": 40}).encode()
    asked = urllib.request.Request("http://127.0.0.1:8443/v1/completions", body, {"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(asked, timeout=60).read()
    except OSError as error:
        print(error, flush=True)
"""


def run_playbook(inventory: Path, name: str) -> None:
    """Run a playbook; its output is shown only if it fails."""
    done = run_command("ansible-playbook", "-i", str(inventory), f"playbooks/{name}.yml", **quick_ansible_variables())
    if done.returncode:
        raise VepycError(f"{name}.yml failed:\n{done.stdout[-4000:]}")


def build_inventory(boxes: dict[str, Container], model: str, url: str) -> dict[str, Any]:
    """Return the inventory of the hosts, the gateway and the monitoring, with variables for a small machine."""
    hosts = {}
    for number, (name, box) in enumerate(boxes.items()):
        instance = {"name": "chat", "alias": "small", "model": model, "port": 8080, "host": ADDRESSES[name]}
        small = {"cpus": str(number), "context": 2048, "slots": 2, "prompt_cache": "0MiB", "checkpoints": 0}
        hosts[name] = {
            **box.inventory_variables(),
            "epyc_plan_housekeeping": {"cores": 0},
            "epyc_steps": ["base", "llama"],
            "epyc_base_textfile": f"{TEXTFILES}/sovereign-epyc.prom",
            "epyc_base_textfile_interval": "15s",
            "epyc_llama_binary": f"{BUILD}/bin/llama-server",
            "epyc_llama_instances": [{**instance, **small, "api_key_file": KEY_FILE}],
            "epyc_gateway_member_address": ADDRESSES[name],
        }
    gateway = {"epyc_gateway_bind": "127.0.0.1:8443", "epyc_gateway_plain_http": True, "epyc_gateway_open": True}
    monitoring = {"epyc_monitoring_key_file": KEY_FILE, "epyc_monitoring_page_url": url, "epyc_monitoring_service": ""}
    first: dict[str, Any] = {"hosts": {next(iter(boxes)): {}}}
    every = {**gateway, "epyc_gateway_server_key": KEY, **monitoring}
    servers = {"hosts": hosts, "vars": every}
    return {"epyc_servers": servers, "epyc_gateway": first, "epyc_monitoring": first}


def run_setup_playbooks(boxes: dict[str, Container], hosts: Path) -> None:
    """Run the playbooks that set up hosts, gateway and monitoring on the containers."""
    first = next(iter(boxes.values()))
    for box in boxes.values():
        box.run(f"mkdir -p {TEXTFILES}; install -m 600 /dev/stdin {KEY_FILE}", input=f"{KEY}\n")
    first.run(f"dpkg --install {HAPROXY}/*.deb")
    for name in ("site", "gateway", "monitoring"):
        print(f"{name}.yml runs", flush=True)
        run_playbook(hosts, name)
    start_monitoring([*boxes.values()])
    first.run("cat >/run/client.py", input=CLIENT)
    start_as_unit(first, "client", "python3", "/run/client.py")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(first.run(f"cat {FOLDER}/serving.html").stdout, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, help="how long it stays; by default until Ctrl-C")
    options = parser.parse_args()
    try:
        build, model = ensure_llama(NATIVE), ensure_model()
        binds = {build: BUILD, model.parent: MODELS, ensure_programs(): PARTS}
        binds[debian_packages.fetch_packages("trixie", *debian_packages.HAPROXY)[0].parent] = HAPROXY
        with contextlib.ExitStack() as stack:
            boxes = {name: stack.enter_context(running_container(name, binds)) for name in ADDRESSES}
            first, second = boxes.values()
            first.connect_cable(second, *(f"{address}/24" for address in ADDRESSES.values()))
            ports = {name: stack.enter_context(first.published_port(port)) for name, port in PORTS.items()}
            hosts = Path(stack.enter_context(tempfile.TemporaryDirectory()), "hosts.json")
            url = f"http://127.0.0.1:{ports['prometheus']}"
            hosts.write_text(json.dumps(build_inventory(boxes, f"{MODELS}/{model.name}", url)))
            run_setup_playbooks(boxes, hosts)
            print(f"\nThe page:      {PAGE.as_uri()}")
            print(f"Prometheus:    {url}")
            print(f"Alertmanager:  http://127.0.0.1:{ports['alertmanager']}")
            print("All of it is on this machine only. Ctrl-C ends it.", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                time.sleep(options.seconds if options.seconds is not None else 10**8)
    except VepycError as error:
        print(f"watch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
