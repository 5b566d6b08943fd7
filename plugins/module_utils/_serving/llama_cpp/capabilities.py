# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a llama-server can do, by its own account: read from what it answers to --help and --version.

Flags come and go within weeks, and builds from archives tell no number of theirs, so that the text counts and not the
version. A flag that was removed is still listed, with words that say so.
Source: common_arg::to_string() in common/arg.cpp of llama.cpp, gpt_params_print_usage() in common/common.cpp of
ik_llama.cpp.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest

LLAMA, IK = "llama.cpp", "ik_llama.cpp"

#: A line of an option begins at its left; descriptions begin at column 34 (ik_llama.cpp) or 40.
BEGIN = re.compile(r"\s{0,9}(?=--?[A-Za-z])")
NAME = re.compile(r"(--?[A-Za-z][\w.-]*)(?:\(s\))?")
NEXT = re.compile(r"(?:,\s*| )(?=--?[A-Za-z])")
REST = re.compile(r",?(?: (\S.*?))?(?:\s{2,}(.*))?$")
#: How values that a flag offers are written: [on|off], {none,layer}, a plain list, one a line, or in words.
ENCLOSED = re.compile(r"[\[{<(]([\w+-]+(?:[|,][\w+-]+)+)[\]}>)]")
PLAIN = re.compile(r"[a-z][a-z0-9+-]*(?:,[a-z][a-z0-9+-]*){2,}$")
BULLET = re.compile(r"^- ([\w+-]+)(?: \(default\))?:", re.MULTILINE)
ALLOWED = re.compile(r"(?:allowed values: (?=\w)|types: (?=none, ))([\w-]+(?:, [\w-]+)*)")
REMOVED = "has been removed"
LIST = "comma-separated list"
COMMENTS = "lines starting with a hash are treated as comments"

#: Only ik_llama.cpp has this one, and any of its builds.
ONLY_IK = "--smart-expert-reduction"
#: Builds from an archive or a shallow clone call themselves 0 or 1.
NUMBER = re.compile(r"\bbuild (\d+)|\bversion: (\d+) \(")
SMALLEST = 1000
#: llama-server uses masks of CPUs since pull request 27026 of August 2026: build 10386 does not, 10456 does. Where the
#: number is unknown, a flag that came after it proves it.
PINS_SINCE = 10456
LATER_THAN_PINS = "--spec-synth-len"


class Option:
    """One flag under all its names: its value as --help describes it, and what is offered for it."""

    __slots__ = ("hint", "text")

    def __init__(self, hint: str, text: str) -> None:
        self.hint = hint
        self.text = text

    @property
    def removed(self) -> bool:
        """Return whether the flag is only listed so that its users learn what became of it."""
        return REMOVED in self._words

    @property
    def many(self) -> bool:
        """Return whether it takes several values, separated by commas."""
        return LIST in self._words

    @property
    def values(self) -> tuple[str, ...]:
        """Return the values that are offered; empty where any text or number may stand."""
        hint = re.sub(r" ?([|-]) ?", r"\1", self.hint)
        enclosed = ENCLOSED.search(hint)
        if enclosed or PLAIN.match(hint):
            return tuple(re.split(r"[|,]", enclosed.group(1) if enclosed else hint))
        allowed = ALLOWED.search(self._words)
        if allowed:
            return tuple(allowed.group(1).split(", "))
        return tuple(BULLET.findall(self.text)) if hint else ()

    @property
    def _words(self) -> str:
        return " ".join(self.text.split())


class Capabilities:
    """What one binary can do. ``build`` is None where it does not say; ``openmp`` is for the caller to find out."""

    def __init__(
        self, binary: str, engine: str, options: dict[str, Option], build: int | None, openmp: bool = False
    ) -> None:
        self.binary = binary
        self.engine = engine
        self.options = options
        self.build = build
        self.openmp = openmp
        #: The program and its own libraries: size and time of the last change of each. The caller finds them, too.
        self.files: dict[str, list[int]] = {}

    @property
    def name(self) -> str:
        """Return what to call the binary in a sentence."""
        return f"{self.binary} ({self.engine}{f', build {self.build}' if self.build else ''})"

    @property
    def flags(self) -> frozenset[str]:
        """Return the flags that work, without those that are listed as removed."""
        return frozenset(flag for flag in self.options if self.works(flag))

    @property
    def pins_work(self) -> bool:
        """Return whether the server binds each thread to a CPU of --cpu-mask; False where that is not known."""
        if self.engine != LLAMA or not self.works("--cpu-mask"):
            return False
        return (self.build or 0) >= PINS_SINCE or self.works(LATER_THAN_PINS)

    @property
    def knows_comments(self) -> bool:
        """Return whether a line that begins with # is none of the keys in its key file; to older builds it is one."""
        return COMMENTS in self.text("--api-key-file")

    def text(self, flag: str) -> str:
        """Return in one line what --help says of a flag; nothing where it is not there."""
        return " ".join(self.options[flag].text.split()) if flag in self.options else ""

    def works(self, flag: str) -> bool:
        """Return whether a flag is there and not removed."""
        return flag in self.options and not self.options[flag].removed

    def takes_value(self, flag: str) -> bool:
        """Return whether --help shows a value behind a flag. ik_llama.cpp does not show all of them."""
        return flag in self.options and bool(self.options[flag].hint)

    def takes_many(self, flag: str) -> bool:
        """Return whether a flag takes several values at once."""
        return flag in self.options and self.options[flag].many

    def values(self, flag: str) -> tuple[str, ...]:
        """Return the values that an enumerating flag offers, such as --spec-type, --load-mode or --numa."""
        return self.options[flag].values if flag in self.options else ()

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        return {
            "binary": self.binary,
            "engine": self.engine,
            "build": self.build,
            "openmp": self.openmp,
            "pins_work": self.pins_work,
            "speculation": list(self.values("--spec-type")),
        }


def parse(help_text: str, version_text: str, binary: str = "llama-server", openmp: bool = False) -> Capabilities:
    """Return what the two answers of a binary say."""
    options = _options(help_text)
    if not {"--model", "--metrics", "--ctx-size"} <= set(options):
        raise BadRequest(
            f"{binary} is no llama-server: its --help lists no --model, --ctx-size and --metrics. Name the server of "
            "llama.cpp or ik_llama.cpp itself."
        )
    engine = IK if ONLY_IK in options else LLAMA
    found = NUMBER.search(version_text)
    number = int(found.group(1) or found.group(2)) if found else 0
    return Capabilities(binary, engine, options, number if number >= SMALLEST else None, openmp)


def _options(text: str) -> dict[str, Option]:
    """Return flag -> option. Of a flag that is described twice the first one counts."""
    options: dict[str, Option] = {}
    option = None
    for line in text.splitlines():
        begin = BEGIN.match(line)
        if begin is None:
            if option is not None:
                option.text += f"\n{line.strip()}"
            continue
        names, rest = _names(line, begin.end())
        match = REST.match(rest)
        hint, first = match.groups() if match else (rest, "")
        option = Option((hint or "").strip(), first or "")
        for name in names:
            options.setdefault(name, option)
    return options


def _names(line: str, at: int) -> tuple[list[str], str]:
    """Return the names at the begin of an option's line, and what stands behind them."""
    names: list[str] = []
    while True:
        name = NAME.match(line, at)
        if name is None:
            return names, line[at:]
        names.append(name.group(1))
        between = NEXT.match(line, name.end())
        if between is None:
            return names, line[name.end() :]
        at = between.end()
