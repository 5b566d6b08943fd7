#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_servable_info
short_description: Tell which models of the catalogue a host can serve, how fast, and for how many users
version_added: 1.0.0
description:
  - Reads the topology, the free memory and the memory bandwidth of the host. No model file is needed, and nothing is
    measured or written.
  - A model gets one socket where it fits, with a copy on each socket where a copy fits. Only a larger model gets all
    sockets. Free is the available memory of each node, less 5 percent of the node, and what running instances hold.
  - Predicts the tokens per second of one user as a range, from the bandwidth that was measured on this host, or else
    from the data sheet. The floor of operations, barriers and computing counts, so that models with few active
    parameters are not expected to be as fast as their bytes are read.
  - The best models come first. Models that give O(rate) come before slower ones. Among these, the public score of the
    benchmark that most entries have decides, and without a score the square root of all times active parameters.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  models:
    description:
      - The models to try, each with C(name) and C(shape) as in the catalogue of the collection, and if known with
        C(drafts), C(mtp), C(quality) and C(fetched). The filter P(sovereign.epyc.servable_entries#filter) returns them.
    type: list
    elements: dict
    required: true
  public_rates:
    description:
      - Published decode rates that RV(answer) shows, each with C(cpu), C(model), C(rate), C(gbps) and C(source). The
        filter P(sovereign.epyc.public_rates#filter) returns them.
    type: list
    elements: dict
    default: []
  rate:
    description: The tokens per second that each user shall get.
    type: float
    default: 10
  context:
    description: The tokens in the conversation of each user.
    type: int
    default: 8192
seealso:
  - module: sovereign.epyc.epyc_recommend_info
  - module: sovereign.epyc.llama_benchmark
"""

EXAMPLES = r"""
- name: What can this host serve at 20 tokens per second for each user?
  sovereign.epyc.epyc_servable_info:
    models: "{{ epyc_llama_catalogue | default({}) | sovereign.epyc.servable_entries }}"
    rate: 20
  register: servable

- name: Show it
  ansible.builtin.debug:
    msg: "{{ servable.text.splitlines() }}"
"""

RETURN = r"""
text:
  description: The models that fit as a table, the others with the reason, and RV(answer), in at most 120 columns.
  returned: success
  type: str
models:
  description:
    - The models in the order of the recommendation; those that do not fit are the last.
    - C(rate) has C(tokens_per_second), C(low), C(high) and C(ceiling) for one user, C(floor_ms), C(memory_ms), C(gbps),
      and C(source), which is V(measured) or V(paper). C(users) get the wanted rate at the same time.
  returned: success
  type: list
  elements: dict
  sample: [{"name": "qwen3-30b-a3b-q4", "fits": true, "users": 9, "context": 40960}]
answer:
  description: Whether this host gives 60 tokens per second at the quality of a dense model of 70 billion parameters.
  returned: success
  type: str
memory:
  description: The memory bandwidth of the host, measured and by paper, with its faults.
  returned: success
  type: dict
remarks:
  description: Faults of the memory, also shown as warnings.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.servable.recommend_servable import (
    recommend_servable_models,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.servable.servable_models import (
    WantedService,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

SPEC = dict(
    models=dict(type="list", elements="dict", required=True),
    public_rates=dict(type="list", elements="dict", default=[]),
    rate=dict(type="float", default=10),
    context=dict(type="int", default=8192),
)


def find_servable(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return what the host can serve as the module's result."""
    wanted = WantedService(params["rate"], params["context"])
    return recommend_servable_models(fs, params["models"], params["public_rates"], wanted)


def main() -> None:
    run_read_only_module(SPEC, find_servable)


if __name__ == "__main__":
    main()
