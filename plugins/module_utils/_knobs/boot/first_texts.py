# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What /etc/kernel/cmdline and boot entries held before the collection first changed them, in a file beside the former.

An undo that leaves no setting of the collection gives each file its first bytes back, and removes a file that did not
exist. The file names the changed settings too, so that an undo finds them although the ledger is lost.
"""

from __future__ import annotations

from ..._errors import TuningError
from ..._io import textfile
from ..._notation.shape import ANY, Nullable, first_misfit_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORD = "/etc/kernel/sovereign-epyc.json"
SHAPE = {"settings": {ANY: Nullable(str)}, "files": {ANY: {"first": Nullable(str), "base": str}}, "unfinished": bool}


class FirstTexts:
    """The record of the first texts of one host."""

    def __init__(self, root: str = "/") -> None:
        self.path = textfile.path_in_tree(root, RECORD)
        #: The value before the first change of each setting of the collection, by canonical name.
        self.settings: dict[str, str | None] = {}
        #: For each changed file its first text, None if it did not exist, and the text that says the same.
        self.files: dict[str, dict[str, Any]] = {}
        #: Whether a program that copies the settings to the boot loader was started and has not succeeded since.
        self.unfinished = False
        self._load()

    def _load(self) -> None:
        text = textfile.read_text(self.path)
        if text is None:
            return
        # Imported here because json imports re, and an undo without changes needs neither.
        import json

        try:
            data = json.loads(text)
        except ValueError:
            data = None
        if first_misfit_message(data, SHAPE):
            raise TuningError(
                f"{RECORD} was changed by hand and cannot be read any more. It holds the first text of "
                "/etc/kernel/cmdline: put it back from a backup, or remove it to keep that file as it is."
            )
        self.settings, self.files, self.unfinished = data["settings"], data["files"], data["unfinished"]

    def add_file(self, path: str, first: str | None, base: str) -> None:
        """Note the first text of a file, unless one is noted already."""
        self.files.setdefault(path, {"first": first, "base": base})

    def save(self) -> None:
        """Write the record, flushed to the disk; an empty one is removed."""
        if not self.settings and not self.unfinished:
            textfile.remove_file(self.path)
            return
        import json

        data = {"settings": self.settings, "files": self.files, "unfinished": self.unfinished}
        textfile.write_file(self.path, json.dumps(data, indent=1, sort_keys=True) + "\n", 0o600)
