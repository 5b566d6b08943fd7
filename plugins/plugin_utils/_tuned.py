# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variable epyc_llama_tuned: what a tuning found out goes over the options of the instances, and into a file.

An entry of it is what the module llama_tune returns as ``tuned``, by the name of the instance.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.yaml import yaml_dump

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_decimal
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.templates import has_template
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kinds import require_table, require_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    Entry = dict[str, Any]

HEAD = """\
# Made by tune.yml of the collection sovereign.epyc, which makes it anew: do not change it here. These options win over
# those of epyc_llama_instances. To go back, delete this file and run site.yml.
---
"""


def with_tuned(instances: Any, tuned: Any, place: str = "") -> list[dict[str, Any]]:
    """Return the instances, each with its tuned options over its own. An entry of no instance here says nothing.

    ``place`` begins the sentences: the name of the host, where several are looked at. BadRequest for an entry without
    options, and for what is no list of instances.
    """
    entries = require_table(tuned or {}, f"{place}epyc_llama_tuned")
    options = {name: _options(f"{place}epyc_llama_tuned: {name}", entry) for name, entry in entries.items()}
    rows = require_tables(instances, f"{place}epyc_llama_instances", "instances")
    return [{**one, **options.get(str(one.get("name", "")), {})} for one in rows]


def tuned_file(hosts: Mapping[str, Mapping[str, Any]], kept: Mapping[str, Any], together: bool) -> dict[str, Any]:
    """Return the ``text`` of the file with epyc_llama_tuned after some runs, empty where they change nothing in it.

    ``hosts`` has for each host its epyc_llama_tuned as ``tuned``, the ``results`` of llama_tune, and as ``now`` those
    of llama_fingerprint_info; ``kept`` are the entries that the file has beside. Is it for several hosts together, they
    have to agree, and ``differences`` says where they do not: then there is no text.

    BadRequest for a result that must not be in a file of variables.
    """
    found = {host: _entries(one) for host, one in hosts.items()}
    differences: list[str] = []
    if together:
        entries, differences = _agreed(found)
    else:
        (entries,) = found.values()
    old = _plain(require_table(kept or {}, "epyc_llama_tuned of the file"))
    new = {**old, **{name: entry for name, entry in entries.items() if entry}}
    text = "" if differences or new == old else HEAD + yaml_dump({"epyc_llama_tuned": new}, width=100)
    return {"text": text, "differences": differences}


def _options(where: str, entry: Any) -> Mapping[str, Any]:
    options = entry.get("options") if isinstance(entry, Mapping) else None
    if not isinstance(options, Mapping):
        raise BadRequest(f"{where} has no options. Have it as tune.yml wrote it, or delete it.")
    return options


def _entries(host: Mapping[str, Any]) -> dict[str, Entry]:
    """Return the entries of a host that its runs decide on, an empty one where the inventory stays without.

    A check decides on nothing, and neither does a run that is void. What was tuned before is the default of a run, so
    what the run found out comes on top of it; and where it stays, it holds for the host as it is now.
    """
    before = _plain(require_table(host["tuned"] or {}, "epyc_llama_tuned"))
    for name, entry in before.items():
        _options(f"epyc_llama_tuned: {name}", entry)
    now = {one["item"]: _safe(one["item"], one["found"]) for one in host["now"]}
    entries: dict[str, Entry] = {}
    for run in host["results"]:
        if run["clean"] and run["document"]:
            name = str(run["item"]["name"])
            old, new = before.get(name, {}), _safe(name, run["tuned"])
            if new:
                entries[name] = {
                    **new,
                    "options": {**old.get("options", {}), **_options(f"epyc_llama_tuned: {name}", new)},
                }
            else:
                entries[name] = {**old, **({"measured_on": now[name]} if name in now else {})}
    return entries


def _agreed(found: Mapping[str, Mapping[str, Entry]]) -> tuple[dict[str, Entry], list[str]]:
    """Return the entries on which hosts agree, and a sentence on each instance for which there is no such entry."""
    entries: dict[str, Entry] = {}
    differences = []
    for name in sorted({name for one in found.values() for name in one}):
        those = {host: one[name] for host, one in found.items() if name in one}
        said = {host: _said(entry) for host, entry in those.items()}
        if len(those) == 1:
            differences.append(f"{name} was measured on {', '.join(those)} alone.")
        elif len(set(said.values())) > 1:
            each = "; ".join(f"{host} has {text}" for host, text in said.items())
            differences.append(f"The hosts differ on {name}: {each}.")
        else:
            entries[name] = _shared(list(those.values()))
    return entries, differences


def _said(entry: Entry) -> str:
    return ", ".join(f"{option} {value}" for option, value in sorted(entry.get("options", {}).items())) or "the default"


def _shared(entries: Sequence[Entry]) -> Entry:
    """Return one entry for hosts with the same options: that of the least gain, with what all were measured on."""
    if not all(entries):
        return {}
    least = min(entries, key=lambda one: parse_decimal(one.get("ratio")) or 0)
    known = [require_table(one.get("measured_on") or {}, "epyc_llama_tuned: measured_on") for one in entries]
    same = {key: value if all(one.get(key) == value for one in known) else None for key, value in known[0].items()}
    return {**least, "measured_on": same}


def _safe(name: str, data: Any) -> Any:
    """Return plain data of a host; BadRequest where the controller would run a part of it as a template."""
    if has_template(str(_plain(data))):
        raise BadRequest(f"{name}: the result of the host has braces that Ansible would take for a template.")
    return _plain(data)


def _plain(data: Any) -> Any:
    """Return data without what Ansible has noted on each value."""
    if isinstance(data, Mapping):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(one) for one in data]
    for kind in (bool, int, float, str):
        if isinstance(data, kind):
            return kind(data)
    return data
