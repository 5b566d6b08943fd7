# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small JSON files that survive a crash: the ledger of originals and the requests that the boot service applies.

Hold the lock to change one.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from .._errors import TuningError
from . import textfile
from .kernelfs import hold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HOME = "/var/lib/sovereign-epyc"


class Store:
    """A folder of JSON files. A read-only one refuses to write, for check mode."""

    def __init__(self, root: str = "/", read_only: bool = False) -> None:
        self.folder = HOME if root == "/" else os.path.join(root, HOME.lstrip("/"))
        self.read_only = read_only

    def load(self, name: str) -> dict[str, Any]:
        """Return what a file holds; nothing where there is none. Raises TuningError for a damaged one."""
        import json

        path = os.path.join(self.folder, name)
        try:
            with open(path, encoding="utf-8") as file:
                data: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise TuningError(
                f"{path} cannot be read: {error}. Nothing was changed. Move it away to start anew."
            ) from None
        return data

    def save(self, name: str, data: dict[str, Any]) -> None:
        """Replace a file, on the disk when this returns."""
        import json

        path = os.path.join(self.folder, name)
        if self.read_only:
            raise TuningError(f"A check tried to write {path}. This is a fault of the collection: please report it.")
        self._make_folder()
        textfile.replace(path, json.dumps(data, indent=1, sort_keys=True) + "\n", 0o600)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock that every run of this collection takes to change this host."""
        self._make_folder()
        with hold(self.folder, self.folder):
            yield

    def _make_folder(self) -> None:
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise TuningError(f"{self.folder} cannot be made: {os.strerror(error.errno or 0)}.") from None
