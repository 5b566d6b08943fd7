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
remarks:
  description: What speaks against the pair though a server would take it.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from ansible_collections.sovereign.epyc.plugins.module_utils._models import pair

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


def read(params: dict[str, Any], dummy_fs: KernelFS) -> dict[str, Any]:
    """Return the facts as the module's result."""
    model = gguf_model.read(params["model"])
    result: dict[str, Any] = {"model": model.to_dict(), "remarks": []}
    if params["draft"]:
        draft = gguf_model.read(params["draft"])
        result["draft"] = draft.to_dict()
        result["draft_refusals"] = pair.refusals(model, draft)
        result["remarks"] = pair.remarks(model, draft)
    return result


def main() -> None:
    run_reader(dict(model=dict(type="path", required=True), draft=dict(type="path")), read)


if __name__ == "__main__":
    main()
