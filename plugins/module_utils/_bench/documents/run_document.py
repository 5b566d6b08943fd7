# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The run document: one JSON file with the plan, every raw sample, and the fingerprint of the host.

``DOCUMENT_SHAPE`` is its schema, and describes each field. Times are milliseconds, memory is in kB, shares are from 0
to 1. A document has no verdicts: _bench/verdicts/setting_verdicts.py computes verdicts from the samples on any machine.

A run only adds to its document and never changes written parts, so that nobody can drop unwelcome samples.
"""

from __future__ import annotations

import json

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._notation.shape import ANY, Nullable, first_misfit_message, text_choice_shape
from ..rounds import schedule
from .value_shapes import AMOUNT, COUNT, DURATION, NAME, NUMBER, SCALAR, SEVERAL, SHARE, TEXT, WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
CLASS = text_choice_shape(*schedule.REPETITIONS)
#: A result is valid for this fingerprint; a host that differs in any field must be measured again. Null means "not
#: known".
FINGERPRINT = {
    "sku": Nullable(TEXT),
    "microcode": Nullable(TEXT),
    "bios": Nullable(TEXT),
    "kernel": Nullable(TEXT),
    "cmdline": Nullable(TEXT),
    "topology": Nullable(TEXT),
    "uptime_s": Nullable(AMOUNT),
    "engine_build": Nullable(TEXT),
    "engine_sha256": Nullable(TEXT),
    #: Digest of names, sizes and the first MiB of the model's files; reading whole files would take minutes.
    "model_sha256": Nullable(TEXT),
    "arguments": [TEXT],
    "settings": {ANY: Nullable(TEXT)},
    "prompts_sha256": Nullable(TEXT),
}
#: ``class`` is null for the anchor and its twin, which belong to every class. ``without`` is the name of the setting
#: that the arm removes. ``settings`` are the settings that differ from the anchor. ``arguments`` are the words that the
#: instance is started without: flags, and variables and settings of its unit with an equals sign. ``options`` are the
#: options of module llama_server that a candidate changes.
ARM = {
    "name": NAME,
    "class": Nullable(CLASS),
    "without": Nullable(NAME),
    "settings": {ANY: Nullable(TEXT)},
    "arguments": [TEXT],
    "options": {ANY: SCALAR},
}
ROUND = {
    "round": COUNT,
    "phase": text_choice_shape(*schedule.PHASES),
    "class": CLASS,
    "restart": bool,
    "arms": [NAME],
}
PLAN = {
    "arms": [ARM],
    #: Each round is added here before it is measured.
    "order": [ROUND],
    #: Probability of any false claim in the whole run; all settings share it.
    "alpha": SHARE,
    #: A change of less than this share counts as no effect.
    "zone": SHARE,
    "budget_s": Nullable(AMOUNT),
    #: Candidate -> predicted tokens per second of whole requests, the geometric mean over all kinds.
    "predicted": {ANY: NUMBER},
    #: Setting -> why it is not tested, such as that it needs a reboot.
    "untested": {ANY: TEXT},
    #: Setting or candidate -> why its arm was rejected.
    "rejected": {ANY: TEXT},
}
#: Activity of the host during a sample. ``others`` is the CPU time of other programs as a share of the CPU time of the
#: service. ``steal`` is the CPU time that the hypervisor gave to other guests, as a share of the time with work.
WITNESS = {
    "others": Nullable(AMOUNT),
    "steal": Nullable(AMOUNT),
    "freq_mhz": Nullable(AMOUNT),
    "watts": Nullable(AMOUNT),
    "pages_by_node": {ANY: WHOLE},
    "huge_kb": Nullable(WHOLE),
    "settings_sha256": Nullable(TEXT),
    ANY: object,
}
#: With one stream ``predicted_ms`` is the generation time of ``predicted_n`` tokens. With several streams it is the
#: time in which all streams had a pending request, and ``predicted_n`` counts the tokens of all streams in that time.
#: ``start`` is the number of the server's start, and ``void`` the reason why the sample is discarded. A sample has at
#: least two tokens, because a single token has no time per token.
SAMPLE = {
    "round": COUNT,
    "arm": NAME,
    "start": COUNT,
    "kind": NAME,
    "streams": COUNT,
    "prompt_n": WHOLE,
    "prompt_ms": AMOUNT,
    "predicted_n": SEVERAL,
    "predicted_ms": DURATION,
    "drafted": WHOLE,
    "accepted": WHOLE,
    "ttft_ms": Nullable(AMOUNT),
    "gaps_ms": [AMOUNT],
    "text_sha256": Nullable(TEXT),
    "witness": WITNESS,
    "void": Nullable(TEXT),
}
#: ``source`` is the program that measured, "paper" for a data-sheet figure, or "nothing"; GB/s are 10^9 bytes.
BANDWIDTH = {
    "scope": NAME,
    "cpus": TEXT,
    "nodes": TEXT,
    "gbps": Nullable(AMOUNT),
    "source": text_choice_shape("likwid-bench", "reader", "paper", "nothing"),
}
#: The bytes that a step with one stream reads, by kind of memory. ``context`` is the number of tokens before the step,
#: and ``guessed`` is the number of drafted tokens in the step.
STEP = {"kind": NAME, "context": WHOLE, "guessed": AMOUNT, "parts": {ANY: AMOUNT}}
DOCUMENT_SHAPE = {
    "schema": WHOLE,
    "id": NAME,
    "instance": NAME,
    "started": TEXT,
    "ended": Nullable(TEXT),
    "seed": WHOLE,
    "fingerprint": FINGERPRINT,
    "plan": PLAN,
    "samples": [SAMPLE],
    "bandwidth": [BANDWIDTH],
    #: Bytes of the L3 caches of the instance's CPUs.
    "cache": WHOLE,
    "steps": [STEP],
    #: Sentences on how to read the results.
    "remarks": [TEXT],
    #: Whether all settings at the end equal those at the beginning; null before the end.
    "restored": Nullable(bool),
}
#: Fields that are set once, and fields that may grow; no other field changes after the first writing.
SET_ONCE = ("ended", "restored")
GROWING = ("samples", "bandwidth", "steps", "remarks")
GROWING_PLAN = ("arms", "order", "predicted", "untested", "rejected")


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
    defaults: dict[str, Any] = {"alpha": 0.05, "zone": 0.01, "budget_s": None}
    defaults.update({"predicted": {}, "untested": {}, "rejected": {}})
    return {
        "schema": SCHEMA,
        "id": identity,
        "instance": instance,
        "started": started,
        "ended": None,
        "seed": seed,
        "fingerprint": dict(fingerprint),
        "plan": {"arms": arms, "order": [], **defaults, **plan},
        "samples": [],
        "bandwidth": [],
        "cache": cache,
        "steps": [],
        "remarks": [],
        "restored": None,
    }


def validate_document(document: Any) -> dict[str, Any]:
    """Return the document; BadRequest, with the first fault, where it does not fit the schema or contradicts itself."""
    if isinstance(document, dict) and document.get("schema", SCHEMA) != SCHEMA:
        raise BadRequest(
            f"the schema is {document['schema']!r}, and this version of the collection reads {SCHEMA} only; use the "
            "version that made the run"
        )
    message = first_misfit_message(document, DOCUMENT_SHAPE) or _contradiction_message(document)
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
        if sample["accepted"] > sample["drafted"] or sample["accepted"] >= sample["predicted_n"]:
            return f"samples[{at}].accepted is {sample['accepted']}, more than were drafted or than leaves one step"
    return ""


def _has_valid_arm_name(arm: Mapping[str, Any]) -> bool:
    if arm["without"] is not None:
        return bool(arm["name"] == schedule.removal_arm_name(arm["without"]))
    return arm["name"] in schedule.FIXED_ARMS or schedule.is_candidate(arm) or schedule.is_variant(arm)


def load_document(path: str) -> dict[str, Any]:
    """Return the document in a file; BadRequest, with the path, where the file is missing or invalid."""
    text = textfile.read_text(path)
    if text is None:
        raise BadRequest(f"There is no {path}; name the JSON file of a run.")
    try:
        return validate_document(json.loads(text))
    except BadRequest as error:
        raise BadRequest(f"{path} is no document of a run: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is no JSON ({error}); take the file as the run wrote it.") from None


def save_document(path: str, document: Mapping[str, Any]) -> None:
    """Write a document to disk; TuningError where it would change what the file holds already."""
    data = validate_document(dict(document))
    if textfile.read_text(path) is not None:
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
