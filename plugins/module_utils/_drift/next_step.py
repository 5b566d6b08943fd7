# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What to do about something that is not as configured: a playbook or a command of the host, as a sentence.

It stands apart from the words for settings, because modules that judge no setting say it of the units of instances.
"""

from __future__ import annotations

#: A repair that begins with this is a playbook; any other is a command for the host.
PLAYBOOKS = "sovereign.epyc."


def repair_of_unit(address: str) -> tuple[str, list[str], str]:
    """Return role, variables and repairing play of the address of a unit: an instance, or a worker."""
    parts = address.partition(":")[2].split("/")
    if any(part.startswith("vllm-") for part in parts):
        return "vllm", ["vllm_instances"], "sovereign.epyc.vllm"
    if any(part.startswith("llama-") for part in parts):
        return "llama", ["llama_instances"], "sovereign.epyc.site --tags llama"
    return "group", [], "sovereign.epyc.group"


def describe_step(repair: str) -> str:
    """Return a repair as the end of a sentence, such as "run site.yml --tags cat"; an empty text for no repair."""
    if repair.startswith(PLAYBOOKS):
        name, dummy, options = repair[len(PLAYBOOKS) :].partition(" ")
        return f"run {name}.yml {options}".rstrip()
    return f"run '{repair}' on the host" if repair else ""


def as_sentence(step: str) -> str:
    """Return a step as a sentence; an empty text for none."""
    return f"{step[:1].upper()}{step[1:]}." if step else ""


def advise_on_unit(unit: str) -> str:
    """Return what to do about a unit that does not run: where its reason is, and what starts it."""
    step = as_sentence(describe_step(repair_of_unit(f"llama:{unit}")[2]))
    return f"'journalctl -u {unit}' says why. {step}"
