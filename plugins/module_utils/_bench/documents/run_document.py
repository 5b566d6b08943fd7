# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run document: one JSON file with the plan, every raw sample, and the fingerprint of the host.

document_shape.py has its schema, and describes each field. A document has no verdicts:
_bench/verdicts/setting_verdicts.py computes verdicts from the samples on any machine.

A run only adds to its document and never changes written parts, so that nobody can drop unwelcome samples.
"""

from __future__ import annotations

import json
import math
import os
import zlib

from ..._errors import BadRequest, TuningError
from ..._formats import COLLECTION, newer_format_message
from ..._io import textfile
from ..._io.foreign_json import parse_json
from ..._io.safe_open import open_file
from ..._notation.shape import first_misfit_message
from ..._version import VERSION
from ..load.objective_names import LATENCY, SMALLEST_EFFECT
from ..rounds import schedule
from .document_shape import DOCUMENT_SHAPE, MINOR, SCHEMA
from .upgrade import upgrade_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Fields that are set once, and fields that may grow; no other field changes after the first writing.
SET_ONCE = ("ended", "restored")
GROWING = ("samples", "bandwidth", "steps", "remarks", "shortages")
GROWING_PLAN = ("arms", "order", "predicted", "untested", "rejected", "costs")
#: The largest size in bytes of the text of a document that is loaded, and the first bytes of a compressed file.
LARGEST_FILE = 1 << 30
GZIP_MAGIC = b"\x1f\x8b"


def new_run_document(
    identity: str,
    instance: str,
    started: str,
    seed: int,
    fingerprint: Mapping[str, Any],
    arms: list[dict[str, Any]],
    cache: int = 0,
    **plan: Any,
) -> dict[str, Any]:
    """Return the document of a run without samples; ``plan`` overrides the default values of the plan."""
    defaults: dict[str, Any] = {"alpha": 0.05, "zone": SMALLEST_EFFECT, "budget_s": None}
    defaults.update(objective=LATENCY, objectives=[LATENCY], slo=None, costs={})
    defaults.update(predicted={}, untested={}, rejected={})
    return {
        "schema": SCHEMA,
        "minor": MINOR,
        COLLECTION: VERSION,
        "id": identity,
        "instance": instance,
        "started": started,
        "ended": None,
        "seed": seed,
        "fingerprint": dict(fingerprint),
        "plan": {"arms": arms, "order": [], **defaults, **plan},
        "predictions": [],
        "samples": [],
        "bandwidth": [],
        "cache": cache,
        "steps": [],
        "remarks": [],
        "shortages": [],
        "restored": None,
    }


def validate_document(document: Any) -> dict[str, Any]:
    """Return the document in the present schema; BadRequest, with the first fault, where it is invalid.

    A document is invalid where it does not fit its schema or contradicts itself. Additional keys are valid in a
    document of a newer minor version.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise BadRequest(f"it {newer_format_message(schema, SCHEMA, document.get(COLLECTION)).rstrip('.')}")
    document = upgrade_document(document)
    is_newer = isinstance(document, dict) and isinstance(document.get("minor"), int) and document["minor"] > MINOR
    message = first_misfit_message(document, DOCUMENT_SHAPE, more_keys=is_newer) or _contradiction_message(document)
    if message:
        raise BadRequest(f"{message}; take the file as the run wrote it")
    valid: dict[str, Any] = document
    return valid


