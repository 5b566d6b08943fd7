# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Ansible makes of our playbooks, asked of Ansible itself."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

from ansible_collections.sovereign.epyc.plugins.module_utils._host.intent import Intent
from ansible_collections.sovereign.epyc.plugins.module_utils._host.plan import build_plan
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cache_masks import count_ways
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory import free_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names import known_variables
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.groups import GROUP_VARIABLES
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs, hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine

from .conftest import ROOT

#: Variables that plays set for themselves.
SET_BY_PLAYS = (
    *("epyc_asked", "epyc_text_", "epyc_reboot_before", "epyc_bios_kernel"),
    *("epyc_site_asked", "epyc_site_last_run", "epyc_site_layers", "epyc_site_refusals", "epyc_site_steps"),
    *(f"epyc_{name}_results" for name in ("ablation", "ask", "benchmark", "capacity", "compare", "tune")),
)


def test_playbooks_of_the_clone_run_from_any_folder(run: Callable[..., str], tmp_path: Path) -> None:
    """A role, a module, and a playbook that imports another one are found without the clone's ansible.cfg."""
    playbooks = [str(ROOT / name) for name in ("site.yml", "playbooks/roll.yml", "playbooks/verify.yml")]
    said = run("ansible-playbook", "--syntax-check", "-i", "localhost,", *playbooks, cwd=tmp_path)
    assert [f"playbook: {name}" in said for name in playbooks] == [True] * 3


def test_hosts_are_rebooted_in_the_order_of_the_inventory() -> None:
    """A group made at run time has its hosts in the order in which they answered."""
    loader = DataLoader()
    inventory = InventoryManager(loader, sources=["canary,second,third,"])
    inventory.add_group("epyc_reboot_now")
    for late in ("third", "canary"):
        inventory.add_host(late, group="epyc_reboot_now")
    hosts = loader.load_from_file(str(ROOT / "playbooks/reboot.yml"))[1]["hosts"]
    added = re.fullmatch(
        r"\{\{ query\('sovereign.epyc.require_hosts'\)"
        r" \+ \((\[.+\]) if 'epyc_reboot_now' in groups else (\[.+\])\) \}\}",
        hosts,
    )
    assert added, hosts
    waiting, without_group = (["all", *yaml.safe_load(text)] for text in added.groups())
    assert [host.name for host in inventory.get_hosts(waiting)] == ["canary", "third"]
    assert inventory.get_hosts(without_group) == []


def test_no_task_of_a_role_leaves_the_check_mode_that_it_runs_in() -> None:
    """A task with a check mode of its own would write where a user runs the role with check_mode: true."""
    leaves = re.compile(r"check_mode: .*\{\{")
    files = [path for path in (ROOT / "roles").glob("*/tasks/*.yml") if leaves.search(path.read_text())]
    assert files == []


#: What debug tasks may print beside lists of lines: texts of one line, and lists.
SINGLE_LINES = (
    *("{{ item }}", "{{ item.differences }}", "{{ epyc_repair_result.lines }}", "{{ __epyc_benchmark_memory.text }}"),
    *("{{ __epyc_reboot_message }}", "{{ __epyc_grub_params_waits_for_reboot }}"),
)


def list_tasks(entries: object) -> list[dict[str, Any]]:
    """Return the tasks of a file, those in plays and blocks included."""
    tasks = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    parts = ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always")
    return [*tasks, *(inner for task in tasks for part in parts for inner in list_tasks(task.get(part)))]


