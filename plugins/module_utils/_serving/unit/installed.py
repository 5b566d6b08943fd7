# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds the installed instances of all engines, and reads the plan that the unit of each instance carries."""

from __future__ import annotations

import hashlib
import json
import os

from ..._errors import BadRequest
from ..._io import textfile
from ..._io.paths import INSTANCE_HEAD, UNIT_FOLDER
from ..._kernel.processes import DELETED, read_mapped_paths
from ..catalogue import ENGINES, LLAMA, engine_key_of_unit
from ..options.unit_names import WORKER_UNIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from ..._io.kernelfs import KernelFS
    from ..catalogue import EngineRow

#: systemd ignores sections whose names begin with X-. The plan is the first line of this section.
PLAN_MARK = "[X-Sovereign-Epyc]\nPlan="
#: The last line of a unit holds a digest of the text above it, which shows whether somebody edited the file.
DIGEST_MARK = "Digest="
#: The target that starts instances at a boot.
BOOT_TARGET = "multi-user.target"
PLAN_KEYS = frozenset(
    (
        *("name", "engine", "unit", "url", "key_file", "task", "speculation", "expect", "rpc", "files", "mapped"),
        *("models", "programs", "keys", "rate", "details"),
    )
)
WORKER_PLAN_KEYS = frozenset(("address", "expect", "programs"))


