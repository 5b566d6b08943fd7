#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_quantize
short_description: Make a smaller GGUF file of a model, unless the file exists
version_added: 1.0.0
description:
  - Runs C(llama-quantize) on a model, which may be in several files, and renames the complete result to O(path). A run
    that fails or is killed leaves no file at O(path).
  - An existing file is up to date when it has the tensors of the source and the requested type, was made with the same
    O(imatrix), and is not older than the source. Any other file at O(path) is replaced.
  - C(llama-quantize) never runs as root. It runs as a dynamic user, or as the owner of O(source) where no other user
    can read that file, in a sandbox like that of M(sovereign.epyc.llama_server), and can only write the new file.
  - The usual purpose is a small draft model. The file does not show how good a draft model is; C(verify.yml) and
    C(benchmark.yml) measure the acceptance of its tokens.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - llama-quantize
  - systemd
extends_documentation_fragment: sovereign.epyc.attributes
options:
  source:
    description: The GGUF file on the host, in F16, BF16 or F32, or the first file of a model in several files.
    type: path
    required: true
  path:
    description: The path of the new file. Its folder must exist. The new file gets owner and mode of the source.
    type: path
    required: true
  type:
    description: The type of most weights. Tensors that do not consist of blocks of this type get the nearest type.
    type: str
    required: true
    choices: [Q2_K, Q3_K_S, Q3_K_M, Q3_K_L, IQ4_XS, IQ4_NL, Q4_0, Q4_1, Q4_K_S, Q4_K_M, Q5_0, Q5_1, Q5_K_S, Q5_K_M,
      Q6_K, Q8_0, F16, BF16]
  binary:
    description: The program llama-quantize. M(sovereign.epyc.llama_build) returns its path as C(quantize_binary).
    type: path
    default: /usr/bin/llama-quantize
  imatrix:
    description: An importance matrix from C(llama-imatrix), which describes how much each weight matters.
    type: path
  requantize:
    description: Whether the source may be quantized itself. The precision that it lost stays lost.
    type: bool
    default: false
  threads:
    description: The number of threads. The default is the number of CPUs.
    type: int
  reserve:
    description: The disk space that must stay free.
    type: str
    default: 1GiB
notes:
  - The module takes minutes for a large model, and runs in the background of the host. The controller shows the size
    of the new file, and continues after a lost connection.
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
    - The missing file by its path, with its type and its source.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "model_quantize:/srv/models/draft-q2_k.gguf: nothing -> Q2_K of /srv/models/draft-bf16.gguf\n"
    changes:
      before: {"model_quantize:/srv/models/draft-q2_k.gguf": null}
      after: {"model_quantize:/srv/models/draft-q2_k.gguf": "Q2_K of /srv/models/draft-bf16.gguf"}
path:
  description: The path of the new file.
  returned: success
  type: str
size:
  description: The size of the new file in bytes; null in check mode where the file is missing.
  returned: success
  type: int
source_size:
  description: The size of the source in bytes.
  returned: success
  type: int
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._models.quantize import TYPES, ensure_quantized_file

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
    run_changing_module(SPEC, ensure_quantized_file)


if __name__ == "__main__":
    main()
