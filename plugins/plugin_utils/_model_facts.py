# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of the models in the catalogue: their numbers, recommended sampling, MTP layers, and a public score.

Recommendations and predictions need these facts before any file of a model is on a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.numbers import parse_decimal, parse_whole_number
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.sampling import parse_sampling_settings
from ansible_collections.sovereign.epyc.plugins.plugin_utils._inventory_values import (
    require_printable_text,
    require_table,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    Entry = Mapping[str, Any]

FACT_KEYS = {"fetched", "mtp", "quality", "sampling", "shape"}
#: The numbers of a shape that each entry states. The KV cache has ``kv_bytes_per_token`` in F16 for each token beyond
#: all sliding windows.
REQUIRED_NUMBERS = ("parameters", "layers", "kv_bytes_per_token", "trained_context")
#: The numbers that follow from others where the entry does not state them: a dense model uses all of its parameters for
#: each token, and the parts state their sizes.
DERIVED_NUMBERS = ("active_parameters", "file_bytes")
TEXTS = ("architecture", "quantization")
SHAPE_KEYS = {*REQUIRED_NUMBERS, *DERIVED_NUMBERS, *TEXTS, "source"}
QUALITY_KEYS = {"name", "score", "source"}
#: In place of the name of an MTP file: the model's own file has the MTP layers.
MTP_IN_FILE = "own"


def validate_model_facts(place: str, entry: Entry) -> dict[str, Any]:
    """Return the facts of a catalogue entry with all derived numbers; raises BadRequest for an invalid one.

    ``entry`` has checked parts. A fact that the entry lacks is missing in the result, except ``fetched``.
    """
    facts: dict[str, Any] = {"fetched": _validate_fetched(place, entry.get("fetched", False))}
    if entry.get("shape") is not None:
        facts["shape"] = _validate_shape(f"{place}: shape", entry["shape"], entry["parts"])
    if entry.get("sampling") is not None:
        try:
            facts["sampling"] = parse_sampling_settings(dict(require_table(entry["sampling"], f"{place}: sampling")))
        except BadRequest as error:
            raise BadRequest(f"{place}: {error}") from None
    if entry.get("mtp") is not None:
        facts["mtp"] = _validate_mtp(place, entry["mtp"])
    if entry.get("quality") is not None:
        facts["quality"] = _validate_quality(f"{place}: quality", entry["quality"])
    return facts


def _validate_fetched(place: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadRequest(f"{place}: fetched is '{value}'; say true or false.")
    return value


def _validate_shape(place: str, shape: Any, parts: list[dict[str, Any]]) -> dict[str, Any]:
    _refuse_unknown_keys(place, require_table(shape, place), SHAPE_KEYS)
    numbers = {key: _require_positive_number(place, key, shape.get(key)) for key in REQUIRED_NUMBERS}
    active = _require_positive_number(place, "active_parameters", shape.get("active_parameters", numbers["parameters"]))
    if active > numbers["parameters"]:
        raise BadRequest(f"{place}: active_parameters is {active}, more than all {numbers['parameters']} parameters.")
    texts = {key: require_printable_text(shape.get(key), f"{place}: {key}") for key in TEXTS}
    source = {"source": require_printable_text(shape["source"], f"{place}: source")} if shape.get("source") else {}
    file_bytes = _compute_file_bytes(place, shape.get("file_bytes"), parts)
    return {**texts, **numbers, "active_parameters": active, "file_bytes": file_bytes, **source}


def _compute_file_bytes(place: str, stated: Any, parts: list[dict[str, Any]]) -> int:
    """Return the size of all files of a model: the sum of its parts, or the stated size if a part has none."""
    sizes = [part.get("size") for part in parts]
    total = 0 if None in sizes else sum(size for size in sizes if size)
    if stated is None and not total:
        raise BadRequest(f"{place} needs file_bytes, because parts do not state the size of each file.")
    number = total if stated is None else _require_positive_number(place, "file_bytes", stated)
    if total and number != total:
        raise BadRequest(f"{place}: file_bytes is {number}, but the parts have {total} bytes; leave file_bytes out.")
    return number


def _require_positive_number(place: str, key: str, value: Any) -> int:
    number = parse_whole_number(value)
    if not number:
        raise BadRequest(f"{place}: {key} is '{value}'; say a whole number above 0.")
    return number


def _validate_mtp(place: str, value: Any) -> str:
    name = require_printable_text(value, f"{place}: mtp")
    if name != MTP_IN_FILE and not name.endswith(".gguf"):
        raise BadRequest(
            f"{place}: mtp is '{name}'; give the file of the repository with the MTP layers, which ends in .gguf, or "
            f"'{MTP_IN_FILE}' if the file of the model has them."
        )
    return name


def _validate_quality(place: str, value: Any) -> dict[str, Any]:
    _refuse_unknown_keys(place, require_table(value, place), QUALITY_KEYS)
    score = parse_decimal(value.get("score"))
    if score is None:
        raise BadRequest(f"{place}: score is '{value.get('score')}'; say a number.")
    texts = {key: require_printable_text(value.get(key), f"{place}: {key}") for key in ("name", "source")}
    return {**texts, "score": score}


def _refuse_unknown_keys(place: str, value: Entry, known: set[str]) -> None:
    unknown = sorted(set(value) - known)
    if unknown:
        raise BadRequest(f"{place} has {unknown[0]}, which none has: {', '.join(sorted(known))}.")
