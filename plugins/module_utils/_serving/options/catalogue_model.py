# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the catalogue of models says of the model of an instance: the controller adds it, and the plan tells of it."""

from __future__ import annotations

from ..._errors import BadRequest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The name in the catalogue, whether the collection has fetched the model, and whether its sampling is the instance's.
KEYS = {"name": str, "fetched": bool, "recommended_sampling": bool}
NEVER_FETCHED = "never fetched by us"


def parse_catalogue_model(value: object) -> dict[str, Any]:
    """Return the option catalogue_model; BadRequest for a value that the controller does not make."""
    if not isinstance(value, dict) or any(not isinstance(value[key], KEYS.get(key, ())) for key in value):
        raise BadRequest(f"catalogue_model is '{value}'; the role epyc_llama sets it, so leave it out.")
    return value


def never_fetched_remark(name: str) -> str:
    """Return the sentence on a model of the catalogue that the collection has not fetched, which is given by name."""
    return f"{name} was {NEVER_FETCHED}: the catalogue has its facts from the public places that it names."
