# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables that the collection reads, and the search for misspelt ones in an inventory.

Variables of roles are in their argument specs, those of playbooks in ``PLAYBOOK_VARIABLES`` and in docs/variables.md.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.suggestions import find_similar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROLES = Path(__file__).parents[2] / "roles"
#: The beginning of the name of every role and variable.
PREFIX = "epyc_"
#: Variables of playbooks, and of several roles together -> the meaning of each.
PLAYBOOK_VARIABLES = {
    "epyc_foreign_variables": "names that look like ours and belong to somebody else, which are no misspelt ones then",
    "epyc_reboot_batches": "how many hosts `reboot.yml` reboots at a time",
    "epyc_reboot_force": "whether a host is rebooted though others need it",
    "epyc_reboot_ok": "whether `reboot.yml` may reboot; without it, it only looks",
    "epyc_repair_batch": "how many hosts `repair.yml` repairs at a time",
    "epyc_repair_host": "the one host that `repair.yml` may repair, as an alert names it",
    "epyc_repair_most": "how many hosts may need a repair before `repair.yml` asks a person",
    "epyc_repair_roles": "the roles whose settings `repair.yml` repairs",
    "epyc_restore_history": "whether `restore.yml` also removes the history of the host",
    "epyc_restore_instances": "whether `restore.yml` also removes instances of llama.cpp",
    "epyc_restore_layers": "the layers that `restore.yml` undoes; without it, all",
    "epyc_restore_without_originals": "whether `restore.yml` goes on where the record of originals is lost",
    "epyc_roll_batches": "how many hosts `roll.yml` takes at a time",
    "epyc_steps": "the layers of `site.yml` that a host is to have",
    "epyc_undo_unasked": "whether a layer puts back what it set once and is asked for no more",
    "epyc_site_batches": "how many hosts `site.yml` takes at a time",
    "epyc_site_failures": "the percentage of a batch that may fail before `site.yml` ends",
    "epyc_site_hosts": "the hosts of `site.yml`",
}
#: The end of names under which tasks register results, and other names that plays set while they run.
SUFFIX_OF_RESULTS = "_result"
VARIABLES_OF_PLAYS = {
    "epyc_reboot_before",
    "epyc_reboot_command",
    "epyc_site_asked",
    "epyc_site_last_run",
    "epyc_site_layers",
    "epyc_site_refusals",
    "epyc_site_steps",
}
#: Prefixes of variables that only one playbook reads and its page lists.
PREFIXES_OF_PLAYBOOKS = tuple(
    f"{PREFIX}{name}_" for name in ("ablation", "analyse", "ask", "benchmark", "recommend", "tune")
)


def find_unknown_variables(names: Iterable[str], foreign: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each name that begins as variables of the collection do, but is none of them.

    Names in ``foreign`` are never refused.
    """
    known = {*list_role_variables(), *PLAYBOOK_VARIABLES}
    sentences = []
    for name in sorted({str(name) for name in names} - {*known, *VARIABLES_OF_PLAYS, *foreign}):
        if not name.startswith(PREFIX) or name.startswith(PREFIXES_OF_PLAYBOOKS) or name.endswith(SUFFIX_OF_RESULTS):
            continue
        near = find_similar(name, known)
        sentences.append(
            f"There is no variable {name}; did you mean {near}?"
            if near
            else f"There is no variable {name}, and names that begin so are the collection's: docs/variables.md lists "
            "them. Rename one of your own, or name it in epyc_foreign_variables."
        )
    return sentences


@cache
def list_layer_names() -> tuple[str, ...]:
    """Return the names of the roles of the collection without their prefix."""
    return tuple(sorted(path.parents[1].name[len(PREFIX) :] for path in ROLES.glob("*/meta/main.yml")))


@cache
def read_argument_specs(layer: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the argument specs of the role of a layer: its entry points, each with its options."""
    text = (ROLES / f"{PREFIX}{layer}" / "meta/main.yml").read_text(encoding="utf-8")
    specs: Mapping[str, Mapping[str, Any]] = yaml_load(text)["argument_specs"]
    return specs


@cache
def list_role_variables() -> frozenset[str]:
    """Return the names of the variables of all roles."""
    specs = [entry for layer in list_layer_names() for entry in read_argument_specs(layer).values()]
    return frozenset(name for entry in specs for name in entry.get("options", {}))
