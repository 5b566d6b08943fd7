# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The originals of a machine's BIOS settings and the values sent since, in a file on the controller.

The file belongs to the machine whose UUID it holds, and is written before settings are sent.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone

from .._errors import Damaged, TuningError
from .._formats import FIRST, add_stamp, take_stamp
from .._io import textfile
from .attributes.redaction import redact_secret_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from .attributes.registry import Registry, Value
    from .machine import Machine


class Originals:
    """The file with the originals of a machine; without a path, no original is stored and no setting can be undone."""

    def __init__(self, path: str | None, read_only: bool) -> None:
        self.path = os.path.abspath(os.path.expanduser(path)) if path else None
        self.read_only = read_only
        self.data: dict[str, Any] = {}
        text = textfile.read_text(self.path) if self.path else None
        if text is not None and self.path:
            self.data = _parse_originals_document(self.path, text)

    @property
    def original_values(self) -> dict[str, Value]:
        """Return the original of each attribute that was ever sent."""
        return dict(self.data.get("attributes", {}))

    @property
    def last_sent_values(self) -> dict[str, Value]:
        """Return the value that was last sent for each attribute."""
        return dict(self.data.get("sent", {}))

    @property
    def last_job_path(self) -> str:
        """Return the path of the job or task that was to apply the last sent values, "" where there was none."""
        return str(self.data.get("job") or "")

    def require_originals_of_machine(self, machine: Machine) -> None:
        """Raise TuningError if the file belongs to another machine."""
        stored_id = str(self.data.get("machine") or "")
        if stored_id and machine.uuid_or_serial_number and stored_id != machine.uuid_or_serial_number:
            raise TuningError(
                f"{self.path} holds the originals of the machine {stored_id} ({self.data.get('model')}), but the BMC "
                f"{machine.bmc_name} has {machine.uuid_or_serial_number}. Was the board replaced, or is this the BMC "
                "of another host? Correct the name of the BMC, or move the file away. Nothing was changed."
            )

    def save_originals_and_values_to_send(
        self, machine: Machine, registry: Registry, values: Mapping[str, Value]
    ) -> None:
        """Store the values that are about to be sent, and the originals of attributes that were never sent before."""
        originals = self.original_values
        for name in values:
            originals.setdefault(name, machine.active.get(name))
        if not self.data:
            self.data = {
                "bmc": machine.bmc_name,
                "machine": machine.uuid_or_serial_number,
                "model": machine.model,
                "bios_version": machine.bios_version,
                "saved": datetime.now(timezone.utc).isoformat(timespec="seconds"),
                "active": redact_secret_values(machine.active, registry),
            }
        self._save_originals_document(
            {**self.data, "attributes": originals, "sent": {**self.last_sent_values, **values}}
        )

    def remove_stored_sent_values(self, names: Iterable[str]) -> None:
        """Remove values from the stored sent values, because they were cleared or could not be sent.

        Their originals stay in the file.
        """
        removed = set(names)
        if removed & self.last_sent_values.keys():
            kept = {name: value for name, value in self.last_sent_values.items() if name not in removed}
            self._save_originals_document({**self.data, "sent": kept})

    def store_job_path(self, path: str) -> None:
        """Store the path of the job that applies the last sent values, "" for none."""
        if path != self.last_job_path:
            self._save_originals_document({**self.data, "job": path})

    def remove_originals_file(self) -> None:
        """Remove the file, because all originals are active again."""
        if self.path and not self.read_only and os.path.lexists(self.path):
            os.unlink(self.path)
        self.data = {}

    def _save_originals_document(self, data: dict[str, Any]) -> None:
        self.data = data
        if self.path and not self.read_only:
            textfile.write_file(
                self.path, json.dumps(add_stamp(data, FIRST), indent=1, sort_keys=True) + "\n", mode=0o600
            )


def _parse_originals_document(path: str, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        raise Damaged(path, "it is no JSON") from None
    if isinstance(data, dict):
        take_stamp(path, data, FIRST)
    if not isinstance(data, dict) or not isinstance(data.get("attributes"), dict):
        raise Damaged(path, "it does not hold the originals of a machine")
    return data
