#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gguf_info
short_description: Read the facts of a model from its GGUF file, and whether another model can draft for it
version_added: 0.1.0
description:
  - Reads the header of a model on the host, architecture, layers, experts, sizes and vocabulary, without the weights.
  - Fails, and says what is wrong, with a file that is truncated, damaged, for big-endian machines, of an unknown
    version, or no GGUF file at all, such as the page that a failed download left. A file that claims a header larger
    than that of any model is refused before it takes memory.
  - With O(draft), says whether a server would speculate with the pair. llama.cpp takes a draft with another vocabulary,
    answers normally, and never speculates.
  - Says what decoding reads from memory for each token, by its parts. Bandwidth divided by these bytes is the most
    tokens per second that this model can give on a host whose memory is the limit.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  model:
    description: The file. Of a model in several, called C(NAME-00001-of-00003.gguf) and so on, any; all are read.
    type: path
    required: true
  draft:
    description: The file of the model that drafts for O(model), in the same way.
    type: path
  context:
    description: How many tokens the context holds when the bytes of a token are counted, of each of O(streams).
    type: int
    default: 4096
  streams:
    description: How many requests are decoded at a time.
    type: int
    default: 1
  draft_max:
    description: How many tokens O(draft) guesses in each step. With 0, it reads nothing.
    type: int
    default: 0
  cache_type_k:
    description: The type of the keys in the KV cache of O(model). That of O(draft) has keys and values in C(f16).
    type: str
    choices: &types [f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1]
    default: f16
  cache_type_v:
    description: The type of the values in the KV cache of O(model).
    type: str
    choices: *types
    default: f16
notes:
  - The sizes of tensors are compared with the size of the file. Only a checksum shows whether their content is right.
"""

EXAMPLES = r"""
- name: Read a model and its draft
  sovereign.epyc.gguf_info:
    model: /srv/models/large.gguf
    draft: /srv/models/small.gguf
  register: models

- name: Refuse a draft that would never be used
  ansible.builtin.assert:
    that: models.draft_refusals == []
    fail_msg: "{{ models.draft_refusals | join(' ') }}"

- name: Count what a token reads of a model and of a long context
  sovereign.epyc.gguf_info:
    model: /srv/models/large.gguf
    context: 32768
    cache_type_k: q8_0
    cache_type_v: q8_0
  register: large

- name: Say how many tokens per second a bandwidth of 300 GB/s allows
  ansible.builtin.debug:
    msg: "{{ 300e9 / large.traffic.bytes }}"
"""

RETURN = r"""
model:
  description: What the model is. Sizes are in bytes.
  returned: success
  type: dict
  contains: &facts
    path:
      description: The first file, which is the one to hand to a server.
      type: str
    files:
      description: All files of the model.
      type: list
      elements: str
    size:
      description: The size of all files.
      type: int
    architecture:
      description: The architecture as llama.cpp calls it.
      type: str
      sample: qwen3moe
    name:
      description: The name that its makers gave it.
      type: str
    layers:
      description: The number of layers; none where the file does not say.
      type: int
    context:
      description: The longest context that it was trained with; none where the file does not say.
      type: int
    embedding:
      description: The width of its embedding; none where the file does not say.
      type: int
    experts:
      description: How many experts a layer has; 0 in a dense model.
      type: int
    experts_used:
      description: How many of them each token uses.
      type: int
    tensors:
      description: The number of tensors.
      type: int
    tensor_bytes:
      description: The size of all tensors. One of a type that this collection does not know counts up to the next.
      type: int
    expert_bytes:
      description: The size of the tensors of experts.
      type: int
    tensor_types:
      description: The size of the tensors by type. A type that has no name here is told by its number, as C(type 250).
      type: dict
      sample: {"F32": 140544, "Q4_K": 42949672960}
    vocabulary:
      description: The kind of the vocabulary, the number of tokens, and a digest of all of them in their order.
      type: dict
      sample: {"model": "gpt2", "tokens": 128256, "digest": "e3f79317b457a919"}
draft:
  description: What the draft is.
  returned: when O(draft) is given
  type: dict
  contains: *facts
draft_refusals:
  description: Why a server would not speculate with the pair; empty when it would.
  returned: when O(draft) is given
  type: list
  elements: str
traffic:
  description:
    - What one step of decoding reads and computes. Each stream gets a token in it, and those guesses of O(draft) that
      are right.
    - None where the header of a model does not say its layers and heads.
  returned: success
  type: dict
  contains:
    parts:
      description:
        - Bytes by what they are. C(layers) are the weights of all layers, with shared experts; C(experts) is the part
          of the routed experts that is read on average; C(output) the weights behind the layers, which a model may
          share with its embedding; C(kv) keys and values; C(state) what recurrent layers keep.
        - With O(draft), C(draft) are its weights and C(draft_context) what it keeps of the context, for all guesses.
      type: dict
      sample: {layers: 4095016960, experts: 0, output: 431013888, kv: 536870912, state: 0}
    bytes:
      description: All bytes together.
      type: int
    flops:
      description: How many floating point operations are computed.
      type: int
    tokens:
      description: How many tokens go through the model, right guesses and wrong ones.
      type: int
remarks:
  description: What speaks against the pair though a server would take it.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import draft_compatibility
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.memory_traffic import (
    DraftModel,
    compute_step_traffic,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def read(params: dict[str, Any], dummy_fs: KernelFS) -> dict[str, Any]:
    """Return the facts as the module's result."""
    for name, least in (("context", 0), ("streams", 1), ("draft_max", 0)):
        if params[name] < least:
            raise BadRequest(f"{name} is {params[name]}; say {least} or more.")
    if params["draft_max"] and not params["draft"]:
        raise BadRequest("draft_max needs a draft; give the file of the model that drafts.")
    model = gguf_model.read_model(params["model"])
    result: dict[str, Any] = {"model": model.to_dict(), "remarks": []}
    guesses = None
    if params["draft"]:
        draft = gguf_model.read_model(params["draft"])
        result["draft"] = draft.to_dict()
        result["draft_refusals"] = draft_compatibility.draft_model_refusals(model, draft)
        result["remarks"] = draft_compatibility.draft_model_remarks(model, draft)
        guesses = DraftModel(draft, params["draft_max"])
    types = (params["cache_type_k"], params["cache_type_v"])
    traffic = compute_step_traffic(model, params["context"], types, params["streams"], guesses)
    result["traffic"] = traffic.to_dict() if traffic else None
    return result


TYPE = dict(type="str", choices=["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"], default="f16")
SPEC = dict(
    model=dict(type="path", required=True),
    draft=dict(type="path"),
    context=dict(type="int", default=4096),
    streams=dict(type="int", default=1),
    draft_max=dict(type="int", default=0),
    cache_type_k=TYPE,
    cache_type_v=TYPE,
)


def main() -> None:
    run_reader(SPEC, read)


if __name__ == "__main__":
    main()
