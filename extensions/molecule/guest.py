#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot the virtual EPYC of a scenario and write how to reach it, or end it.

    guest.py up SCENARIO FOLDER
    guest.py down SCENARIO

FOLDER has an inventory then, and ssh_config for Testinfra, so that it asks the host without Ansible. It shares
the connection that Ansible has opened, because a login takes a guest as long as a module.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "lab"), str(ROOT / ".collections")]

from vepyc import Machine, Preparation, start_machine  # noqa: E402
from vepyc.machine.run_directory import RunDirectory  # noqa: E402
from vepyc.playbook_runs import write_inventory  # noqa: E402

SHAPE = "small"
SSH_CONFIG = """\
HostName 127.0.0.1
Port {port}
User root
IdentityFile {key}
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
ControlPath ~/.ansible/cp/%h-%p-%r
"""


def run_dir_of(scenario: str) -> RunDirectory:
    return RunDirectory.of_machine(f"molecule-{scenario.replace('_', '-')}")


def prepared_for(scenario: str) -> Preparation | None:
    """The machine on which the scenario of the whole begins: one that site.yml has tuned, as other tests have it too.

    Where no run of the tests has made that state of this very collection, it is made now.
    """
    if scenario != "site":
        return None
    from tests.fixtures.saved_states import TUNED

    return TUNED


def boot(scenario: str, folder: Path) -> None:
    """Boot it as it is in the snapshot, even if one of its name is left from before."""
    end(scenario)
    machine = start_machine(SHAPE, run_dir_of(scenario).path.name, prepared=prepared_for(scenario))
    folder.mkdir(exist_ok=True)
    hosts = {machine.name: {"ansible_port": machine.port}}
    write_inventory(folder, hosts, **{SHAPE: hosts})
    (folder / "ssh_config").write_text(SSH_CONFIG.format(port=machine.port, key=machine.ssh_key))
    variables = folder / "group_vars"
    variables.unlink(missing_ok=True)
    variables.symlink_to(ROOT / "inventories/lab/group_vars")


def end(scenario: str) -> None:
    """End it, if it is there."""
    run_dir = run_dir_of(scenario)
    if run_dir.is_alive():
        Machine(run_dir).discard()
    elif run_dir.path.exists():
        run_dir.end_and_remove()


if __name__ == "__main__":
    action, *arguments = sys.argv[1:]
    if action == "up":
        boot(arguments[0], Path(arguments[1]))
    else:
        end(arguments[0])
