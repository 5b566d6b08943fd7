# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The document of a run as filters get it: data, or the text of its JSON file."""

from __future__ import annotations

from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.foreign_json import parse_json


def parse_run_document(data: object) -> dict[str, Any]:
    """Return the run document in ``data``, which is a document or its JSON text; BadRequest for an invalid document."""
    if isinstance(data, str):
        try:
            data = parse_json(data)
        except ValueError as error:
            raise BadRequest(f"it is no JSON ({error}); take the file as the run wrote it") from None
    return run_document.validate_document(data)
