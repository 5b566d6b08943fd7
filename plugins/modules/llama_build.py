#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_build
short_description: Build llama.cpp on the host, for its own CPU, and only when it is not there yet
version_added: 0.1.0
description:
  - Unpacks the sources, builds C(llama-server), C(llama-quantize) and the RPC server with cmake, tries the result, and
    only then gives it its folder. Nothing of the sources stays.
  - The folder is named after all that goes into the build, which are the archive, the options, the compiler and, with
    C(GGML_NATIVE), the model and flags of the CPU. What is there already is not built again. After an update of the
    compiler or on another CPU a new build goes into another folder; the old one stays for programs that still use it,
    or until O(prune) removes it.
  - Builds for the CPU of the host (C(GGML_NATIVE)), with C(GGML_RPC), without shared libraries, OpenSSL, curl, tests
    and files from the network. O(cmake_options) go over that.
  - A build that fails leaves nothing but its log, C(FOLDER/KEY.log), which can be watched while it is built.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  archive:
    description:
      - The sources, as a tar.gz, tar.xz, tar.bz2 or zip, at a URL or in a file of the host by its whole path.
      - The tree may be at any depth in it, as in the archives of releases, of commits and of Python packages.
    type: str
    required: true
  checksum:
    description: Which archive it must be, as V(sha256:) and 64 hexadecimal digits.
    type: str
    required: true
  engine:
    description: What the archive must hold; another one is refused.
    type: str
    choices: [llama.cpp, ik_llama.cpp]
    default: llama.cpp
  cmake_options:
    description:
      - Options for cmake, by name and without C(-D). Booleans become C(ON) and C(OFF).
      - The compiler is C(c++), or the one that C(CMAKE_CXX_COMPILER) names. Variables of the environment, as
        C(CXXFLAGS), take no part.
    type: dict
    default: {}
  folder:
    description: Where all builds of the host are. It is made when it is not there. Nobody but root may write there.
    type: path
    default: /opt/llama
  jobs:
    description: How many compilers may run at once. Without it, as many as the host has CPUs that are not isolated.
    type: int
  prune:
    description:
      - Whether other builds in O(folder) are removed that no file in C(/etc/systemd/system) names. A server that still
        runs from one is not ended, and starts no more.
    type: bool
    default: false
  reserve:
    description: How much of the disk must stay free. A build itself needs 1 GiB until it is whole.
    type: str
    default: 1GiB
notes:
  - It needs cmake, a compiler of C++ and make, which on Debian and Ubuntu are the packages C(cmake), C(g++) and
    C(make). Without them it is refused, in check mode too.
  - In check mode a URL is not fetched, and the name of the RPC server is the one that current sources have.
  - It takes minutes on a few CPUs, and runs in the background of the host. The controller shows what is compiled, and
    goes on when the connection was lost in between. C(async) and C(poll) of a task are heeded too.
  - Only one build at a time runs in a folder. Others wait for half a minute, and then are refused.
seealso:
  - module: sovereign.epyc.llama_server
  - module: sovereign.epyc.model_file
  - module: sovereign.epyc.model_quantize
"""

EXAMPLES = r"""
- name: Build llama.cpp
  sovereign.epyc.llama_build:
    archive: https://sources.example.com/llama.cpp/b11434.tar.gz
    checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  register: llama

- name: Serve with it
  sovereign.epyc.llama_server:
    binary: "{{ llama.binary }}"
    instances:
      - name: chat
        model: /srv/models/model-Q4_K_M.gguf
        port: 8080

- name: Build one that runs on every host with AVX2
  sovereign.epyc.llama_build:
    archive: /srv/sources/b11434.tar.gz
    checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    cmake_options:
      GGML_NATIVE: false
      GGML_AVX2: true
      GGML_FMA: true
      GGML_F16C: true
      GGML_BMI2: true
"""

RETURN = r"""
diff:
  description:
    - The build that was missing, by its folder, and the checksum of its archive, and those that O(prune) removes.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "llama_build:/opt/llama/3fca1b2a9d07: nothing -> sha256:9f86d081884c7d65\n"
    changes:
      before: {"llama_build:/opt/llama/3fca1b2a9d07": null}
      after: {"llama_build:/opt/llama/3fca1b2a9d07": "sha256:9f86d081884c7d65"}
folder:
  description: The folder of the build. It holds C(bin) and C(build.json), which lists its inputs.
  returned: success
  type: str
binary:
  description: The server, for the option C(binary) of M(sovereign.epyc.llama_server).
  returned: success
  type: str
rpc_binary:
  description: The RPC server; none where the sources have none, or C(GGML_RPC) is off.
  returned: success
  type: str
quantize_binary:
  description: The program for the option C(binary) of M(sovereign.epyc.model_quantize).
  returned: success
  type: str
key:
  description: The name of the folder, which is a digest of all inputs of the build.
  returned: success
  type: str
version:
  description: What the server says of its version; none in check mode where it would be built.
  returned: success
  type: str
compiler:
  description: The compiler, as it names itself.
  returned: success
  type: str
cmake_options:
  description: All options that cmake was given, or would be.
  returned: success
  type: dict
remarks:
  description: What happened on the way, as a download that was begun again, or an RPC server that there is none of.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder.build import ensure_build

SPEC = dict(
    archive=dict(type="str", required=True),
    checksum=dict(type="str", required=True),
    engine=dict(type="str", choices=["llama.cpp", "ik_llama.cpp"], default="llama.cpp"),
    cmake_options=dict(type="dict", default={}),
    folder=dict(type="path", default="/opt/llama"),
    jobs=dict(type="int"),
    prune=dict(type="bool", default=False),
    reserve=dict(type="str", default="1GiB"),
)


def main() -> None:
    run_writer(SPEC, ensure_build)


if __name__ == "__main__":
    main()
