#!/usr/bin/python
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_file
short_description: Have a model file on the host, whole and the right one
version_added: 0.1.0
description:
  - Fetches a GGUF file with O(url), or proves one that is at O(path) already. A model in several files is one model.
  - Fetches into C(PATH.part) beside it and gives it its name when its header, its size and its O(checksum) are right.
    Until then an old file stays, and of a model in several files all old ones stay until all new ones are right. A page
    of HTML, a pointer of Git LFS and the like are refused after the first bytes.
  - Goes on where the connection broke, or where an earlier run ended, as long as the server has the same file still.
    The disk space for all files is checked before the first byte.
  - Tens of gigabytes are not read anew in each run. The checksum of a file is remembered on the host together with the
    size, time and inode of the file, and taken again when one of them has changed.
author: The sovereign.epyc authors (@sovereign-epyc)
extends_documentation_fragment: sovereign.epyc.attributes
options:
  path:
    description: Where the file is or will be, of a model in several files the first one, C(NAME-00001-of-00003.gguf).
      Folders above it are made for one that is fetched.
    type: path
    required: true
  state:
    description: With V(absent), the file and what was fetched of it are removed.
    type: str
    choices: [present, absent]
    default: present
  url:
    description:
      - Where to fetch it from when it is not at O(path), or another one is, with C(https://) or C(http://).
      - Redirections are followed, and the environment variables for proxies are heeded.
      - Of a model in several files, the URL of the first one; those of the others are told by their numbers.
    type: str
  checksum:
    description:
      - Which file it must be, as V(sha256:) and 64 hexadecimal digits.
      - With one for each file of a model, in their order, all of its files are meant. With a single one, only the file
        at O(path) is.
      - V(server) takes the one that the server says, of every file of the model, as Hugging Face hubs do. It protects
        from a damaged download, and from nothing that the server does. So O(url) has to begin with C(https://) and to
        name a commit, C(.../resolve/COMMIT/...), and the checksum is returned to be written down.
      - Without it, a file that is missing is fetched with the checksum that the server states, of every file of the
        model. It is remembered with O(url), so that later runs ask nobody, and returned to be written down. O(url) has
        to begin with C(https://), or be on the host itself; a server that states none is refused.
      - Without it, of a file that did not come from O(url), only the header is held against its size.
    type: list
    elements: str
  size:
    description: The bytes of each file, in their order. The server is not asked for them then, and a file of another
      size is refused before its first byte.
    type: list
    elements: int
  token:
    description:
      - A token for the server of O(url), sent in the header C(Authorization). It goes to no other server, and only with
        C(https://).
      - It is not written to a disk of the host and not shown. The controller hands it over in a file in C(/run), which
        is memory, and the module removes that before anything else. In check mode it stays with the controller.
    type: str
  token_file:
    description: Where the controller has put O(token). Do not set it.
    type: path
  owner:
    description: The owner, by name or number. A new file belongs to the user who runs the module; one that replaces an
      old file keeps its owner.
    type: str
  group:
    description: The group, by name or number.
    type: str
  mode:
    description:
      - The mode, in octal and in quotes, as V("0640").
      - A new file gets V("0644"), so that a service with a user of its own can read it; one that replaces an old file
        gets its mode.
    type: str
  reserve:
    description: How much of the disk must stay free when all has been fetched.
    type: str
    default: 1GiB
  timeout:
    description: For how many seconds a server may send nothing. After that, and after a broken connection, the rest is
      asked for again. It fails when five tries in a row bring nothing.
    type: int
    default: 60
  progress:
    description:
      - A file with one line on the progress of a download or of reading a whole file, written every five seconds and
        removed at the end. Without it, the controller has one in C(/run) for as long as it waits.
    type: path
notes:
  - In check mode the server is asked for the size (C(HEAD)), and nothing is written. A server that refuses this is a
    remark, no failure; a hub that gives the file to nobody without a token is one.
  - Runs in the background of the host, so that no connection has to last as long as a download. The controller shows
    the progress, and goes on when the connection was lost in between. C(async) and C(poll) of a task are heeded too.
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

- name: Prove a model that came by other ways
  sovereign.epyc.model_file:
    path: /srv/models/small.gguf
    checksum: sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
    mode: "0640"
    group: llama

- name: Remove one
  sovereign.epyc.model_file:
    path: /srv/models/old.gguf
    state: absent
"""

RETURN = r"""
diff:
  description:
    - What differed, by address. Its checksum stands for the content.
    - C(prepared) is the text that C(--diff) prints; C(changes) has all addresses with their values.
  returned: always
  type: dict
  sample:
    prepared: "model_file:/srv/models/large.gguf: nothing -> sha256:9f86d081884c7d65\n"
    changes:
      before: {"model_file:/srv/models/large.gguf": null}
      after: {"model_file:/srv/models/large.gguf": "sha256:9f86d081884c7d65"}
path:
  description: The file, of a model in several files the first one.
  returned: success
  type: str
size:
  description: The bytes of all files; none in check mode where one would be fetched.
  returned: with O(state=present)
  type: int
checksum:
  description: Its checksum, none where none was asked for; a list of a model in several files.
  returned: with O(state=present)
  type: raw
downloaded:
  description: How many bytes this run fetched and kept.
  returned: with O(state=present)
  type: int
resumed:
  description: How many bytes it had from an earlier run.
  returned: with O(state=present)
  type: int
seconds:
  description: How long that took.
  returned: when it was fetched
  type: float
remarks:
  description: What happened on the way, as a download that was begun again.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.sovereign.epyc.plugins.module_utils._ansible import run_writer
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
    run_writer(SPEC, ensure_model_files)


if __name__ == "__main__":
    main()
