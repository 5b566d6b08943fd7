# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: servable_entries
short_description: The models of the catalogue whose speed can be predicted
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Returns the entries of the collection's catalogue and of the user that state the numbers of their model. Only these
    numbers go to the host, with the names of drafts and the public score.
positional: _input
options:
  _input:
    description: Entries of the user, as in C(epyc_llama_catalogue).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Ask what the host can serve
  sovereign.epyc.epyc_servable_info:
    models: "{{ epyc_llama_catalogue | default({}) | sovereign.epyc.servable_entries }}"
"""

RETURN = r"""
_value:
  description: The entries, each with its name.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The keys of an entry that a prediction needs.
KEYS = ("drafts", "fetched", "mtp", "quality", "shape")


def servable_entries(user_entries: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the entries with a shape. Raises AnsibleFilterError for an invalid entry of the user."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _model_catalogue

    with refusals_as_filter_errors():
        entries = _model_catalogue.merge_user_entries_into_catalogue(user_entries)
    return [
        {"name": name, **{key: entry[key] for key in KEYS if entry.get(key)}}
        for name, entry in entries.items()
        if entry.get("shape")
    ]


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"servable_entries": servable_entries}
