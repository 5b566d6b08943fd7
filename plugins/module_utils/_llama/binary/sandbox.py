# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a program that may be hostile or broken behind the walls of the unit that will run it, never as root.

A transient unit of systemd has the very settings of the real one: its user, its view of the files, its system calls. So
what it cannot read or run there, the real one cannot either, and that is known before a running server is stopped.
Source: systemd-run(1), timeout(1).
"""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager, suppress

from ..._errors import TuningError
from ..._io import command
from ..._io.command import Done

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from typing import Optional

    #: Lines of the section [Service]. None: without walls, for tools that measure builds of their own.
    Walls = Optional[Sequence[str]]

#: The shell says that it has begun, so that what systemd says for itself is known, and makes 128 and its number of a
#: signal, which to systemd-run is a 1.
BEGUN = "sovereign-epyc: behind the walls"
SHELL = ("/bin/sh", "-c", 'echo "$0" >&2; "$@"; exit $?', BEGUN)
#: What timeout(1) says of a program that it ended, by its first and by its second signal.
ENDED = (124, 137)
LIMITS = ("LimitCORE=0", "TimeoutStopSec=5", "Environment=LC_ALL=C")
_numbers = itertools.count(1)


def attempt(walls: Walls, words: Sequence[str], seconds: float) -> Done:
    """Run a program to its end behind the walls; a failure of it is an answer too. A signal is 128 and its number.

    TuningError when it had to be stopped after ``seconds``, or when systemd cannot raise the walls here.
    """
    # systemd itself may not answer, and then nothing else would end this.
    done = command.attempt([*around(walls, _name(), seconds), *within(words, seconds)], seconds + 30)
    err = after_begin(done.err)
    if done.code in ENDED:
        raise TuningError(f"'{' '.join(words[:2])}' had not ended after {seconds:g} seconds, and was stopped.")
    return Done(done.code, done.out, err)


@contextmanager
def running(
    walls: Walls, words: Sequence[str], seconds: float, source: int, log: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program behind the walls until the block ends, with these file descriptors as its input and its log."""
    # Imported here because most runs of the engine start no server.
    import subprocess

    name = _name()
    # The engine runs on the host without Ansible too, so it has no run_command to call.
    process = subprocess.Popen(  # pylint: disable=ansible-bad-function
        [*around(walls, name, seconds), *within(words, seconds)],
        env={**os.environ, "PATH": command.PATH},
        stdin=source,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            if walls is None:
                os.killpg(process.pid, 9)
            else:
                with suppress(TuningError):  # It has just ended by itself.
                    command.run(["systemctl", "kill", "--signal=KILL", name])
        process.wait()


def within(words: Sequence[str], seconds: float) -> list[str]:
    """Return the command that runs a program for so long at most, and keeps the signal that ended it."""
    return [*SHELL, "/usr/bin/timeout", "--foreground", "--kill-after=2", str(seconds), *words]


def around(walls: Walls, name: str, seconds: float) -> list[str]:
    """Return the command that runs another one behind the walls, with its own standard input and output."""
    if walls is None:
        return []
    lines = [*LIMITS, f"RuntimeMaxSec={seconds + 10}", *walls]
    # Over the bus there are no specifiers, so that a percent sign is itself.
    properties = [f"--property={line.replace('%%', '%')}" for line in lines]
    return ["systemd-run", "--quiet", "--collect", "--wait", "--pipe", f"--unit={name}", *properties, "--"]


def after_begin(said: str) -> str:
    """Return what a program said itself. TuningError when it never began, because systemd could not raise the walls."""
    before, begun, after = said.partition(f"{BEGUN}\n")
    if not begun:
        words = " ".join(before.split()) or "nothing; its journal may say more"
        raise TuningError(
            "systemd cannot try the server behind the walls of its unit (systemd-run). Look at user and unit_settings. "
            f"It says {words}"
        )
    return after


def _name() -> str:
    return f"sovereign-epyc-try-{os.getpid()}-{next(_numbers)}.service"
