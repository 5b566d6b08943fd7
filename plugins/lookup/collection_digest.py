# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: collection_digest
short_description: A digest of the plugins, roles and playbooks of this collection
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - The digest differs for each state of the collection on the controller, also in a clone whose version did not change.
  - Takes no terms.
options:
  _terms:
    description: Must be empty.
"""

EXAMPLES = r"""
- name: Show which state of the collection runs
  ansible.builtin.debug:
    msg: "{{ lookup('sovereign.epyc.collection_digest') }}"
"""

RETURN = r"""
_raw:
  description: One digest.
  type: list
  elements: str
"""

import hashlib
import os
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
FOLDERS = ("playbooks", "plugins", "roles")
ENDS = (".py", ".yml", ".yaml", ".j2")


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return one digest of the playbooks, plugins and roles of the collection. Raises AnsibleError for terms."""
        if terms or kwargs:
            raise AnsibleError("collection_digest takes no terms and no options")
        total = hashlib.sha256()
        for folder in FOLDERS:
            for place, folders, names in os.walk(os.path.join(ROOT, folder)):
                folders.sort()
                for name in sorted(names):
                    if name.endswith(ENDS):
                        path = os.path.join(place, name)
                        with open(path, "rb") as file:
                            content = file.read()
                        total.update(f"{os.path.relpath(path, ROOT)}:{len(content)}:".encode() + content)
        return [total.hexdigest()]
