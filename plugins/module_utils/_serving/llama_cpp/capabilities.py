# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capabilities of a llama-server, parsed from its answers to --help and --version.

Flags come and go within weeks, and builds from archives do not know their build numbers, so capabilities follow from
the help text and not from the version. The help text still lists removed flags, with the words "has been removed".
Source: common_arg::to_string() in common/arg.cpp of llama.cpp, gpt_params_print_usage() in common/common.cpp of
ik_llama.cpp.
"""

from __future__ import annotations

import re

from ..._errors import BadRequest
from ..._io.safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LLAMA, IK = "llama.cpp", "ik_llama.cpp"

#: The start of an option is in the first ten columns of a line; descriptions start at column 34 (ik_llama.cpp) or 40.
OPTION_START = re.compile(r"\s{0,9}(?=--?[A-Za-z])")
FLAG_NAME = re.compile(r"(--?[A-Za-z][\w.-]*)(?:\(s\))?")
NAME_SEPARATOR = re.compile(r"(?:,\s*| )(?=--?[A-Za-z])")
OPTION_REST = re.compile(r",?(?: (\S.*?))?(?:\s{2,}(.*))?$")
#: The forms in which --help lists the values of a flag: [on|off] or {none,layer}, a list with commas, a bullet for each
#: value, or a list after words such as "allowed values:".
ENCLOSED_VALUES = re.compile(r"[\[{<(]([\w+-]+(?:[|,][\w+-]+)+)[\]}>)]")
PLAIN_VALUES = re.compile(r"[a-z][a-z0-9+-]*(?:,[a-z][a-z0-9+-]*){2,}$")
BULLET_VALUE = re.compile(r"^- ([\w+-]+)(?: \(default\))?:", re.MULTILINE)
ALLOWED_VALUES = re.compile(r"(?:allowed values: (?=\w)|types: (?=none, ))([\w-]+(?:, [\w-]+)*)")
REMOVED_TEXT = "has been removed"
LIST_TEXT = "comma-separated list"
COMMENTS_TEXT = "lines starting with a hash are treated as comments"

#: A flag that every build of ik_llama.cpp has, and none of llama.cpp.
IK_ONLY_FLAG = "--smart-expert-reduction"
#: The build number in the answer to --version. It is unknown, and 0 or 1, in builds from an archive or a shallow clone.
BUILD_NUMBER = re.compile(r"\bbuild (\d+)|\bversion: (\d+) \(")
LEAST_BUILD_NUMBER = 1000
#: llama-server ignored CPU masks until pull request 27026 of August 2026: build 10386 does, build 10456 does not. Where
#: the build number is unknown, a flag that is newer than build 10456 proves that masks have an effect.
FIRST_PINNING_BUILD = 10456
FLAG_NEWER_THAN_PINNING = "--spec-synth-len"


#: Architectures and tensor types that all builds of both engines have.
WELL_KNOWN_NAMES = ("llama", "qwen2", "starcoder", "iq4_nl")


class HelpOption:
    """One option of a help text: ``hint`` is the text that stands for a value, ``text`` the description."""

    __slots__ = ("hint", "text")

    def __init__(self, hint: str, text: str) -> None:
        self.hint = hint
        self.text = text

    @property
    def is_removed(self) -> bool:
        """Whether the help text lists the option as removed."""
        return REMOVED_TEXT in self.description_as_line

    @property
    def takes_list(self) -> bool:
        """Whether the option takes several values with commas between them."""
        return LIST_TEXT in self.description_as_line

    @property
    def offered_values(self) -> tuple[str, ...]:
        """The valid values of the option; empty where the option takes any text or number."""
        hint = re.sub(r" ?([|-]) ?", r"\1", self.hint)
        enclosed = ENCLOSED_VALUES.search(hint)
        if enclosed or PLAIN_VALUES.match(hint):
            return tuple(re.split(r"[|,]", enclosed.group(1) if enclosed else hint))
        allowed = ALLOWED_VALUES.search(self.description_as_line)
        if allowed:
            return tuple(allowed.group(1).split(", "))
        return tuple(BULLET_VALUE.findall(self.text)) if hint else ()

    @property
    def description_as_line(self) -> str:
        return " ".join(self.text.split())


class Capabilities:
    """What one server binary can do. ``build`` is its build number, None where unknown."""

    def __init__(
        self, binary: str, engine: str, options: dict[str, HelpOption], build: int | None, openmp: bool = False
    ) -> None:
        self.binary = binary
        self.engine = engine
        self.options = options
        self.build = build
        self.openmp = openmp
        #: Size and modification time of the binary and of its libraries, by path; set by the caller.
        self.files: dict[str, list[int]] = {}
        #: Names that were looked up in these files, and whether the files hold them.
        self._held_names: dict[str, bool] = {}

    @property
    def title(self) -> str:
        """The path of the binary with its engine and build, for messages."""
        return f"{self.binary} ({self.engine}{f', build {self.build}' if self.build else ''})"

    @property
    def can_pin_threads(self) -> bool:
        """Whether the server binds each thread to one CPU of the flag --cpu-mask; False where this is unknown."""
        if self.engine != LLAMA or not self.has_flag("--cpu-mask"):
            return False
        return (self.build or 0) >= FIRST_PINNING_BUILD or self.has_flag(FLAG_NEWER_THAN_PINNING)

    @property
    def allows_key_comments(self) -> bool:
        """Whether a line that begins with # in a key file is a comment. For older builds, such a line is a key."""
        return COMMENTS_TEXT in self.flag_description("--api-key-file")

    def flag_names(self, flag: str) -> list[str]:
        """Return all names of a flag, such as --model and -m; only the given one for an unknown flag."""
        option = self.options.get(flag)
        return [name for name, other in self.options.items() if other is option] if option else [flag]

    def flag_description(self, flag: str) -> str:
        return self.options[flag].description_as_line if flag in self.options else ""

    def holds_name(self, name: str) -> bool | None:
        """Return whether the program files hold the name of an architecture or of a tensor type; None if unknown.

        A program holds such names as texts that end with a zero byte. A linker may store a name as the end of a longer
        text, so that nothing is known of the byte before the name. Where well-known names are not found, the program
        holds its names in another form, and nothing is known of any name.
        """
        for known in (*WELL_KNOWN_NAMES, name):
            if known not in self._held_names:
                self._held_names[known] = any(_is_in_file(path, known.encode() + b"\0") for path in self.files)
        return self._held_names[name] if all(self._held_names[known] for known in WELL_KNOWN_NAMES) else None

    def has_flag(self, flag: str) -> bool:
        return flag in self.options and not self.options[flag].is_removed

    def takes_value(self, flag: str) -> bool:
        """Return whether --help shows a value for a flag. The help text of ik_llama.cpp lacks some values."""
        return flag in self.options and bool(self.options[flag].hint)

    def takes_list(self, flag: str) -> bool:
        """Return whether a flag takes several values with commas between them."""
        return flag in self.options and self.options[flag].takes_list

    def offered_values(self, flag: str) -> tuple[str, ...]:
        """Return the valid values of a flag, such as --numa; empty where the flag takes any value or is unknown."""
        return self.options[flag].offered_values if flag in self.options else ()

    def to_dict(self) -> dict[str, object]:
        return {
            "binary": self.binary,
            "engine": self.engine,
            "build": self.build,
            "openmp": self.openmp,
            "pins_work": self.can_pin_threads,
            "speculation": list(self.offered_values("--spec-type")),
        }


