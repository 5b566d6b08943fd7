# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The arms of a run and the order of its rounds; in a round each arm comes once, in an order drawn from a seed.

An arm is one configuration of the instance. ``tuned`` is the anchor that all arms are compared with. ``again`` is the
same configuration under another name: a difference between the two is an error of the measurement. ``stock`` has the
originals of all settings, and ``without X`` is the anchor with the original of X. ``kept`` is what remains when
settings that do not pay are removed; it is compared with stock and tuned in new rounds, the confirmation. A tuning
compares candidates, each with other options of the instance, with its ``default``. A benchmark compares nothing and has
one arm, ``running``: the instance as it is.

A knob takes effect at once, at a start or at a boot, and that is the unit of repetition: all values from one start are
affected by the same chance, so twenty requests to one start count once. Source of the units and numbers: Kalibera and
Jones, "Rigorous benchmarking in reasonable time".

Of Python's random module only ``random()`` is guaranteed to give the same numbers in every version; ``shuffle``,
``choice`` and ``randrange`` are not. So arms are sorted by the SHA-256 of seed, round and name, which anybody can
compute again. An arm that is removed leaves the order of the other arms as it was.
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
WITHOUT, CANDIDATE = "without ", "candidate "
#: The arms that others are compared with; they belong to every class.
ANCHORS = (TUNED, RUNNING, DEFAULT)
LIVE, RESTART, REBOOT = catalogue.LIVE, catalogue.RESTART, catalogue.REBOOT
ABLATION, CONFIRMATION, BENCHMARK = "ablation", "confirmation", "benchmark"
#: The phases of a tuning's search: each option alone, combinations that are halved, and a race of the last few.
SWEEP, HALVING, RACE = "sweep", "halving", "race"
PHASES = (ABLATION, BENCHMARK, SWEEP, HALVING, RACE, CONFIRMATION)


class Repetition:
    """How the arms of a class of knobs are repeated.

    ``name`` is the unit that counts once. In a round each arm gives ``requests`` samples. A server that all arms
    share starts anew every ``restart_every`` rounds; 0 where each arm has its own start. With fewer than ``least``
    units there is no verdict.
    """

    def __init__(self, name: str, requests: int, restart_every: int, least: int, mirrored: bool = False) -> None:
        self.name = name
        self.requests = requests
        self.restart_every = restart_every
        self.least = least
        #: Whether every second round reverses the order of the round before: ABBA, in which a steady drift cancels out.
        self.mirrored = mirrored


#: Class of a knob -> how it is repeated, from the cheapest class to the most expensive one.
REPETITIONS = {
    LIVE: Repetition("round", 1, 5, 4),
    RESTART: Repetition("start", 3, 0, 4),
    REBOOT: Repetition("boot", 3, 0, 5, mirrored=True),
}
#: The largest number of rounds of a knob that count, and of all its rounds with the discarded ones.
MAX_ROUNDS, MAX_ROUND_TRIES = 40, 80
#: Number of rounds of a confirmation.
CONFIRMATION_ROUNDS = 10


def build_ablation_arms(knobs: Sequence[Mapping[str, Any]], stays: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the arms of an ablation: stock, tuned, again, and one without each knob.

    A knob has a ``name``, a ``class`` of REPETITIONS, and what to set without it: ``settings``, the originals by
    address, and ``arguments``, the words that the instance is started without. A knob whose name is in ``stays``
    cannot be removed, so that stock has it too. Stock belongs to the most expensive class of all knobs. BadRequest
    for a name that comes twice, or no knob.
    """
    names = [knob["name"] for knob in knobs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadRequest(f"The setting {twice[0]} comes twice; name each setting once.")
    if not knobs:
        raise BadRequest("There is no setting to leave out: run site.yml first, or name settings of this host.")
    out = [knob for knob in knobs if knob["name"] not in stays]
    originals = {address: value for knob in out for address, value in knob["settings"].items()}
    arguments = [word for knob in out for word in knob["arguments"]]
    dearest = max((knob["class"] for knob in out or knobs), key=list(REPETITIONS).index)
    return [
        _build_arm(STOCK, dearest, None, originals, arguments),
        _build_arm(TUNED, None, None, {}, []),
        _build_arm(AGAIN, None, None, {}, []),
        *(_build_arm(WITHOUT + k["name"], k["class"], k["name"], k["settings"], k["arguments"]) for k in knobs),
    ]


def build_benchmark_arms() -> list[dict[str, Any]]:
    """Return the only arm of a benchmark: the instance as it runs."""
    return [_build_arm(RUNNING, None, None, {}, [])]


def build_tuning_arms(default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arms that a tuning begins with, the default options and the same again; candidates are added later."""
    return [{**_build_arm(name, None, None, {}, []), "options": dict(default)} for name in (DEFAULT, AGAIN)]


def build_candidate_arm(number: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm of a candidate: the instance with these options in place of its own."""
    return {**_build_arm(f"{CANDIDATE}{number}", RESTART, None, {}, []), "options": dict(options)}


def anchor_name(arms: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the arm that all are compared with; in a benchmark it is the only arm."""
    return next(str(arm["name"]) for arm in arms if arm["name"] in ANCHORS)


def rejectable_subject(arm: Mapping[str, Any]) -> str | None:
    """Return which knob or candidate is rejected if this arm fails; None for an arm that others need."""
    name: str | None = arm["name"] if arm["name"].startswith(CANDIDATE) else arm["without"]
    return name


def build_kept_arm(removed: Sequence[Mapping[str, Any]], dearest: str) -> dict[str, Any]:
    """Return the arm ``kept`` of a confirmation: tuned with the originals of all removed knobs."""
    originals = {address: value for knob in removed for address, value in knob["settings"].items()}
    return _build_arm(KEPT, dearest, None, originals, [word for knob in removed for word in knob["arguments"]])


def _build_arm(
    name: str, unit: str | None, without: str | None, settings: Mapping[str, Any], arguments: Sequence[str]
) -> dict[str, Any]:
    return {
        "name": name,
        "class": unit,
        "without": without,
        "settings": dict(settings),
        "arguments": list(arguments),
        "options": {},
    }


def plan_round(
    seed: int, number: int, unit: str, nth: int, names: Iterable[str], phase: str = ABLATION
) -> dict[str, Any]:
    """Return a new round with its order of arms; write it into the plan before it is measured.

    ``number`` counts all rounds of the run from 1, ``nth`` those of this class and phase from 1. ``restart`` in the
    result says that the shared server starts anew before this round.
    """
    rule = REPETITIONS[unit]
    back = rule.mirrored and nth % 2 == 0
    drawn = nth - 1 if back else nth
    order = sorted(names, key=lambda name: hashlib.sha256(f"{seed}/{phase}/{unit}/{drawn}/{name}".encode()).digest())
    return {
        "round": number,
        "phase": phase,
        "class": unit,
        "restart": bool(rule.restart_every) and (nth - 1) % rule.restart_every == 0,
        "arms": order[::-1] if back else order,
    }


def arms_of_round(arms: Iterable[Mapping[str, Any]], unit: str, wanted: Iterable[str]) -> list[str]:
    """Return the names of the arms of a round: anchor, twin, stock if it has this class, and the ``wanted`` knobs."""
    still = set(wanted)
    there = [arm for arm in arms if arm["class"] in (unit, None) and arm["name"] != KEPT]
    return [arm["name"] for arm in there if arm["without"] is None or arm["without"] in still]
