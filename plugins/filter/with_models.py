# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: with_models
short_description: Instances of llama-server with paths in place of the names of models
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Replaces each name in C(model), C(draft_model) and C(models) of the instances by a path. A value that begins with
    C(/) is a path already.
  - Refuses a name that is not among the models. Also refuses a draft with another vocabulary than its model, and
    suggests drafts that fit.
  - If the catalogue has a chat template for a model, adds the template to C(extra_arguments), unless a template is
    there already.
positional: _input, files, catalogue
options:
  _input:
    description: The instances, as in O(sovereign.epyc.llama_server#module:instances).
    type: list
    elements: dict
    required: true
  files:
    description: The models, as the filter P(sovereign.epyc.model_files#filter) returns them.
    type: list
    elements: dict
    required: true
  catalogue:
    description: Entries of the user, as in C(epyc_llama_catalogue).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the paths of the models
  ansible.builtin.debug:
    msg: "{{ epyc_llama_instances | sovereign.epyc.with_models(files, {}) | map(attribute='model') }}"
  vars:
    files: "{{ epyc_llama_models | sovereign.epyc.model_files({}, 'https://hub.example.com', '/srv/models') }}"
"""

RETURN = r"""
_value:
  description: The instances.
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def with_models(
    instances: Sequence[Mapping[str, Any]], files: Sequence[Mapping[str, Any]], catalogue: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the instances with paths. Raises AnsibleFilterError for an unknown model, or a draft that does not fit."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _model_catalogue

    with refusals_as_filter_errors():
        return _model_catalogue.insert_model_paths(instances, files, catalogue)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"with_models": with_models}
