# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that nobody should write into an inventory and somebody does, and what an answer to them has to be.

An answer is a result, or a refusal in a sentence that a person reads to its end. A traceback is none.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import LONGEST_SENTENCE

#: The values depend on nothing else, so that a failure comes again.
SEED = 20260101
#: A refusal with more characters repeats what somebody wrote instead of naming it; a name may stand before it.
LONGEST = LONGEST_SENTENCE + 100

#: Each is a kind of slip: the dash or the quotes forgotten, a word for a switch, a pasted text, a digit too many.
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    5,
    2**31,
    2**64,
    -(10**30),
    10**400,
    0.5,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    " ",
    "\t5 ",
    "yes",
    "none",
    "null",
    "0",
    "-1",
    "+5",
    "1_000",
    "1e3",
    "0x10",
    "5.5",
    "5.",
    ".",
    "1.2.3",
    "inf",
    "nan",
    "\u0663",  # The digit three of the Arabic script.
    "\u0661GiB",
    "\u0661.\u0665MiB",
    "\uff15",  # The digit five of full width.
    "\u00b2",
    "0-\u0663",
    "9" * 400,
    "9" * 5000,
    "-" + "9" * 5000,
    "9" * 400 + "GiB",
    "9" * 5000 + " ways",
    "9" * 5000 + "MHz",
    "0-" + "9" * 5000,
    "1." + "9" * 5000 + "%",
    "f" * 5000,
    "x" * 5000,
    "x " * 3000,
    ",".join(["0"] * 3000),
    "/" + "a/" * 3000,
    "[" * 3000,
    "-1GiB",
    "24GiB ",
    "24gib",
    "1GiB\n",
    "5\x00",
    "a\x00b",
    "two\nlines",
    "\x1b[31mred\x07",
    "\u202eturned",
    "\udc80",
    "\ud800",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{a: b}",
    "'\"\\$`%",
    "../../etc/shadow",
    "/nonexistent/file",
    "http://[",
    "[::1",
    "::1]:99999",
    "1.2.3.4:\u0663",
    "*:" + "9" * 5000,
    "a b",
    "0-",
    "-",
    ",",
    "5-3",
    "0-8192",
    [],
    [None],
    [[]],
    [{}],
    ["a", 1, None, True],
    ["x" * 5000],
    [5, "\u0663"],
    ["\x00"],
    {},
    {"a": None},
    {"all": "9" * 5000},
    {"all": "\u0663"},
    {"all": {"b": ["c"]}},
    {5: 5},
    {None: []},
    {"name": "a", "model": "/m", "port": 8080},
    {"x" * 5000: "x"},
    {"\u0663": "\u0663"},
    [[{"a": [{"b": {"c": [1, "x" * 2000]}}]}]],
    {"name": {"name": {"name": "x" * 2000}}},
    (),
    ("a", ("b",)),
    b"bytes",
)


def sample(count: int, place: str) -> list[Any]:
    """Return so many of the values, the same ones in each run for a place."""
    return random.Random(f"{SEED} {place}").sample(VALUES, min(count, len(VALUES)))


class Judge:
    """Tries calls with odd values, and keeps a line on each that ends in anything but a result or a short sentence."""

    def __init__(self, refusals: tuple[type[Exception], ...]) -> None:
        self._refusals = refusals
        self.tried = 0
        self.faults: list[str] = []

    def try_call(self, what: str, value: Any, call: Callable[[], Any]) -> None:
        """Call, and judge how it ends."""
        self.tried += 1
        try:
            call()
        except self._refusals as error:
            if reason := _unreadable_reason(str(error)):
                self.faults.append(f"{what}: {repr(value)[:60]}: {reason}: {str(error)[:120]}")
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename.rpartition('/plugins/')[2]}:{place.lineno}"
            self.faults.append(f"{what}: {repr(value)[:60]}: {type(error).__name__} at {where}: {str(error)[:120]}")


def _unreadable_reason(sentence: str) -> str | None:
    if len(sentence) > LONGEST:
        return f"a sentence of {len(sentence)} characters"
    if not sentence.strip() or " " not in sentence.strip():
        return "no sentence"
    return None


def places(options: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every option of an argument spec, with those of the options within, as keys and indexes."""
    for name, rule in options.items():
        yield (*path, name)
        if "options" in rule:
            yield from places(rule["options"], (*path, name, *([0] if rule["type"] == "list" else [])))
        elif rule.get("type") in ("list", "dict"):
            yield (*path, name, 0 if rule["type"] == "list" else "all")


def put(tree: Any, path: Sequence[Any], value: Any) -> Any:
    """Return a copy of some options in which one has a value; what is missing on the way there is made."""
    if not path:
        return value
    key, *rest = path
    if isinstance(key, int):
        items = list(tree) if isinstance(tree, list) and tree else [{}]
        items[key] = put(items[key], rest, value)
        return items
    there = dict(tree) if isinstance(tree, dict) else {}
    there[key] = put(there.get(key, {}), rest, value)
    return there


def parts(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every part of a tree of lists and dictionaries, as keys and indexes; the whole has none."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from parts(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from parts(value, (*path, index))
