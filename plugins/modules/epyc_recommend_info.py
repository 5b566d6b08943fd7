#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_recommend_info
short_description: Recommend the variables of an inventory for a host and the models that it shall serve
version_added: 0.1.0
description:
  - Reads topology and memory of the host, and the headers of the models, of those at a URL no more than the header.
  - Returns the variables for the roles of this collection as a file of YAML, with the reason and the cost above each
    line. P(sovereign.epyc.epyc_plan#role) and C(sovereign.epyc.site) take it as it is.
  - Memory is counted by the planner of M(sovereign.epyc.llama_server), for a recent build of llama.cpp. Instances get
    what is available of each node, less 5 percent of the node. What instances of that module hold counts as available.
  - The longest context of 32768, 16384, 8192 or 4096 tokens for each slot that fits is taken, and then the largest
    prompt cache of 64, 8, 2 or 0 GiB.
  - One model gets the whole host, or on several sockets an instance on each where both fit. Several models share the
    sockets, else the nodes, else the CCDs.
  - A model that does not fit fails the module, with what it needs, what there is, and what would fit.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  models:
    description:
      - The models, a list of which each is the path of a GGUF file on the host, or its URL. Of one in several files,
        the first. One model may stand without a list.
      - Instead, each may be a dictionary with C(model), the path or URL; C(draft), the path or URL of a model that
        drafts for it; C(checksum) and C(draft_checksum), lists of C(sha256:HEX) for each file at a URL, where the
        server does not say it; C(context), tokens of all slots together, and C(slots), as in
        O(sovereign.epyc.llama_server#module:instances).
      - A draft that is computed to gain nothing on this host is left out, with the reason.
    type: raw
    required: true
  folder:
    description: Where the files of models at a URL will be on the host.
    type: path
    default: /srv/models
  port:
    description: The port of the first instance. The next ones get the ports that follow and that no program has.
    type: int
    default: 8080
  binary:
    description: The llama-server of the host. Where it is not there, a remark says so; without it, none is looked for.
    type: path
  timeout:
    description: How many seconds a server of models may be silent.
    type: int
    default: 60
notes:
  - A URL stands in the result as it was given, so give none with a secret in it.
  - A server that sends no parts of files begins to send the whole one; the connection is closed behind the header.
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
"""

RETURN = r"""
text:
  description: The file of variables, YAML with comments.
  returned: success
  type: str
variables:
  description: The same as data.
  returned: success
  type: dict
  sample: {"epyc_plan_sku": "9754", "epyc_numa_thp": "madvise"}
services:
  description: The plan of each instance by its name, as RV(sovereign.epyc.llama_server#module:services).
  returned: success
  type: dict
remarks:
  description: What is to be done before M(sovereign.epyc.llama_server) can take it, also as warnings.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.recommend import Request, recommend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

SPEC = dict(
    models=dict(type="raw", required=True),
    folder=dict(type="path", default="/srv/models"),
    port=dict(type="int", default=8080),
    binary=dict(type="path"),
    timeout=dict(type="int", default=60),
)


def read(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the recommendation as the module's result."""
    request = Request(params["folder"], params["port"], params["binary"], params["timeout"])
    return recommend(fs, params["models"], request)


def main() -> None:
    run_reader(SPEC, read)


if __name__ == "__main__":
    main()
