# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The baseline of an instance: the run by which its speed is known, and what has changed on the host since.

A baseline says nothing of a host with another kernel, BIOS, program or model. So the checklist names such a change, and
asks for a new measurement. That is a remark: an old baseline is no fault of the host.
"""

from __future__ import annotations

from ..._host.firmware import read_bios_version, read_microcode_version
from ..._io.store import Store
from ..._notation.shape import ANY, Nullable
from ..._verify.checklist_items import NOT_CHECKED, OK, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._host.host import Host

#: The file of the store with the baseline of each instance.
BASELINES = "baselines.json"
#: ``document`` is the file of the run. ``programs`` and ``files`` have size and modification time by path.
SHAPE = {
    "instances": {
        ANY: {
            "document": str,
            "started": str,
            "kernel": Nullable(str),
            "bios": Nullable(str),
            "microcode": Nullable(str),
            "build": Nullable(str),
            "programs": dict,
            "files": dict,
        }
    }
}


def save_baseline(host: Host, plan: Mapping[str, Any], document: Mapping[str, Any], path: str) -> None:
    """Store a run of this host, whose document is in a file, as the baseline of its instance."""
    known = document["fingerprint"]
    baseline = {
        "document": path,
        "started": document["started"],
        **{key: known[key] for key in ("kernel", "bios", "microcode")},
        "build": known["engine_build"],
        "programs": dict(plan["programs"]),
        "files": dict(plan["files"]),
    }
    store = Store(host.fs.root)
    with store.hold_lock():
        baselines = store.load_cache(BASELINES, SHAPE).get("instances", {})
        store.save_document(BASELINES, {"instances": {**baselines, document["instance"]: baseline}})


def load_baseline(root: str, name: str) -> dict[str, Any] | None:
    """Return the baseline of an instance; None where no run is marked as its baseline."""
    baseline: dict[str, Any] | None = (
        Store(root, read_only=True).load_cache(BASELINES, SHAPE).get("instances", {}).get(name)
    )
    return baseline


def list_baseline_items(host: Host, name: str, plan: Mapping[str, Any]) -> list[Item]:
    """Return the item on the baseline of an instance, in a list; an empty list for an instance without a baseline."""
    baseline = load_baseline(host.fs.root, name)
    if baseline is None:
        return []
    changes = _list_changes_since_baseline(host, plan, baseline)
    title = f"baseline of {name}"
    if not changes:
        sentence = f"Its speed was measured with this kernel, BIOS, build and model: {baseline['document']}."
        return [Item(f"baseline/{name}", title, OK, sentence, found=baseline["started"])]
    sentence = (
        f"Measured on another {', '.join(changes)}: run benchmark.yml, and compare.yml with the baseline "
        f"{baseline['document']} and the new file. With epyc_benchmark_baseline=true the new run is the baseline."
    )
    return [Item(f"baseline/{name}", title, NOT_CHECKED, sentence, found=baseline["started"])]


def _list_changes_since_baseline(host: Host, plan: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """Return in words what has changed since a baseline, as "kernel (6.12, now 6.17)"; unknown values are equal."""
    present = {
        "kernel": host.topology.kernel or None,
        "bios": read_bios_version(host.fs),
        "microcode": read_microcode_version(host.fs),
    }
    words = {"kernel": "kernel", "bios": "BIOS", "microcode": "microcode"}
    changes = [
        f"{words[key]} ({baseline[key]}, now {value})"
        for key, value in present.items()
        if None not in (value, baseline[key]) and value != baseline[key]
    ]
    if plan["programs"] != baseline["programs"]:
        changes.append(f"build ({baseline['build']})" if baseline["build"] else "build")
    return [*changes, *(["model"] if plan["files"] != baseline["files"] else [])]
