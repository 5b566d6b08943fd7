# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs other programs, such as systemctl, update-grub and grubby; never one per CPU or interrupt."""

from __future__ import annotations

import os

from .._errors import Absent, TuningError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The folders of programs for administrators; the caller's environment may lack some of them.
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class CommandResult:
    """The exit code and the output of a command; ``code`` is the negative number of the signal that ended it."""

    __slots__ = ("code", "err", "out")

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


def run_command(command: Sequence[str]) -> str:
    """Run a command to its end and return its output; TuningError with its last lines where it fails."""
    done = try_command(command)
    if done.code != 0:
        words = " ".join((done.err.strip() or done.out.strip()).splitlines()[-5:]) or "nothing"
        raise TuningError(f"'{_shorten_command(command)}' failed with exit code {done.code}. It says: {words}")
    return done.out


def try_command(command: Sequence[str], timeout: float | None = None) -> CommandResult:
    """Run a command and return its result, also where it fails; TuningError where it exceeds ``timeout`` seconds."""
    # Imported here because most runs start no other program, and the import takes several milliseconds.
    import subprocess

    try:
        # The library runs on the host without Ansible too, so it has no run_command to call.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(command),
            env={**os.environ, "PATH": PATH, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise Absent(f"Cannot run '{_shorten_command(command)}': there is no {command[0]} in {PATH}.") from None
    except OSError as error:
        raise TuningError(f"Cannot run '{_shorten_command(command)}': {os.strerror(error.errno or 0)}.") from None
    except subprocess.TimeoutExpired:
        raise TuningError(
            f"'{_shorten_command(command)}' had not ended after {timeout:.0f} seconds, and was stopped."
        ) from None
    return CommandResult(done.returncode, done.stdout, done.stderr)


def _shorten_command(command: Sequence[str]) -> str:
    return " ".join(word if len(word) < 80 else f"{word[:60]}..." for word in command[:4])