def test_texts_of_several_lines_are_printed_as_lines() -> None:
    """Ansible prints a text as JSON by default, with its line breaks as two characters."""
    files = [*ROOT.glob("playbooks/**/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]
    tasks = [(path.name, task) for path in files for task in list_tasks(yaml.safe_load(path.read_text()))]
    shown = [(name, task["ansible.builtin.debug"]) for name, task in tasks if "ansible.builtin.debug" in task]
    assert len(shown) > 20
    wrong = [
        (name, options)
        for name, options in shown
        # A message with words of its own is a sentence.
        if not re.search(r"[A-Za-z]{3,} [a-z]{2,}", re.sub(r"\{\{ [^'~]* \}\}", "", options.get("msg", "")))
        and options.get("msg") not in SINGLE_LINES
        and not re.search(r"splitlines\(\)", options.get("msg", ""))
    ]
    assert wrong == []


EXAMPLES = ROOT / "inventories/example/group_vars"


@pytest.mark.parametrize("name", ["Zen 6 sample", "9686F"])
def test_the_example_of_the_sixth_generation_fits_l3_domains_of_64_and_48_mib(name: str) -> None:
    """Nobody has run it on a host, so that it is planned on what was seen and on what is said."""
    values = yaml.safe_load((EXAMPLES / "epyc9006.yml").read_text())
    intent = {role: values[f"epyc_plan_{role}"] for role in ("housekeeping", "draft", "verify", "default")}
    top = hosts.standing(name).topology()
    plan = build_plan(Intent.from_options(intent), top)
    assert plan.cannot == {} and plan.remarks == []
    assert len(plan.draft) == 2 * hosts.ZEN6_SHAPES[name]["cores_per_l3"]
    assert {count_ways(mask) for mask in plan.default.masks.values()} == {4}
    assert {count_ways(mask) for group in plan.groups for mask in group.masks.values()} == {4, 12}


@pytest.mark.parametrize(
    ("example", "sku", "nodes"),
    [("three_tenants", "9354", ["0", "1", "2-3"]), ("instance_per_socket", "two 7543", ["0", "1"])],
)
def test_the_examples_of_several_instances_can_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str, sku: str, nodes: list[str]
) -> None:
    """As they stand there, with models in this folder: none maps a file that another has on other nodes."""
    tmp_path.chmod(0o755)
    free = free_memory.FreeMemory(dict.fromkeys(range(4), 30 * GB))
    monkeypatch.setattr(free_memory, "read_free_and_staged_memory", lambda *dummy: free)
    services: list[InstancePlan] = []
    asked: list[dict[str, Any]] = yaml.safe_load((EXAMPLES / f"{example}.yml").read_text())["epyc_llama_instances"]
    for one in asked:
        model = ggufs.written(tmp_path / Path(one["model"]).name, GB).path
        options = Options.parse({"binary": "/usr/bin/llama-server", **one, "model": model})
        services.append(shared_host.plan_instance_among_others(LlamaEngine(), machine(sku), options, NEW, [], services))
    assert [service.expect["nodes"] for service in services] == nodes


def test_the_instances_of_the_example_can_be_asked_for() -> None:
    files = [yaml.safe_load(path.read_text()) for path in EXAMPLES.iterdir()]
    instances = [one for file in files for one in file.get("epyc_llama_instances", ())]
    kinds = {Options.parse({"binary": "/usr/bin/llama-server", **one}).speculation_text for one in instances}
    assert kinds >= {"ngram", "ngram,draft"}


#: What somebody writes who means to leave a layer out, each for a host of its own, and what the refusal names.
ODD_STEPS = {
    "switched": ({"base": False}, "epyc_steps of switched is a dictionary"),
    "text": ("base,numma", "epyc_steps of text has numma; did you mean numa?"),
    "json": ('["numma"]', "epyc_steps of json has numma; did you mean numa?"),
    "false": (False, "epyc_steps of false is false"),
    "nested": ([{"base": False}], "epyc_steps of nested has {'base': False}"),
    "unknown": (["base", "numma"], "epyc_steps of unknown has numma"),
}
LOCAL = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}


def run_refused_check(
    run: Callable[..., str], folder: Path, hosts: dict[str, dict[str, object]], *arguments: str
) -> str:
    """Return what a check of site.yml says that refuses each of these hosts, which are this machine."""
    inventory = folder / "hosts.json"
    inventory.write_text(
        json.dumps({"epyc_servers": {"hosts": {name: {**LOCAL, **one} for name, one in hosts.items()}}})
    )
    with pytest.raises(pytest.fail.Exception) as caught:
        run("ansible-playbook", "-i", str(inventory), "playbooks/site.yml", "--check", *arguments)
    said = str(caught.value)
    # The next tasks would be those of the first layer.
    assert "Refuse before anything is changed what this host cannot have" in said
    assert "Refuse what the collection is not made for" not in said
    return said


def test_layers_that_are_no_list_of_names_run_nothing(run: Callable[..., str], tmp_path: Path) -> None:
    said = run_refused_check(run, tmp_path, {name: {"epyc_steps": steps} for name, (steps, dummy) in ODD_STEPS.items()})
    for dummy, words in ODD_STEPS.values():
        assert words in " ".join(said.split()), said


