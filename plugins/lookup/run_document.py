# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: run_document
short_description: The document of a benchmark, an ablation or a tuning, from a file of the controller
version_added: 1.0.0
author: The sovereign.epyc authors (@sovereign-epyc)
description:
  - Reads the JSON file of a run, which may be compressed with gzip, and checks that it is the document of a run. A
    document of an earlier version of the collection is brought to the present form.
options:
  _terms:
    description: The paths of the files. A relative path begins at the folder in which the command was started.
    required: true
seealso:
  - plugin: sovereign.epyc.benchmark_report
    plugin_type: filter
  - plugin: sovereign.epyc.run_comparison
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Print the report of a run
  ansible.builtin.debug:
    msg: "{{ lookup('sovereign.epyc.run_document', 'run.json.gz') | sovereign.epyc.benchmark_report }}"
"""

RETURN = r"""
_raw:
  description: The documents.
  type: list
  elements: dict
"""

import os
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.printable import escape_lines


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core has no annotations
    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[dict[str, Any]]:
        """Return the documents. Raises AnsibleError for a file that has no document of a run."""
        from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document

        self.set_options(var_options=variables, direct=kwargs)
        try:
            return [run_document.load_document(os.path.abspath(os.path.expanduser(str(term)))) for term in terms]
        except TuningError as error:
            raise AnsibleError(escape_lines(str(error))) from None
