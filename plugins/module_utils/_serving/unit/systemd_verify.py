# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Has systemd itself read units before they are written: it passes over what it does not understand in silence.

Source: systemd-analyze(1), verify.
"""

from __future__ import annotations

import os
import re
import tempfile

from ..._errors import BadRequest
from ..._io.command import try_command
from ..._io.paths import HOST_TOOL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 60
#: It must be there for systemd, and in a check before the first run the engine is not.
EXISTING_PROGRAM = "/bin/true"
LINE_MESSAGE = re.compile(r":(\d+): (.*)")


def require_valid_units(files: Mapping[str, str]) -> None:
    """Raise BadRequest when systemd has something to say of the units of an instance, with its own words."""
    with tempfile.TemporaryDirectory(prefix="sovereign-epyc-") as folder:
        paths = {os.path.join(folder, os.path.basename(path)): text for path, text in files.items()}
        for path, text in paths.items():
            with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text.replace(HOST_TOOL, EXISTING_PROGRAM))
        done = try_command(["systemd-analyze", "verify", "--man=no", *paths], TIMEOUT_SECONDS)
    said = [_message_about_unit(row, paths) for row in f"{done.out}{done.err}".splitlines()]
    words = list(dict.fromkeys(text for text in said if text))
    if words:
        raise BadRequest(f"unit_settings: systemd does not take them: {'; '.join(words).rstrip('.')}. Correct them.")


def _message_about_unit(row: str, paths: Mapping[str, str]) -> str:
    """Return what a row of its says of one of these units, with the line that it is about; nothing for other units."""
    for path, text in paths.items():
        name = os.path.basename(path)
        about = LINE_MESSAGE.match(row[len(path) :]) if row.startswith(path) else None
        if about:
            return f"'{text.splitlines()[int(about.group(1)) - 1]}': {about.group(2)}"
        if row.startswith((f"{name}: ", f"Unit {name} ")):
            return row
    return ""
