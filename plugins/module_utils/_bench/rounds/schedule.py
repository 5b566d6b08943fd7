# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the arms of a run and plans its rounds; a round has each arm once, in an order that the seed decides.

An arm is one configuration of host and instance. An ablation has these arms:
- ``tuned`` has all stored settings. It is the anchor: all other arms are compared with it.
- ``again`` is the twin of the anchor, the same configuration. A difference between the two is an error of measurement.
- ``stock`` has the originals of all settings.
- ``without X`` is tuned with the original of the setting X.
- ``screen N`` is tuned with the originals of several settings. Together the screening arms show the effect of every
  setting from every sample (_bench/planning/screening.py).
- ``variant NAME`` is tuned with another program, model or other options of the instance.
- ``kept`` is tuned without the settings that do not pay. The confirmation compares it with stock and tuned in new
  rounds.
A tuning compares candidates with the anchor ``default``, and each candidate has other options of the instance. A
benchmark has only the arm ``running``, the instance as it is.

The phase ``probe`` measures only the anchor, for the costs of a start and of a pass.

The class of an arm says when its setting takes effect: at once, at a start or at a boot. It decides what counts as one
repetition: all requests to one start are affected by the same chance, so twenty requests to one start count once.
Source of the units: Kalibera and Jones, "Rigorous benchmarking in reasonable time".

Arms are sorted by the SHA-256 of seed, round and name, which is the same everywhere. Python's ``shuffle`` and
``choice`` may give another order in another version of Python. Removing an arm does not change the order of the other
arms.
"""

from __future__ import annotations

import hashlib

from ..._errors import BadRequest
from ..._knobs import catalogue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

STOCK, TUNED, AGAIN, KEPT, RUNNING, DEFAULT = "stock", "tuned", "again", "kept", "running", "default"
WITHOUT, CANDIDATE, SCREEN, VARIANT = "without ", "candidate ", "screen ", "variant "
#: The arms that other arms are compared with; an anchor belongs to every class.
ANCHORS = (TUNED, RUNNING, DEFAULT)
#: The arms that neither remove a single setting nor are candidates.
FIXED_ARMS = (*ANCHORS, STOCK, AGAIN, KEPT)
LIVE, RESTART, REBOOT = catalogue.LIVE, catalogue.RESTART, catalogue.REBOOT
ABLATION, CONFIRMATION, BENCHMARK = "ablation", "confirmation", "benchmark"
#: Phases of the search of a tuning: each value alone, then combinations of which half are dropped again and again, then
#: a race of the last few candidates.
SWEEP, HALVING, RACE = "sweep", "halving", "race"
#: Passes of the anchor that estimate costs and noise, and rounds of arms that leave out several settings each.
PROBE, SCREENING = "probe", "screening"
#: Rounds of a benchmark with a long context before each prompt, one for each depth.
DEPTH = "depth"
PHASES = (PROBE, SCREENING, DEPTH, ABLATION, BENCHMARK, SWEEP, HALVING, RACE, CONFIRMATION)


class Repetition:
    """How the arms of a class are repeated.

    ``name`` is the unit of repetition, which counts once. In a round each arm is sent all prompts ``requests`` times,
    until _bench/planning/precision.py can compute how often is best. With ``shares_start`` all arms of a round share a
    start of the server, and each round has a start of its own; otherwise each arm has its own start. A verdict needs at
    least ``least`` units.
    """

    def __init__(self, name: str, requests: int, shares_start: bool, least: int, mirrored: bool = False) -> None:
        self.name = name
        self.requests = requests
        self.shares_start = shares_start
        self.least = least
        #: Whether every second round has the reverse order of the round before (ABBA), so that a steady drift cancels
        #: out.
        self.mirrored = mirrored


#: Class -> how its arms are repeated, from the cheapest class to the most expensive one.
REPETITIONS = {
    LIVE: Repetition("round", 1, True, 4),
    RESTART: Repetition("start", 1, False, 4),
    REBOOT: Repetition("boot", 3, False, 5, mirrored=True),
}
#: The largest number of counting rounds of a setting, and the largest number of its rounds with the discarded ones.
MAX_ROUNDS, MAX_ROUND_TRIES = 40, 80
#: Number of counting rounds of a confirmation.
CONFIRMATION_ROUNDS = 10


def build_ablation_arms(
    removable: Sequence[Mapping[str, Any]], in_stock: Collection[str] = (), variants: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Return the arms of an ablation: stock, tuned, again, and an arm without each removable setting.

    A removable setting has a ``name``, a ``class`` of REPETITIONS, ``settings`` (originals by address) and
    ``arguments`` (the words that the instance is started without). Stock keeps the settings whose names are in
    ``in_stock``, and belongs to the most expensive class of all other settings. ``variants`` are arms with other
    options. BadRequest for two equal names, or where neither a setting nor a variant is there.
    """
    names = [setting["name"] for setting in removable]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadRequest(f"The setting {twice[0]} comes twice; name each setting once.")
    if not removable and not variants:
        raise BadRequest("There is no setting to leave out: run site.yml first, or name settings of this host.")
    not_in_stock = [setting for setting in removable if setting["name"] not in in_stock]
    classes = [setting["class"] for setting in not_in_stock or removable] or [RESTART]
    setting_class = max(classes, key=list(REPETITIONS).index)
    return [
        _build_arm(STOCK, setting_class, not_in_stock),
        _build_arm(TUNED),
        _build_arm(AGAIN),
        *(
            {**_build_arm(removal_arm_name(setting["name"]), setting["class"], [setting]), "without": setting["name"]}
            for setting in removable
        ),
        *variants,
    ]


