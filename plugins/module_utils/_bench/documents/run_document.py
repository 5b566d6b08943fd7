# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The document of a run: one JSON file that holds the plan, every raw sample, and what the run was made on.

``SHAPE`` is its schema, and says of each field what it holds. Milliseconds, bytes as kB, shares from 0 to 1. Verdicts
are not in it: _bench/verdicts/setting_verdicts.py makes them from the samples, each time and anywhere.

A document only grows. What a run has written down stays as it is, so nobody can drop a sample that did not please.
"""

from __future__ import annotations

import json

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.store import ANY
from ..rounds import schedule
from .schema import (
    AMOUNT,
    COUNT,
    DATA,
    DURATION,
    FLAG,
    NAME,
    NUMBER,
    SCALAR,
    SEVERAL,
    SHARE,
    TEXT,
    WHOLE,
    Maybe,
    misfit,
    one_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
CLASS = one_of(*schedule.UNITS)
#: What a result holds for: on a host that differs in one of these it has to be measured again. Null is "not known".
FINGERPRINT = {
    "sku": Maybe(TEXT),
    "microcode": Maybe(TEXT),
    "bios": Maybe(TEXT),
    "kernel": Maybe(TEXT),
    "cmdline": Maybe(TEXT),
    "topology": Maybe(TEXT),
    "uptime_s": Maybe(AMOUNT),
    "engine_build": Maybe(TEXT),
    "engine_sha256": Maybe(TEXT),
    #: Of names, sizes and first MiB of the model's files: reading all of them would take minutes.
    "model_sha256": Maybe(TEXT),
    "arguments": [TEXT],
    "settings": {ANY: Maybe(TEXT)},
    "prompts_sha256": Maybe(TEXT),
}
#: ``class`` is null for the anchor and its twin, which every class needs. ``settings`` are what the arm has instead of
#: the anchor's, and ``arguments`` what of the instance it goes without: flags, and with an equals sign behind them
#: variables and settings of its unit. ``options`` are those of module llama_server that a candidate has otherwise.
ARM = {
    "name": NAME,
    "class": Maybe(CLASS),
    "without": Maybe(NAME),
    "settings": {ANY: Maybe(TEXT)},
    "arguments": [TEXT],
    "options": {ANY: SCALAR},
}
ROUND = {
    "round": COUNT,
    "phase": one_of(*schedule.PHASES),
    "class": CLASS,
    "restart": FLAG,
    "arms": [NAME],
}
PLAN = {
    "arms": [ARM],
    #: Each round is written here before it is run.
    "order": [ROUND],
    #: Probability of any false claim in the whole run; it is shared out among the knobs.
    "alpha": SHARE,
    #: A change of less than this share is nothing.
    "zone": SHARE,
    "budget_s": Maybe(AMOUNT),
    #: Candidate -> tokens per second of whole requests that were predicted, the geometric mean over all kinds.
    "predicted": {ANY: NUMBER},
    #: Knob -> why it has no arm, such as that it needs a reboot.
    "untested": {ANY: TEXT},
    #: Knob -> why its arm did not take effect.
    "rejected": {ANY: TEXT},
}
#: ``others`` is the CPU time of other programs as a share of the service's, ``steal`` that of the hypervisor as a share
#: of all. A witness does not know the arm.
WITNESS = {
    "others": Maybe(AMOUNT),
    "steal": Maybe(AMOUNT),
    "freq_mhz": Maybe(AMOUNT),
    "watts": Maybe(AMOUNT),
    "pages_by_node": {ANY: WHOLE},
    "huge_kb": Maybe(WHOLE),
    "settings_sha256": Maybe(TEXT),
    ANY: DATA,
}
#: With one stream ``predicted_ms`` is the server's time for ``predicted_n`` tokens; with more it is the window in which
#: all streams were busy, and ``predicted_n`` counts the tokens of all of them in it. ``start`` is the number of the
#: start of the server, ``void`` why a witness spoils the sample.
#: One token alone has no time per token, so there are at least two.
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
    "ttft_ms": Maybe(AMOUNT),
    "gaps_ms": [AMOUNT],
    "text_sha256": Maybe(TEXT),
    "witness": WITNESS,
    "void": Maybe(TEXT),
}
#: ``source`` is what measured it, or "paper" for a figure from the data sheet, or "nothing"; GB/s are 10^9 bytes.
BANDWIDTH = {
    "scope": NAME,
    "cpus": TEXT,
    "nodes": TEXT,
    "gbps": Maybe(AMOUNT),
    "source": one_of("likwid-bench", "reader", "paper", "nothing"),
}
#: The bytes that a step of one stream reads, by what they are, with ``context`` tokens before it and ``guessed`` ones.
STEP = {"kind": NAME, "context": WHOLE, "guessed": AMOUNT, "parts": {ANY: AMOUNT}}
SHAPE = {
    "schema": WHOLE,
    "id": NAME,
    "instance": NAME,
    "started": TEXT,
    "ended": Maybe(TEXT),
    "seed": WHOLE,
    "fingerprint": FINGERPRINT,
    "plan": PLAN,
    "samples": [SAMPLE],
    "bandwidth": [BANDWIDTH],
    #: Bytes of the L3 caches of the instance's CPUs.
    "cache": WHOLE,
    "steps": [STEP],
    #: What a reader has to know, in sentences.
    "remarks": [TEXT],
    #: Whether the last snapshot of all settings equals the first; null before the end.
    "restored": Maybe(FLAG),
}
#: What may be set once, and what may get more; all else stays as the first writing has it.
SET_ONCE = ("ended", "restored")
GROWING = ("samples", "bandwidth", "steps", "remarks")
GROWING_PLAN = ("arms", "order", "predicted", "untested", "rejected")


def new(
    identity: str,
    instance: str,
    started: str,
    seed: int,
    fingerprint: Mapping[str, Any],
    arms: list[dict[str, Any]],
    cache: int = 0,
    **plan: Any,
) -> dict[str, Any]:
    """Return the document of a run that has no samples yet; ``plan`` may have other values than the usual ones."""
    usual: dict[str, Any] = {
        "alpha": 0.05,
        "zone": 0.01,
        "budget_s": None,
        "predicted": {},
        "untested": {},
        "rejected": {},
    }
    return {
        "schema": SCHEMA,
        "id": identity,
        "instance": instance,
        "started": started,
        "ended": None,
        "seed": seed,
        "fingerprint": dict(fingerprint),
        "plan": {"arms": arms, "order": [], **usual, **plan},
        "samples": [],
        "bandwidth": [],
        "cache": cache,
        "steps": [],
        "remarks": [],
        "restored": None,
    }


def check(document: Any) -> dict[str, Any]:
    """Return a document that is whole and agrees with itself; raises BadRequest with the first place that does not."""
    if isinstance(document, dict) and document.get("schema", SCHEMA) != SCHEMA:
        raise BadRequest(
            f"the schema is {document['schema']!r}, and this version of the collection reads {SCHEMA} only; use the "
            "version that made the run"
        )
    wrong = misfit(document, SHAPE) or _contradiction(document)
    if wrong:
        raise BadRequest(f"{wrong}; take the file as the run wrote it")
    whole: dict[str, Any] = document
    return whole


def _contradiction(document: Mapping[str, Any]) -> str:
    """Return where parts of a document of the right shape do not agree, an empty text where all do."""
    plan = document["plan"]
    names = [arm["name"] for arm in plan["arms"]]
    alone = schedule.RUNNING in names
    if alone and len(names) > 1:
        return f"plan.arms has {schedule.RUNNING}, which is the only arm of a benchmark, and others"
    needed = (schedule.DEFAULT,) if schedule.DEFAULT in names else (schedule.STOCK, schedule.TUNED)
    for name in () if alone else (*needed, schedule.AGAIN):
        if name not in names:
            return f"plan.arms has no {name}, without which nothing can be compared"
    knobs = [arm["without"] for arm in plan["arms"] if arm["without"] is not None]
    for words, listed in (("arm", names), ("setting", knobs)):
        twice = [one for one in listed if listed.count(one) > 1]
        if twice:
            return f"plan.arms has the {words} {twice[0]} twice"
    for arm in plan["arms"]:
        if (arm["class"] is None) != (arm["name"] in (*schedule.ANCHORS, schedule.AGAIN)):
            return f"plan.arms gives {arm['name']} the class {arm['class']}"
        # Verdicts ask the class of what an arm leaves out, and the anchor has none.
        if arm["without"] != _left_out(arm["name"]):
            return f"plan.arms says that the arm {arm['name']} leaves out {arm['without']}"
    for usual in (arm["options"] for arm in plan["arms"] if arm["name"] == schedule.DEFAULT):
        strange = [(arm["name"], option) for arm in plan["arms"] for option in arm["options"] if option not in usual]
        if strange:
            return f"plan.arms gives {strange[0][0]} the option {strange[0][1]}, which the default has not"
    for at, one in enumerate(plan["order"]):
        if one["round"] != at + 1:
            return f"plan.order[{at}].round is {one['round']} and should be {at + 1}"
        if len(set(one["arms"])) < len(one["arms"]) or not set(one["arms"]) <= set(names):
            return f"plan.order[{at}].arms names an arm twice, or one that plan.arms has not"
    for at, sample in enumerate(document["samples"]):
        number, arm = sample["round"], sample["arm"]
        if number > len(plan["order"]) or arm not in plan["order"][number - 1]["arms"]:
            return f"samples[{at}] is of {arm} in round {number}, and plan.order has no such arm there"
        if sample["accepted"] > sample["drafted"] or sample["accepted"] >= sample["predicted_n"]:
            return f"samples[{at}].accepted is {sample['accepted']}, more than were drafted or than leaves one step"
    return ""


def _left_out(name: str) -> str | None:
    """Return the setting that an arm of this name leaves out; None where the arm leaves out nothing."""
    return name[len(schedule.WITHOUT) :] if name.startswith(schedule.WITHOUT) else None


def load(path: str) -> dict[str, Any]:
    """Return the document in a file; raises BadRequest, with the path, where it is missing or not one."""
    text = textfile.read_text(path)
    if text is None:
        raise BadRequest(f"There is no {path}; name the JSON file of a run.")
    try:
        return check(json.loads(text))
    except BadRequest as error:
        raise BadRequest(f"{path} is no document of a run: {error}.") from None
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is no JSON ({error}); take the file as the run wrote it.") from None


def save(path: str, document: Mapping[str, Any]) -> None:
    """Write a document, on the disk when this returns; raises TuningError where it would change what is in the file."""
    data = check(dict(document))
    if textfile.read_text(path) is not None:
        changed = _changed(load(path), data)
        if changed:
            raise TuningError(
                f"{path} was not written: {changed} would be other than it holds, and a run only adds to its document. "
                "Give this run a file of its own."
            )
    textfile.write_file(path, json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n", 0o600)


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the first part that is not what it was, or more of it; an empty text where all is."""
    for key, was in before.items():
        if key == "plan":
            parts = was.items()
            bad = [part for part, old in parts if not _holds(part in GROWING_PLAN, old, after["plan"][part])]
            if bad:
                return f"plan.{bad[0]}"
        elif not (key in SET_ONCE and was is None) and not _holds(key in GROWING, was, after[key]):
            return key
    return ""


def _holds(grows: bool, was: Any, now: Any) -> bool:
    """Return whether a part is as it was, with more behind it where it ``grows``."""
    if grows and isinstance(was, dict):
        return all(key in now and now[key] == value for key, value in was.items())
    return bool(now[: len(was)] == was if grows else now == was)
