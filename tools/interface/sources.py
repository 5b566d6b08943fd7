# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the interface of the collection from its sources: every name that users write, read or find on a host.

An interface maps kinds to names, and names to what belongs to each: its type, "optional" for what may be left out, a
value after an equals sign, an environment variable, a key of ansible.cfg. What is part of something else has a dotted
name, such as "hugepages.pools.node".
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.sovereign.epyc.plugins.module_utils import _agent, _cli_usage
from ansible_collections.sovereign.epyc.plugins.module_utils._bench import run as benchmark_run
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents.document_shape import DOCUMENT_SHAPE
from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics, repair
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import service as gateway_service
from ansible_collections.sovereign.epyc.plugins.module_utils._io import module_sources, paths, store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import drop_in
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol import ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import Leaf, Nullable
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options import unit_names
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import baseline
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify import metrics as service_metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._setup import (
    command_help,
    host_tool,
    last_run,
    prerequisites,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import host_metrics, memory_item
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.host_facts import FACTS_SHAPE
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names import known_variables
from ansible_collections.sovereign.epyc.plugins.plugin_utils._run_page import run_metrics

Interface = dict[str, dict[str, list[str]]]
#: The names of a kind, each with what belongs to it.
Names = Iterator[tuple[str, list[str]]]

ROOT = Path(__file__).parents[2]
COLLECTION = "sovereign.epyc."
OPTIONAL = "optional"
UNITS = paths.UNIT_FOLDER
FILES_ON_HOSTS = (
    paths.HOST_TOOL,
    f"{paths.HOST_TOOL_FOLDER}/",
    module_sources.BENCH,
    command_help.MANUAL_PAGE,
    command_help.COMPLETION,
    *(f"{UNITS}/{name}" for name in (*host_tool.SERVICES, *host_tool.CHECKS, _agent.SOCKET, _agent.SERVICE)),
    f"{UNITS}/{unit_names.WORKER_UNIT}",
    *(f"{UNITS}/{begin}NAME{_agent.END}" for begin in _agent.BEGIN.values()),
    f"{UNITS}/{_agent.BEGIN['']}NAME{_agent.DRAFT_END}",
    *(
        f"{store.HOME}/{name}"
        for name in (*ledger.FILES, store.REQUESTS, store.HISTORY, last_run.FILE, store.MEMORY_SPEED, store.REPAIRS)
    ),
    f"{store.HOME}/{baseline.BASELINES}",
    f"{benchmark_run.FOLDER}/",
    _agent.AWAY,
    prerequisites.FILE,
    drop_in.DROP_IN,
    *(path for path, dummy in gateway_service.SERVICES.values()),
)
METRICS = (metrics, repair, host_metrics, memory_item, service_metrics, run_metrics)


def read_interface() -> Interface:
    """Return the interface as the sources of the clone have it."""
    plugins = read_plugin_documentation()
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    roles = {name: role["entry_points"] for name, role in plugins["role"].items()}
    variables = [pair for entries in roles.values() for entry in entries.values() for pair in _list_options(entry)]
    sections: dict[str, Names] = {
        "Playbooks": iter((path.stem, []) for path in (ROOT / "playbooks").glob("*.yml")),
        "Variables of playbooks": _list_playbook_variables({name for name, dummy in variables}),
        "Roles": iter((f"{name}.{entry}", []) for name, entries in roles.items() for entry in entries),
        "Variables of roles": iter(variables),
        "Modules": _list_plugins(plugins["module"]),
        "Results of modules": _list_results(plugins["module"]),
        "Groups of modules": iter((f"{group}.{name}", []) for group, names in groups.items() for name in names),
        "Filters": _list_plugins(plugins["filter"]),
        "Lookups": _list_plugins(plugins["lookup"]),
        "Callbacks": _list_plugins(plugins["callback"]),
        "Commands of sovereign-epyc": iter(
            (".".join(filter(None, (command, option))), [])
            for command, options in _cli_usage.OPTIONS.items()
            for option in ("", *options)
        ),
        "Exit codes of sovereign-epyc": iter((str(code), []) for code in _cli_usage.EXIT_CODES),
        "Exit codes of playbooks": _list_exit_codes((ROOT / "docs/exit-codes.md").read_text(encoding="utf-8")),
        "Metrics": iter((name, []) for module in METRICS for name in module.HELP),
        "Files on hosts": iter((path, []) for path in FILES_ON_HOSTS),
        "Keys of the document of a run": _list_shape(DOCUMENT_SHAPE),
        "Keys of the facts for capacity": _list_shape(FACTS_SHAPE),
        "Keys of the drift report": _list_schema(
            json.loads((ROOT / "docs/drift-report.schema.json").read_text(encoding="utf-8"))
        ),
    }
    return {kind: {name: parts for name, parts in sorted(names)} for kind, names in sections.items()}


def read_plugin_documentation() -> dict[str, dict[str, Any]]:
    """Return what ansible-doc says of the roles and plugins of the collection, by type and short name."""
    command = ["ansible-doc", "--metadata-dump", "--no-fail-on-errors", COLLECTION.rstrip(".")]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    documented: dict[str, dict[str, Any]] = json.loads(done.stdout)["all"]
    return {
        kind: {name.removeprefix(COLLECTION): entry for name, entry in entries.items() if name.startswith(COLLECTION)}
        for kind, entries in documented.items()
    }


def _list_plugins(plugins: Mapping[str, Any]) -> Names:
    for name, plugin in plugins.items():
        yield name, []
        yield from _list_options(plugin["doc"], f"{name}.")


def _list_options(entry: Mapping[str, Any], before: str = "") -> Names:
    """Yield the options of an entry, with those inside of them; ``before`` begins their names."""
    for key in ("options", "suboptions"):
        for name, option in (entry.get(key) or {}).items():
            parts = [_format_type(option), *([] if option.get("required") else [OPTIONAL])]
            parts += [f"={choice}" for choice in option.get("choices") or ()]
            parts += [f"alias {alias}" for alias in option.get("aliases") or ()]
            parts += [f"env {variable['name']}" for variable in option.get("env") or ()]
            parts += [f"ini {place['section']}.{place['key']}" for place in option.get("ini") or ()]
            yield f"{before}{name}", parts
            yield from _list_options(option, f"{before}{name}.")


def _list_results(modules: Mapping[str, Any]) -> Names:
    def list_values(values: Mapping[str, Any], before: str) -> Names:
        for name, value in values.items():
            yield f"{before}{name}", [_format_type(value)]
            yield from list_values(value.get("contains") or {}, f"{before}{name}.")

    for module, entry in modules.items():
        yield module, []
        yield from list_values(entry["return"] or {}, f"{module}.")


def _format_type(option: Mapping[str, Any]) -> str:
    kind = str(option.get("type", "str"))
    return f"{kind} of {option['elements']}" if "elements" in option else kind


def _list_playbook_variables(of_roles: set[str]) -> Names:
    """Yield the variables that playbooks read and a page describes; others are set by the playbooks themselves."""
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "interface.md"]
    described = {name for page in pages for name in re.findall(r"\bepyc_\w+", page.read_text(encoding="utf-8"))}
    files = {path.stem for folder in ("plugins/modules", "roles") for path in (ROOT / folder).iterdir()}
    for name in (known_variables.list_collection_variables() & described) - of_roles - files:
        yield name, []


