# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refusals of a run that the controller finds without asking the host: unknown layers, and misspelt variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.suggestions import similar_or_known_words_message
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_names.known_variables import (
    unknown_variable_messages,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import describe_yaml_kind

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_json_or_comma_list(value: Any) -> Any:
    """Return the list in a text, JSON or words between commas; a value that is no text is returned unchanged.

    Surveys and ``-e NAME=VALUE`` pass lists as texts.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass
    return [word.strip() for word in value.split(",") if word.strip()]


def find_request_refusals(
    requested: Any, layers: Sequence[str], host: str, variable_names: Iterable[str], foreign: Any = ()
) -> list[str]:
    """Return a sentence for each unknown layer and each misspelt variable of a host.

    ``requested`` is the value of epyc_steps, ``variable_names`` are those of the host, and ``foreign`` are names that
    the inventory declares as variables of other collections.
    """
    foreign_names = foreign if isinstance(foreign, (list, tuple)) else []
    return [
        *_unknown_layer_messages(requested, layers, host),
        *unknown_variable_messages(variable_names, [str(name) for name in foreign_names]),
    ]


def _unknown_layer_messages(requested: Any, layers: Sequence[str], host: str) -> list[str]:
    # A dictionary is refused, because a layer with the value false would count as requested.
    if isinstance(requested, (str, Mapping)) or not isinstance(requested, Sequence):
        kind = describe_yaml_kind(requested)
        return [
            f"epyc_steps of {host} is {kind}; it is a list of the layers that shall run, so each begins with a dash."
        ]
    unknown = [step for step in requested if step not in layers]
    if not unknown:
        return []
    names = ", ".join(str(step) for step in unknown)
    return [
        f"epyc_steps of {host} has {names}; {similar_or_known_words_message(str(unknown[0]), layers, 'the layers are')}"
    ]
