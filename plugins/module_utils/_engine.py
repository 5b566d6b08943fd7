# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's own files on a host, installed from the very files that a module run brings along.

Addresses: ``engine:NAME``; a value is the digest of the file's text.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import shutil

from . import _cli, _textfile
from ._knob import Knob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._knob import Change, Settings

HOME = "/usr/lib/sovereign-epyc"
PACKAGE = f"{HOME}/sovereign_epyc"
COMMAND = "/usr/sbin/sovereign-epyc"
#: What needs Ansible, or is only about installing, stays away from the host.
NOT_INSTALLED = ("_ansible", "_engine")
LAUNCHER = f"""#!/usr/bin/python3
# Installed by sovereign.epyc: do not change it here.

import sys

sys.path.insert(0, "{HOME}")
from sovereign_epyc._cli import main

sys.exit(main(sys.argv[1:]))
"""


class EngineFiles(Knob):
    """The files of the engine, and the command that starts it. Nothing else is in their folder."""

    prefix = "engine"
    remembered = False

    def __init__(self, present: bool) -> None:
        self.texts = _sources() if present else {}

    def wanted(self) -> Settings:
        """Return a digest for each file to have, None for files of an older version."""
        there = os.listdir(PACKAGE) if os.path.isdir(PACKAGE) else []
        old = [f"engine:{PACKAGE}/{name}" for name in there if name.endswith(".py")]
        wanted: Settings = dict.fromkeys([*old, f"engine:{COMMAND}"])
        wanted.update({f"engine:{path}": _digest(text) for path, text in self.texts.items()})
        return wanted

    def read(self, addresses: Iterable[str]) -> Settings:
        """Return the digest of each file that is there."""
        return {address: _digest_of_file(address[len("engine:") :]) for address in addresses}

    def write(self, changes: Sequence[Change]) -> None:
        """Write and remove files; the command comes last, when all that it needs is there."""
        for change in sorted(changes, key=lambda change: change.address == f"engine:{COMMAND}"):
            path = change.address[len("engine:") :]
            if change.after is None:
                _textfile.remove(path)
            else:
                _textfile.replace(path, self.texts[path], 0o755 if path == COMMAND else 0o644)
        if not self.texts:
            shutil.rmtree(HOME, ignore_errors=True)  # What is left is the bytecode that Python keeps.


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


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest_of_file(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return _digest(file.read())
    except FileNotFoundError:
        return None
