# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's own files on a host, installed from the very files that a module run brings along.

Addresses: ``engine:FILE``; see _files for the values.
"""

from __future__ import annotations

import os
import pkgutil
import shutil

from . import _cli, _textfile
from ._files import Files
from ._verdict import COMMAND, ENGINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ._knob import Change, Settings

PACKAGE = f"{ENGINE}/sovereign_epyc"
#: What needs Ansible, or is only about installing, stays away from the host.
NOT_INSTALLED = (
    "_ansible",
    "_cmake",
    "_engine",
    "_engine_units",
    "_files",
    "_last_run",
    "_llama_build",
    "_llama_instance",
    "_llama_instances",
    "_llama_source",
    "_llama_verify",
    "_prerequisites",
    "_units",
)
LAUNCHER = f"""#!/usr/bin/python3
# Installed by sovereign.epyc: do not change it here.

import sys

sys.path.insert(0, "{ENGINE}")
from sovereign_epyc._cli import main

sys.exit(main(sys.argv[1:]))
"""


class EngineFiles(Files):
    """The files of the engine, and the command that starts it. Nothing else is in their folder."""

    prefix = "engine"
    programs = (COMMAND,)

    def __init__(self, present: bool, root: str = "/", more: Mapping[str, str] | None = None) -> None:
        """``more`` are texts of other files to have with the engine, by path."""
        super().__init__({**_sources(), **(more or {})} if present else {}, root)

    def wanted(self) -> Settings:
        """Return a digest for each file to have, None for files of an older version."""
        old = [f"engine:{PACKAGE}/{name}" for name in self._modules()]
        wanted: Settings = dict.fromkeys([*old, f"engine:{COMMAND}"])
        wanted.update(super().wanted())
        return wanted

    def write(self, changes: Sequence[Change]) -> None:
        """Write and remove files; the command comes last, when all that it needs is there."""
        super().write(sorted(changes, key=lambda change: change.address == f"engine:{COMMAND}"))
        if not self._modules():
            # What is left is the bytecode that Python keeps.
            shutil.rmtree(_textfile.under(self.root, ENGINE), ignore_errors=True)

    def _modules(self) -> list[str]:
        folder = _textfile.under(self.root, PACKAGE)
        return [name for name in os.listdir(folder) if name.endswith(".py")] if os.path.isdir(folder) else []


def _sources() -> dict[str, str]:
    """Return path -> text of all that a host needs, from wherever this package was loaded."""
    package = __package__ or ""
    texts = {f"{PACKAGE}/__init__.py": "", COMMAND: LAUNCHER}
    for module in pkgutil.iter_modules(__import__(package, fromlist=["_engine"]).__path__):
        data = pkgutil.get_data(package, f"{module.name}.py")
        if data is not None and module.name not in NOT_INSTALLED:
            texts[f"{PACKAGE}/{module.name}.py"] = data.decode()
    if f"{PACKAGE}/{_cli.__name__.rsplit('.', 1)[1]}.py" not in texts:
        raise RuntimeError("the module did not bring the engine along")
    return texts
