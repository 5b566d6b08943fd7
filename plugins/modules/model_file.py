#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_file
short_description: Fetch a model file to the host, or verify a model file that is there
version_added: 1.0.0
description:
  - Fetches a GGUF file with O(url), or verifies a file that is at O(path) already. A model may be in several files.
  - Downloads to C(PATH.part), and renames that file when its header, size and O(checksum) are right. Until then an old
    file stays; all old files of a model stay until all its new files are right. Other content, such as an HTML page or
    a pointer of Git LFS, is refused after the first bytes.
  - Resumes a download after a broken connection or an earlier run, provided that the server still has the same file.
    The disk space for all files is checked before the download begins.
  - A file is not read in each run to compute its checksum. The host stores the checksum with the size, time and inode
    of the file, and computes it again only when one of these has changed.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  path:
    description: The path of the file, or of the first file of a model in several files, C(NAME-00001-of-00003.gguf).
      Missing folders are made for a download.
    type: path
    required: true
  state:
    description: With V(absent), the file and an incomplete download of the file are removed.
    type: str
    choices: [present, absent]
    default: present
  url:
    description:
      - The URL, with C(https://) or C(http://), from which a missing or a wrong file is fetched.
      - Redirections and the environment variables for proxies are followed.
      - For a model in several files, the URL of the first file; the URLs of the other files follow from their numbers.
    type: str
  checksum:
    description:
      - The expected checksum, as V(sha256:) and 64 hexadecimal digits.
      - A list with a checksum for each file, in order, means all files of the model. A single checksum means only the
        file at O(path).
      - V(server) uses the checksum that the server states for each file of the model, as Hugging Face hubs do. This
        protects against a damaged download, but not against the server. So O(url) must begin with C(https://) and name
        a commit, C(.../resolve/COMMIT/...). The checksum is returned, so that it can be added to the inventory.
      - Without this option, a missing file is fetched with the checksum that the server states, for each file of the
        model. The host stores this checksum with O(url), so that later runs need no server, and the module returns it.
        O(url) must begin with C(https://), or be on the host itself. A server that states no checksum is refused.
      - Without this option, the module only compares header and size of a file that did not come from O(url).
    type: list
    elements: str
  size:
    description: The size of each file in bytes, in order. With this option, the server is not asked for sizes, and a
      download of another size is refused before its first byte.
    type: list
    elements: int
  token:
    description:
      - A token for the server of O(url), sent in the header C(Authorization). No other server gets the token, and only
        C(https://) is used.
      - The token is neither shown nor written to a disk of the host. The controller passes it in a file in C(/run),
        which is memory, and the module first removes this file. In check mode the token stays on the controller.
    type: str
  token_file:
    description: The file to which the controller wrote O(token). Do not set this option.
    type: path
  owner:
    description: The owner, by name or number. By default, a new file belongs to the user who runs the module, and a
      replaced file keeps its owner.
    type: str
  group:
    description: The group, by name or number.
    type: str
  mode:
    description:
      - The mode, in octal and in quotes, as V("0640").
      - By default, a new file gets V("0644"), so that services of all users can read the file, and a replaced file
        keeps its mode.
    type: str
  reserve:
    description: The disk space that must stay free after the download.
    type: str
    default: 1GiB
  timeout:
    description: The seconds for which a server may send nothing. Then, or after a broken connection, the rest of the
      file is requested again. The module fails when five requests in a row bring no data.
    type: int
    default: 60
  progress:
    description: A file for one line on the progress of a download or of reading a whole file. The line is written every
      five seconds, and the file is removed at the end. By default, the controller chooses a file in C(/run).
    type: path
notes:
  - Check mode asks the server for the size (C(HEAD)), and writes nothing. If the server refuses such a request, the
    module returns a remark; if a hub requires a token, the module fails.
  - The module runs in the background of the host, so that no connection must last as long as a download. The controller
    shows the progress, and continues after a lost connection. C(async) and C(poll) of a task work too.
seealso:
  - module: sovereign.epyc.gguf_info
  - module: sovereign.epyc.hugepages
"""

EXAMPLES = r"""
- name: Fetch a model
  sovereign.epyc.model_file:
    path: /srv/models/large.gguf
    url: https://models.example.com/large-Q4_K_M.gguf
    checksum: sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08

- name: Fetch a model in two files, for which a hub wants a token
  sovereign.epyc.model_file:
    path: /srv/models/huge-00001-of-00002.gguf
    url: https://hub.example.com/org/huge/resolve/main/huge-00001-of-00002.gguf
    checksum:
      - sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
      - sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
    token: "{{ epyc_llama_hub_token }}"

- name: Verify a model that was copied to the host
  sovereign.epyc.model_file:
    path: /srv/models/small.gguf
    checksum: sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
    mode: "0640"
    group: llama

- name: Remove a model
  sovereign.epyc.model_file:
    path: /srv/models/old.gguf
    state: absent
"""

RETURN = r"""
diff:
  description:
    - The differences by address. The checksum of a file stands for its content.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "model_file:/srv/models/large.gguf: nothing -> sha256:9f86d081884c7d65\n"
    changes:
      before: {"model_file:/srv/models/large.gguf": null}
      after: {"model_file:/srv/models/large.gguf": "sha256:9f86d081884c7d65"}
path:
  description: The path of the file, or of the first file of a model in several files.
  returned: success
  type: str
size:
  description: The size of all files in bytes; null in check mode where a file is missing.
  returned: with O(state=present)
  type: int
checksum:
  description: The checksum of the file, or a list of all files' checksums; null where no checksum is known.
  returned: with O(state=present)
  type: raw
downloaded:
  description: The bytes that this run downloaded.
  returned: with O(state=present)
  type: int
resumed:
  description: The bytes that an earlier run had downloaded already.
  returned: with O(state=present)
  type: int
seconds:
  description: The seconds that the download took.
  returned: when a file was fetched
  type: float
remarks:
  description: Messages on events that are no errors, such as a restarted download.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_changing_module
from ansible_collections.sovereign.epyc.plugins.module_utils._models.fetch import ensure_model_files

SPEC = dict(
    path=dict(type="path", required=True),
    state=dict(type="str", choices=["present", "absent"], default="present"),
    url=dict(type="str"),
    checksum=dict(type="list", elements="str"),
    size=dict(type="list", elements="int"),
    token=dict(type="str", no_log=True),
    token_file=dict(type="path", no_log=False),
    owner=dict(type="str"),
    group=dict(type="str"),
    mode=dict(type="str"),
    reserve=dict(type="str", default="1GiB"),
    timeout=dict(type="int", default=60),
    progress=dict(type="path"),
)


def main() -> None:
    run_changing_module(SPEC, ensure_model_files)


if __name__ == "__main__":
    main()
