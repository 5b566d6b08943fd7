# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is measured in which order: arms, and rounds in which each arm comes once, in an order drawn from a seed.

An arm is one configuration of the instance. ``tuned`` is the anchor that all are compared with, ``again`` is the same
under another name (a difference between the two is a fault of the measurement), ``stock`` has all originals, and
``without X`` is the anchor with the original of X. ``kept`` is what is left when settings that do not pay are removed;
it is raced against stock and tuned on fresh rounds, the confirmation. A tuning compares candidates, each with other
options of the instance, with its ``default``. A benchmark compares nothing and has one arm, ``running``: the instance
as it is.

A knob acts at once, at a start or at a boot, and that is the unit to repeat: values from one start share its luck, so
twenty requests to it count once. Source of the units and numbers: Kalibera and Jones, "Rigorous benchmarking in
reasonable time".

Of Python's random module only ``random()`` is promised to give the same numbers on every version; ``shuffle``,
``choice`` and ``randrange`` are not. So no call of it is used: arms are sorted by the SHA-256 of seed, round and name,
which anybody can compute again. It also means that an arm that drops out leaves the order of the others as it was.
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
#: What others are compared with, so that it belongs to every class.
ANCHORS = (TUNED, RUNNING, DEFAULT)
LIVE, RESTART, REBOOT = catalogue.LIVE, catalogue.RESTART, catalogue.REBOOT
ABLATION, CONFIRMATION, BENCHMARK = "ablation", "confirmation", "benchmark"
#: How a tuning finds a candidate: each option alone, combinations by halves, and the last few against each other.
SWEEP, HALVING, RACE = "sweep", "halving", "race"
PHASES = (ABLATION, BENCHMARK, SWEEP, HALVING, RACE, CONFIRMATION)


class Unit:
    """How the knobs of a class are repeated.

    ``name`` is what counts once. Each arm of a round answers ``requests`` samples. A server that all arms share starts
    anew every ``restart_every`` rounds; 0 where each arm has its own start. Below ``least`` units there is no verdict.
    """

    __slots__ = ("least", "mirrored", "name", "requests", "restart_every")

    def __init__(self, name: str, requests: int, restart_every: int, least: int, mirrored: bool = False) -> None:
        self.name = name
        self.requests = requests
        self.restart_every = restart_every
        self.least = least
        #: Whether every second round is the one before backwards: ABBA, in which a steady drift cancels out.
        self.mirrored = mirrored


#: Class of a knob -> its unit, from the cheapest to the dearest.
UNITS = {
    LIVE: Unit("round", 1, 5, 4),
    RESTART: Unit("start", 3, 0, 4),
    REBOOT: Unit("boot", 3, 0, 5, mirrored=True),
}
#: No knob gets more rounds than this that count, or than that with the void ones.
MOST, TRIES = 40, 80
#: So many fresh rounds make a confirmation.
CONFIRMING = 10


def arms(knobs: Sequence[Mapping[str, Any]], stays: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the arms of an ablation; a knob whose name is in ``stays`` cannot be left out, and stock has it too.

    A knob has a ``name``, a ``class`` of UNITS, and what to have without it: ``settings``, the originals by address,
    and ``arguments``, what is said no more of the instance. Stock belongs to the dearest class there is. Raises
    BadRequest for a name that comes twice, or no knob.
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
    dearest = max((knob["class"] for knob in out or knobs), key=list(UNITS).index)
    return [
        _arm(STOCK, dearest, None, originals, arguments),
        _arm(TUNED, None, None, {}, []),
        _arm(AGAIN, None, None, {}, []),
        *(_arm(WITHOUT + k["name"], k["class"], k["name"], k["settings"], k["arguments"]) for k in knobs),
    ]


def running() -> list[dict[str, Any]]:
    """Return the arms of a benchmark: the instance as it runs."""
    return [_arm(RUNNING, None, None, {}, [])]


def tuning(default: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the arms that a tuning begins with, the instance with its own options; candidates come later."""
    return [{**_arm(name, None, None, {}, []), "options": dict(default)} for name in (DEFAULT, AGAIN)]


def candidate(number: int, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arm of a candidate: the instance with these options instead of its own."""
    return {**_arm(f"{CANDIDATE}{number}", RESTART, None, {}, []), "options": dict(options)}


def anchor(arms: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of the arm that all are compared with; in a benchmark it is the only one."""
    return next(str(arm["name"]) for arm in arms if arm["name"] in ANCHORS)


def subject(arm: Mapping[str, Any]) -> str | None:
    """Return what is rejected where an arm cannot be measured, a knob or a candidate; None for what others need."""
    name: str | None = arm["name"] if arm["name"].startswith(CANDIDATE) else arm["without"]
    return name


def kept(removed: Sequence[Mapping[str, Any]], dearest: str) -> dict[str, Any]:
    """Return the arm of the confirmation: tuned with the originals of all knobs that were removed."""
    originals = {address: value for knob in removed for address, value in knob["settings"].items()}
    return _arm(KEPT, dearest, None, originals, [word for knob in removed for word in knob["arguments"]])


def _arm(
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


def row(seed: int, number: int, unit: str, nth: int, names: Iterable[str], phase: str = ABLATION) -> dict[str, Any]:
    """Return a round: ``number`` counts all rounds of the run from 1, ``nth`` those of this class and phase from 1.

    ``restart`` says that the shared server starts anew before it. Write the round down before it is run.
    """
    rule = UNITS[unit]
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


def members(arms: Iterable[Mapping[str, Any]], unit: str, wanted: Iterable[str]) -> list[str]:
    """Return the arms of a round of a class: the anchor, its twin, stock where it belongs, and the ``wanted`` knobs."""
    still = set(wanted)
    there = [arm for arm in arms if arm["class"] in (unit, None) and arm["name"] != KEPT]
    return [arm["name"] for arm in there if arm["without"] is None or arm["without"] in still]


def page(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the order for people: a line for each round, with its class and its arms from first to last."""
    lines = []
    for one in rows:
        start = "  new server" if one["restart"] else ""
        lines.append(f"{one['round']:>4}  {one['phase']:<12}  {one['class']:<7}  {', '.join(one['arms'])}{start}")
    return "\n".join(lines)
