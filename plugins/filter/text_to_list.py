# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: text_to_list
short_description: The list in a text that a survey or the command line passes
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Splits a text at commas, as options of modules that are lists do. A text that begins with C([) is read as JSON.
  - A value that is no text is returned unchanged.
positional: _input
options:
  _input:
    description: A list, or a text with one.
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the layers of a command line with -e epyc_steps=base,numa
  ansible.builtin.debug:
    msg: "{{ epyc_steps | sovereign.epyc.text_to_list }}"
"""

RETURN = r"""
_value:
  description: The list.
  type: raw
"""

from typing import Any


def text_to_list(value: Any) -> Any:
    """Return the list in a text, JSON or words between commas; a value that is no text is returned unchanged."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _run_request

    return _run_request.parse_json_or_comma_list(value)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"text_to_list": text_to_list}
