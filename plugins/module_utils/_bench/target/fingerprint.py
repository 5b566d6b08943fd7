# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a result holds for: the host, the build, the model and the settings that it was measured with.

Source: Documentation/ABI/testing/sysfs-devices-system-cpu (microcode) and proc(5).
"""

from __future__ import annotations

import hashlib
import os

from ..._drift.judge import judge_requests
from ..._drift.verdict import is_single_setting
from ..._io.safe_open import open_file
from ..._io.store import Store
from ..._knobs.protocol.stored_requests import load_stored_requests
from ..load import prompts as all_prompts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..load.prompts import Prompt
    from .measured_instance import Target

#: Of a model, so much of each file is read: reading hundreds of GB would take minutes, and push the model's own pages
#: out of the page cache.
HEAD = 1 << 20


def of(host: Host, target: Target, prompts: Iterable[Prompt]) -> dict[str, Any]:
    """Return the fingerprint of a run document; None is "not known"."""
    fs, top = host.fs, host.topology
    return {
        "sku": top.model or None,
        "microcode": fs.read_if_present("/sys/devices/system/cpu/cpu0/microcode/version"),
        "bios": fs.read_if_present("/sys/class/dmi/id/bios_version"),
        "kernel": top.kernel or None,
        "cmdline": fs.read_if_present("/proc/cmdline"),
        "topology": shape(top),
        "uptime_s": float(fs.read("/proc/uptime").split()[0]),
        "engine_build": target.build,
        "engine_sha256": digest(target.programs),
        "model_sha256": digest(target.files, HEAD),
        "arguments": target.arguments,
        "settings": settings(host),
        "prompts_sha256": all_prompts.digest(prompts),
    }


def shape(top: Topology) -> str:
    """Return how many of everything a host has, in a line."""
    parts = ((top.sockets, "sockets"), (top.nodes, "nodes"), (top.ccds, "CCDs"), (top.l3, "L3 domains"))
    counted = ", ".join(f"{len(many)} {name}" for many, name in (*parts, (top.cores, "cores")))
    return f"{counted}, SMT {top.smt or 'not known'}"


def settings(host: Host) -> dict[str, str | None]:
    """Return what each stored setting of the collection holds now, by its address."""
    store = Store(host.fs.root, read_only=True)
    verdicts = judge_requests(host, store, load_stored_requests(store)[1])
    return {one.address: one.found for one in verdicts if is_single_setting(one.address)}


def digest(paths: Iterable[str], head: int | None = None) -> str | None:
    """Return the SHA-256 of the names, sizes and contents of some files, of ``head`` bytes of each where that is given.

    None where there are none, or one cannot be read.
    """
    found = hashlib.sha256()
    known = False
    for path in paths:
        try:
            with open(open_file(path), "rb") as file:
                found.update(f"{os.path.basename(path)} {os.fstat(file.fileno()).st_size}\n".encode())
                left = os.fstat(file.fileno()).st_size if head is None else head
                while left > 0:
                    data = file.read(min(left, HEAD))
                    if not data:
                        break
                    found.update(data)
                    left -= len(data)
        except OSError:
            return None
        known = True
    return found.hexdigest() if known else None
