# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stages of the procedures: no host, two hosts that serve behind a gateway, and two distributions.

Hosts that serve are containers with a systemd of their own and a real llama-server; hosts that are tuned are virtual
EPYCs. The inventory of a stage is a repository of Git in a temporary folder.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools.day_two.recording import INVENTORY
from vepyc import Machine, start_machine
from vepyc.container import Container, running_container
from vepyc.images import debian_packages
from vepyc.llama.llama_cpp import NATIVE, ensure_llama, ensure_model
from vepyc.monitoring import PARTS, TEXTFILES, ensure_programs, start_monitoring
from vepyc.playbook_runs import quick_ansible_variables, run_command

#: The files of the inventory of hosts that serve.
FILES = Path(__file__).with_name("inventory")
#: The variables of the lab's own inventory, by which Ansible reaches virtual machines.
LAB_VARIABLES = Path(__file__).parents[2] / "inventories/lab/group_vars"
ADDRESSES = {"epyc-01": "10.8.0.1", "epyc-02": "10.8.0.2"}
MODELS, PACKAGES, BUILD, KEYS = "/srv/models", "/srv/packages", "/opt/llama", "/etc/llama/keys"
CLIENT = Path(__file__).with_name("client.py")
#: The port of the gateway, and the address of it in the commands of the page.
GATEWAY_PORT, GATEWAY_ADDRESS = 8443, "llm.example.com"
#: Variables for a small machine that the page does not show.
SMALL = {
    "epyc_plan_housekeeping": {"cores": 0},
    "epyc_steps": ["base", "llama"],
    "epyc_llama_binary": f"{BUILD}/bin/llama-server",
}


