# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The documents of earlier runs of an instance, which show what its requests cost."""

from __future__ import annotations

import os

from ..._errors import TuningError
from ..documents.run_document import load_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def load_newest_documents(folder: str, instance: str) -> Iterator[dict[str, Any]]:
    """Yield the documents of an instance in a folder, the newest first; files that cannot be read are left out."""
    try:
        names = [name for name in os.listdir(folder) if name.startswith(f"{instance}-") and name.endswith(".json")]
    except OSError:
        return
    for name in sorted(names, reverse=True):
        try:
            document = load_document(f"{folder}/{name}")
        except TuningError:
            continue
        if document["instance"] == instance:
            yield document
