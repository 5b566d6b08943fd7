#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gguf_info
short_description: Read the facts of a model from its GGUF file, and check whether another model can draft for it
version_added: 1.0.0
description:
  - Reads the header of a model on the host, with architecture, layers, experts, sizes and vocabulary, but no weights.
  - Fails with the reason for a file that is truncated, damaged, for big-endian machines, of an unknown version, or no
    GGUF file, such as the HTML page of a failed download. A header that is larger than that of any model is refused
    before it takes memory.
  - With O(draft), returns the reasons why a server would not speculate with the two models. llama.cpp accepts a draft
    with another vocabulary, answers normally, and never speculates.
  - Returns the bytes that decoding reads from memory for each token, by part. Bandwidth divided by these bytes is the
    greatest number of tokens per second on a host where memory is the limit.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  model:
    description: The file of the model, or any file of a model in several files C(NAME-00001-of-00003.gguf) and so on.
    type: path
    required: true
  draft:
    description: The file of a model that drafts for O(model), written as O(model).
    type: path
  context:
    description: The number of tokens in the context of each stream, for the bytes that a token reads.
    type: int
    default: 4096
  streams:
    description: The number of requests that are decoded at the same time.
    type: int
    default: 1
  draft_max:
    description: The number of tokens that O(draft) guesses in each step. With 0, the draft reads nothing.
    type: int
    default: 0
  cache_type_k:
    description: The type of the keys in the KV cache of O(model). The KV cache of O(draft) has the type C(f16).
    type: str
    choices: &types [f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1]
    default: f16
  cache_type_v:
    description: The type of the values in the KV cache of O(model).
    type: str
    choices: *types
    default: f16
notes:
  - The sizes of tensors are compared with the size of the file. Only a checksum can verify the content of a file.
"""

EXAMPLES = r"""
- name: Read a model and its draft
  sovereign.epyc.gguf_info:
    model: /srv/models/large.gguf
    draft: /srv/models/small.gguf
  register: models

- name: Refuse a draft with which the server would not speculate
  ansible.builtin.assert:
    that: models.draft_refusals == []
    fail_msg: "{{ models.draft_refusals | join(' ') }}"

- name: Count the bytes that a token reads with a long context
  sovereign.epyc.gguf_info:
    model: /srv/models/large.gguf
    context: 32768
    cache_type_k: q8_0
    cache_type_v: q8_0
  register: large

- name: Show how many tokens per second a bandwidth of 300 GB/s allows
  ansible.builtin.debug:
    msg: "{{ 300e9 / large.traffic.bytes }}"
"""

RETURN = r"""
model:
  description: The facts of the model. Sizes are in bytes.
  returned: success
  type: dict
  contains: &facts
    path:
      description: The first file, which is the path for a server.
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
      description: The name of the model in the header.
      type: str
    layers:
      description: The number of layers; null where the header does not state it.
      type: int
    context:
      description: The longest context in training; null where the header does not state it.
      type: int
    embedding:
      description: The width of the embedding; null where the header does not state it.
      type: int
    experts:
      description: The number of experts in a layer; 0 for a dense model.
      type: int
    experts_used:
      description: The number of experts that each token uses.
      type: int
    tensors:
      description: The number of tensors.
      type: int
    tensor_bytes:
      description: The size of all tensors. A tensor of an unknown type counts up to the begin of the next tensor.
      type: int
    expert_bytes:
      description: The size of the tensors of experts.
      type: int
    tensor_types:
      description: The size of all tensors of each type. An unknown type is shown by its number, as C(type 250).
      type: dict
      sample: {"F32": 140544, "Q4_K": 42949672960}
    vocabulary:
      description: The kind of the vocabulary, the number of tokens, and a digest of all of them in their order.
      type: dict
      sample: {"model": "gpt2", "tokens": 128256, "digest": "e3f79317b457a919"}
draft:
  description: The facts of the draft model.
  returned: when O(draft) is given
  type: dict
  contains: *facts
draft_refusals:
  description: The reasons why a server would not speculate with this draft; empty for a fitting draft.
  returned: when O(draft) is given
  type: list
  elements: str
traffic:
  description:
    - The bytes and operations of one step of decoding, in which each stream gets one token and the right guesses of
      O(draft).
    - Null where the header of a model does not state its layers and heads.
  returned: success
  type: dict
  contains:
    parts:
      description:
        - The bytes by part. C(layers) are the weights of all layers with shared experts; C(experts) is the average read
          part of the routed experts; C(output) are the weights after the layers, which may also be the embedding; C(kv)
          are keys and values; C(state) are the states of recurrent layers.
        - With O(draft), C(draft) are the weights and C(draft_context) the KV cache and states that all its guesses
          read.
      type: dict
      sample: {layers: 4095016960, experts: 0, output: 431013888, kv: 536870912, state: 0}
    bytes:
      description: The sum of all parts.
      type: int
    flops:
      description: The number of floating point operations.
      type: int
    tokens:
      description: The number of tokens that the model computes, including right and wrong guesses.
      type: int
    known:
      description: Whether it is known what the layers of this architecture store. Otherwise C(kv) counts as if each
        layer read every token, and may be far smaller.
      type: bool
remarks:
  description: Reasons why a draft that a server accepts may gain nothing, and whether the architecture is unknown.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._models import draft_compatibility
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models.known_architectures import (
    is_known_architecture,
    unknown_architecture_remark,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._models.memory_traffic import (
    DraftModel,
    compute_step_traffic,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def read_model_facts(params: dict[str, Any], dummy_fs: KernelFS) -> dict[str, Any]:
    """Return the facts of a model and its draft as the module's result."""
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
        result["draft_refusals"] = draft_compatibility.draft_model_refusal_reasons(model, draft)
        result["remarks"] = draft_compatibility.useless_draft_model_remarks(model, draft)
        guesses = DraftModel(draft, params["draft_max"])
    types = (params["cache_type_k"], params["cache_type_v"])
    traffic = compute_step_traffic(model, params["context"], types, params["streams"], guesses)
    result["traffic"] = {**traffic.to_dict(), "known": is_known_architecture(model)} if traffic else None
    result["remarks"] += filter(None, [unknown_architecture_remark(model)])
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
    run_read_only_module(SPEC, read_model_facts)


if __name__ == "__main__":
    main()