class Hosts:
    """The hosts of a stage, with its inventory; commands of the page name other addresses than the real ones."""

    def __init__(self, folder: Path, runners: Mapping[str, Callable[[str], Any]]) -> None:
        self.folder = folder
        self.runners = runners
        #: Texts of the page, and the real ones.
        self.replacements = {INVENTORY: str(folder)}

    def run(self, command: str, host: str) -> tuple[int, str]:
        """Run a command on a host as root, or on the controller for an empty host; return exit code and output."""
        for shown, real in self.replacements.items():
            command = command.replace(shown, real)
        if host:
            done = self.runners[host](command)
            output = done.stdout + done.stderr
        else:
            done = run_command(
                "bash",
                "-c",
                command,
                **quick_ansible_variables("sovereign.epyc.plan", "sovereign.epyc.run_end", "sovereign.epyc.drift"),
            )
            output = done.stdout
        for shown, real in self.replacements.items():
            output = output.replace(real, shown)
        return done.returncode, output

    def write_inventory_file(self, path: str, text: str) -> None:
        """Write a file of the inventory; ``path`` begins at the folder of the inventory."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def write_inventory(self, groups: Mapping[str, Any], variables: Mapping[str, Any]) -> None:
        """Write the hosts with their groups and their connections, and begin a repository of Git."""
        self.write_inventory_file("hosts.json", json.dumps(groups))
        self.write_inventory_file("group_vars/all/lab.yml", yaml.safe_dump(dict(variables)))
        names = "-c user.name=Ana -c user.email=ana@example.com"
        self.require(
            f"git -C {INVENTORY} init -q && git -C {INVENTORY} add . && git -C {INVENTORY} {names} commit -qm Begin"
        )
        self.require(f"git -C {INVENTORY} config user.name Ana && git -C {INVENTORY} config user.email ana@example.com")

    def require(self, command: str, host: str = "") -> str:
        """Run a command that prepares the stage; a failure ends the run."""
        code, output = self.run(command, host)
        if code:
            raise SystemExit(f"day-two: '{command}' has the exit code {code}:\n{output[-4000:]}")
        return output


def container_runner(box: Container) -> Callable[[str], Any]:
    return lambda command: box.run(command, check=False, timeout=600)


def machine_runner(machine: Machine) -> Callable[[str], Any]:
    return lambda command: machine.run(command, check=False)


@contextlib.contextmanager
def clone_without_hosts() -> Iterator[Hosts]:
    """No hosts: commands in the clone alone."""
    with tempfile.TemporaryDirectory() as folder:
        yield Hosts(Path(folder), {})


@contextlib.contextmanager
def monitored_fleet() -> Iterator[Hosts]:
    """Two hosts that serve the same model, set up by the playbooks; the first has gateway and monitoring, too."""
    binds = {
        ensure_llama(NATIVE): BUILD,
        ensure_model().parent: MODELS,
        ensure_programs(): PARTS,
        CLIENT: "/srv/client.py",
    }
    binds[debian_packages.fetch_packages("trixie", *debian_packages.HAPROXY)[0].parent] = PACKAGES
    with contextlib.ExitStack() as stack:
        boxes = {name: stack.enter_context(running_container(name, binds)) for name in ADDRESSES}
        first, second = boxes.values()
        first.connect_cable(second, *(f"{address}/24" for address in ADDRESSES.values()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = Hosts(folder, {name: container_runner(box) for name, box in boxes.items()})
        port = stack.enter_context(first.published_port(GATEWAY_PORT))
        hosts.replacements[f"{GATEWAY_ADDRESS}:{GATEWAY_PORT}"] = f"127.0.0.1:{port}"
        servers = {
            name: {
                **box.inventory_variables(),
                "epyc_gateway_member_address": ADDRESSES[name],
                "epyc_base_textfile": f"{TEXTFILES}/sovereign-epyc.prom",
                "epyc_base_textfile_interval": "15s",
            }
            for name, box in boxes.items()
        }
        only_first: dict[str, Any] = {"hosts": {"epyc-01": {}}}
        groups = {"epyc_servers": {"hosts": servers}, "epyc_gateway": only_first, "epyc_monitoring": only_first}
        gateway = {
            "epyc_gateway_bind": f"127.0.0.1:{GATEWAY_PORT}",
            "epyc_gateway_plain_http": True,
            "epyc_monitoring_key_file": KEYS,
            "epyc_monitoring_service": "",
        }
        hosts.write_inventory(groups, {**SMALL, **gateway})
        for name in boxes:
            hosts.require(f"install -d -m 700 /etc/llama && mkdir -p {TEXTFILES}", name)
        hosts.require(f"dpkg --install {PACKAGES}/*.deb", "epyc-01")
        for group, name in (("epyc_servers", "models.yml"), ("epyc_gateway", "tenants.yml")):
            hosts.write_inventory_file(f"group_vars/{group}/{name}", (FILES / name).read_text(encoding="utf-8"))
        for name in boxes:
            hosts.require(f"echo server-key-1 >{KEYS} && chmod 600 {KEYS}", name)
        hosts.require(f"git -C {INVENTORY} add . && git -C {INVENTORY} commit -qm 'Serve the small model on two hosts'")
        for book in ("site", "gateway", "monitoring"):
            print(f"  {book}.yml", flush=True)
            hosts.require(f"ansible-playbook -i {INVENTORY} playbooks/{book}.yml")
        start_monitoring([*boxes.values()])
        hosts.require(f"ln -s {PARTS}/usr/bin/amtool /usr/local/bin/", "epyc-01")
        yield hosts


@contextlib.contextmanager
def two_distributions() -> Iterator[Hosts]:
    """Two virtual EPYCs, one with Debian 12 and one with Debian 13, as installed."""
    with contextlib.ExitStack() as stack:
        machines = {}
        for name, kernel in (("bookworm-01", "6.1"), ("trixie-01", "6.12")):
            machines[name] = start_machine("small", name=name, kernel=kernel)
            stack.callback(machines[name].discard)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        hosts = Hosts(folder, {name: machine_runner(machine) for name, machine in machines.items()})
        servers = {name: {"ansible_port": machine.port} for name, machine in machines.items()}
        for group in ("all", "small"):
            text = (LAB_VARIABLES / f"{group}.yml").read_text(encoding="utf-8")
            hosts.write_inventory_file(f"group_vars/{group}/connection.yml", text)
        members: dict[str, Any] = {name: {} for name in servers}
        hosts.write_inventory({"epyc_servers": {"hosts": servers}, "small": {"hosts": members}}, {})
        yield hosts


STAGES = {
    "clone": clone_without_hosts,
    "fleet": monitored_fleet,
    "distributions": two_distributions,
}
