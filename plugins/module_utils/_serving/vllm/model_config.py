# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the config.json in the folder of a model, whose author may be anybody."""

from __future__ import annotations

from ..._io.foreign_json import parse_json
from ..._io.safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The bytes of a config.json that are read; a larger file is refused. Large ones have 50 KiB.
LONGEST_CONFIG = 1 << 20


def read_model_config(folder: str) -> dict[str, Any]:
    """Return the object in the config.json of a folder; OSError without the file, ValueError for anything else."""
    with open(open_file(f"{folder}/config.json"), "rb") as file:
        config = parse_json(file.read(LONGEST_CONFIG))
    if not isinstance(config, dict):
        raise ValueError("config.json is no object")
    return config
