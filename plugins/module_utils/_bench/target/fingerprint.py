# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fingerprint of a measurement: host, build of the server, model and settings for which its results are valid.

Source: proc(5).
"""

from __future__ import annotations

import hashlib
import os

from ..._drift.judge import judge_requests
from ..._drift.verdict import is_single_setting
from ..._host.firmware import read_bios_version, read_microcode_version
from ..._io.safe_open import open_file
from ..._io.store import Store
from ..._knobs.protocol.stored_requests import load_stored_requests
from ..._verify.bios.numa_nodes import read_nodes_per_socket
from ..._verify.bios.setting import KernelView
from ..load import prompts as all_prompts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..._host.host import Host
    from ..._host.topology import Topology
    from ..load.prompts import Prompt
    from .measured_instance import MeasuredInstance

#: The digest of a model file covers only so many bytes at its beginning: reading hundreds of GB would take minutes, and
#: would evict the pages of the model from the page cache.
HASHED_HEAD_BYTES = 1 << 20


def read_fingerprint(host: Host, target: MeasuredInstance, prompts: Iterable[Prompt]) -> dict[str, Any]:
    """Return the fingerprint of a host and an instance for the run document; an unknown field is None."""
    fs, top = host.fs, host.topology
    view = KernelView(fs, top)
    model, quantization = target.read_model_name_and_quantization()
    return {
        "host": fs.read_if_present("/proc/sys/kernel/hostname"),
        "sku": top.model or None,
        "microcode": read_microcode_version(fs),
        "bios": read_bios_version(fs),
        "kernel": top.kernel or None,
        "cmdline": fs.read_if_present("/proc/cmdline"),
        "topology": format_topology_counts(top),
        "dimms": view.memory_slots.format_modules() or None,
        "nps": read_nodes_per_socket(view)[0],
        "uptime_s": float(fs.read("/proc/uptime").split()[0]),
        "engine": target.find_engine(),
        "engine_build": target.build,
        "engine_sha256": digest_files(target.programs),
        "model": model,
        "quantization": quantization,
        "model_sha256": digest_files(target.files, HASHED_HEAD_BYTES),
        "arguments": target.arguments,
        "settings": read_values_of_stored_settings(host),
        "prompts_sha256": all_prompts.digest_prompts(prompts),
    }


def format_topology_counts(top: Topology) -> str:
    """Return the numbers of sockets, nodes, CCDs, L3 domains and cores of a host, in one line."""
    parts = ((top.sockets, "sockets"), (top.nodes, "nodes"), (top.ccds, "CCDs"), (top.l3, "L3 domains"))
    counted = ", ".join(f"{len(many)} {name}" for many, name in (*parts, (top.cores, "cores")))
    return f"{counted}, SMT {top.smt or 'not known'}"


def read_values_of_stored_settings(host: Host) -> dict[str, str | None]:
    """Return the present value of each stored setting of the collection, by address."""
    store = Store(host.fs.root, read_only=True)
    verdicts = judge_requests(host, store, load_stored_requests(store)[1])
    return {verdict.address: verdict.found for verdict in verdicts if is_single_setting(verdict.address)}


def digest_files(paths: Iterable[str], head: int | None = None) -> str | None:
    """Return the SHA-256 of names, sizes and contents of files, or only of their first ``head`` bytes.

    None where there is no file, or where a file cannot be read.
    """
    digest = hashlib.sha256()
    has_file = False
    for path in paths:
        try:
            with open(open_file(path), "rb") as file:
                digest.update(f"{os.path.basename(path)} {os.fstat(file.fileno()).st_size}\n".encode())
                left = os.fstat(file.fileno()).st_size if head is None else head
                while left > 0:
                    data = file.read(min(left, HASHED_HEAD_BYTES))
                    if not data:
                        break
                    digest.update(data)
                    left -= len(data)
        except OSError:
            return None
        has_file = True
    return digest.hexdigest() if has_file else None
