# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lost_file_refusal
short_description: The refusal of a run that would lose a file on the controller
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Some runs write a file on the controller that later runs need, such as the BIOS settings before the first change.
    Returns an empty text if the file would be there for a later run.
  - Returns a refusal for a path that cannot be written, for the folder of a job of AWX, and for a folder that is in the
    container of an execution environment alone. They are deleted when the job ends.
options:
  _terms:
    description: The path of one file or folder on the controller.
    required: true
  variable:
    description: The name of the variable that has the path, for the refusal.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse to keep originals where they would be lost
  ansible.builtin.assert:
    that: refusal == ''
    fail_msg: "{{ refusal }}"
  vars:
    refusal: "{{ lookup('sovereign.epyc.lost_file_refusal', epyc_bios_originals, variable='epyc_bios_originals') }}"
"""

RETURN = r"""
_raw:
  description: One text, which is empty or a refusal.
  type: list
  elements: str
"""

import os
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.sovereign.epyc.plugins.plugin_utils._kept_files import lost_files


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[str]:
        """Return one text, empty or a refusal. Raises AnsibleError unless there is one path."""
        self.set_options(var_options=variables, direct=kwargs)
        if len(terms) != 1 or not isinstance(terms[0], str) or not terms[0]:
            raise AnsibleError("lost_file_refusal takes one path.")
        return [lost_files.lost_file_refusal(terms[0], self.get_option("variable"), os.environ)]
