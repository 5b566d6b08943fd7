# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options that modules measuring an instance share; _bench/load/request.py has their argument specs."""

from __future__ import annotations


class ModuleDocFragment:
    """The prompts that are sent, the file of the document, and the limits of long runs."""

    DOCUMENTATION = r"""
attributes:
  diff_mode:
    support: none
    details: Afterwards only the file of the run differs on the host.
  idempotent:
    support: none
    details: Each run measures again, and writes its own file.
options:
  kinds:
    description: Only the prompts of these kinds, C(prose), C(code_edit) and C(summary), or those of your own prompts.
    type: list
    elements: str
  prompts:
    description:
      - A file on the host with your own prompts, which replace the built-in ones. Each line is a JSON object with
        C(text), and optionally C(output_length), the number of tokens to generate. It is the single-turn format of
        AIPerf. A line may also have a C(kind), under which the results of its prompt are shown; the default is C(user).
    type: path
  tokens:
    description: The number of tokens to generate for each prompt.
    type: int
    default: 96
  timeout:
    description: The timeout of an answer in seconds.
    type: int
    default: 600
  controller_timeout:
    description:
      - The seconds without a question of the controller after which the run ends early, with everything restored, and 0
        for never. A run that is followed from the controller has 60 unless another number is set, so that it ends
        within a minute when the playbook was interrupted or the connection was lost.
      - A task with C(async) is not followed, and goes on without its controller.
    type: int
    default: 0
"""

    OUTPUT = r"""
options:
  output:
    description:
      - The file on the host for the document of the run, which must not exist yet. By default a new file in
        C(/var/lib/sovereign-epyc/benchmarks).
    type: path
"""

    LONG_RUN = r"""
options:
  minutes:
    description: The minutes of the whole run. No round begins that cannot end in this time.
    type: float
    default: 240
  seed:
    description: The seed of the order of the arms in each round. By default it is random.
    type: int
  streams:
    description: The numbers of parallel streams to measure beside a single one. By default there are no others.
    type: list
    elements: int
    default: []
  objective:
    description:
      - What the instance is measured for. C(latency) is the speed of one stream, C(throughput) that of the largest
        number of streams together, C(prompt) the speed of reading prompts, and C(energy) the tokens per joule. This
        objective decides. The others are guards, which must not get worse.
      - C(throughput) needs O(streams), by default as many as slots.
    type: str
    choices: [latency, throughput, prompt, energy]
    default: latency
  smallest:
    description: The smallest effect that matters, as a share. A smaller one counts as nothing.
    type: float
    default: 0.02
"""

    OBJECTIVES = r"""
options:
  objectives:
    description:
      - All objectives that get a verdict beside O(objective). By default these are V(latency) and V(prompt), and
        V(throughput) where O(streams) are measured. They share the probability of a false claim.
      - Where V(throughput) is named without O(streams), as many streams as slots are measured.
    type: list
    elements: str
    choices: [latency, throughput, prompt, energy]
"""
