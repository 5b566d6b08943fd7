# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Real runs of ansible-playbook on this machine, as hosts of other names, and on hosts that nobody answers for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Container, Iterable
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ansible_become": False}


class Screen:
    """The display of a callback plugin, which keeps what the plugin says."""

    verbosity = 0

    def __init__(self) -> None:
        self.said: list[str] = []

    def display(self, text: str) -> None:
        self.said.append(text)

    def error(self, text: str, wrap_text: bool = True) -> None:
        self.said.append(f"error: {text}")


def run(
    folder: Path, hosts: Iterable[str], away: Container[str], playbook: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a playbook from the root of the clone; ``folder`` takes the inventory, and output includes errors.

    Of the hosts those that are ``away`` cannot be reached. ``variables`` are those of the environment, which has no
    others of Ansible or of this collection.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        nobody = {"ansible_host": "127.0.0.1", "ansible_port": server.getsockname()[1]}
    members = {name: nobody if name in away else LOCAL for name in hosts}
    inventory = folder / "hosts.json"
    inventory.write_text(json.dumps({"epyc_servers": {"hosts": members}}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "SOVEREIGN_"))}
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    return subprocess.run(
        [program, "-i", str(inventory), playbook, *arguments],
        cwd=ROOT,
        env={**kept, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
