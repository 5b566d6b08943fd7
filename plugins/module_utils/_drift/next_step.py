# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The repair of a finding as a sentence: which playbook to run, or which command on the host.

This file is apart from words.py, so that modules that only check units need not load the words of all settings.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The prefix of the names of playbooks. A repair without it is a command for the host.
PLAYBOOKS = "sovereign.epyc."
#: The playbook whose repairs are one run with the tags of all of them, and the option before its tags.
SITE, TAGS = f"{PLAYBOOKS}site", " --tags "


def role_variables_and_repair_of_unit(address: str) -> tuple[str, list[str], str]:
    """Return the role, the variables and the repair for the address of a unit of an instance or a worker."""
    parts = address.partition(":")[2].split("/")
    if any(part.startswith("vllm-") for part in parts):
        return "vllm", ["epyc_vllm_instances"], "sovereign.epyc.vllm"
    if any(part.startswith("llama-") for part in parts):
        return "llama", ["epyc_llama_instances"], "sovereign.epyc.site --tags llama"
    return "group", [], "sovereign.epyc.group"


def is_playbook(repair: str) -> bool:
    """Return True if a repair is a playbook with its options, False for a command of the host, or no repair."""
    return repair.startswith(PLAYBOOKS)


def choose_next_repair(repairs: Sequence[str]) -> tuple[str, list[str]]:
    """Return the repair to make first, and those of ``repairs`` that it makes.

    It is site.yml with the tags of all its repairs; without such repairs the first one, "" where there is none.
    """
    of_site = [repair for repair in repairs if repair.partition(" ")[0] == SITE]
    if of_site and SITE not in of_site:
        tags = dict.fromkeys(repair.partition(TAGS)[2] for repair in of_site)
        return f"{SITE}{TAGS}{','.join(tags)}", of_site
    first = SITE if of_site else next(filter(None, repairs), "")
    return first, of_site or [first]


def repair_to_words(repair: str) -> str:
    """Return a repair in words, such as "run site.yml --tags cat"; "" for no repair."""
    if is_playbook(repair):
        name, dummy, options = repair[len(PLAYBOOKS) :].partition(" ")
        return f"run {name}.yml {options}".rstrip()
    return f"run '{repair}' on the host" if repair else ""


def capitalize_and_end_step(step: str) -> str:
    """Return a step as a sentence, with a capital and a full stop; "" for no step."""
    return f"{step[:1].upper()}{step[1:]}." if step else ""


def stopped_unit_advice(unit: str) -> str:
    """Return the advice for a unit that does not run: where its journal is, and what starts it."""
    step = capitalize_and_end_step(repair_to_words(role_variables_and_repair_of_unit(f"llama:{unit}")[2]))
    return f"'journalctl -u {unit}' says why. {step}"
