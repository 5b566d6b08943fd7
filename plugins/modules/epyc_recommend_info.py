#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_recommend_info
short_description: Recommend the variables of an inventory for a host and the models that it shall serve
version_added: 1.0.0
description:
  - Reads the topology and memory of the host, and the headers of the models. Of a model at a URL, only the header is
    fetched.
  - Returns the variables for the roles of this collection as a YAML file, with the reason and the cost above each
    variable. P(sovereign.epyc.epyc_plan#role) and C(sovereign.epyc.site) can use this file without changes.
  - The planner of M(sovereign.epyc.llama_server) counts the memory, as for a recent build of llama.cpp. Instances get
    the available memory of each node, less 5 percent of the node. The memory of running instances counts as available.
  - Chooses slots, the context of each slot, prompt cache and speculation by O(use), the model and the free memory, up
    to the context that the model was trained for. A choice with room for a prompt cache of one full slot is better than
    a longer context without.
  - A single model gets the whole host, or an instance on each socket if the instances fit. Several models share the
    sockets, or else the nodes, or else the CCDs.
  - For a model that does not fit, the module fails with the needed and available memory, and with ways to fit.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  models:
    description:
      - A list of models, each as the path of a GGUF file on the host, or as a URL. For a model in several files, name
        the first file. A single model needs no list.
      - A model may also be a dictionary with C(model) and C(draft), paths or URLs of the model and its draft model;
        C(checksum) and C(draft_checksum), lists of C(sha256:HEX) for the files at a URL whose server states no
        checksums; C(context), the tokens of all slots together, and C(slots), as in
        O(sovereign.epyc.llama_server#module:instances); and C(use), the use of this model instead of O(use).
      - A draft that is estimated to gain nothing on this host is left out, with the reason.
    type: raw
    required: true
  use:
    description:
      - The use of the models that state none. V(chat) is for some people at a time. V(coding) is for few agents with
        long sessions. V(batch) is for many short requests that continue no others.
      - A model of embeddings or of ranking is always for V(retrieval), which computes texts in batches. Another model
        cannot be for V(retrieval), and is for V(chat) then.
    type: str
    choices: [chat, coding, batch, retrieval]
    default: chat
  folder:
    description: The future folder on the host for model files at a URL.
    type: path
    default: /srv/models
  port:
    description: The port of the first instance. The other instances get the next ports that no program uses.
    type: int
    default: 8080
  binary:
    description: The llama-server of the host. A missing file causes a remark. Without this option, no file is searched.
    type: path
  timeout:
    description: The seconds for which a file server may be silent.
    type: int
    default: 60
notes:
  - The result contains the URLs of models, so a URL must not contain a secret.
  - A file server that cannot send parts of files begins to send the whole file; the connection is closed after the
    header.
seealso:
  - module: sovereign.epyc.epyc_plan
  - module: sovereign.epyc.gguf_info
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Recommend for a model on the host and one on a server
  sovereign.epyc.epyc_recommend_info:
    models:
      - /srv/models/large-Q4_K_M.gguf
      - https://models.example.com/small-Q4_K_M.gguf
  register: recommended

- name: Recommend for a model with a draft, for two requests at a time
  sovereign.epyc.epyc_recommend_info:
    models:
      - model: /srv/models/70B-Q4_K_M.gguf
        draft: /srv/models/1B-Q4_K_M.gguf
        context: 32768
        slots: 2

- name: Recommend for coding agents, and for the embeddings of their search
  sovereign.epyc.epyc_recommend_info:
    models:
      - model: /srv/models/coder-Q4_K_M.gguf
        use: coding
      - /srv/models/embeddings-Q8_0.gguf
"""

RETURN = r"""
text:
  description: The file of variables, YAML with comments.
  returned: success
  type: str
variables:
  description: The variables as data.
  returned: success
  type: dict
  sample: {"epyc_plan_sku": "9754", "epyc_numa_thp": "madvise"}
services:
  description: The plan of each instance by its name, as RV(sovereign.epyc.llama_server#module:services).
  returned: success
  type: dict
remarks:
  description: Necessary steps before M(sovereign.epyc.llama_server) can run, also shown as warnings.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.model_use import CHAT, USES
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.recommend import Request, recommend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

SPEC = dict(
    models=dict(type="raw", required=True),
    use=dict(type="str", choices=list(USES), default=CHAT),
    folder=dict(type="path", default="/srv/models"),
    port=dict(type="int", default=8080),
    binary=dict(type="path"),
    timeout=dict(type="int", default=60),
)


def recommend_variables(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the recommended variables as the module's result."""
    request = Request(params["folder"], params["port"], params["binary"], params["timeout"], params["use"])
    return recommend(fs, params["models"], request)


def main() -> None:
    run_read_only_module(SPEC, recommend_variables)


if __name__ == "__main__":
    main()
