# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of docs/exit-codes.md, held against real runs of every playbook, outside the clone and its ansible.cfg.

What a host answers in each state comes from stand-ins for the modules: these tests show what the playbooks make of an
answer. That the modules give such answers is shown by the unit tests and on virtual machines.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.sovereign.epyc.tests.unit.plugins.plugin_utils import bench_documents
from vepyc import playbook_runs

from .conftest import ROOT
from .exit_code_answers import ANSWERS, STATES, VARIABLES, write_collection

PAGE = ROOT / "docs/exit-codes.md"
PLAYBOOKS = sorted(path.stem for path in ROOT.glob("playbooks/*.yml"))
#: Columns of the table that need no answer of a host.
COMMAND_LINES = (
    "wrong inventory",
    "foreign inventory",
    "empty limit",
    "all unreachable",
    "unknown tag",
    "nothing served",
)
#: What the playbooks say in these columns, by exit code.
SENTENCES = {
    "wrong inventory": {4: "missing.yml (which does not exist) names none. Say with -i which inventory to read."},
    "foreign inventory": {4: "none is in the group epyc_"},
    "empty limit": {1: "leaves us with no hosts to target"},
    "unknown tag": {4: "--tags names nosuch, which is no tag of this playbook;"},
    "nothing served": {2: "idle", 4: "and the limit 'idle'. Choose other hosts with -l, or leave it out."},
}
#: What each playbook that needs it is told, by its name.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "ask": {"epyc_ask_prompt": "Are you there?"},
    "recommend": {"epyc_recommend_models": "/srv/models/x.gguf"},
    "restore": {"epyc_restore_instances": True},
}
#: Those that go through all columns in `make test`.
EVERYDAY = ("gateway", "verify")


def read_table() -> dict[str, dict[str, str]]:
    """Return the cells of the table by playbook and column."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    header = next(row for row in rows if row[0] == "Playbook")
    rows = [row for row in rows if row[0].startswith("`")]
    return {row[0].strip("`"): dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)}


TABLE = read_table()


class Controller:
    """A folder with inventories, and a copy of the collection whose modules answer by the name of the host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_collection(folder)
        (folder / "run.json").write_text(json.dumps(bench_documents.ablation()))
        nowhere = {"ansible_host": "127.0.0.1", "ansible_port": 1}
        groups = ("epyc_gateway", "epyc_monitoring", "epyc_llama_group")
        idle: dict[str, Any] = {"epyc_llama_instances": []}
        away = {name: {**VARIABLES, "epyc_group_address": f"10.0.0.{number}"} for number, name in enumerate("ab", 1)}
        away["a"]["epyc_llama_instances"] = [
            {**VARIABLES["epyc_llama_instances"][0], "rpc_workers": ["10.0.0.2:50052"]}
        ]
        away["b"]["epyc_vllm_instances"] = [
            {"name": "big", "model": "/srv/models/big", "port": 8000, "alias": "big", "host": "10.0.0.2"}
        ]
        children: dict[str, Any] = {name: {"hosts": {host: {} for host in away}} for name in groups}
        children |= {"nobody": {}, "epyc_servers": {"hosts": {**away, "idle": idle}}}
        self.write_inventory("away.json", {"children": children, "vars": nowhere})
        self.write_inventory("foreign.json", {"children": {"web": {"hosts": away}}, "vars": nowhere})
        hosts = {state.replace(" ", "_"): VARIABLES for state in STATES}
        children = {"epyc_gateway": {"hosts": {"edge": {}}}, "epyc_servers": {"hosts": hosts}}
        self.write_inventory("states.json", {"children": children, "vars": nowhere})

    def write_inventory(self, name: str, group: dict[str, Any]) -> None:
        (self.folder / name).write_text(json.dumps({"all": group}))

    def run_playbooks(self, collections: Path, runs: Sequence[tuple[str, ...]]) -> list[tuple[int, str]]:
        """Return the exit code and the output of each run; the first word is the name of a playbook."""
        asked = [
            [f"sovereign.epyc.{name}", *words, "-e", json.dumps(self.find_arguments(name))] for name, *words in runs
        ]
        environment = playbook_runs.clean_environment(
            ANSIBLE_COLLECTIONS_PATH=str(collections), ANSIBLE_CALLBACK_RESULT_FORMAT="yaml", NO_COLOR="1"
        )
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/gates/forked_ansible.py")],
            cwd=self.folder,
            env=environment,
            input=json.dumps(asked),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return [(code, " ".join(output.split())) for code, output in json.loads(done.stdout)]

    def find_arguments(self, name: str) -> dict[str, Any]:
        return {
            **ARGUMENTS.get(name, {}),
            **({"epyc_analyse_file": f"{self.folder}/run.json"} if name == "analyse" else {}),
            **({"epyc_compare_files": f"{self.folder}/run.json"} if name == "compare" else {}),
        }


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    return Controller(tmp_path_factory.mktemp("codes"))