def _contradiction_message(document: Mapping[str, Any]) -> str:
    """Return the message for parts of a document that contradict each other, an empty text where no parts do."""
    plan = document["plan"]
    names = [arm["name"] for arm in plan["arms"]]
    is_benchmark = schedule.RUNNING in names
    if is_benchmark and len(names) > 1:
        return f"plan.arms has {schedule.RUNNING}, which is the only arm of a benchmark, and others"
    needed = (schedule.DEFAULT,) if schedule.DEFAULT in names else (schedule.STOCK, schedule.TUNED)
    for name in () if is_benchmark else (*needed, schedule.AGAIN):
        if name not in names:
            return f"plan.arms has no {name}, without which nothing can be compared"
    removed = [arm["without"] for arm in plan["arms"] if arm["without"] is not None]
    for noun, listed in (("arm", names), ("setting", removed)):
        twice = [name for name in listed if listed.count(name) > 1]
        if twice:
            return f"plan.arms has the {noun} {twice[0]} twice"
    for arm in plan["arms"]:
        if (arm["class"] is None) != (arm["name"] in (*schedule.ANCHORS, schedule.AGAIN)):
            return f"plan.arms gives {arm['name']} the class {arm['class']}"
        # An arm under a wrong name would be reported as another setting.
        if not _has_valid_arm_name(arm):
            return f"plan.arms says that the arm {arm['name']} leaves out {arm['without']}"
    for default in (arm["options"] for arm in plan["arms"] if arm["name"] == schedule.DEFAULT):
        unknown = [(arm["name"], option) for arm in plan["arms"] for option in arm["options"] if option not in default]
        if unknown:
            return f"plan.arms gives {unknown[0][0]} the option {unknown[0][1]}, which the default has not"
    for at, planned in enumerate(plan["order"]):
        if planned["round"] != at + 1:
            return f"plan.order[{at}].round is {planned['round']} and should be {at + 1}"
        if len(set(planned["arms"])) < len(planned["arms"]) or not set(planned["arms"]) <= set(names):
            return f"plan.order[{at}].arms names an arm twice, or one that plan.arms has not"
    for at, sample in enumerate(document["samples"]):
        number, arm = sample["round"], sample["arm"]
        if number > len(plan["order"]) or arm not in plan["order"][number - 1]["arms"]:
            return f"samples[{at}] is of {arm} in round {number}, and plan.order has no such arm there"
        has_times = [sample[key] is not None for key in ("predicted_n", "predicted_ms")]
        # Windows of several streams in documents of schema 1 have neither.
        if any(has_times) != all(has_times) or not (any(has_times) or sample["streams"] > 1):
            return f"samples[{at}] lacks predicted_n or predicted_ms"
        if sample["accepted"] > sample["drafted"] or sample["accepted"] >= (sample["predicted_n"] or math.inf):
            return f"samples[{at}].accepted is {sample['accepted']}, more than were drafted or than leaves one step"
    return ""


def _has_valid_arm_name(arm: Mapping[str, Any]) -> bool:
    if arm["without"] is not None:
        return bool(arm["name"] == schedule.removal_arm_name(arm["without"]) and arm["removed"] == [arm["without"]])
    if arm["name"] in schedule.FIXED_ARMS or arm["name"].startswith(schedule.SCREEN):
        return True
    return schedule.is_candidate(arm) or schedule.is_variant(arm)


def load_document(path: str) -> dict[str, Any]:
    """Return the document in a file, which may be compressed by gzip; BadRequest, with the path, where it is invalid.

    A document of schema 1 is returned in the present schema.
    """
    text = _read_text_or_gzip(path)
    if text is None:
        raise BadRequest(f"There is no {path}; name the JSON file of a run.")
    try:
        return validate_document(parse_json(text))
    except BadRequest as error:
        raise BadRequest(f"{path} cannot be used as the document of a run: {error}.") from None
    except ValueError as error:
        raise BadRequest(f"{path} is no JSON ({error}); take the file as the run wrote it.") from None


def _read_text_or_gzip(path: str) -> str | None:
    """Return the text of a file, decompressed where it begins as a gzip file; None where it does not exist."""
    try:
        with open(open_file(path), "rb") as file:
            data = file.read()
        if data.startswith(GZIP_MAGIC):
            # wbits 31 is the format of gzip.
            data = zlib.decompressobj(31).decompress(data, LARGEST_FILE)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.") from None
    except zlib.error as error:
        raise BadRequest(f"{path} cannot be decompressed ({error}): copy the file again.") from None
    return data.decode("utf-8", "surrogateescape")


def save_document(path: str, document: Mapping[str, Any]) -> None:
    """Write a document to disk; TuningError where it would change what the file holds already."""
    data = validate_document(dict(document))
    if os.path.lexists(path):
        changed = _first_changed_part(load_document(path), data)
        if changed:
            raise TuningError(
                f"{path} was not written: {changed} would be other than it holds, and a run only adds to its document. "
                "Give this run a file of its own."
            )
    textfile.write_file(path, json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n", 0o600)


def _first_changed_part(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the first part of a document that was changed and not only extended; an empty text for none."""
    for key, old in before.items():
        if key == "plan":
            parts = old.items()
            changed = [
                part
                for part, value in parts
                if not _is_equal_or_extended(part in GROWING_PLAN, value, after[key][part])
            ]
            if changed:
                return f"plan.{changed[0]}"
        elif not (key in SET_ONCE and old is None) and not _is_equal_or_extended(key in GROWING, old, after[key]):
            return key
    return ""


def _is_equal_or_extended(may_grow: bool, old: Any, new: Any) -> bool:
    """Return whether a part of a document has its old value, or old entries and more entries where it ``may_grow``."""
    if may_grow and isinstance(old, dict):
        return all(key in new and new[key] == value for key, value in old.items())
    return bool(new[: len(old)] == old if may_grow else new == old)
