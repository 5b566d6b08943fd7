# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Upgrades a document of an earlier schema in memory; its file stays as it is.

Schema 1 had one token rate for two things: the decoding rate of the server with one stream, and the rate of the whole
window with several streams. Both become what they are in schema 2. What schema 1 did not record becomes null.
Schema 2.0 had no predictions, and no shortages of time.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.shape import first_misfit_message
from ..load.objective_names import LATENCY
from ..rounds import schedule
from .document_shape import ARM, DOCUMENT_SHAPE, FINGERPRINT, MINOR, PLAN, SAMPLE, SCHEMA, STEP, WITNESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The keys that schema 1 did not have, by the record that has them, with the values for a run of schema 1.
NEW_IN_SAMPLE = {
    "depth": 0,
    "turn": 1,
    "rate": None,
    "time": None,
    "prompt": None,
    "within_slo": None,
}
COMPUTED_IN_SAMPLE = ("output_n", "output_ms", "ttfts_ms")
NEW_IN_STEP = {"streams": 1, "depth": 0}
NEW_IN_WITNESS: dict[str, Any] = {"joules": None, "seconds": None, "tokens": None, "power_source": None, "busiest": []}
#: Schema 1 had watts, which were wrong for rounds in which the counters wrapped, and a size that nothing showed.
REMOVED_FROM_WITNESS = ("watts", "huge_kb")
NEW_IN_PLAN: dict[str, Any] = {"objective": LATENCY, "objectives": [LATENCY], "slo": None, "costs": {}}
NEW_IN_FINGERPRINT = dict.fromkeys(("host", "dimms", "nps", "engine", "model", "quantization"))
#: The keys that a document of schema 2.0 may lack.
NEW_SINCE_2_0: dict[str, Any] = {"shortages": [], "predictions": []}
NEW_IN_DOCUMENT: dict[str, Any] = {"minor": MINOR, "collection": None, **NEW_SINCE_2_0}


def _copy_without_keys(shape: Mapping[Any, Any], *names: str) -> dict[Any, Any]:
    return {key: value for key, value in shape.items() if key not in names}


#: The schema of a document of schema 1.
SHAPE_1 = {
    **_copy_without_keys(DOCUMENT_SHAPE, *NEW_IN_DOCUMENT),
    "fingerprint": _copy_without_keys(FINGERPRINT, *NEW_IN_FINGERPRINT),
    "plan": {**_copy_without_keys(PLAN, *NEW_IN_PLAN), "arms": [_copy_without_keys(ARM, "removed")]},
    "steps": [_copy_without_keys(STEP, *NEW_IN_STEP)],
    "samples": [
        {
            **_copy_without_keys(SAMPLE, *NEW_IN_SAMPLE, *COMPUTED_IN_SAMPLE),
            "predicted_n": SAMPLE["output_n"],
            "predicted_ms": SAMPLE["output_ms"],
            "witness": _copy_without_keys(WITNESS, *NEW_IN_WITNESS),
        }
    ],
}


def upgrade_document(document: Any) -> Any:
    """Return a document of schema 1 or 2.0 as one of this version; BadRequest where it does not fit schema 1.

    Data that is no document of an earlier schema is returned as it is.
    """
    if isinstance(document, dict) and (document.get("schema"), document.get("minor")) == (SCHEMA, 0):
        return {**NEW_SINCE_2_0, **document, "minor": MINOR}
    if not isinstance(document, dict) or document.get("schema") != 1:
        return document
    message = first_misfit_message(document, SHAPE_1)
    if message:
        raise BadRequest(f"{message}; take the file as the run wrote it")
    plan = document["plan"]
    return {
        **document,
        **NEW_IN_DOCUMENT,
        "schema": SCHEMA,
        "fingerprint": {**NEW_IN_FINGERPRINT, **document["fingerprint"]},
        "plan": {**NEW_IN_PLAN, **plan, "arms": [_upgrade_arm(arm, plan["arms"]) for arm in plan["arms"]]},
        "samples": [_upgrade_sample(sample) for sample in document["samples"]],
        "steps": [{**NEW_IN_STEP, **step} for step in document["steps"]],
    }


def _upgrade_arm(arm: Mapping[str, Any], arms: list[dict[str, Any]]) -> dict[str, Any]:
    if arm["name"] in (schedule.STOCK, schedule.KEPT):
        return {**arm, "removed": [other["without"] for other in arms if other["without"] and _leaves_out(arm, other)]}
    return {**arm, "removed": [arm["without"]] if arm["without"] else []}


def _leaves_out(arm: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether an arm leaves out all settings and arguments that another arm leaves out."""
    return set(other["settings"]) <= set(arm["settings"]) and set(other["arguments"]) <= set(arm["arguments"])


def _upgrade_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample with its end-to-end output; a window loses its decoding times, which it did not have."""
    upgraded = {
        **NEW_IN_SAMPLE,
        **sample,
        "ttfts_ms": [],
        "output_n": sample["predicted_n"],
        "output_ms": sample["predicted_ms"],
        "witness": _copy_without_keys({**NEW_IN_WITNESS, **sample["witness"]}, *REMOVED_FROM_WITNESS),
    }
    if sample["streams"] > 1:
        upgraded.update(predicted_n=None, predicted_ms=None)
    elif sample["ttft_ms"] is None:
        upgraded.update(output_ms=sample["prompt_ms"] + sample["predicted_ms"])
    else:
        upgraded.update(ttfts_ms=[sample["ttft_ms"]], output_ms=sample["ttft_ms"] + sum(sample["gaps_ms"]))
    return upgraded
