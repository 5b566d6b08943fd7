# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tool of this clone run again with the files of the lab's Debian under it, where the lab's llama.cpp runs.

Unlike a container it has this machine's processes, network and kernel settings: it reserves huge pages.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

from vepyc import paths
from vepyc.container import ensure_root

ROOT = Path(__file__).resolve().parents[1]
# $1: the Debian, $2: an empty folder; then folders to show under their own names, --, and the command. All mounts end
# with the namespace.
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


def run_in_debian(tool: str, *words: str) -> NoReturn:
    """Become a tool of this clone in the lab's Debian. Its Python is the one there, so the tool needs nothing else."""
    places = f"PYTHONPATH={ROOT}/.collections:{ROOT}/lab:{ROOT}"
    python = [places, f"VEPYC_HOME={paths.home()}", "PYTHONDONTWRITEBYTECODE=1", "python3"]
    start = in_debian(Path(tool).stem, *python, str(ROOT / tool), *words)
    os.execvp(start[0], start)


def in_debian(name: str, *words: str) -> list[str]:
    """Return what runs a command, after its variables, in the lab's Debian; no two of a name at a time."""
    seen = ["/proc", "/sys", "/dev", str(paths.home()), str(ROOT)]
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    start = ["unshare", "--mount", "--propagation=private", "sh", "-c", _ENTER, "sh", str(ensure_root())]
    return [*start, str(paths.directory("containers", name)), *seen, "--", "env", "-i", path, *words]
