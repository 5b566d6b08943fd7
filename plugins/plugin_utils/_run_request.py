# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the request of a run itself has wrong: its layers and its variables. No host is needed to find it out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._notation.suggestions import suggestion_message
from ansible_collections.sovereign.epyc.plugins.plugin_utils._kinds import name_kind
from ansible_collections.sovereign.epyc.plugins.plugin_utils._known_variables import find_unknown_variables

if TYPE_CHECKING:
    from collections.abc import Iterable


def text_to_list(value: Any) -> Any:
    """Return the list in a text: JSON, or words between commas; what is no text is returned as it is.

    Surveys and ``-e NAME=VALUE`` hand over texts, which options of modules that are lists take, too.
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
    asked: Any, layers: Sequence[str], host: str, names: Iterable[str], foreign: Any = ()
) -> list[str]:
    """Return a sentence for each refusal: of ``asked``, which is epyc_steps as a list, and of variables.

    ``names`` are the variables of the host, and those that are ``foreign`` are nobody's misspelt ones.
    """
    others = foreign if isinstance(foreign, (list, tuple)) else []
    return [
        *_refuse_layers(asked, layers, host),
        *find_unknown_variables(names, [str(name) for name in others]),
    ]


def _refuse_layers(asked: Any, layers: Sequence[str], host: str) -> list[str]:
    # A layer would also be in a dictionary that says false for it.
    if isinstance(asked, (str, Mapping)) or not isinstance(asked, Sequence):
        return [
            f"epyc_steps of {host} is {name_kind(asked)}; it is a list of the layers that shall run, so each begins "
            "with a dash."
        ]
    unknown = [step for step in asked if step not in layers]
    if not unknown:
        return []
    names = ", ".join(str(step) for step in unknown)
    return [f"epyc_steps of {host} has {names}; {suggestion_message(str(unknown[0]), layers, 'the layers are')}"]
