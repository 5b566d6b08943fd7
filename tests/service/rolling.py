# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts whose instances are the stand-ins behind the gateway, and playbooks that restart these as they would others.

In a copy of the collection, action plugins answer for the modules that ask for a real host: llama_server restarts the
stand-in of its host, and llama_ask asks it. All else, as the roles and what is told to HAProxy, is the real thing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vepyc.play import Play, quick, run

ROOT = Path(__file__).parents[2]
ACTION = """\
from ansible.plugins.action import ActionBase

DIFF = {"before": {"unit": "before"}, "after": {"unit": "after"}}

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        host = task_vars
        def said(name):
            done = self._low_level_execute_command(task_vars[name])
            return {"failed": done["rc"] != 0, "msg": done["stdout"] + done["stderr"]}
        return ANSWER
"""
ANSWERS = {
    "epyc_plan": "{'changed': False, 'ansible_facts': {'epyc': {'intent': {}, 'plan': {'cannot': {}}}}}",
    "llama_server": "{'changed': host['restarts'], 'diff': DIFF if host['restarts'] else {'before': {}, 'after': {}},"
    " **({} if self._task.check_mode else said('restart'))}",
    "llama_ask": "{'changed': False, 'unit': 'stub', 'complaints': [], 'clean': True, **said('question')}",
    "epyc_verify": "{'changed': False, 'clean': True, 'boot_service': 'done', 'complaints': [],"
    " 'pending_reboot': ['x'], 'boot_id': said('boots')['msg']}",
    "reboot": "{'changed': True, 'rebooted': True, **said('reboot')}",
}


class Rolling:
    """The copy of the collection, and an inventory of hosts with a gateway."""

    def __init__(self, folder: Path, hosts: dict[str, Any], gateways: list[str]) -> None:
        self.folder = folder
        children = {"gateway": {"hosts": {name: {} for name in gateways}}}
        (folder / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "children": children}}))
        collection = folder / "ansible_collections/sovereign/epyc"
        (collection / "plugins/action").mkdir(parents=True)
        for path in [*ROOT.glob("[!.]*"), *ROOT.glob("plugins/*"), *ROOT.glob("plugins/action/*.py")]:
            if not (collection / path.relative_to(ROOT)).exists():
                (collection / path.relative_to(ROOT)).symlink_to(path)
        for name, answer in ANSWERS.items():
            path = collection / f"plugins/action/{name}.py"
            path.unlink(missing_ok=True)
            path.write_text(ACTION.replace("ANSWER", answer))
        # ansible.builtin.reboot cannot be another one, so the role's file names a module that can.
        (collection / "roles").unlink()
        (collection / "roles/reboot").mkdir(parents=True)
        for path in ROOT.glob("roles/*"):
            if path.name != "reboot":
                (collection / "roles" / path.name).symlink_to(path)
        for path in (ROOT / "roles/reboot").rglob("*.yml"):
            copy = collection / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text().replace("ansible.builtin.reboot:", "sovereign.epyc.reboot:"))

    def play(self, name: str, *arguments: str, **more: Any) -> Play:
        """Run a playbook with these variables."""
        record = self.folder / "record.jsonl"
        record.unlink(missing_ok=True)
        variables = {
            **quick("record"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder),
            "RECORD_FILE": str(record),
        }
        words = ["-i", str(self.folder / "hosts.json"), f"playbooks/{name}.yml", "-e", json.dumps(more), *arguments]
        done = run("ansible-playbook", *words, **variables)
        lines = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
        return Play(done.returncode, done.stdout, lines)
