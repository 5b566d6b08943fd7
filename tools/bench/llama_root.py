# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs programs in the root folder of the lab's Debian, for which the lab's llama.cpp is built.

A program has the processes, network and kernel settings of this machine, unlike in a container.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._io.web.free_port import find_free_port
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import server_http
from vepyc import paths
from vepyc.container import ensure_container_root

ROOT = Path(__file__).resolve().parents[2]
# The arguments are the root folder of Debian, an empty folder, folders of this machine to bind at the same paths, --,
# and the command. All mounts end with the namespace.
_ENTER = r"""
set -e
root=$1 work=$2
shift 2
mount -t tmpfs none "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$work/upper,workdir=$work/work" "$work/root"
while [ "$1" != -- ]; do
    mkdir -p "$work/root$1"
    mount --rbind "$1" "$work/root$1"
    shift
done
shift
exec chroot "$work/root" "$@"
"""


def debian_command_line(name: str, *words: str) -> list[str]:
    """Return the command line that runs a command in the lab's Debian; ``name`` names its folder for mounts."""
    bound = ["/proc", "/sys", "/dev", str(paths.state_directory()), str(ROOT)]
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    start = ["unshare", "--mount", "--propagation=private", "sh", "-c", _ENTER, "sh", str(ensure_container_root())]
    return [*start, str(paths.ensure_directory("containers", name)), *bound, "--", "env", "-i", path, *words]


@contextmanager
def running_llama_server(name: str, *words: str) -> Iterator[str]:
    """Run the llama-server of this command line at a free port during the block; yield its URL once it serves."""
    port = find_free_port()
    command = ["setpriv", "--pdeathsig=KILL", *debian_command_line(name, *words, "--port", str(port))]
    with (paths.ensure_directory("logs") / f"{name}.log").open("a") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        server_http.wait_for_health(f"http://127.0.0.1:{port}", 120, process.pid)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