def _is_in_file(path: str, text: bytes) -> bool:
    import mmap

    try:
        with open(open_file(path), "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(text) >= 0
    except (OSError, ValueError):
        return False


def find_engine_of_program(files: Iterable[str]) -> str | None:
    """Return the engine of a server by the flags in the files of its program; None where they hold no known flag."""
    names = list(files)
    for flag, engine in ((IK_ONLY_FLAG, IK), ("--ctx-size", LLAMA)):
        if any(_is_in_file(path, flag.encode()) for path in names):
            return engine
    return None


def parse_capabilities(
    help_text: str, version_text: str, binary: str = "llama-server", openmp: bool = False
) -> Capabilities:
    """Return the capabilities of a binary from its answers to --help and --version; BadRequest for another program."""
    options = _parse_options_by_flag(help_text)
    if not {"--model", "--metrics", "--ctx-size"} <= set(options):
        raise BadRequest(
            f"{binary} is no llama-server: its --help lists no --model, --ctx-size and --metrics. Name the server of "
            "llama.cpp or ik_llama.cpp itself."
        )
    engine = IK if IK_ONLY_FLAG in options else LLAMA
    build_match = BUILD_NUMBER.search(version_text)
    number = int(build_match.group(1) or build_match.group(2)) if build_match else 0
    return Capabilities(binary, engine, options, number if number >= LEAST_BUILD_NUMBER else None, openmp)


def _parse_options_by_flag(text: str) -> dict[str, HelpOption]:
    options: dict[str, HelpOption] = {}
    option = None
    for line in text.splitlines():
        begin = OPTION_START.match(line)
        if begin is None:
            if option is not None:
                option.text += f"\n{line.strip()}"
            continue
        names, rest = _split_flags_from_line(line, begin.end())
        match = OPTION_REST.match(rest)
        hint, first = match.groups() if match else (rest, "")
        option = HelpOption((hint or "").strip(), first or "")
        for name in names:
            options.setdefault(name, option)
    return options


def _split_flags_from_line(line: str, at: int) -> tuple[list[str], str]:
    names: list[str] = []
    while True:
        name = FLAG_NAME.match(line, at)
        if name is None:
            return names, line[at:]
        names.append(name.group(1))
        between = NAME_SEPARATOR.match(line, name.end())
        if between is None:
            return names, line[name.end() :]
        at = between.end()
