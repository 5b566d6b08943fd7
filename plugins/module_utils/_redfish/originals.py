# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the settings of a machine were before our first change, in a file on the controller, and what we sent since.

The file belongs to one machine, by the UUID that its BMC gives, and is written before anything is sent.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone

from .._errors import Damaged, TuningError
from .._io import textfile
from .attributes.redaction import scrubbed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .attributes.registry import Registry, Value
    from .machine import Machine

FORMAT = 1


class Originals:
    """The file; without a path nothing is kept, and nothing can be undone."""

    def __init__(self, path: str | None, read_only: bool) -> None:
        self.path = os.path.abspath(os.path.expanduser(path)) if path else None
        self.read_only = read_only
        self.data: dict[str, Any] = {}
        text = textfile.read_text(self.path) if self.path else None
        if text is not None and self.path:
            self.data = _parsed(self.path, text)

    @property
    def attributes(self) -> dict[str, Value]:
        """Return the value of each attribute before our first change."""
        return dict(self.data.get("attributes", {}))

    @property
    def sent(self) -> dict[str, Value]:
        """Return what we sent last to each attribute."""
        return dict(self.data.get("sent", {}))

    def belongs_to(self, machine: Machine) -> None:
        """Refuse the file of another machine."""
        there = str(self.data.get("machine") or "")
        if there and machine.identity and there != machine.identity:
            raise TuningError(
                f"{self.path} holds the originals of the machine {there} ({self.data.get('model')}), but the BMC "
                f"{machine.client.access.name} has {machine.identity}. Was the board replaced, or is the name of the "
                "BMC that of another host? Correct the name, or move the file away. Nothing was changed."
            )

    def remember(self, machine: Machine, registry: Registry, values: Mapping[str, Value]) -> None:
        """Keep the originals of attributes before they are first sent, and what is sent."""
        kept = self.attributes
        for name in values:
            kept.setdefault(name, machine.active.get(name))
        if not self.data:
            self.data = {
                "format": FORMAT,
                "bmc": machine.client.access.name,
                "machine": machine.identity,
                "model": machine.model,
                "bios_version": machine.bios_version,
                "saved": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "active": scrubbed(machine.active, registry),
            }
        self._write({**self.data, "attributes": kept, "sent": {**self.sent, **values}})

    def forget_sent(self, names: Iterable[str]) -> None:
        """Say that these were not sent after all, or were taken back; without any the originals stay."""
        gone = set(names)
        if gone & self.sent.keys():
            self._write({**self.data, "sent": {name: value for name, value in self.sent.items() if name not in gone}})

    def drop(self) -> None:
        """Remove the file: everything is as it was."""
        if self.path and not self.read_only and os.path.lexists(self.path):
            os.unlink(self.path)
        self.data = {}

    def _write(self, data: dict[str, Any]) -> None:
        self.data = data
        if self.path and not self.read_only:
            textfile.write_file(self.path, json.dumps(data, indent=1, sort_keys=True) + "\n", mode=0o600)


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        raise Damaged(path, "it is no JSON") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("attributes"), dict):
        raise Damaged(path, "it does not hold the originals of a machine")
    return data
