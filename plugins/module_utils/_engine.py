# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's own files on a host, installed from the very files that a module run brings along.

Addresses: ``engine:FILE``; a value is the digest of the file's text, with mode and owner where those are not ours, or
where a link leads that somebody put there instead.
"""

from __future__ import annotations

import hashlib
import os
import pkgutil
import shutil
import stat

from . import _cli, _textfile
from ._errors import TuningError
from ._knob import Knob
from ._verdict import COMMAND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ._knob import Change, Settings

HOME = "/usr/lib/sovereign-epyc"
PACKAGE = f"{HOME}/sovereign_epyc"
#: What needs Ansible, or is only about installing, stays away from the host.
NOT_INSTALLED = (
    "_ansible",
    "_cmake",
    "_engine",
    "_engine_units",
    "_llama_build",
    "_llama_instance",
    "_llama_instances",
    "_llama_source",
    "_llama_verify",
    "_units",
)
LAUNCHER = f"""#!/usr/bin/python3
# Installed by sovereign.epyc: do not change it here.

import sys

sys.path.insert(0, "{HOME}")
from sovereign_epyc._cli import main

sys.exit(main(sys.argv[1:]))
"""
LINK = "link to "


class EngineFiles(Knob):
    """The files of the engine, and the command that starts it. Nothing else is in their folder."""

    prefix = "engine"
    remembered = False

    def __init__(self, present: bool, root: str = "/", more: Mapping[str, str] | None = None) -> None:
        """``more`` are texts of other files to have with the engine, by path."""
        self.root = root
        self.files = {**_sources(), **(more or {})} if present else {}
        #: By digest: what shall be there, and what was there before, for the way back.
        self._texts = {_digest(text): text for text in self.files.values()}

    def wanted(self) -> Settings:
        """Return a digest for each file to have, None for files of an older version."""
        old = [f"engine:{PACKAGE}/{name}" for name in self._modules()]
        wanted: Settings = dict.fromkeys([*old, f"engine:{COMMAND}"])
        wanted.update({f"engine:{path}": _digest(text) for path, text in self.files.items()})
        return wanted

    def read(self, addresses: Iterable[str]) -> Settings:
        """Return the digest of each file that is there."""
        return {address: self._value(address[len("engine:") :]) for address in addresses}

    def write(self, changes: Sequence[Change]) -> None:
        """Write and remove files; the command comes last, when all that it needs is there."""
        for change in sorted(changes, key=lambda change: change.address == f"engine:{COMMAND}"):
            self._put(change.address[len("engine:") :], change.after)
        if not self._modules():
            # What is left is the bytecode that Python keeps.
            shutil.rmtree(_textfile.under(self.root, HOME), ignore_errors=True)

    def _modules(self) -> list[str]:
        folder = _textfile.under(self.root, PACKAGE)
        return [name for name in os.listdir(folder) if name.endswith(".py")] if os.path.isdir(folder) else []

    def _value(self, path: str) -> str | None:
        path, mode = _textfile.under(self.root, path), _mode_of(path)
        if os.path.islink(path):
            return f"{LINK}{os.readlink(path)}"
        text = _textfile.read(path)
        if text is None:
            return None
        digest = _digest(text)
        self._texts[digest] = text
        there = os.stat(path)
        mine = (stat.S_IMODE(there.st_mode), there.st_uid) == (mode, os.geteuid())
        return digest if mine else f"{digest} {stat.S_IMODE(there.st_mode):04o} {there.st_uid}"

    def _put(self, path: str, value: str | None) -> None:
        path, mode, owner = _textfile.under(self.root, path), _mode_of(path), os.geteuid()
        # A link is never followed: that of a masked unit leads to a device that everybody may write.
        if value is None or os.path.islink(path) or value.startswith(LINK):
            _textfile.remove(path)
        if value is None:
            return
        try:
            if value.startswith(LINK):
                os.symlink(value[len(LINK) :], path)
                return
            digest, *odd = value.split(" ")
            if odd:
                mode, owner = int(odd[0], 8), int(odd[1])
            _textfile.replace(path, self._texts[digest], mode)
            os.chown(path, owner, -1)
            os.chmod(path, mode)
        except OSError as error:
            raise TuningError(f"{path} cannot be written: {os.strerror(error.errno or 0)}.") from None


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


def _mode_of(path: str) -> int:
    return 0o755 if path == COMMAND else 0o644


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
