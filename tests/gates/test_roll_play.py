# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last play of playbooks/roll.yml: a line for each kind of hosts, what waits, and the next command.

tests/service/test_gateway_roll.py has rolls themselves.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from vepyc import playbook_runs

from .conftest import ROOT, VARIABLES

RESTARTED, WAITING = {"__epyc_gateway_changes": True}, {"epyc_grub_params_result": {"reboot_required": True}}


def last_lines(folder: Path, hosts: dict[str, dict[str, Any]], *words: str) -> tuple[list[str], Path]:
    """Run the last play on hosts with these results of the plays before; return its lines and the inventory."""
    inventory, book, record = folder / "hosts.yml", folder / "last.yml", folder / "record.jsonl"
    record.unlink(missing_ok=True)
    groups = {name: {"hosts": hosts} for name in ("epyc_servers", "epyc_roll_now")}
    inventory.write_text(yaml.safe_dump({**groups, "all": {"vars": {"ansible_connection": "local"}}}))
    play = yaml.safe_load((ROOT / "playbooks/roll.yml").read_text(encoding="utf-8"))[-1]
    play["vars_files"] = [str(ROOT / "playbooks" / file) for file in play["vars_files"]]
    book.write_text(yaml.safe_dump([play]))
    variables: dict[str, Any] = {
        **VARIABLES,
        "ANSIBLE_CALLBACK_PLUGINS": "tools/callback",
        "ANSIBLE_CALLBACKS_ENABLED": "record",
        "RECORD_FILE": str(record),
    }
    done = playbook_runs.run_command("ansible-playbook", "-i", str(inventory), str(book), *words, **variables)
    assert done.returncode == 0, done.stdout
    results = [json.loads(line) for line in record.read_text().splitlines()]
    (shown,) = [result["msg"] for result in results if "msg" in result]
    return shown, inventory


def test_a_roll_ends_with_what_was_done_what_waits_and_the_next_command(tmp_path: Path) -> None:
    lines, inventory = last_lines(tmp_path, {"e1": RESTARTED, "e2": {**RESTARTED, **WAITING}, "e3": {}})
    assert lines == [
        "e1, e2: done; instances were changed and serve.",
        "e3: done; no instance had to change.",
        "e2: boot parameters wait for a reboot.",
        f"Next: ansible-playbook -i {inventory} sovereign.epyc.reboot -e epyc_reboot_ok=true -l e2",
    ]


def test_a_roll_after_which_nothing_waits_ends_with_the_command_that_proves_it(tmp_path: Path) -> None:
    lines, inventory = last_lines(tmp_path, {"e1": {}, "e2": {}}, "-e", "epyc_hosts=epyc_servers")
    assert lines == [
        "e1, e2: done; no instance had to change.",
        "Nothing waits.",
        f"Next: ansible-playbook -i {inventory} -e epyc_hosts=epyc_servers sovereign.epyc.verify -l e1,e2",
    ]
