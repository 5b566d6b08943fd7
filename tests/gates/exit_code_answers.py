# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for the modules of the collection: what each answers of a host in each state of docs/exit-codes.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import capacity_facts

from .conftest import ROOT

#: Columns of the table that are states of a host. The host of an inventory has the name of its state.
STATES = ("untuned host", "half tuned host", "stopped server", "missing layer", "clean host")
#: In these states the instance of the inventory runs.
SERVING = ("missing layer", "clean host")
#: What the inventory says of each host.
VARIABLES: dict[str, Any] = {
    "epyc_llama_instances": [
        {"name": "chat", "model": "/srv/models/x.gguf", "port": 8080, "alias": "x", "host": "{{ epyc_group_address }}"}
    ],
    "epyc_group_address": "10.0.0.1",
    "epyc_steps": ["numa"],
    "epyc_gateway_open": True,
    "epyc_gateway_peers": [],
    "epyc_gateway_plain_http": True,
    "epyc_gateway_ready_timeout": 2,
}
ACTION = """\
import json
from pathlib import Path

from ansible.plugins.action import ActionBase

ANSWERS = json.loads(Path(__file__).with_name("answers.json").read_text())[Path(__file__).stem]


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        state = task_vars["inventory_hostname"].replace("_", " ")
        return {"changed": False, **ANSWERS.get("all", {}), **ANSWERS.get(state, {})}
"""


def in_states(states: tuple[str, ...], answer: dict[str, Any], otherwise: dict[str, Any]) -> dict[str, Any]:
    """Return an answer for some states of hosts and another one for the rest."""
    return {state: answer if state in states else otherwise for state in STATES}


CLEAN, NOT_CLEAN = ({"clean": clean, "lines": ["1 setting was looked at"]} for clean in (True, False))
FAILED = {"failed": True, "msg": "The instance chat does not run."}
MEASURED = {"clean": True, "text": "It was measured.", "instance": "chat", "document": "", "reboots": False}
#: Module -> state -> answer; "all" are states with the same answer. A stand-in for a module of Ansible has its name
#: after "stand_in_".
ANSWERS: dict[str, dict[str, Any]] = {
    "epyc_verify": {
        "all": {"text": "The checklist.", "complaints": ["Something is not as configured."], "pending_reboot": []},
        **in_states(("clean host",), CLEAN, NOT_CLEAN),
    },
    "epyc_drift_info": {
        "all": {"lines": ["cat: not in force", "Run site.yml --tags cat for it"]},
        **in_states(("clean host",), CLEAN, NOT_CLEAN),
    },
    "epyc_repair": {"all": {"lines": ["numa: drift"]}, **in_states(("clean host",), CLEAN, NOT_CLEAN)},
    "epyc_plan": {
        "all": {
            "text": "The plan.",
            "stored": [],
            "ansible_facts": {"epyc": {"intent": {}, "topology": {"sku": "9754"}, "plan": {"cannot": []}}},
        }
    },
    "epyc_preflight": {"all": {"refusals": []}},
    "epyc_capacity_info": {"all": {"facts": capacity_facts.host()}},
    "epyc_recommend_info": {"all": {"text": "epyc_llama_instances: []"}},
    "epyc_servable_info": {"all": {"text": "Host: a host"}},
    "epyc_last_run": {"all": {"holds": False}},
    "epyc_memory_speed": {"all": {"clean": True, "text": "400 of 461 GB/s were read, 87%."}},
    "epyc_history": {"all": {"run": "20261129T091000Z"}},
    "llama_ask": in_states(SERVING, {**MEASURED, "unit": "llama-chat.service", "complaints": []}, FAILED),
    "llama_benchmark": in_states(SERVING, MEASURED, FAILED),
    "llama_ablation": in_states(SERVING, MEASURED, FAILED),
    "llama_tune": in_states(SERVING, {**MEASURED, "tuned": {}}, FAILED),
    "stand_in_uri": in_states(SERVING, {}, FAILED),
    **{
        name: {}
        for name in (
            "epyc_host_tool",
            "epyc_restore",
            "gateway_member",
            "llama_rpc_worker",
            "llama_server",
            "vllm_server",
            "stand_in_file",
            "sysfs_settings",
        )
    },
}
#: Files whose tasks call modules of Ansible on the host.
REPLACED = {"playbooks/restore.yml": "file", "roles/epyc_gateway/tasks/ready.yml": "uri"}


def write_collection(folder: Path) -> None:
    """Link the collection into a folder, with stand-ins for its modules."""
    collection = folder / "ansible_collections/sovereign/epyc"
    actions = collection / "plugins/action"
    actions.mkdir(parents=True)
    for name, module in REPLACED.items():
        path = collection / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text()
        path.write_text(text.replace(f"ansible.builtin.{module}:", f"sovereign.epyc.stand_in_{module}:"))
    folders = ("", "plugins", "playbooks", "roles", "roles/epyc_gateway", "roles/epyc_gateway/tasks")
    for path in [path for name in folders for path in (ROOT / name).glob("[!.]*")]:
        link = collection / path.relative_to(ROOT)
        if not link.exists() and path.name != "collections":
            link.symlink_to(path)
    (actions / "answers.json").write_text(json.dumps(ANSWERS))
    for name in ANSWERS:
        (actions / f"{name}.py").write_text(ACTION)
