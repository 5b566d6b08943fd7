# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances that are on a host, and the plan that the unit of each carries for those who judge it later."""

from __future__ import annotations

import hashlib
import json
import os

from ..._errors import BadRequest
from ..._io import textfile
from ..._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ..options.unit_names import WORKER_UNIT, unit_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

#: systemd passes over sections whose names begin with X-.
SECTION = "[X-Sovereign-Epyc]\nPlan="
#: The last line of a unit, by which one that was changed by hand is known.
DIGEST = "Digest="
#: What starts instances at a boot.
TARGET = "multi-user.target"
REPAIR = "Run the play with llama_server again."
KEYS = frozenset(
    ("name", "url", "key_file", "task", "speculation", "expect", "rpc", "files", "mapped", "models", "programs", "keys")
)
WORKER_KEYS = frozenset(("address", "expect", "programs"))


def plan_of(text: str) -> dict[str, Any] | None:
    """Return the plan that the text of a unit carries; None where it carries none, or a part of one."""
    return carried(text, KEYS)


def carried(text: str, keys: Collection[str]) -> dict[str, Any] | None:
    """Return the plan with just these keys that the text of any unit carries; None where it carries none."""
    line = text.partition(f"\n{SECTION}")[2].partition("\n")[0]
    try:
        plan = json.loads(line)
    except ValueError:
        return None
    return plan if isinstance(plan, dict) and plan.keys() == keys else None


def sealed(text: str) -> str:
    """Return the text of a unit with its digest."""
    head = SECTION.partition("\n")[0]
    text = text if f"\n{head}\n" in text else f"{text}\n{head}\n"
    return f"{text}{DIGEST}{_digest(text)}\n"


def intact(text: str) -> bool | None:
    """Return whether the text of a unit is as it was written; None where it carries no digest."""
    body, mark, digest = text.rpartition(f"\n{DIGEST}")
    return digest.strip() == _digest(f"{body}\n") if mark else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def worker(root: str = "/") -> tuple[bool, dict[str, Any] | None]:
    """Return whether the unit of an RPC worker is on this host, and the plan that it carries."""
    text = textfile.read_text(textfile.path_in_tree(root, f"{UNIT_FOLDER}/{WORKER_UNIT}"))
    return text is not None, carried(text or "", WORKER_KEYS)


def replaced(plan: Mapping[str, Any]) -> list[str]:
    """Return the files of a plan that are not those any more which the running instance has loaded."""
    keys = {plan["key_file"]: [None, plan["keys"]]} if plan["keys"] else {}
    return changed_files({**plan["programs"], **plan["files"], **keys})


def changed_files(known: Mapping[str, Any]) -> list[str]:
    """Return the files that have not the size and the time of the last change any more that are known of them."""
    return [path for path, one in known.items() if _differs(path, *one)]


def _differs(path: str, size: int | None, changed: int) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return True
    return found.st_mtime_ns != changed or size not in (None, found.st_size)


def installed_units(root: str = "/") -> dict[str, str]:
    """Return the text of the unit of each instance that we wrote on this host; "" where only its draft is left."""
    texts: dict[str, str] = {}
    folder = textfile.path_in_tree(root, UNIT_FOLDER)
    for file in os.listdir(folder) if os.path.isdir(folder) else []:
        name = file[len("llama-") : -len(".service")]
        text = (textfile.read_text(os.path.join(folder, file)) or "") if file == unit_of(name) else ""
        if text.startswith(INSTANCE_HEAD):
            # The one that drafts for an instance has no other name than that.
            drafts = name.endswith("-rpc")
            texts.setdefault(name[: -len("-rpc")] if drafts else name, "")
            texts.update({} if drafts else {name: text})
    return dict(sorted(texts.items()))


def units_of_instances(root: str = "/") -> dict[str, str]:
    """Return the texts of ``installed_units``, and "" also for one that is gone while its target still starts it."""
    folder = f"{UNIT_FOLDER}/{TARGET}.wants"
    there = textfile.path_in_tree(root, folder)
    lost = []
    for unit in os.listdir(there) if os.path.isdir(there) else []:
        link, name = os.path.join(there, unit), unit[len("llama-") : -len(".service")]
        # That of somebody else's unit leads to another folder.
        leads = os.path.normpath(os.path.join(folder, os.readlink(link))) if os.path.islink(link) else ""
        ours = unit == unit_of(name) and leads == f"{UNIT_FOLDER}/{unit}"
        if ours and not os.path.exists(textfile.path_in_tree(root, leads)):
            lost.append(name)
    return {**dict.fromkeys(lost, ""), **installed_units(root)}


def chosen(name: str | None, root: str = "/") -> tuple[str, dict[str, Any]]:
    """Return name and plan of an instance of this host, the only one where none is named; BadRequest for no such."""
    units = installed_units(root)
    name = named(name, units)
    plan = plan_of(units[name])
    if plan is None:
        raise BadRequest(f"{unit_of(name)} carries no plan, or a part of one. {REPAIR}")
    return name, plan


def named(name: str | None, there: Collection[str]) -> str:
    """Return the name of one of the instances that are there, the only one where none is named; BadRequest for none."""
    known = ", ".join(there) or "none"
    if name is None and len(there) == 1:
        (name,) = there
    if name is None:
        raise BadRequest(f"Say which instance: this host has {known}.")
    if name not in there:
        raise BadRequest(f"There is no instance {name} on this host, which has {known}.")
    return name


def seats(root: str = "/") -> list[dict[str, str]]:
    """Return where each instance on this host was placed, by name: CPUs and nodes in the kernel's list notation.

    ``draft_cpus`` are those of a draft in a process of its own. A unit that carries no plan has nothing but its name.
    """
    rows = []
    for name, text in installed_units(root).items():
        plan = plan_of(text) or {}
        draft = plan.get("rpc") or {}
        rows.append(
            {
                "name": name,
                "cpus": _placed(plan, "cpus"),
                "nodes": _placed(plan, "nodes"),
                "draft_cpus": _placed(draft, "cpus"),
                "url": str(plan.get("url", "")),
            }
        )
    return rows


def _placed(plan: object, key: str) -> str:
    expect = plan.get("expect") if isinstance(plan, dict) else None
    return str(expect.get(key, "")) if isinstance(expect, dict) else ""
