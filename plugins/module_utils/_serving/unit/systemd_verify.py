# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lets systemd check units before they are written, because it silently ignores settings that it does not know.

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
#: systemd refuses a unit whose program does not exist, and before the first run the host tool is not installed yet.
EXISTING_PROGRAM = "/bin/true"
LINE_MESSAGE = re.compile(r":(\d+): (.*)")


def require_valid_units(files: Mapping[str, str]) -> None:
    """Raise BadRequest with the messages of systemd about the units of an instance, where it has messages."""
    with tempfile.TemporaryDirectory(prefix="sovereign-epyc-") as folder:
        paths = {os.path.join(folder, os.path.basename(path)): text for path, text in files.items()}
        for path, text in paths.items():
            with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
                file.write(text.replace(HOST_TOOL, EXISTING_PROGRAM))
        result = try_command(["systemd-analyze", "verify", "--man=no", *paths], TIMEOUT_SECONDS)
    messages = [_systemd_message_about_unit(row, paths) for row in f"{result.out}{result.err}".splitlines()]
    distinct_messages = list(dict.fromkeys(text for text in messages if text))
    if distinct_messages:
        raise BadRequest(
            f"unit_settings: systemd does not take them: {'; '.join(distinct_messages).rstrip('.')}. Correct them."
        )


def _systemd_message_about_unit(output_line: str, paths: Mapping[str, str]) -> str:
    for path, text in paths.items():
        name = os.path.basename(path)
        match = LINE_MESSAGE.match(output_line[len(path) :]) if output_line.startswith(path) else None
        if match:
            return f"'{text.splitlines()[int(match.group(1)) - 1]}': {match.group(2)}"
        if output_line.startswith((f"{name}: ", f"Unit {name} ")):
            return output_line
    return ""
