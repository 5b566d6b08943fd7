#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_quantize
short_description: Make a smaller GGUF file of a model, and only when it is not there yet
version_added: 0.1.0
description:
  - Runs C(llama-quantize) on a model, which may be in several files, and gives the result its name when it is complete.
    A run that fails or is killed leaves nothing that has the name of a model.
  - A file that is there is left alone when it has the tensors of the source, is of this type, was made with the same
    O(imatrix), and is not older than the source. Any other file of that name is replaced.
  - The program never runs as root. It is a user that systemd makes for it, or the owner of O(source) where nobody else
    may read that, behind the walls of a unit of M(sovereign.epyc.llama_server), and can only write the new file.
  - A draft model in a small type is the usual purpose. How good it is cannot be seen in the file; acceptance says it,
    which C(verify.yml) and C(benchmark.yml) measure.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  source:
    description: The GGUF file on the host, in F16, BF16 or F32; of a model in several files the first one.
    type: path
    required: true
  path:
    description: The new file. Its folder must be there. Owner and mode are those of the source.
    type: path
    required: true
  type:
    description: The type of most of its weights. Tensors that have no blocks of this type get the nearest one.
    type: str
    required: true
    choices: [Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, IQ4_XS, IQ4_NL, Q4_0, Q4_1, Q4_K_S, Q4_K_M, Q5_0, Q5_1, Q5_K_S, Q5_K_M,
      Q6_K, Q8_0, F16, BF16]
  binary:
    description: The program. M(sovereign.epyc.llama_build) returns the one that it builds as C(quantize_binary).
    type: path
    default: /usr/bin/llama-quantize
  imatrix:
    description: A file of C(llama-imatrix), which says which weights matter for which texts.
    type: path
  requantize:
    description: Whether the source may be quantized itself. What it has lost stays lost.
    type: bool
    default: false
  threads:
    description: How many threads compute. Without it, as many as the host has CPUs.
    type: int
  reserve:
    description: How much of the disk must stay free.
    type: str
    default: 1GiB
notes:
  - It takes minutes for a large model, and runs in the background of the host. The controller shows how much is
    written, and goes on when the connection was lost in between.
  - Types that cannot be made without O(imatrix), such as IQ2_XXS, are not offered.
seealso:
  - module: sovereign.epyc.model_file
  - module: sovereign.epyc.llama_server
  - module: sovereign.epyc.gguf_info
"""

EXAMPLES = r"""
- name: Build llama.cpp
  sovereign.epyc.llama_build:
    archive: /srv/sources/b11434.tar.gz
    checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  register: llama

- name: Make a draft of a small model
  sovereign.epyc.model_quantize:
    source: /srv/models/qwen2.5-0.5b-bf16.gguf
    path: /srv/models/qwen2.5-0.5b-q4_k_m.gguf
    type: Q4_K_M
    binary: "{{ llama.quantize_binary }}"
"""

RETURN = r"""
diff:
  description:
    - The file that was missing, by its path, and what it is.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "model_quantize:/srv/models/draft-q2_k.gguf: nothing -> Q2_K of /srv/models/draft-bf16.gguf\n"
    changes:
      before: {"model_quantize:/srv/models/draft-q2_k.gguf": null}
      after: {"model_quantize:/srv/models/draft-q2_k.gguf": "Q2_K of /srv/models/draft-bf16.gguf"}
path:
  description: The new file.
  returned: success
  type: str
size:
  description: Its bytes; none in check mode where it would be made.
  returned: success
  type: int
source_size:
  description: The bytes of the source.
  returned: success
  type: int
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._models.quantize import TYPES, ensure_quantized

SPEC = dict(
    source=dict(type="path", required=True),
    path=dict(type="path", required=True),
    type=dict(type="str", required=True, choices=list(TYPES)),
    binary=dict(type="path", default="/usr/bin/llama-quantize"),
    imatrix=dict(type="path"),
    requantize=dict(type="bool", default=False),
    threads=dict(type="int"),
    reserve=dict(type="str", default="1GiB"),
)


def main() -> None:
    run_writer(SPEC, ensure_quantized)


if __name__ == "__main__":
    main()
