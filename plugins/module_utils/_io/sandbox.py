# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a program that may be hostile or broken behind the walls of a unit, never as root.

The unit is there for the moment only. For the trial of a server it has the very settings of the real one: its user, its
view of the files, its system calls. So what it cannot read or run, the real one cannot either, and that is known before
a running server is stopped. It is made of a file in /run, and not by systemd-run(1), which needs D-Bus to bring an
answer back.
Source: systemd.service(5); systemd.exec(5), "Process exit codes".
"""

from __future__ import annotations

import itertools
import os
import tempfile
from contextlib import contextmanager, suppress

from .._errors import TuningError
from .._notation import unit_syntax
from . import command, textfile
from .command import CommandResult
from .path_visibility import folders_to_show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional

    #: Lines of the section [Service]. None: without walls, for tools that measure builds of their own.
    Hardening = Optional[Sequence[str]]

#: What every one of our services is denied. It keeps the calls by which threads choose their CPUs, and no others of
#: @resources; /proc/meminfo must be there, where glibc reads the size of huge pages.
HARDENING = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "ProtectSystem=strict",
    "ProtectHome=tmpfs",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "DevicePolicy=closed",
    "PrivateUsers=yes",
    "PrivateIPC=yes",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "ProtectProc=invisible",
    "RestrictAddressFamilies=AF_INET AF_INET6",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "RemoveIPC=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "KeyringMode=private",
    "UMask=0077",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged @resources",
    "SystemCallFilter=sched_setaffinity",
    "SystemCallErrorNumber=EPERM",
)
#: Where units are that are there for the moment only; it is not there where systemd has not booted the host.
RUNTIME_UNIT_FOLDER = "/run/systemd/system"
#: What systemd and we share beside: /tmp may be another one for it.
RUNTIME_FOLDER = "/run"
#: Beyond the time that a program has, so that systemd's own end comes first.
MARGIN = 30
PROPERTIES = "Result,ExecMainCode,ExecMainStatus"
#: ExecMainCode, as si_code of waitid(2), of a program that ended by itself.
EXITED = "1"
#: What systemd says of a program that never began, and the one of them that is about its file.
NOT_BEGUN, NOT_EXECUTED = range(200, 246), 203
#: What it writes lies in memory, so that it shall not write without end.
LIMITS = ("TimeoutStopSec=5", "LimitCORE=0", "LimitFSIZE=16M", "Environment=LC_ALL=C")
_numbers = itertools.count(1)


def run_in_sandbox(hardening: Hardening, command_line: Sequence[str], timeout: float | None) -> CommandResult:
    """Run a program to its end behind the walls; a failure of it is an answer too.

    TuningError when it had to be stopped after ``seconds``, or when systemd cannot raise the walls here. With None it
    may take as long as it wants.
    """
    if hardening is None:
        return command.try_command(command_line, timeout)
    with make_trial_folder(hardening) as folder:
        out, err = (os.path.join(folder, name) for name in ("out", "err"))
        with _transient_unit(
            hardening, command_line, timeout, {"Input": "null", "Output": f"file:{out}", "Error": f"file:{err}"}
        ) as name:
            started = command.try_command(["systemctl", "start", name], None if timeout is None else timeout + MARGIN)
            code = 0 if started.code == 0 else _read_exit_code(name, command_line, timeout, started.err)
        return CommandResult(code, textfile.read_text(out) or "", textfile.read_text(err) or "")


class SandboxedProcess:
    """A program that runs behind the walls; ``code`` is how it ended, None while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.code: int | None = None

    def has_ended(self) -> bool:
        """Return whether it has ended."""
        return self.process.poll() is not None


@contextmanager
def start_in_sandbox(
    hardening: Hardening, command_line: Sequence[str], timeout: float, input_path: str, log_path: str
) -> Iterator[SandboxedProcess]:
    """Run a program behind the walls until the block ends, with these files as its standard input and its log.

    TuningError behind the block when systemd cannot raise the walls here.
    """
    # Imported here because most runs of the engine start no server.
    import subprocess

    stdio = {"Input": f"file:{input_path}", "Output": f"append:{log_path}", "Error": "inherit"}
    with (
        _transient_unit(hardening, command_line, timeout, stdio) as name,
        open(input_path, "rb") as given,
        open(log_path, "ab") as said,
    ):
        # The engine runs on the host without Ansible too, so it has no run_command to call.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            command_line if hardening is None else ["systemctl", "start", name],
            env={**os.environ, "PATH": command.PATH, "LC_ALL": "C"},
            stdin=given,
            stdout=said if hardening is None else subprocess.DEVNULL,
            stderr=said if hardening is None else subprocess.DEVNULL,
        )
        one = SandboxedProcess(process)
        try:
            yield one
        finally:
            if not one.has_ended():
                if hardening is None:
                    process.kill()
                else:
                    with suppress(TuningError):  # It has just ended by itself.
                        command.run_command(["systemctl", "kill", "--signal=KILL", name])
            process.wait()
        one.code = (
            process.returncode
            if hardening is None or process.returncode == 0
            else _read_exit_code(name, command_line, timeout, "")
        )


