# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of every module that measures an instance; _bench/load/request.py reads them."""

from __future__ import annotations


class ModuleDocFragment:
    """Which prompts are asked, and where the document of the run goes."""

    DOCUMENTATION = r"""
attributes:
  diff_mode:
    support: none
    details: Nothing of the host differs afterwards but the file of the run.
  idempotent:
    support: none
    details: Each run measures anew, and has a file of its own.
options:
  kinds:
    description: Only the prompts of these kinds, C(prose), C(code_edit) and C(summary).
    type: list
    elements: str
  prompts:
    description:
      - A file on the host with prompts of your own, which are asked instead. Each line is a JSON object with C(text),
        and perhaps C(output_length), the tokens to make. It is the single-turn format of AIPerf.
    type: path
  tokens:
    description: How many tokens each answer has.
    type: int
    default: 96
  timeout:
    description: How many seconds one answer may take.
    type: int
    default: 600
"""

    OUTPUT = r"""
options:
  output:
    description:
      - The file on the host for the document of the run, which must not be there yet. By default a new one in
        C(/var/lib/sovereign-epyc/benchmarks).
    type: path
"""
