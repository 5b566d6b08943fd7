# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the playbooks and roles, and the search for misspelt ones in an inventory."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.suggestions import find_most_similar_word
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.groups import GROUP_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROLES = Path(__file__).parents[3] / "roles"
PLAYBOOKS = ROLES.with_name("playbooks")
#: The beginning of the name of every role and variable.
PREFIX = "epyc_"


def unknown_variable_messages(variable_names: Iterable[str], foreign_names: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each name that begins with ``epyc_`` and is no variable of the collection.

    Names in ``foreign_names`` are never refused.
    """
    known = list_collection_variables()
    sentences = []
    for name in sorted({str(name) for name in variable_names} - known - {*foreign_names}):
        if not name.startswith(PREFIX):
            continue
        similar = find_most_similar_word(name, known)
        sentences.append(
            f"There is no variable {name}; did you mean {similar}?"
            if similar
            else f"There is no variable {name}, and names that begin so belong to the collection: docs/variables.md "
            "lists them. Rename a variable of your own, or list it in epyc_foreign_variables."
        )
    return sentences


@cache
def list_collection_variables() -> frozenset[str]:
    """Return the names of the variables that the playbooks and roles read or set, and of those that name groups."""
    texts = (path.read_text(encoding="utf-8") for folder in (PLAYBOOKS, ROLES) for path in folder.rglob("*.yml"))
    names = {name for text in texts for name in re.findall(rf"\b{PREFIX}\w+", text)}
    return frozenset(names.union(GROUP_VARIABLES.values()))


@cache
def read_argument_specs(layer: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the argument specs of the role of a layer: its entry points, each with its options."""
    text = (ROLES / f"{PREFIX}{layer}" / "meta/main.yml").read_text(encoding="utf-8")
    specs: Mapping[str, Mapping[str, Any]] = yaml_load(text)["argument_specs"]
    return specs