def _list_exit_codes(page: str) -> Names:
    """Yield the exit code of each playbook in each state, by the table of the page on exit codes."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    (head,) = (number for number, row in enumerate(rows) if row[0] == "Playbook")
    states = rows[head][1:-1]
    for playbook, *codes in rows[head + 2 :]:
        yield playbook.strip("`"), []
        for state, code in zip(states, codes, strict=False):
            if code != "-":
                yield f"{playbook.strip('`')}.{state}", [code]


def _list_shape(shape: Any, before: str = "") -> Names:
    """Yield the keys of a shape of _notation/shape.py; a key that stands for any other is left out."""
    if isinstance(shape, Nullable):
        yield from _list_shape(shape.shape, before)
    elif isinstance(shape, list):
        yield from _list_shape(shape[0], before)
    elif isinstance(shape, dict):
        for key, value in shape.items():
            if not isinstance(key, Leaf):
                yield f"{before}{key}", []
                yield from _list_shape(value, f"{before}{key}.")


def _list_schema(schema: Mapping[str, Any]) -> Names:
    """Yield the keys of a JSON schema; those of a definition have its name first."""
    yield from _list_properties(schema, "")
    for name, definition in schema["$defs"].items():
        keys = list(_list_properties(definition, f"{name}."))
        if keys:
            yield from [(name, []), *keys]


def _list_properties(schema: Mapping[str, Any], before: str) -> Names:
    for key, value in schema.get("properties", {}).items():
        yield f"{before}{key}", []
        yield from _list_properties(value, f"{before}{key}.")
    for part in (schema.get("items"), schema.get("additionalProperties"), *schema.get("oneOf", ())):
        if isinstance(part, dict):
            yield from _list_properties(part, before)