class InstalledUnit:
    """The unit of an installed instance; ``text`` is "" where only a draft or the link of the boot target is left."""

    __slots__ = ("name", "row", "text")

    def __init__(self, row: EngineRow, name: str, text: str) -> None:
        self.row = row
        self.name = name
        self.text = text

    @property
    def unit(self) -> str:
        return self.row.unit_name(self.name)

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan that the unit carries; None where it carries no complete plan."""
        return parse_unit_plan(self.text)


def parse_unit_plan(text: str) -> dict[str, Any] | None:
    """Return the plan that the text of a unit carries; None where it carries no complete plan."""
    return parse_plan_with_keys(text, PLAN_KEYS)


def parse_plan_with_keys(text: str, keys: Collection[str]) -> dict[str, Any] | None:
    """Return the plan that the text of a unit carries; None where there is none with exactly these keys."""
    plan = _parse_plan_of_any_version(text)
    return plan if plan is not None and plan.keys() == keys else None


def _parse_plan_of_any_version(text: str) -> dict[str, Any] | None:
    line = text.partition(f"\n{PLAN_MARK}")[2].partition("\n")[0]
    try:
        plan = json.loads(line)
    except ValueError:
        return None
    return plan if isinstance(plan, dict) else None


def missing_plan_message(unit: str, text: str) -> str:
    """Return why a unit with this text has no plan for this version of the collection, and what to do."""
    is_whole = _parse_plan_of_any_version(text) is not None
    what = "the plan of another version of the collection" if is_whole else "no plan, or a part of one"
    return f"{unit} carries {what}. {write_unit_again_message(unit)}"


def append_digest_line(text: str) -> str:
    """Return the text of a unit with a digest of this text as a new last line."""
    head = PLAN_MARK.partition("\n")[0]
    text = text if f"\n{head}\n" in text else f"{text}\n{head}\n"
    return f"{text}{DIGEST_MARK}{_compute_digest(text)}\n"


def is_unchanged_since_digest(text: str) -> bool | None:
    """Return whether the text of a unit is unchanged since it was written; None where it carries no digest."""
    body, mark, digest = text.rpartition(f"\n{DIGEST_MARK}")
    return digest.strip() == _compute_digest(f"{body}\n") if mark else None


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def read_rpc_worker_plan(root: str = "/") -> tuple[bool, dict[str, Any] | None]:
    """Return whether the unit of an RPC worker is on this host, and the plan that it carries."""
    text = textfile.read_text(textfile.path_in_tree(root, f"{UNIT_FOLDER}/{WORKER_UNIT}"))
    return text is not None, parse_plan_with_keys(text or "", WORKER_PLAN_KEYS)


def list_files_replaced_since_load(plan: Mapping[str, Any]) -> list[str]:
    """Return the files of a plan that were replaced or removed since the running instance loaded them."""
    keys = {plan["key_file"]: [None, plan["keys"]]} if plan["keys"] else {}
    return list_files_with_other_size_or_time({**plan["programs"], **plan["files"], **keys})


def list_changed_mapping_messages(fs: KernelFS, plan: Mapping[str, Any]) -> list[str]:
    """Return a sentence on each model file that the running server of an instance maps, and that was changed since.

    A file that is replaced by renaming leaves the old file to the server. With a file that is overwritten in place, the
    server computes with whatever is there, and the kernel ends it by SIGBUS where the file became shorter.
    """
    messages = []
    unit, mapped = plan["unit"], read_mapped_paths(fs, plan["unit"])
    for path in plan["mapped"]:
        real = os.path.realpath(path)
        if real in mapped and path in plan["files"] and has_file_changed(path, *plan["files"][path]):
            messages.append(
                f"{path} was overwritten in place while {unit} maps it: the server computes with the new content as if "
                f"it were the old, and may be killed at any moment. Restart it now ('systemctl restart {unit}'), and "
                "replace a file by renaming, as docs/models.md describes."
            )
        elif real + DELETED in mapped:
            messages.append(f"{path} was replaced, and {unit} still runs with the old file, whose name is gone.")
    return messages


def list_files_with_other_size_or_time(recorded_stamps: Mapping[str, Any]) -> list[str]:
    """Return the files whose size or time of the last change (in ns) differs from the recorded one."""
    return [path for path, identity in recorded_stamps.items() if has_file_changed(path, *identity)]


def has_file_changed(path: str, recorded_size: int | None, recorded_time: int) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return True
    return status.st_mtime_ns != recorded_time or recorded_size not in (None, status.st_size)


def read_instance_unit_texts(root: str = "/", row: EngineRow = LLAMA) -> dict[str, str]:
    """Return the texts of the units of an engine by instance, without units of other programs.

    The text is "" where only the unit of a draft is left.
    """
    texts: dict[str, str] = {}
    folder = textfile.path_in_tree(root, UNIT_FOLDER)
    for file in os.listdir(folder) if os.path.isdir(folder) else []:
        name = _instance_name_of_unit(file, row)
        text = (textfile.read_text(os.path.join(folder, file)) or "") if name else ""
        if text.startswith(INSTANCE_HEAD):
            # Only the ending of its name marks the unit of a draft; names of instances never end with -rpc.
            is_draft = row.has_drafts and name.endswith("-rpc")
            texts.setdefault(name[: -len("-rpc")] if is_draft else name, "")
            texts.update({} if is_draft else {name: text})
    return dict(sorted(texts.items()))


def list_installed_instances(root: str = "/") -> list[InstalledUnit]:
    return [
        InstalledUnit(row, name, text)
        for row in ENGINES.values()
        for name, text in read_instance_unit_texts(root, row).items()
    ]


def list_installed_or_enabled_instances(root: str = "/") -> list[InstalledUnit]:
    """Return the installed instances, and those without a unit file that the boot target still starts."""
    folder = f"{UNIT_FOLDER}/{BOOT_TARGET}.wants"
    links = textfile.path_in_tree(root, folder)
    without_file = []
    for unit in os.listdir(links) if os.path.isdir(links) else []:
        link, row = os.path.join(links, unit), ENGINES.get(engine_key_of_unit(unit))
        # A link with such a name that leads to another folder belongs to a unit of another program.
        target = os.path.normpath(os.path.join(folder, os.readlink(link))) if os.path.islink(link) else ""
        if row and target == f"{UNIT_FOLDER}/{unit}" and not os.path.exists(textfile.path_in_tree(root, target)):
            without_file.append(InstalledUnit(row, _instance_name_of_unit(unit, row), ""))
    installed = list_installed_instances(root)
    units = [instance.unit for instance in installed]
    return [*(instance for instance in without_file if instance.unit not in units), *installed]


def _instance_name_of_unit(unit: str, row: EngineRow) -> str:
    name = unit[len(row.key) + 1 : -len(".service")]
    return name if unit == row.unit_name(name) else ""


def select_instance_and_plan(name: str | None, root: str = "/") -> tuple[str, dict[str, Any]]:
    """Return name and plan of an instance; without a name, of the only one. BadRequest for an unclear name."""
    installed = list_installed_instances(root)
    name = choose_instance_name(name, [instance.name for instance in installed])
    (instance,) = [instance for instance in installed if instance.name == name]
    plan = instance.plan
    if plan is None:
        raise BadRequest(missing_plan_message(instance.unit, instance.text))
    return name, plan


def choose_instance_name(name: str | None, installed_names: Sequence[str]) -> str:
    """Return the name of an instance on this host; without a name, of the only one. BadRequest for an unclear name."""
    listed = ", ".join(installed_names) or "none"
    if name is None and len(installed_names) == 1:
        (name,) = installed_names
    if name is None:
        raise BadRequest(f"Say which instance: this host has {listed}.")
    if name not in installed_names:
        raise BadRequest(f"There is no instance {name} on this host, which has {listed}.")
    if installed_names.count(name) > 1:
        raise BadRequest(f"llama-server and vLLM both have an instance {name} on this host: give one another name.")
    return name


def write_unit_again_message(unit: str) -> str:
    return f"Run the play with {ENGINES.get(engine_key_of_unit(unit), LLAMA).module} again."


def list_instance_placements(root: str = "/") -> list[dict[str, str]]:
    """Return the name, URL, CPUs and nodes of each instance on this host; lists are in the kernel's notation.

    ``draft_cpus`` are the CPUs of a draft in a process of its own. An instance without a readable plan has only a name.
    """
    rows = []
    for instance in list_installed_instances(root):
        plan = instance.plan or {}
        rows.append(
            {
                "name": instance.name,
                "cpus": _planned_value(plan, "cpus"),
                "nodes": _planned_value(plan, "nodes"),
                "draft_cpus": _planned_value(plan.get("rpc") or {}, "cpus"),
                "url": str(plan.get("url", "")),
            }
        )
    return rows


def _planned_value(plan: object, key: str) -> str:
    expect = plan.get("expect") if isinstance(plan, dict) else None
    return str(expect.get(key, "")) if isinstance(expect, dict) else ""
