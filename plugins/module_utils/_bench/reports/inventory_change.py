# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which lines of the inventory a result asks to change, as the lines of a diff that can be copied.

A document does not hold the inventory, so a removed line names its variable or option without the value.
"""

from __future__ import annotations

from ..._knobs.catalogue import find_knob_row
from ..rounds import schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

#: Option of an ablation -> the options of an entry of epyc_llama_instances that decide on it.
INSTANCE_OPTIONS: dict[str, tuple[str, ...]] = {
    "threads": ("threads",),
    "batch threads": ("threads_batch",),
    "speculation": ("speculation",),
    "batch sizes": ("batch", "ubatch"),
    "KV cache types": ("cache_type_k", "cache_type_v"),
    "flash attention": ("flash_attention",),
    "load mode": ("lock", "direct_io"),
    "repacking": ("repack",),
    "repacking at the start": ("repack_at_start",),
    "memory policy": ("memory",),
    "CPU set": ("cpus",),
}
#: Options that are in force though the inventory has no line for them -> the value that turns them off.
OFF_VALUES = {"speculation": "none"}
INSTANCES = "epyc_llama_instances"


def render_removal_diff(instance: str, arms: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a diff that take the settings of some removal arms out of the inventory of a host."""
    variables: dict[str, None] = {}
    options: list[str] = []
    for arm in arms:
        variables.update(dict.fromkeys(_inventory_variables(arm)))
        options += _option_lines(arm)
    lines = [f"-{name}" if name.startswith("#") else f"-{name}: ..." for name in variables]
    if options:
        lines += [f" {INSTANCES}:", f"   - name: {instance}", *options]
    return lines


def render_options_diff(instance: str, options: Mapping[str, Any], default: Mapping[str, Any]) -> list[str]:
    """Return the lines of a diff that give an instance other options than its default."""
    lines = [f" {INSTANCES}:", f"   - name: {instance}"]
    for name, value in options.items():
        lines += [f"-    {name}: {default[name]}"] if default.get(name) is not None else []
        lines.append(f"+    {name}: {value}")
    return lines


def _inventory_variables(arm: Mapping[str, Any]) -> Iterator[str]:
    for address, original in arm["settings"].items():
        row = find_knob_row(address)
        name = row.find_inventory_variable(address.partition(":")[2], original) if row else ""
        # Without a variable, as for a CPU whose role is not known here, the address says what was set.
        yield name or f"# {address}"


def _option_lines(arm: Mapping[str, Any]) -> Iterator[str]:
    if not arm["arguments"]:
        return
    name = str(arm["without"] or arm["name"])
    options = INSTANCE_OPTIONS.get(name, ())
    for option in options:
        yield f"-    {option}: ..."
        if option in OFF_VALUES:
            yield f"+    {option}: {OFF_VALUES[option]}"
    if not options:
        yield f"-    # {name}: {' '.join(arm['arguments'])}"


def changed_options_text(arm: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """Return the options of a candidate as text, each with its value in the default."""
    return ", ".join(f"{name} {value} instead of {default.get(name)}" for name, value in arm["options"].items())


def removal_arms(arms: Sequence[Mapping[str, Any]], settings: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the arms of a plan that leave out one of these settings."""
    by_name = {arm["name"]: arm for arm in arms}
    return [by_name[schedule.removal_arm_name(name)] for name in settings if schedule.removal_arm_name(name) in by_name]
