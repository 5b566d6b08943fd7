# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs cmake with a C++ compiler: requires both programs, builds targets, and finds the error in the output."""

from __future__ import annotations

import re
import shutil

from ..._errors import BadRequest, TuningError
from ..._io import command, textfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: The packages of the required programs on Debian and Ubuntu. The option CMAKE_CXX_COMPILER may replace c++.
PACKAGES = {"cmake": "cmake", "c++": "g++", "make": "make"}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
OFF = ("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND")
#: The shell script of a step. $0 is a folder that stays locked until the last process of the step has ended, $1 is the
#: log, and the other arguments are the command. Environment variables, such as CXXFLAGS, do not reach a build.
STEP = f"""
lock=$0 log=$1
shift
exec nice flock "$lock" env -i PATH={command.PATH} LC_ALL=C "$@" >>"$log" 2>&1
"""


def parse_cmake_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Return cmake options as texts; BadRequest for a name or a value that cmake does not take."""
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


def is_true_for_cmake(text: str) -> bool:
    """Return whether cmake counts the text of an option as true."""
    return text.upper() not in OFF and not text.upper().endswith("-NOTFOUND")


class Cmake:
    """The steps of a build with cmake. The output of each step goes to a log, which can be watched meanwhile."""

    def __init__(self, options: Mapping[str, str]) -> None:
        programs = {**dict.fromkeys(PACKAGES), "c++": options.get("CMAKE_CXX_COMPILER")}
        missing = [name for name, path in programs.items() if not shutil.which(path or name, path=command.PATH)]
        if missing:
            packages = " ".join(PACKAGES[name] for name in missing)
            raise BadRequest(
                f"{' and '.join(programs[name] or name for name in missing)} cannot be found on the host. "
                f"Install it: on Debian and Ubuntu with 'apt install {packages}'."
            )
        self.compiler = command.run_command([programs["c++"] or "c++", "--version"]).partition("\n")[0].strip()
        self._lock = self._log = ""

    def set_lock_and_log(self, lock: str, log: str) -> None:
        """Set the folder that the steps lock, and the log for their output."""
        self._lock, self._log = lock, log

    def configure(self, source: str, build: str, options: Mapping[str, str]) -> None:
        """Run the configure step of cmake for the sources in a folder, and with these options."""
        self._run_step(
            "Configuring", ["-S", source, "-B", build, *(f"-D{name}={text}" for name, text in options.items())]
        )

    def list_words_of_target_list(self, build: str) -> list[str]:
        """Return the words in cmake's list of targets, which include the names of all targets."""
        return command.run_command(["cmake", "--build", build, "--target", "help"]).replace(":", " ").split()

    def build_targets(self, build: str, targets: Sequence[str], jobs: int) -> None:
        """Build targets with ``jobs`` compilers at once."""
        self._run_step("Building", ["--build", build, "--target", *targets, "-j", str(jobs)])

    def _run_step(self, step: str, arguments: Sequence[str]) -> None:
        done = command.try_command(["sh", "-c", STEP, self._lock, self._log, "cmake", *arguments])
        if done.code != 0:
            log_text = textfile.read_text(self._log) or done.err
            reason = find_first_error_or_last_line(log_text).replace(f"{self._lock}/", "")
            raise TuningError(f"{step} llama.cpp failed: {reason} The whole output is in {self._log}.", log=self._log)


def find_first_error_or_last_line(log: str) -> str:
    """Return the first error in the output of compilers and cmake, or the last line of an output without an error."""
    lines = [line.strip() for line in log.splitlines() if line.strip()] or ["there was no output"]
    first = lines[-1]
    for number, line in enumerate(lines):
        if "error:" in line or line.startswith("CMake Error"):
            first = line if "error:" in line else " ".join(lines[number : number + 2])
            break
    return f"{first.rstrip('.')}."
