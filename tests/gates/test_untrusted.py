# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Root opens, renames, hands over, makes and removes files of others through one door, _io/safe_open.py.

Whoever owns a folder can put another file in the place of any name in it at any moment.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOOR = "plugins/module_utils/_io/safe_open.py"
#: Calls that take a path and open it, or change what has that name.
CALLS = {
    "open",
    *(
        f"os.{name}"
        for name in ("open", "chown", "lchown", "chmod", "rename", "replace", "link", "symlink", "truncate")
    ),
    *(f"os.{name}" for name in ("utime", "mkfifo", "mknod", "setxattr")),
    *(f"os.{name}" for name in ("unlink", "remove", "rmdir", "removedirs", "mkdir", "makedirs")),
    "shutil.rmtree",
    *(f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move", "chown")),
}
#: Files that call them, how often, and why nobody but root can have put anything in the place of what they name.
KNOWN = {
    "plugins/module_utils/_bench/progress.py": (4, "its lock and its progress in /run/sovereign-epyc"),
    "plugins/module_utils/_bench/run.py": (1, "the folder of documents in the store, which is root's alone"),
    "plugins/module_utils/_io/kernelfs.py": (
        8,
        "kernel files, and folders that are locked only",
    ),
    "plugins/module_utils/_io/disk_flush.py": (1, "the folders of boot loaders"),
    "plugins/module_utils/_io/sandbox.py": (2, "a folder in /run that only root can enter"),
    "plugins/module_utils/_io/store.py": (4, "the store, which is refused unless it is root's alone"),
    "plugins/module_utils/_io/textfile.py": (
        1,
        "what is flushed to the disk, and neither read nor changed",
    ),
    "plugins/module_utils/_kernel/page_cache.py": (2, "files of /proc and of control groups"),
    "plugins/module_utils/_setup/host_tool_files.py": (2, "the folder of the host tool in /usr"),
    "plugins/module_utils/_knobs/partition.py": (1, "drop-ins of systemd in /run"),
    "plugins/module_utils/_knobs/boot/systemd_boot.py": (4, "our folder and images on the boot partition"),
    "plugins/module_utils/_knobs/boot/uki.py": (1, "images on the boot partition, which are read only"),
    "plugins/module_utils/_knobs/managed_units.py": (1, "a folder in /run/sovereign-epyc"),
    "plugins/module_utils/_knobs/trial.py": (3, "drop-ins of systemd in /run"),
    "plugins/module_utils/_gateway/gateway_lock.py": (2, "a lock in /run/sovereign-epyc"),
    "plugins/module_utils/_redfish/originals.py": (1, "a file of the operator on the controller"),
    "plugins/module_utils/_serving/unit/instance.py": (1, "drop-ins of units in /etc"),
    "plugins/module_utils/_serving/vllm/probe.py": (1, "lists of arguments in /run/sovereign-epyc"),
    "plugins/module_utils/_knobs/managed_files.py": (2, "unit files and configuration in /etc and /usr"),
    "plugins/module_utils/_serving/llama_cpp/probe.py": (3, "a folder in /run that only root can enter"),
    "plugins/module_utils/_serving/builder/build.py": (
        11,
        "the folder of builds, refused where others may write",
    ),
    "plugins/module_utils/_serving/hooks/cache.py": (2, "files of /proc"),
    "plugins/module_utils/_serving/hooks/stage.py": (1, "the time of a file by its descriptor"),
    "plugins/module_utils/_serving/unit/systemd_verify.py": (1, "a folder of its own in /tmp that only root can enter"),
}


def _called_name(node: ast.Call) -> str:
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return f"{node.func.value.id}.{node.func.attr}"
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _opens_by_descriptor(node: ast.Call) -> bool:
    """Return whether a call of open() only wraps a descriptor, which the door opened."""
    first = node.args[0] if node.args else None
    opener = _called_name(first).rpartition(".")[2] if isinstance(first, ast.Call) else ""
    is_descriptor = opener in ("open_file", "create_file") or (isinstance(first, ast.Name) and first.id == "descriptor")
    return _called_name(node) == "open" and is_descriptor


@functools.cache
def lines_by_name(source: str) -> tuple[int, ...]:
    """Return the lines of a module with calls past the door."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and _called_name(node) in CALLS)
    return tuple(node.lineno for node in calls if not _opens_by_descriptor(node))


def read_sources() -> dict[str, str]:
    """Return the texts of all modules that run on a host, by their paths."""
    paths = (*ROOT.glob("plugins/module_utils/**/*.py"), *ROOT.glob("plugins/modules/*.py"))
    names = {str(path.relative_to(ROOT)): path for path in paths}
    return {name: path.read_text() for name, path in names.items() if name != DOOR}


def unknown_calls(sources: dict[str, str]) -> list[str]:
    """Return each file with other calls than KNOWN says, with their lines."""
    found = {name: lines_by_name(source) for name, source in sources.items()}
    return [
        f"{name}: lines {found.get(name)}"
        for name in sorted({*found, *KNOWN})
        if len(found.get(name, ())) != KNOWN.get(name, (0,))[0]
    ]


def test_files_of_others_are_touched_through_the_door_only() -> None:
    assert unknown_calls(read_sources()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "shutil.rmtree(path)",
        "os.unlink(path)",
        "os.chmod(path, 0o644)",
        "os.chown(path, 0, 0)",
        "os.rename(path, path)",
        "open(path)",
        "os.open(path, 0)",
    ],
)
def test_a_planted_call_is_found(planted: str) -> None:
    sources, name = read_sources(), "plugins/module_utils/_models/quantize.py"
    sources[name] += f"\n\ndef planted(path: str) -> None:\n    {planted}\n"
    (found,) = unknown_calls(sources)
    assert found.startswith(f"{name}: lines (")