def command_line(column: str) -> tuple[str, ...]:
    """Return the arguments that make the state of a column."""
    return {
        "wrong inventory": ("-i", "missing.yml"),
        "foreign inventory": ("-i", "foreign.json"),
        "empty limit": ("-i", "away.json", "-l", "nobody"),
        "all unreachable": ("-i", "away.json", "-l", "a,b,localhost"),
        "unknown tag": ("-i", "away.json", "--tags", "nosuch"),
        "nothing served": ("-i", "away.json", "-l", "idle"),
    }[column]


def check_command_lines(controller: Controller, column: str, names: list[str]) -> None:
    """Compare a column of the table with runs of these playbooks."""
    expected = {name: int(TABLE[name][column]) for name in names if TABLE[name][column] != "-"}
    results = controller.run_playbooks(ROOT / ".collections", [(name, *command_line(column)) for name in expected])
    done = dict(zip(expected, results, strict=True))
    assert {name: code for name, (code, dummy) in done.items()} == expected, done
    for name, (code, output) in done.items():
        assert SENTENCES.get(column, {}).get(code, "") in output, (name, output)


def test_the_table_has_every_playbook_and_every_state() -> None:
    assert sorted(TABLE) == PLAYBOOKS
    columns = set(TABLE["site"]) - {"Playbook", "What it leaves, and says"}
    assert columns == {*COMMAND_LINES, *STATES}


def test_every_play_names_its_hosts_by_the_lookup() -> None:
    """Ansible ends with 0 where no host matches. Only the first play counts: later ones may find nothing to do."""
    for name in PLAYBOOKS:
        hosts = yaml.safe_load((ROOT / f"playbooks/{name}.yml").read_text())[0]["hosts"]
        assert re.match(r"\{\{ query\('sovereign\.epyc\.require_hosts'.*\).* \}\}\Z", hosts), (name, hosts)


@pytest.mark.parametrize("column", COMMAND_LINES)
def test_command_lines_that_do_nothing_fail(controller: Controller, column: str) -> None:
    check_command_lines(controller, column, [*EVERYDAY])


@pytest.mark.slow
@pytest.mark.parametrize("column", COMMAND_LINES)
def test_command_lines_of_all_other_playbooks(controller: Controller, column: str) -> None:
    check_command_lines(controller, column, [name for name in PLAYBOOKS if name not in EVERYDAY])


def read_recap(output: str) -> dict[str, int]:
    """Return the exit code that a run would have on each host alone, by its summary."""
    counts = re.findall(r"(\w+) : ok=\d+ changed=\d+ unreachable=(\d+) failed=(\d+)", output)
    return {name: 4 if int(away) else 2 if int(failed) else 0 for name, away, failed in counts}


def check_states(controller: Controller, names: list[str]) -> None:
    """Compare the states of hosts with runs of these playbooks, each on one host of each state."""
    expected = {
        name: {state: int(TABLE[name][state]) for state in STATES if TABLE[name][state] != "-"} for name in names
    }
    expected = {name: codes for name, codes in expected.items() if codes}
    runs = [
        (name, "-i", "states.json", "-l", ",".join(state.replace(" ", "_") for state in codes))
        for name, codes in expected.items()
    ]
    for (name, codes), (code, output) in zip(
        expected.items(), controller.run_playbooks(controller.folder, runs), strict=True
    ):
        found = {host.replace("_", " "): host_code for host, host_code in read_recap(output).items()}
        assert found == codes, (name, output)
        assert code == max(codes.values()), (name, output)


def test_the_checklist_fails_where_a_host_is_not_as_configured(controller: Controller) -> None:
    check_states(controller, ["verify"])


@pytest.mark.slow
def test_states_of_hosts_with_all_other_playbooks(controller: Controller) -> None:
    check_states(controller, [name for name in PLAYBOOKS if name != "verify"])


def test_every_answer_is_of_a_module() -> None:
    modules = {path.stem for path in ROOT.glob("plugins/modules/*.py")}
    assert {name for name in ANSWERS if not name.startswith("stand_in_")} <= modules