def test_all_refusals_of_a_host_are_one_message(run: Callable[..., str], tmp_path: Path) -> None:
    """Those of the request, of the plan, of the roles and of the instances."""
    host: dict[str, object] = {
        "epyc_plan_sku": "none",
        "epyc_plan_verfy": {},
        "epyc_numa_thp": "sometimes",
        "epyc_llama_instances": [{"name": "chat", "modell": "/none", "port": 8080}, {"name": "code", "port": 8081}],
    }
    said = run_refused_check(run, tmp_path, {"epyc-1": host}, "--tags", "numa,llama")
    lines = said.partition("[ERROR]: ")[2].split("\nOrigin:")[0].splitlines()
    assert lines[-1] == "Nothing was changed."
    for words in (
        "There is no variable epyc_plan_verfy; did you mean epyc_plan_verify?",
        "for an EPYC none (epyc_plan_sku)",
        "Variables of the layer numa: value of epyc_numa_thp must be one of",
        "Instance chat: An instance has no option 'modell'; did you mean model?",
        "Instance code: model is missing",
    ):
        assert [line for line in lines if words in line], said


def test_the_variables_of_playbooks_are_on_a_page() -> None:
    """A user finds each variable of a playbook or role on a page or in the argument specs of the role."""
    read = {name for name in known_variables.list_collection_variables() if not name.endswith("_result")}
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("roles/*/README.md"), *ROOT.glob("roles/*/meta/main.yml")]
    listed = {name for page in pages for name in re.findall(r"\bepyc_\w+", page.read_text(encoding="utf-8"))}
    others = {path.stem for folder in ("plugins/modules", "roles") for path in (ROOT / folder).iterdir()}
    assert {
        name for name in read - listed - others if not name.startswith(SET_BY_PLAYS) and not name.endswith("_now")
    } == set()


def read_playbook_specs() -> dict[str, dict[str, Any]]:
    """Return by the name of a playbook its variables, each as meta/play_variables.yml has it."""
    specs = yaml.safe_load((ROOT / "meta/play_variables.yml").read_text(encoding="utf-8"))["argument_specs"]
    return {name: spec["options"] for name, spec in specs.items()}


def test_each_variable_of_a_playbook_is_in_the_specs_of_playbooks() -> None:
    """Whoever lists the variables of the collection has those of roles in their argument specs, and these here."""
    texts = {path: path.read_text(encoding="utf-8") for path in ROOT.glob("playbooks/**/*.yml")}
    read = {name for text in texts.values() for name in re.findall(r"(?<![\w.])epyc_\w+", text)}
    roles = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in ROOT.glob("roles/*/meta/main.yml")]
    entry_points = [entry for role in roles for entry in role["argument_specs"].values()]
    of_roles = {name for entry in entry_points for name in entry.get("options", ())}
    names = {path.stem for folder in ("plugins/modules", "roles") for path in (ROOT / folder).iterdir()}
    # Facts and groups that plays make, groups of hosts with the variables that name others, which the lookup
    # require_hosts describes, and the file epyc_tuned.yml.
    groups = {*GROUP_VARIABLES, *GROUP_VARIABLES.values()}
    others = (*SET_BY_PLAYS, "epyc_plan_history", "epyc_roll_now", "epyc_roll_not", "epyc_tuned")
    expected = {
        name
        for name in read - of_roles - names - groups
        if not name.startswith(others) and not name.endswith(("_result", "_now"))
    }
    specs = read_playbook_specs()
    assert {name for options in specs.values() for name in options} == expected
    shared = "".join(text for path, text in texts.items() if path.parent.name in ("tasks", "vars"))
    unread = [
        (playbook, name)
        for playbook, options in specs.items()
        for name in options
        if name not in texts[ROOT / f"playbooks/{playbook}.yml"] + shared
    ]
    assert unread == []


def test_options_of_modules_that_variables_are_passed_to_exist() -> None:
    for options in read_playbook_specs().values():
        for name, spec in options.items():
            module, dummy, option = spec.get("option_of", "").partition(".")
            if not module:
                assert spec["description"], name
                continue
            text = (ROOT / f"plugins/modules/{module}.py").read_text(encoding="utf-8")
            fragments = set(re.findall(r"^ *- sovereign\.epyc\.(\w+)", text, re.MULTILINE))
            parts = [(ROOT / f"plugins/doc_fragments/{part}.py").read_text(encoding="utf-8") for part in fragments]
            assert re.search(rf"^  {option}:$", "".join([text, *parts]), re.MULTILINE), (name, spec)


def test_the_inventories_of_the_clone_have_no_unknown_variable() -> None:
    files = [yaml.safe_load(path.read_text()) for path in (ROOT / "inventories").rglob("*.yml")]
    names = {name for file in files if isinstance(file, dict) for name in file}
    assert len(names) > 10
    assert known_variables.unknown_variable_messages(names) == []
