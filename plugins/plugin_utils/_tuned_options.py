# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variable epyc_llama_tuned: the options that tunings measured as best, by the name of the instance.

Tuned options replace options of instances, and tune.yml writes tuned options into a file. An entry is the return value
``tuned`` of the module llama_tune.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.yaml import yaml_dump

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_decimal
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.templates import has_template
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import require_table, require_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    Entry = dict[str, Any]

HEAD = """\
# Made by tune.yml of the collection sovereign.epyc, which makes it anew: do not change it here. These options win over
# those of epyc_llama_instances. To go back, delete this file and run site.yml.
---
"""


def apply_tuned_options(instances: Any, tuned: Any, prefix: str = "") -> list[dict[str, Any]]:
    """Return the instances with their tuned options in place of those of the inventory.

    Entries of other instances are ignored. ``prefix`` begins the error sentences, such as "epyc-07: " for a host.

    Raises BadRequest for an entry without options, and for instances that are no list.
    """
    entries = require_table(tuned or {}, f"{prefix}epyc_llama_tuned")
    options = {
        name: _require_tuned_options(f"{prefix}epyc_llama_tuned: {name}", entry) for name, entry in entries.items()
    }
    rows = require_tables(instances, f"{prefix}epyc_llama_instances", "instances")
    return [{**instance, **options.get(str(instance.get("name", "")), {})} for instance in rows]


def render_tuned_file_and_differences(
    results_by_host: Mapping[str, Mapping[str, Any]], other_entries: Mapping[str, Any], is_shared: bool
) -> dict[str, Any]:
    """Return the ``text`` of the file with epyc_llama_tuned after tuning runs; "" where the runs change nothing in it.

    ``results_by_host`` has for each host its epyc_llama_tuned as ``tuned``, the ``results`` of llama_tune, and the
    results of llama_fingerprint_info as ``now``. ``other_entries`` are already in the file. With ``is_shared``, all
    hosts must agree: otherwise ``differences`` has a sentence for each instance with a difference, and ``text`` is "".

    Raises BadRequest for a result that must not be in a file of variables.
    """
    entries_by_host = {host: _tuned_entries_of_host(results) for host, results in results_by_host.items()}
    differences: list[str] = []
    if is_shared:
        entries, differences = _merge_entries_of_hosts(entries_by_host)
    else:
        (entries,) = entries_by_host.values()
    before = _strip_ansible_tags(require_table(other_entries or {}, "epyc_llama_tuned of the file"))
    after = {**before, **{name: entry for name, entry in entries.items() if entry}}
    text = "" if differences or after == before else HEAD + yaml_dump({"epyc_llama_tuned": after}, width=100)
    return {"text": text, "differences": differences}


def _require_tuned_options(place: str, entry: Any) -> Mapping[str, Any]:
    options = entry.get("options") if isinstance(entry, Mapping) else None
    if not isinstance(options, Mapping):
        raise BadRequest(f"{place} has no options. Restore it as tune.yml wrote it, or delete it.")
    return options


def _tuned_entries_of_host(host: Mapping[str, Any]) -> dict[str, Entry]:
    """Return the entries that the runs on a host decide, an empty entry for an instance that stays as in the inventory.

    Runs in check mode and discarded runs decide nothing. The options before a run were its default, so the options that
    it chose come on top of them. Where a run kept the default, the entry gets the fingerprint of the host as it is now.
    """
    before = _strip_ansible_tags(require_table(host["tuned"] or {}, "epyc_llama_tuned"))
    for name, entry in before.items():
        _require_tuned_options(f"epyc_llama_tuned: {name}", entry)
    fingerprints = {
        result["item"]: _strip_tags_and_refuse_templates(result["item"], result["found"]) for result in host["now"]
    }
    entries: dict[str, Entry] = {}
    for run in host["results"]:
        if run["clean"] and run["document"]:
            name = str(run["item"]["name"])
            old, new = before.get(name, {}), _strip_tags_and_refuse_templates(name, run["tuned"])
            if new:
                chosen = _require_tuned_options(f"epyc_llama_tuned: {name}", new)
                entries[name] = {**new, "options": {**old.get("options", {}), **chosen}}
            else:
                entries[name] = {**old, **({"measured_on": fingerprints[name]} if name in fingerprints else {})}
    return entries


def _merge_entries_of_hosts(entries_by_host: Mapping[str, Mapping[str, Entry]]) -> tuple[dict[str, Entry], list[str]]:
    """Return the entries on which all hosts agree, and a sentence for each instance on which they differ."""
    merged: dict[str, Entry] = {}
    differences = []
    for name in sorted({name for entries in entries_by_host.values() for name in entries}):
        by_host = {host: entries[name] for host, entries in entries_by_host.items() if name in entries}
        options = {host: _format_tuned_options(entry) for host, entry in by_host.items()}
        if len(by_host) == 1:
            differences.append(f"{name} was measured on {', '.join(by_host)} alone.")
        elif len(set(options.values())) > 1:
            texts = "; ".join(f"{host} has {text}" for host, text in options.items())
            differences.append(f"The hosts differ on {name}: {texts}.")
        else:
            merged[name] = _merge_agreeing_entries(list(by_host.values()))
    return merged, differences


def _format_tuned_options(entry: Entry) -> str:
    return ", ".join(f"{option} {value}" for option, value in sorted(entry.get("options", {}).items())) or "the default"


def _merge_agreeing_entries(entries: Sequence[Entry]) -> Entry:
    """Return one entry for hosts with the same options: the least gain, and the facts that all fingerprints share."""
    if not all(entries):
        return {}
    least = min(entries, key=lambda entry: parse_decimal(entry.get("ratio")) or 0)
    first, *rest = [require_table(entry.get("measured_on") or {}, "epyc_llama_tuned: measured_on") for entry in entries]
    common = {key: value if all(facts.get(key) == value for facts in rest) else None for key, value in first.items()}
    return {**least, "measured_on": common}


def _strip_tags_and_refuse_templates(name: str, data: Any) -> Any:
    """Return data of a host as plain values; raises BadRequest where the controller would run a part as a template."""
    plain = _strip_ansible_tags(data)
    if has_template(str(plain)):
        raise BadRequest(f"{name}: the result of the host has braces that Ansible would take for a template.")
    return plain


def _strip_ansible_tags(data: Any) -> Any:
    """Return data as plain Python values, without the tags that Ansible attaches to values, such as their origin."""
    if isinstance(data, Mapping):
        return {str(key): _strip_ansible_tags(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_strip_ansible_tags(item) for item in data]
    return next((kind(data) for kind in (bool, int, float, str) if isinstance(data, kind)), data)
