# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the arms of a run and plans its rounds; a round has each arm once, in an order that the seed decides.

An arm is one configuration of host and instance. An ablation has these arms:
- ``tuned`` has all stored settings. It is the anchor: all other arms are compared with it.
- ``again`` is the twin of the anchor, the same configuration. A difference between the two is an error of measurement.
- ``stock`` has the originals of all settings.
- ``without X`` is tuned with the original of the setting X, and ``screen N`` with the originals of several settings.
- ``variant NAME`` is tuned with another program, model or other options of the instance.
- ``kept`` is tuned without the settings that do not pay. The confirmation compares it with stock and tuned in new
  rounds.
A tuning compares candidates with the anchor ``default``, and each candidate has other options of the instance. A
benchmark has only the arm ``running``, the instance as it is.

The class of an arm says when its setting takes effect: at once, at a start or at a boot. It decides what counts as one
repetition: all requests to one start are affected by the same chance, so twenty requests to one start count once.
Source of the units and numbers: Kalibera and Jones, "Rigorous benchmarking in reasonable time".

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
PHASES = (PROBE, SCREENING, ABLATION, BENCHMARK, SWEEP, HALVING, RACE, CONFIRMATION)


class Repetition:
    """How the arms of a class are repeated.

    ``name`` is the unit of repetition, which counts once. In a round each arm is sent all prompts ``requests`` times.
    ``restart_every`` is the number of rounds between two starts of the server that all arms share, 0 where each arm has
    its own start. A verdict needs at least ``least`` units.
    """

    def __init__(self, name: str, requests: int, restart_every: int, least: int, mirrored: bool = False) -> None:
        self.name = name
        self.requests = requests
        self.restart_every = restart_every
        self.least = least
        #: Whether every second round has the reverse order of the round before (ABBA), so that a steady drift cancels
        #: out.
        self.mirrored = mirrored


#: Class -> how its arms are repeated, from the cheapest class to the most expensive one.
REPETITIONS = {
    LIVE: Repetition("round", 1, 5, 4),
    RESTART: Repetition("start", 3, 0, 4),
    REBOOT: Repetition("boot", 3, 0, 5, mirrored=True),
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


def build_benchmark_arms() -> list[dict[str, Any]]:
    """Return the only arm of a benchmark: the instance as it runs."""
    return [_build_arm(RUNNING)]


def build_tuning_arms(default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arms that a tuning begins with: ``default`` with the default options, and its twin."""
    return [{**_build_arm(name), "options": dict(default)} for name in (DEFAULT, AGAIN)]


def build_candidate_arm(number: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm of a candidate: the instance with these options instead of its default options."""
    return {**_build_arm(f"{CANDIDATE}{number}", RESTART), "options": dict(options)}


def build_variant_arm(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm of the instance with these options, which may name another program, engine or model."""
    return {**_build_arm(f"{VARIANT}{name}", RESTART), "options": dict(options)}


def is_candidate(arm: Mapping[str, Any]) -> bool:
    """Return whether an arm is a candidate of a tuning; the default and its twin have options too, but no class."""
    return bool(arm["options"]) and arm["class"] is not None and not is_variant(arm)


def is_variant(arm: Mapping[str, Any]) -> bool:
    """Return whether an arm of an ablation runs another program, model or other options of the instance."""
    return str(arm["name"]).startswith(VARIANT) and bool(arm["options"])


def anchor_name(arms: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the arm that all other arms are compared with; in a benchmark it is the only arm."""
    return next(str(arm["name"]) for arm in arms if arm["name"] in ANCHORS)


def rejectable_setting_or_candidate(arm: Mapping[str, Any]) -> str | None:
    """Return the setting, candidate or variant that is rejected if its arm fails; None for an arm the run needs."""
    subject: str | None = arm["name"] if is_candidate(arm) or is_variant(arm) else arm["without"]
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
    reverses = rule.mirrored and nth_of_class % 2 == 0
    drawn = nth_of_class - 1 if reverses else nth_of_class
    order = sorted(
        names, key=lambda name: hashlib.sha256(f"{seed}/{phase}/{setting_class}/{drawn}/{name}".encode()).digest()
    )
    return {
        "round": number,
        "phase": phase,
        "class": setting_class,
        "restart": bool(rule.restart_every) and (nth_of_class - 1) % rule.restart_every == 0,
        "arms": order[::-1] if reverses else order,
    }


def arm_names_of_round(arms: Iterable[Mapping[str, Any]], setting_class: str, settings: Collection[str]) -> list[str]:
    """Return the names of a round's arms: anchor, twin, stock if it has this class, and those of the settings.

    ``settings`` may also have names of arms with other options. Stock that lacks nothing is not measured.
    """
    of_class = [arm for arm in arms if arm["class"] in (setting_class, None) and arm["name"] != KEPT]
    of_class = [arm for arm in of_class if arm["name"] != STOCK or arm["settings"] or arm["arguments"]]
    return [arm["name"] for arm in of_class if rejectable_setting_or_candidate(arm) in (None, *settings)]