@contextmanager
def make_trial_folder(hardening: Hardening) -> Iterator[str]:
    """Make a folder for what goes into a trial and comes out, which only root can enter."""
    with tempfile.TemporaryDirectory(
        prefix="sovereign-epyc-", dir=None if hardening is None else RUNTIME_FOLDER
    ) as folder:
        yield folder


def visible_folder_settings(paths: Iterable[str]) -> list[str]:
    """Return the settings that show the folders of files that HARDENING hides, read-only."""
    return [f"BindReadOnlyPaths={_quote_path(folder)}" for folder in folders_to_show(paths)]


def writable_folder_settings(path: str, shown_path: str) -> list[str]:
    """Return the settings that show a folder at another path, where the program may write into it."""
    return [f"BindPaths={_quote_path(path)}:{_quote_path(shown_path)}"]


def _quote_path(path: str) -> str:
    """Return a path as it stands in BindPaths= and its like, where a colon begins the next path."""
    return unit_syntax.quote_word(path, escape_variables=False).replace(":", "\\:")


@contextmanager
def _transient_unit(
    hardening: Hardening, command_line: Sequence[str], timeout: float | None, stdio: dict[str, str]
) -> Iterator[str]:
    """Have systemd know a unit that runs a program once, and yield its name; the program ends with the block."""
    name = f"sovereign-epyc-try-{os.getpid()}-{next(_numbers)}.service"
    if hardening is None:
        yield name
        return
    if not os.path.isdir(RUNTIME_UNIT_FOLDER):
        raise TuningError(
            f"There is no {RUNTIME_UNIT_FOLDER}: this host was not booted with systemd, and instances need it."
        )
    lines = [
        "[Unit]\nDescription=A program of llama.cpp, run once behind walls\n\n[Service]\nType=oneshot",
        *(f"Standard{kind}={value}" for kind, value in stdio.items()),
        f"ExecStart={unit_syntax.format_command_line(command_line[0], command_line[1:])}",
        f"TimeoutStartSec={'infinity' if timeout is None else format(timeout, 'g')}",
        *LIMITS,
        *hardening,
    ]
    path = os.path.join(RUNTIME_UNIT_FOLDER, name)
    textfile.write_file(path, "\n".join([*lines, ""]))
    try:
        yield name
    except BaseException:
        with suppress(TuningError):
            command.run_command(["systemctl", "stop", name])
        raise
    finally:
        textfile.remove_file(path)
        with suppress(TuningError):  # Of one that did not fail there is nothing to forget.
            command.run_command(["systemctl", "reset-failed", name])


def _read_exit_code(name: str, command_line: Sequence[str], timeout: float | None, systemd_message: str) -> int:
    """Return how a program of a unit that failed ended, negative for a signal; TuningError when it is not known."""
    rows = command.run_command(["systemctl", "show", f"--property={PROPERTIES}", name]).splitlines()
    found = dict(row.partition("=")[::2] for row in rows)
    status = int(found.get("ExecMainStatus") or 0)
    if found.get("Result") == "timeout":
        raise TuningError(
            f"'{' '.join(command_line[:2])}' had not ended after {timeout or 0:g} seconds, and was stopped."
        )
    if status and found.get("ExecMainCode") != EXITED:
        return -status
    if status == NOT_EXECUTED:
        raise TuningError(
            f"{command_line[0]} cannot be executed behind the walls of its unit (203/EXEC). Its user may not enter a "
            "folder on the way to it, or not execute it, or it is not for this machine. Change its mode, or take "
            "another."
        )
    if status and status not in NOT_BEGUN:
        return status
    why = (
        f"exit code {status}, see systemd.exec(5)" if status else " ".join(systemd_message.split()) or "it says nothing"
    )
    raise TuningError(
        f"systemd cannot raise the walls of the unit, to try {command_line[0]} behind them: {why}. Look at user and at "
        f"unit_settings; 'journalctl -u {name}' may say more."
    )
