# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: model_files
short_description: Models of epyc_llama_models with their paths, URLs and checksums, by name or as they are
version_added: 0.1.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Looks names up in the catalogue of the role P(sovereign.epyc.epyc_llama#role), makes URLs of repositories of a hub,
    and leaves other entries as they are.
  - Refuses, in one sentence, a name that nobody has, with those that look like it; a file that neither a checksum nor
    the hub's own word pins; and two models at one path.
positional: _input, catalogue, endpoint, folder
options:
  _input:
    description: The models, as in C(epyc_llama_models).
    type: list
    elements: dict
    required: true
  catalogue:
    description: Entries of the user, by name, which win over those of the collection, as in C(epyc_llama_catalogue).
    type: dict
    required: true
  endpoint:
    description: The address of the hub, as in C(epyc_llama_hub_endpoint).
    type: str
    required: true
  folder:
    description: Where files are for which no path is said, as in C(epyc_llama_model_folder).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what a name stands for
  ansible.builtin.debug:
    msg: "{{ [{'name': 'qwen3-8b-q4'}] | sovereign.epyc.model_files({}, 'https://hub.example.com', '/srv/models') }}"
"""

RETURN = r"""
_value:
  description:
    - For each model its C(name), C(path), C(url), C(checksum) and C(size), as M(sovereign.epyc.model_file) takes them;
      C(hub), whether it comes from the hub; and of one in the catalogue its C(licence), C(vocabulary), C(template) and
      C(drafts).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleFilterError

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def model_files(
    models: Sequence[Mapping[str, Any]], catalogue: Mapping[str, Any], endpoint: str, folder: str
) -> list[dict[str, Any]]:
    """Return the models; raises AnsibleFilterError, with a sentence, for one that cannot be had."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _model_catalogue

    try:
        return _model_catalogue.resolve_models(models, catalogue, endpoint, folder)
    except BadRequest as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"model_files": model_files}