def removal_arm_name(setting: str) -> str:
    """Return the name of the arm without a setting."""
    return f"{WITHOUT}{setting}"


def build_arm_as_running() -> list[dict[str, Any]]:
    """Return the only arm of a benchmark: the instance as it runs."""
    return [_build_arm(RUNNING)]


def next_benchmark_round(order: Sequence[Mapping[str, Any]], phase: str = BENCHMARK) -> dict[str, Any]:
    """Return the next round of a benchmark; the caller adds it to the order."""
    return {"round": len(order) + 1, "phase": phase, "class": LIVE, "restart": False, "arms": [RUNNING]}


def build_tuning_arms(default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arms that a tuning begins with: ``default`` with the default options, and its twin."""
    return [{**_build_arm(name), "options": dict(default)} for name in (DEFAULT, AGAIN)]


def build_candidate_arm(number: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm of a candidate: the instance with these options instead of its default options."""
    return {**_build_arm(f"{CANDIDATE}{number}", RESTART), "options": dict(options)}


def build_variant_arm(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm of the instance with these options, which may name another program, engine or model."""
    return {**_build_arm(f"{VARIANT}{name}", RESTART), "options": dict(options)}


def build_screening_arm(number: int, removed: Sequence[Mapping[str, Any]], setting_class: str) -> dict[str, Any]:
    """Return the screening arm of a number: tuned without these settings, of which there may be none."""
    return _build_arm(f"{SCREEN}{number}", setting_class, removed)


def screening_class(classes: Iterable[str]) -> str:
    """Return the class of screening arms that leave out settings of these classes: live where all of them are live."""
    return LIVE if set(classes) == {LIVE} else RESTART


def is_screening_arm(arm: Mapping[str, Any]) -> bool:
    """Return whether an arm belongs to a screening."""
    return str(arm["name"]).startswith(SCREEN)


def is_candidate(arm: Mapping[str, Any]) -> bool:
    """Return whether an arm is a candidate of a tuning; the default and its twin have options too, but no class."""
    return str(arm["name"]).startswith(CANDIDATE) and bool(arm["options"]) and arm["class"] is not None


def is_variant(arm: Mapping[str, Any]) -> bool:
    """Return whether an arm of an ablation runs another program, model or other options of the instance."""
    return str(arm["name"]).startswith(VARIANT) and bool(arm["options"])


def anchor_name(arms: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the arm that all other arms are compared with; in a benchmark it is the only arm."""
    return next(str(arm["name"]) for arm in arms if arm["name"] in ANCHORS)


def rejectable_setting_or_candidate(arm: Mapping[str, Any]) -> str | None:
    """Return the setting, candidate or variant that is rejected if its arm fails; None for an arm the run needs.

    A failed screening arm is rejected itself, because its failure does not show which of its settings cannot go.
    """
    is_own_subject = is_candidate(arm) or is_variant(arm) or is_screening_arm(arm)
    subject: str | None = arm["name"] if is_own_subject else arm["without"]
    return subject


def build_kept_arm(removed: Sequence[Mapping[str, Any]], setting_class: str) -> dict[str, Any]:
    """Return the arm ``kept`` of a confirmation: tuned with the originals of all removed settings."""
    return _build_arm(KEPT, setting_class, removed)


def _build_arm(
    name: str, setting_class: str | None = None, removed: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return an arm of a class without some removable settings."""
    return {
        "name": name,
        "class": setting_class,
        "without": None,
        "removed": [setting["name"] for setting in removed],
        "settings": {address: value for setting in removed for address, value in setting["settings"].items()},
        "arguments": [word for setting in removed for word in setting["arguments"]],
        "options": {},
    }


def plan_round(
    seed: int, number: int, setting_class: str, nth_of_class: int, names: Iterable[str], phase: str = ABLATION
) -> dict[str, Any]:
    """Return a new round with its order of arms; the caller adds it to the plan before the round is measured.

    ``number`` counts all rounds of the run from 1, and ``nth_of_class`` those of this class and phase.
    ``restart`` in the result says whether the shared server restarts before this round.
    """
    rule = REPETITIONS[setting_class]
    if phase == CONFIRMATION:
        order = _balanced_order(_sort_by_digest(names, f"{seed}/{phase}/{setting_class}"), nth_of_class)
    elif rule.mirrored and nth_of_class % 2 == 0:
        order = _sort_by_digest(names, f"{seed}/{phase}/{setting_class}/{nth_of_class - 1}")[::-1]
    else:
        order = _sort_by_digest(names, f"{seed}/{phase}/{setting_class}/{nth_of_class}")
    return {
        "round": number,
        "phase": phase,
        "class": setting_class,
        "restart": rule.shares_start,
        "arms": order,
    }


def _sort_by_digest(names: Iterable[str], prefix: str) -> list[str]:
    return sorted(names, key=lambda name: hashlib.sha256(f"{prefix}/{name}".encode()).digest())


def _balanced_order(names: Sequence[str], nth: int) -> list[str]:
    """Return the order of the arms in the round ``nth`` of a sequence that is balanced for carry-over.

    An arm may be slower after a certain other arm. Over all rounds of the sequence each arm follows each other arm
    equally often, so that this cancels out. Source: Williams, "Experimental designs balanced for the estimation of
    residual effects of treatments" (1949).
    """
    count = len(names)
    zigzag = [(at + 1) // 2 if at % 2 else -(at // 2) % count for at in range(count)]
    rows = [[(place + shift) % count for place in zigzag] for shift in range(count)]
    if count % 2:
        rows += [row[::-1] for row in rows]
    sequence = [rows.pop(0)]
    while rows:
        # A round that begins with the last arm of the round before adds no pair of different arms.
        row = next((row for row in rows if row[0] == sequence[-1][-1]), rows[0])
        rows.remove(row)
        sequence.append(row)
    return [names[place] for place in sequence[(nth - 1) % len(sequence)]]


def arm_names_of_round(arms: Iterable[Mapping[str, Any]], setting_class: str, settings: Collection[str]) -> list[str]:
    """Return the names of a round's arms: anchor, twin, and those of the settings that have this class.

    ``settings`` may also have names of arms with other options. Rounds of boots have stock too, which no confirmation
    measures.
    """
    subjects = [*settings, *([None] if setting_class == REBOOT else [])]
    return [
        arm["name"]
        for arm in arms
        if arm["class"] is None or (arm["class"] == setting_class and rejectable_setting_or_candidate(arm) in subjects)
    ]


def count_compared_arms(arms: Iterable[Mapping[str, Any]]) -> int:
    """Return how many arms are compared with the anchor, so that they share the probability of a false claim."""
    return sum(arm["name"] not in (TUNED, KEPT) and not is_screening_arm(arm) for arm in arms)
