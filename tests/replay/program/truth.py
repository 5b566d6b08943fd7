# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The truth: what the speed of the server depends on, read from a JSON file and refused where it is not understood.

README.md describes the file. What is not in it has the values of the classes below.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .arguments import Refused, Table

SUBJECTS, TESTS = ("file", "argument", "environment"), ("equals", "contains", "present")


@dataclass(frozen=True)
class Condition:
    """A file, an argument or a variable (``subject`` and ``name``), and how its value is looked at."""

    subject: str
    name: str
    test: str
    wanted: str | bool

    def holds(self, value: str | None) -> bool:
        """Return whether a value is as it should be; None is one that is not there."""
        if self.test == "present":
            return (value is not None) is self.wanted
        if value is None:
            return False
        return value == self.wanted if self.test == "equals" else str(self.wanted) in value


@dataclass(frozen=True)
class Effect:
    """What the time of a step, and that of a token of the prompt, is multiplied with while all conditions hold."""

    conditions: tuple[Condition, ...]
    factor: float
    prompt_factor: float


@dataclass(frozen=True)
class Spikes:
    """The share of all requests that are slower, and how much."""

    share: float = 0.0
    factor: float = 1.5


@dataclass(frozen=True)
class Truth:
    """The whole file."""

    seed: int = 1
    base_ms: float = 2.0
    prompt_ms: float = 0.05
    busy: float = 0.5
    noise: float = 0.01
    start_noise: float = 0.0
    drift_per_hour: float = 0.0
    autocorrelation: float = 0.0
    spikes: Spikes = field(default_factory=Spikes)
    accepted: float = 0.0
    effects: tuple[Effect, ...] = ()
    ignores: tuple[str, ...] = ()
    dies_after: int | None = None


#: The least and the most of each number.
LIMITS = {
    "base_ms": (1e-3, 1e6),
    "prompt_ms": (1e-6, 1e6),
    "busy": (0, 1),
    "noise": (0, 1),
    "start_noise": (0, 1),
    "drift_per_hour": (-0.5, 1),
    "autocorrelation": (-0.99, 0.99),
    "accepted": (0, 1),
    "share": (0, 1),
    "factor": (1e-3, 1e3),
    "prompt_factor": (1e-3, 1e3),
}
WHOLE = {"seed": 0, "dies_after": 1}


def read(path: str, table: Table) -> Truth:
    """Return the truth of a file; Refused, one sentence, for anything that is not understood."""
    try:
        data = json.loads(Path(path).read_text())
    except OSError as error:
        raise Refused(f"The truth {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise Refused(f"The truth {path} is not JSON: {error}.") from None
    try:
        return _truth(data, table)
    except Refused as error:
        raise Refused(f"The truth {path}: {error}.") from None


def _truth(data: Any, table: Table) -> Truth:
    found = dict(_known("it", data, {one.name for one in fields(Truth)}))
    spikes = _known("spikes", found.get("spikes", {}), {"share", "factor"})
    numbers: dict[str, Any] = {key: _number(key, found[key]) for key in LIMITS if key in found}
    numbers.update({key: _whole(key, found[key]) for key in WHOLE if key in found})
    return Truth(
        **numbers,
        spikes=Spikes(**{key: _number(f"spikes.{key}", value) for key, value in spikes.items()}),
        effects=tuple(_effect(f"effects[{at}]", row, table) for at, row in enumerate(_list("effects", found))),
        ignores=tuple(_argument("ignores", name, table) for name in _list("ignores", found)),
    )


def _effect(where: str, row: Any, table: Table) -> Effect:
    factors = ("factor", "prompt_factor")
    one = dict(_known(where, row, {"all", *SUBJECTS, *TESTS, *factors}))
    if "factor" not in one:
        raise Refused(f"{where} has no factor")
    both = [_number(f"{where}.{key}", one.get(key, one["factor"])) for key in factors]
    rest = {key: value for key, value in one.items() if key not in factors}
    rows = rest.pop("all", None)
    if rows is None:
        return Effect((_condition(where, rest, table),), *both)
    if rest or not isinstance(rows, list) or not rows:
        raise Refused(f"{where}.all should be a list of conditions, and no condition should stand beside it")
    return Effect(tuple(_condition(f"{where}.all[{at}]", one, table) for at, one in enumerate(rows)), *both)


def _condition(where: str, row: Any, table: Table) -> Condition:
    one = _known(where, row, {*SUBJECTS, *TESTS})
    subjects, tests = ([key for key in keys if key in one] for keys in (SUBJECTS, TESTS))
    if len(subjects) != 1 or len(tests) != 1:
        raise Refused(f"{where} should have one of {', '.join(SUBJECTS)}, and one of {', '.join(TESTS)}")
    (subject,), (test,) = subjects, tests
    name, wanted = one[subject], one[test]
    if not isinstance(name, str) or not isinstance(wanted, bool if test == "present" else str):
        raise Refused(
            f"{where}.{subject} should be a text, and {test} {'true or false' if test == 'present' else 'too'}"
        )
    if subject == "argument":
        name = _argument(where, name, table)
    # A knob that this machine does not have would never be in force, and a test would prove nothing.
    if subject == "file" and test != "present" and value_of(name) is None:
        raise Refused(f"{where}: {name} cannot be read here")
    return Condition(subject, name, test, wanted)


def value_of(path: str) -> str | None:
    """Return what a file says, None where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return None


def _known(where: str, data: Any, keys: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise Refused(f"{where} should be an object")
    for key in data:
        if key not in keys:
            raise Refused(f"{where} has the unknown key '{key}'")
    return data


def _list(key: str, found: dict[str, Any]) -> list[Any]:
    rows = found.get(key, [])
    if not isinstance(rows, list):
        raise Refused(f"{key} should be a list")
    return rows


def _argument(where: str, name: Any, table: Table) -> str:
    try:
        return table.name(str(name))
    except Refused:
        raise Refused(f"{where}: the server has no argument '{name}'") from None


def _number(where: str, value: Any) -> float:
    low, high = LIMITS[where.rpartition(".")[2]]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise Refused(f"{where} is {json.dumps(value)} and should be a number from {low:g} to {high:g}")
    return float(value)


def _whole(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < WHOLE[where]:
        raise Refused(f"{where} is {json.dumps(value)} and should be a whole number from {WHOLE[where]} up")
    return value
