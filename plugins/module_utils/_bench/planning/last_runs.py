# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documents of earlier runs of an instance: what its requests cost, and what a new run is compared with."""

from __future__ import annotations

import os

from ..._errors import TuningError
from ..documents.run_document import load_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def load_newest_documents(folder: str, instance: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and document of the runs of an instance, the newest first; files that cannot be read are left out."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(f"{instance}-") and name.endswith(".json")]
    except OSError:
        return
    for name in sorted(names, reverse=True):
        try:
            path = f"{folder}/{name}"
            document = load_document(path)
        except TuningError:
            continue
        if document["instance"] == instance:
            yield path, document
