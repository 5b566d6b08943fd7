#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: llama_build
short_description: Build llama.cpp on the host, for the CPU of the host, unless the build exists
version_added: 1.0.0
description:
  - Unpacks the sources, builds C(llama-server), C(llama-quantize) and the RPC server with cmake, and tries the result.
    Only a working build gets its final folder. The sources are removed.
  - The name of the folder is a digest of all inputs of the build. These are the archive, the options, the compiler and,
    with C(GGML_NATIVE), the model and flags of the CPU. An existing build is not built again. After an update of the
    compiler, or on another CPU, a new build gets another folder; the old build stays for programs that still use it, or
    until O(prune) removes it.
  - By default, builds for the CPU of the host (C(GGML_NATIVE)), with C(GGML_RPC), and without shared libraries,
    OpenSSL, curl, tests and files from the network. O(cmake_options) override these defaults.
  - A failed build leaves only its log, C(FOLDER/KEY.log), which can be watched during the build.
author: The sovereign.epyc authors (@sovereign-epyc)
requirements:
  - cmake
  - make
  - a C++ compiler
extends_documentation_fragment: sovereign.epyc.attributes
options:
  archive:
    description:
      - The sources, as a tar.gz, tar.xz, tar.bz2 or zip, at a URL or in a file of the host by its whole path.
      - The source tree may be at any depth of the archive, as in archives of releases, commits and Python packages.
    type: str
    required: true
  checksum:
    description: The checksum of the archive, as V(sha256:) and 64 hexadecimal digits.
    type: str
    required: true
  engine:
    description: The engine whose sources the archive must have; an archive with the other engine is refused.
    type: str
    choices: [llama.cpp, ik_llama.cpp]
    default: llama.cpp
  cmake_options:
    description:
      - Options for cmake, by name and without C(-D). Booleans become C(ON) and C(OFF).
      - The compiler is C(c++), or the compiler that C(CMAKE_CXX_COMPILER) names. Environment variables, such as
        C(CXXFLAGS), have no effect.
    type: dict
    default: {}
  folder:
    description: The folder of all builds of the host. A missing folder is made. Only root may have write access.
    type: path
    default: /opt/llama
  jobs:
    description: The number of compilers that run at once. The default is the number of CPUs that are not isolated.
    type: int
  prune:
    description: Whether builds in O(folder) that no file in C(/etc/systemd/system) names are removed. A server that
      still runs from such a build is not stopped, but cannot start again.
    type: bool
    default: false
  reserve:
    description: The disk space that must stay free. The build needs another 1 GiB until it is complete.
    type: str
    default: 1GiB
notes:
  - Needs cmake, a C++ compiler and make, which are the packages C(cmake), C(g++) and C(make) on Debian and Ubuntu.
    Without these programs the module fails, even in check mode.
  - In check mode a URL is not fetched, and the name of the RPC server is that of current sources.
  - A build takes minutes on a few CPUs, and runs in the background of the host. The controller shows the compiled file,
    and continues after a lost connection. C(async) and C(poll) of a task work too.
  - Only one build at a time runs in a folder. Another build waits for half a minute, and then fails.
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

- name: Serve a model with this build
  sovereign.epyc.llama_server:
    binary: "{{ llama.binary }}"
    instances:
      - name: chat
        model: /srv/models/model-Q4_K_M.gguf
        port: 8080

- name: Make a build that runs on every host with AVX2
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
    - The missing build by its folder, with the checksum of its archive, and the builds that O(prune) removes.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "llama_build:/opt/llama/3fca1b2a9d07: nothing -> sha256:9f86d081884c7d65\n"
    changes:
      before: {"llama_build:/opt/llama/3fca1b2a9d07": null}
      after: {"llama_build:/opt/llama/3fca1b2a9d07": "sha256:9f86d081884c7d65"}
folder:
  description: The folder of the build, with C(bin) and with C(build.json), which lists the inputs of the build.
  returned: success
  type: str
binary:
  description: The server, for the option C(binary) of M(sovereign.epyc.llama_server).
  returned: success
  type: str
rpc_binary:
  description: The RPC server; null where the sources have no RPC server, or C(GGML_RPC) is off.
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
  description: The server's own answer to C(--version); null in check mode where the build is missing.
  returned: success
  type: str
compiler:
  description: The compiler's own answer to C(--version).
  returned: success
  type: str
cmake_options:
  description: All options of cmake for this build.
  returned: success
  type: dict
remarks:
  description: Messages on events that are no errors, such as a restarted download, or sources without an RPC server.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
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
    run_changing_module(SPEC, ensure_build)


if __name__ == "__main__":
    main()
