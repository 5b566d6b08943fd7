#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_ask
short_description: Ask an instance of llama-server a question, and prove which server answered on which CPUs
version_added: 1.0.0
description:
  - Sends a prompt to an instance of M(sovereign.epyc.llama_server), and observes the instance's processes until the
    answer is complete.
  - Returns the answer together with the items of M(sovereign.epyc.epyc_verify) on this instance. These say whether the
    unit serves, whether the planned model is in memory, whether tokens were guessed, which CPUs computed, and on which
    nodes the model is.
  - The server always takes the most probable token, so the same question to the same server has the same answer.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  prompt:
    description: The question. The server inserts it into the template of the model file, if there is one.
    type: str
    required: true
  instance:
    description: The name of the instance. It may be left out on a host with a single instance.
    type: str
  model:
    description: The name of the model to ask, for an instance with several models. The default is the first model.
    type: str
  tokens:
    description: The greatest number of tokens in the answer.
    type: int
    default: 128
  all_tokens:
    description: Whether the model generates all O(tokens), even beyond the end of its answer.
    type: bool
    default: false
  timeout:
    description: The seconds for the answer. Tokens that arrive later are not part of the answer.
    type: int
    default: 120
  guesses:
    description: Whether RV(clean) also requires that tokens were guessed, and some of them accepted.
    type: bool
    default: false
notes:
  - The request takes a slot, and waits while all slots are busy. The API key is read on the host, from the file of the
    instance.
seealso:
  - module: sovereign.epyc.epyc_verify
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Ask the instance chat
  sovereign.epyc.llama_ask:
    instance: chat
    prompt: What is a NUMA node?
  register: asked

- name: Show the answer and its proof
  ansible.builtin.debug:
    var: asked.text
"""

RETURN = r"""
answer:
  description: The text that the model generated.
  returned: always
  type: str
unit:
  description: The unit whose server answered.
  returned: always
  type: str
clean:
  description: Whether an answer came, and no item is wrong or unknown.
  returned: always
  type: bool
checklist:
  description: The items, as M(sovereign.epyc.epyc_verify) returns them.
  returned: always
  type: list
  elements: dict
complaints:
  description: A line for each item that is wrong or unknown.
  returned: always
  type: list
  elements: str
measured:
  description: The measured values of the instance, as M(sovereign.epyc.epyc_verify) returns them, and C(tokens), the
    number of tokens in the answer.
  returned: always
  type: dict
  sample: {"tokens": 42, "drafts": 5, "drafted": 31, "accepted": 24, "acceptance": 0.774, "tokens_per_second": 9.1}
text:
  description: The answer and the items as a page.
  returned: always
  type: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import load_stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.verify.ask import send_prompt_to_instance
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import checklist_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def ask_instance_and_prove_placement(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the answer of an instance, and the proof of its placement, as the module's result."""
    host = Host(fs, load_stored_requests(Store(read_only=True))[0], stored=True)
    answer = send_prompt_to_instance(
        host,
        params["instance"],
        params["prompt"],
        params["tokens"],
        params["timeout"],
        guesses=params["guesses"],
        model=params["model"],
        all_tokens=params["all_tokens"],
    )
    return {
        "answer": answer.text,
        "unit": answer.unit,
        "clean": bool(answer.text) and all(item.is_clean for item in answer.items),
        "checklist": [item.to_dict() for item in answer.items],
        "complaints": checklist_items.messages_of_unclean_items(answer.items),
        "measured": answer.facts,
        "text": f"{answer.text.strip()}\n\n{checklist_items.render_checklist(answer.items)}",
    }


def main() -> None:
    spec = dict(
        prompt=dict(type="str", required=True),
        instance=dict(type="str"),
        model=dict(type="str"),
        tokens=dict(type="int", default=128, no_log=False),
        timeout=dict(type="int", default=120),
        guesses=dict(type="bool", default=False),
        all_tokens=dict(type="bool", default=False),
    )
    run_read_only_module(spec, ask_instance_and_prove_placement)


if __name__ == "__main__":
    main()
