#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: epyc_preflight
short_description: Find, before the first change, all that a run requests and a host cannot have
version_added: 1.0.0
description:
  - Checks the layers of a run and the instances of llama.cpp before any of them changes anything. Fails with all
    refusals at once, a line for each.
  - Each layer is checked by the code that applies it later, in check mode. Files that the run itself will provide, such
    as a model to fetch or a server to build, are not checked before they exist.
  - The role P(sovereign.epyc.epyc_plan#role) runs this module. Missing options are taken from the variables of the
    roles in O(layers), as far as the play has these variables. Their values are also checked against the argument specs
    of these roles.
  - The module writes nothing.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes.reader
options:
  layers:
    description: The layers of the run, roles of this collection, as C(numa) or C(llama).
    type: list
    elements: str
    default: []
  refusals:
    description: Refusals that the caller has found already, as sentences. The module fails with them too.
    type: list
    elements: str
    default: []
  intent:
    description:
      - The intent of the plan, as M(sovereign.epyc.epyc_plan) returns it. Without it, the plan is not checked.
    type: dict
  system:
    description: The options C(distributions), C(kernel) and C(allow_unsupported) of
      M(sovereign.epyc.epyc_prerequisites).
    type: dict
  boot_parameters:
    description: The options C(parameters) and C(absent) of M(sovereign.epyc.kernel_cmdline).
    type: dict
  prefetch:
    description: The option C(settings) of M(sovereign.epyc.msr_bits).
    type: list
    elements: dict
    default: []
  pools:
    description: Whether pools of huge pages are requested, which take memory away from instances.
    type: bool
    default: false
  smt:
    description: The state of simultaneous multithreading after the run, V(on) or V(off).
    type: str
  instances:
    description: The instances of M(sovereign.epyc.llama_server). Without the option, no instance is checked.
    type: list
    elements: dict
  binary:
    description: The server of instances without a server of their own. Without the option, the run builds one.
    type: path
  binary_checksum:
    description: The checksum of O(binary), as C(sha256:) and 64 digits.
    type: str
  installs:
    description: Whether the run installs or builds O(binary).
    type: bool
    default: false
  purge:
    description: Whether other instances are removed, as with O(sovereign.epyc.llama_server#module:purge).
    type: bool
    default: false
  fetched:
    description: The models that the run fetches, each with C(path) and C(checksum).
    type: list
    elements: dict
    default: []
  present:
    description: The paths of models that have to be on the host already.
    type: list
    elements: path
    default: []
  sources:
    description:
      - The sources of the server and of the models of O(instances). A source that is not available is refused.
      - For each file of a model that is missing on the host, the host sends one C(HEAD) request to its server.
    type: dict
    suboptions:
      install:
        description: The kind of source of the server.
        type: str
        choices: [binary, package, source]
        default: binary
      packages:
        description: Packages that the run installs. A package that is neither installed nor in the package lists of the
          host is refused; package lists are read on Debian and Ubuntu only.
        type: list
        elements: str
        default: []
      archive:
        description: See O(sovereign.epyc.llama_build#module:archive).
        type: str
      checksum:
        description: See O(sovereign.epyc.llama_build#module:checksum).
        type: str
      models:
        description: The models. A model without O(sources.models[].url) is not checked.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: See O(sovereign.epyc.model_file#module:path).
            type: path
            required: true
          url:
            description: See O(sovereign.epyc.model_file#module:url).
            type: str
          checksum:
            description: See O(sovereign.epyc.model_file#module:checksum).
            type: list
            elements: str
          size:
            description: See O(sovereign.epyc.model_file#module:size).
            type: list
            elements: int
          hub:
            description: Whether the model comes from the hub that the token is for.
            type: bool
            default: false
      hub_needs_token:
        description: Whether the hub needs a token. Its models are not checked then, because the host has no token.
        type: bool
        default: false
  made:
    description: The paths of models that the run quantizes from others.
    type: list
    elements: path
    default: []
notes:
  - Needs root.
seealso:
  - module: sovereign.epyc.epyc_plan
  - module: sovereign.epyc.llama_server
"""

EXAMPLES = r"""
- name: Check whether this host can have the settings of two layers
  sovereign.epyc.epyc_preflight:
    layers: [cat, llama]
    intent: "{{ ansible_facts.epyc.intent }}"
    binary: /usr/bin/llama-server
    instances:
      - name: chat
        model: /srv/models/model.gguf
        port: 8080
"""

RETURN = r"""
refusals:
  description: Each refusal as a sentence. With one or more of them the task fails, and its message has them all.
  returned: always
  type: list
  elements: str
remarks:
  description: The running instances that this run restarts, and for how long nobody is served meanwhile.
  returned: when nothing is refused
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_read_only_module
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._setup.preflight import Preflight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

MODEL = dict(
    path=dict(type="path", required=True),
    url=dict(type="str"),
    checksum=dict(type="list", elements="str"),
    size=dict(type="list", elements="int"),
    hub=dict(type="bool", default=False),
)
SOURCES = dict(
    install=dict(type="str", choices=["binary", "package", "source"], default="binary"),
    packages=dict(type="list", elements="str", default=[]),
    archive=dict(type="str"),
    checksum=dict(type="str"),
    models=dict(type="list", elements="dict", default=[], options=MODEL),
    hub_needs_token=dict(type="bool", default=False, no_log=False),
)
SPEC = dict(
    layers=dict(type="list", elements="str", default=[]),
    refusals=dict(type="list", elements="str", default=[]),
    intent=dict(type="dict"),
    system=dict(type="dict"),
    boot_parameters=dict(type="dict"),
    prefetch=dict(type="list", elements="dict", default=[]),
    pools=dict(type="bool", default=False),
    smt=dict(type="str"),
    instances=dict(type="list", elements="dict"),
    binary=dict(type="path"),
    binary_checksum=dict(type="str"),
    installs=dict(type="bool", default=False),
    purge=dict(type="bool", default=False),
    fetched=dict(type="list", elements="dict", default=[]),
    present=dict(type="list", elements="path", default=[]),
    made=dict(type="list", elements="path", default=[]),
    sources=dict(type="dict", options=SOURCES),
)


def list_controller_and_host_refusals(params: dict[str, Any], fs: KernelFS) -> dict[str, Any]:
    """Return the refusals of the controller and of the host, with which the action plugin fails, and the remarks."""
    host = Host(fs, params["intent"])
    preflight = Preflight(params, host, Ledger(Store(fs.root, read_only=True), fs))
    refusals = [*params["refusals"], *preflight.find_refusals_of_layers()]
    return {"refusals": refusals, "remarks": [] if refusals else preflight.remarks}


def main() -> None:
    run_read_only_module(SPEC, list_controller_and_host_refusals)


if __name__ == "__main__":
    main()
