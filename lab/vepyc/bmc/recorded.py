# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording of a real BMC, as the module epyc_bmc_bios_info writes it, answered again; it can only be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import VepycError

FORMAT = 1


class Recording:
    """What a BMC answered to each GET."""

    def __init__(self, file: Path) -> None:
        try:
            document = json.loads(file.read_text())
            self.resources: dict[str, dict[str, Any]] = document["resources"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise VepycError(f"{file} is no recording of a BMC: {error}") from None
        if document.get("format") != FORMAT:
            raise VepycError(f"{file} is a recording of another format than {FORMAT}")

    def find_answer(self, path: str, query: str) -> tuple[int, dict[str, Any], dict[str, str]] | None:
        """Return status, body and headers of the answer to a GET, None for what was not recorded."""
        for known in (f"{path}?{query}" if query else path, f"{path}/"):
            if known in self.resources:
                resource = self.resources[known]
                return int(resource["status"]), resource["body"], dict(resource["headers"])
        return None
