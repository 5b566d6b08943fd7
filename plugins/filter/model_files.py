# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: model_files
short_description: Paths, URLs and checksums of the models in epyc_llama_models
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Finds names in the catalogue of the role P(sovereign.epyc.epyc_llama#role), builds the URLs of files in repositories
    of a hub, and leaves other entries unchanged.
  - Refuses a name that the catalogue does not have, and suggests similar names. Also refuses a file that neither a
    checksum nor C(trust_hub) identifies, and two models at one path.
positional: _input, catalogue, endpoint, folder
options:
  _input:
    description: The models, as in C(epyc_llama_models).
    type: list
    elements: dict
    required: true
  catalogue:
    description: Entries of the user by name, as in C(epyc_llama_catalogue). They win over entries of the collection.
    type: dict
    required: true
  endpoint:
    description: The address of the hub, as in C(epyc_llama_hub_endpoint).
    type: str
    required: true
  folder:
    description: The folder of files without a path of their own, as in C(epyc_llama_model_folder).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the file of a model
  ansible.builtin.debug:
    msg: "{{ [{'name': 'qwen3-8b-q4'}] | sovereign.epyc.model_files({}, 'https://hub.example.com', '/srv/models') }}"
"""

RETURN = r"""
_value:
  description:
    - Each model has C(name), C(path), C(url), C(checksum) and C(size), as M(sovereign.epyc.model_file) takes them.
      C(hub) is true for a file of the hub. A model of the catalogue also has C(licence), C(vocabulary), C(template)
      and C(drafts).
  type: list
  elements: dict
"""

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.plugin_utils._filter_errors import refusals_as_filter_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def model_files(
    models: Sequence[Mapping[str, Any]], catalogue: Mapping[str, Any], endpoint: str, folder: str
) -> list[dict[str, Any]]:
    """Return the models with path, URL and checksums. Raises AnsibleFilterError for an unknown or unsafe model."""
    from ansible_collections.sovereign.epyc.plugins.plugin_utils import _model_catalogue

    with refusals_as_filter_errors():
        return _model_catalogue.resolve_models(models, catalogue, endpoint, folder)


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {"model_files": model_files}
