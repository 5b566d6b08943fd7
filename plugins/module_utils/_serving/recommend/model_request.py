# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The models for which variables are recommended: each is a path or a URL, or a dictionary with further options."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.numbers import parse_whole_number
from ..._notation.templates import has_template
from .model_use import CHAT, USES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEYS = ("model", "draft", "checksum", "draft_checksum", "context", "slots", "use")


class ModelRequest:
    """A model to serve. ``context`` and ``slots`` are None where not set; each file of a model has a checksum.

    ``use`` is the requested use of this very model, else None; ``default_use`` is that of all requested models.
    """

    __slots__ = (*KEYS, "default_use")

    def __init__(
        self,
        model: str,
        draft: str | None,
        checksum: tuple[str, ...],
        draft_checksum: tuple[str, ...],
        context: int | None,
        slots: int | None,
        use: str | None = None,
        default_use: str = CHAT,
    ) -> None:
        self.model = model
        self.draft = draft
        self.checksum = checksum
        self.draft_checksum = draft_checksum
        self.context = context
        self.slots = slots
        self.use = use
        self.default_use = default_use


def parse_model_requests(raw: object, default_use: str = CHAT) -> list[ModelRequest]:
    """Return the requested models of a list, or of a single value without a list; BadRequest for an invalid entry.

    ``default_use`` is the use of models that state none.
    """
    rows = list(raw) if isinstance(raw, (list, tuple)) else [raw]
    if not rows or rows in ([None], [""]):
        raise BadRequest(
            "models is empty: name at least one model, by the path of its GGUF file on the host or by URL."
        )
    requests = [_parse_request(row, _parse_use("use", default_use)) for row in rows]
    names = [request.model for request in requests]
    for name in names:
        if names.count(name) > 1:
            raise BadRequest(f"models: {name} is named twice. Name it once; slots says how many requests it works on.")
    return requests


def _parse_request(row: object, default_use: str) -> ModelRequest:
    given = row if isinstance(row, dict) else {"model": row}
    unknown = sorted(str(key) for key in set(given) - set(KEYS))
    if unknown:
        raise BadRequest(f"models: a model has no '{unknown[0]}'; it takes {', '.join(KEYS)}.")
    values: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    model = _require_path_or_url("model", values.get("model", ""))
    draft = _require_path_or_url("draft", values["draft"]) if "draft" in values else None
    checksums = {key: _parse_checksums(key, values.get(key, [])) for key in ("checksum", "draft_checksum")}
    numbers = {key: _parse_number(key, values.get(key)) for key in ("context", "slots")}
    use = _parse_use("use", values["use"]) if "use" in values else None
    if checksums["draft_checksum"] and not draft:
        raise BadRequest("models: draft_checksum is given without a draft. Leave it out, or name the draft.")
    return ModelRequest(
        model, draft, checksums["checksum"], checksums["draft_checksum"], **numbers, use=use, default_use=default_use
    )


def _require_path_or_url(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise BadRequest(f"models: {key} is {value!r}; say the path of a GGUF file on the host, or its URL.")
    if has_template(value) or any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise BadRequest(
            f"models: {key} is {value!r}, with signs that Ansible takes for a template or that no unit file can hold. "
            "Rename the file."
        )
    return value


def _parse_checksums(key: str, value: object) -> tuple[str, ...]:
    rows = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(row, str) for row in rows):
        raise BadRequest(f"models: {key} is {value!r}; say a list with sha256:HEX for each file.")
    return tuple(rows)


def _parse_use(key: str, value: object) -> str:
    if value not in USES:
        raise BadRequest(f"models: {key} is {value!r}; say one of {', '.join(USES)}.")
    return str(value)


def _parse_number(key: str, value: object) -> int | None:
    if value is None:
        return None
    number = parse_whole_number(value)
    if not number:
        raise BadRequest(f"models: {key} is {value!r}; say a whole number from 1 up.")
    return number
