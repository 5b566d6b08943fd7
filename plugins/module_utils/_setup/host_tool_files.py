# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of the host tool, installed from the package that Ansible sends with a module.

Addresses: ``host_tool:FILE``; see _knobs/managed_files.py for the values.
"""

from __future__ import annotations

import os
import shutil
import sys

from .._errors import TuningError
from .._io import command, module_sources, textfile
from .._io.module_sources import PACKAGE
from .._io.paths import HOST_TOOL, HOST_TOOL_FOLDER
from .._knobs.managed_files import ManagedFiles
from .command_help import COMPLETION, MANUAL_PAGE, render_completion, render_manual_page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .. import _cli  # noqa: F401 - has Ansible send the command line and all that it imports
    from .._knobs.protocol.knob import Change, Settings

#: The modules of _serving.unit that write units. The host tool only reads units.
UNIT_WRITERS = (
    "engine",
    "hardening",
    "instance",
    "instances",
    "pending",
    "read_speed",
    "refusals",
    "shared_host",
    "start_first",
    "start_limits",
    "systemd_verify",
    "unit_files",
)
#: Packages and modules that are not installed on the host, because the host tool does not import them.
NOT_INSTALLED = (
    "_ablation",
    "_ansible",
    "_bench",
    "_bmc",
    "_knob_module",
    "_knobs.managed_files",
    "_serving.builder",
    "_serving.llama_cpp",
    "_serving.vllm",
    "_serving.recommend",
    "_serving.update",
    *(f"_serving.unit.{name}" for name in UNIT_WRITERS),
    *(f"_serving.verify.{name}" for name in ("ask", "drawn_threads", "instance_items", "jitter", "silent_unit_items")),
    "_redfish",
    "_setup",
    "_tuning",
)
#: The path of Python on most hosts. An update of Python to a new minor version does not change this path.
PYTHON = "/usr/bin/python3"
#: Python runs isolated (-I) and without site (-S), so that root runs no code from variables or folders of the caller.
LAUNCHER = f"""#!{{python}} -IS
# Installed by sovereign.epyc: do not change it here.

import sys

sys.path.insert(0, "{HOST_TOOL_FOLDER}")
from sovereign_epyc._cli import main

sys.exit(main(sys.argv[1:]))
"""


class HostToolFiles(ManagedFiles):
    """The files of the host tool, its command and its help; other files in its folder are removed."""

    prefix = "host_tool"
    programs = (HOST_TOOL,)

    def __init__(self, present: bool, root: str = "/", more_files: Mapping[str, str] | None = None) -> None:
        """``more_files`` maps paths of further files to their texts."""
        files = {**_read_host_tool_files(), **_list_help_files(root), **(more_files or {})} if present else {}
        super().__init__(files, root)

    def wanted_settings(self) -> Settings:
        """Return a digest for each file of this version, None for files of older versions."""
        old = [f"host_tool:{PACKAGE}/{name}" for name in self._list_installed_modules()]
        single_files = [f"host_tool:{path}" for path in (HOST_TOOL, MANUAL_PAGE, COMPLETION)]
        wanted: Settings = dict.fromkeys([*old, *single_files])
        wanted.update(super().wanted_settings())
        return wanted

    def write_changes(self, changes: Sequence[Change]) -> None:
        """Write and remove files; the command is written last, after the modules that it imports."""
        super().write_changes(sorted(changes, key=lambda change: change.address == f"host_tool:{HOST_TOOL}"))
        modules = self._list_installed_modules()
        if not modules:
            shutil.rmtree(textfile.path_in_tree(self.root, HOST_TOOL_FOLDER), ignore_errors=True)
        elif any(
            change.address.startswith((f"host_tool:{HOST_TOOL_FOLDER}", f"host_tool:{HOST_TOOL}")) for change in changes
        ):
            # This runs the interpreter in the first line of the command, as systemd will do.
            try:
                command.run_command([textfile.path_in_tree(self.root, HOST_TOOL), "--help"])
            except TuningError as error:
                raise TuningError(
                    f"{HOST_TOOL}, which {choose_python_path()} is to run, does not start: {error}"
                ) from None
        # A removed package leaves a folder with bytecode, which is removed here.
        top, packages = textfile.path_in_tree(self.root, PACKAGE), {os.path.dirname(name) for name in modules}
        for folder, inside, dummy in os.walk(top):
            for path in (os.path.join(folder, name) for name in inside if name != "__pycache__"):
                if not any(f"{package}/".startswith(f"{os.path.relpath(path, top)}/") for package in packages):
                    shutil.rmtree(path, ignore_errors=True)

    def _list_installed_modules(self) -> list[str]:
        """Return the paths of the installed modules, relative to the package's folder."""
        top = textfile.path_in_tree(self.root, PACKAGE)
        paths = (os.path.join(folder, name) for folder, dummy, names in os.walk(top) for name in names)
        return sorted(os.path.relpath(path, top) for path in paths if path.endswith(".py"))


def _list_help_files(root: str) -> dict[str, str]:
    """Return the manual page and the bash completion by path, of those for which the host has a folder."""
    texts = {MANUAL_PAGE: render_manual_page(), COMPLETION: render_completion()}
    return {
        path: text for path, text in texts.items() if os.path.isdir(textfile.path_in_tree(root, os.path.dirname(path)))
    }


def choose_python_path() -> str:
    """Return the path of the Python that runs this module: /usr/bin/python3 where this is the same program."""
    is_system_python = os.path.exists(PYTHON) and os.path.samefile(PYTHON, sys.executable)
    return PYTHON if is_system_python else sys.executable


def _read_host_tool_files() -> dict[str, str]:
    """Return the texts of all files of the host tool by path, read from the folder or archive of this package."""
    root = __import__(__package__.rpartition(".")[0], fromlist=[""])
    texts = {f"{PACKAGE}/__init__.py": "", HOST_TOOL: LAUNCHER.format(python=choose_python_path())}
    texts.update(
        (f"{PACKAGE}/{path}", text) for path, text in module_sources.list_module_sources(root.__path__, NOT_INSTALLED)
    )
    if f"{PACKAGE}/_cli.py" not in texts:
        raise RuntimeError("the archive of the module lacks the host tool")
    return texts
