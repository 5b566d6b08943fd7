# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""cmake and a compiler of C++: whether they are there, what they are asked, and what they say when it fails."""

from __future__ import annotations

import re
import shutil

from ..._errors import BadRequest, TuningError
from ..._io import command, textfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: By program, the package of Debian and Ubuntu that brings it. Of a compiler there may be another one.
PACKAGES = {"cmake": "cmake", "c++": "g++", "make": "make"}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
OFF = ("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND")
#: $0: a folder that is locked until the last process of the step has ended; $1: the log; then the command. Nobody
#: else's variables, such as CXXFLAGS, take part in a build.
STEP = f"""
lock=$0 log=$1
shift
exec nice flock "$lock" env -i PATH={command.PATH} LC_ALL=C "$@" >>"$log" 2>&1
"""


def rendered(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options as cmake takes them. BadRequest for a name or a value that is none."""
    texts = {}
    for name, value in options.items():
        if not NAME.fullmatch(str(name)):
            raise BadRequest(f"cmake_options: '{name}' is no name of an option; say it without -D, as GGML_NATIVE.")
        text = ("ON" if value else "OFF") if isinstance(value, bool) else str(value)
        if value is None or isinstance(value, (dict, list)) or not text.isprintable():
            raise BadRequest(
                f"cmake_options: {name} has no value that cmake takes; say true, false, a number or words."
            )
        texts[str(name)] = text
    return texts


def is_on(text: str) -> bool:
    """Return whether cmake takes a value as true."""
    return text.upper() not in OFF and not text.upper().endswith("-NOTFOUND")


class Cmake:
    """The steps of a build. What they say goes to a log, where it can be watched."""

    def __init__(self, options: Mapping[str, str]) -> None:
        programs = {**dict.fromkeys(PACKAGES), "c++": options.get("CMAKE_CXX_COMPILER")}
        missing = [name for name, own in programs.items() if not shutil.which(own or name, path=command.PATH)]
        if missing:
            packages = " ".join(PACKAGES[name] for name in missing)
            raise BadRequest(
                f"{' and '.join(programs[name] or name for name in missing)} cannot be found on the host. "
                f"Install it: on Debian and Ubuntu with 'apt install {packages}'."
            )
        self.compiler = command.run_command([programs["c++"] or "c++", "--version"]).partition("\n")[0].strip()
        self._lock = self._log = ""

    def begin(self, lock: str, log: str) -> None:
        """Say where the build is and what takes its log."""
        self._lock, self._log = lock, log

    def configure(self, source: str, build: str, options: Mapping[str, str]) -> None:
        """Let cmake look at the sources and the host."""
        self._step("Configuring", ["-S", source, "-B", build, *(f"-D{name}={text}" for name, text in options.items())])

    def targets(self, build: str) -> list[str]:
        """Return all words of the list of targets."""
        return command.run_command(["cmake", "--build", build, "--target", "help"]).replace(":", " ").split()

    def build(self, build: str, targets: Sequence[str], jobs: int) -> None:
        """Compile."""
        self._step("Building", ["--build", build, "--target", *targets, "-j", str(jobs)])

    def _step(self, what: str, arguments: Sequence[str]) -> None:
        done = command.try_command(["sh", "-c", STEP, self._lock, self._log, "cmake", *arguments])
        if done.code != 0:
            said = textfile.read_text(self._log) or done.err
            reason = first_error(said).replace(f"{self._lock}/", "")
            raise TuningError(f"{what} llama.cpp failed: {reason} All that was said is in {self._log}.", log=self._log)


def first_error(log: str) -> str:
    """Return the first error in what compilers and cmake say, or their last line where none is named."""
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["nothing was said"]
    first = lines[-1]
    for number, line in enumerate(lines):
        if "error:" in line or line.startswith("CMake Error"):
            first = line if "error:" in line else " ".join(lines[number : number + 2])
            break
    return f"{first.rstrip('.')}."
