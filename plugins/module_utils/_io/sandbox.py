# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a program that may be hostile or broken in a hardened transient unit, never as root.

In the trial of a server, the transient unit has the settings of the real unit: its user, its view of files, its system
calls. So a server that cannot read or execute a file fails in the trial, before a running server is stopped. The unit
is a file in /run, because systemd-run(1) needs D-Bus to return a result. Source: systemd.service(5); systemd.exec(5),
"Process exit codes".
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
from .path_visibility import hidden_folders_to_show

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Optional

    #: Lines of the section [Service]; None for no sandbox, as in tools that run their own builds.
    Hardening = Optional[Sequence[str]]

#: The restrictions of all services of the collection. Of the system calls in @resources only sched_setaffinity is
#: allowed, by which threads choose their CPUs. /proc/meminfo stays visible, because glibc reads the size of huge pages
#: there.
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
#: What no program of root needs that the collection runs in a unit of its own.
ROOT_HARDENING = (
    "NoNewPrivileges=yes",
    "KeyringMode=private",
    "LockPersonality=yes",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "SystemCallArchitectures=native",
)
#: The restrictions of a service of root that reads the host and its servers, and changes nothing but files of its own.
#: It asks systemd through a socket, and reads processes of other users and MSRs. A path below /home may hold a model.
#: Each setting is one that systemd-run(1) of systemd 247 takes, too.
ROOT_READER_HARDENING = (
    *ROOT_HARDENING,
    "CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_SYS_PTRACE CAP_SYS_RAWIO",
    "ProtectHome=read-only",
    "PrivateTmp=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
    "MemoryDenyWriteExecute=yes",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
    "SystemCallFilter=@system-service",
)
#: The restrictions of a service of root that changes settings of the kernel. Its mounts are those of the host, so it
#: can have no view of files of its own; it hears the kernel by netlink, and needs no other network.
ROOT_WRITER_HARDENING = (
    *ROOT_HARDENING,
    "CapabilityBoundingSet=~CAP_AUDIT_CONTROL CAP_AUDIT_READ CAP_AUDIT_WRITE CAP_BLOCK_SUSPEND CAP_BPF CAP_IPC_OWNER",
    "CapabilityBoundingSet=~CAP_LEASE CAP_LINUX_IMMUTABLE CAP_MAC_ADMIN CAP_MAC_OVERRIDE CAP_MKNOD CAP_NET_RAW",
    "CapabilityBoundingSet=~CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_SETFCAP CAP_SETGID CAP_SETPCAP CAP_SETUID",
    "CapabilityBoundingSet=~CAP_SYS_BOOT CAP_SYS_CHROOT CAP_SYS_PACCT CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_SYSLOG",
    "CapabilityBoundingSet=~CAP_WAKE_ALARM",
    "IPAddressDeny=any",
    "RestrictAddressFamilies=AF_UNIX AF_NETLINK",
    "SystemCallFilter=~@clock @cpu-emulation @debug @keyring @obsolete @reboot @swap",
)
#: The folder of transient units; it is missing on a host that was not booted by systemd.
RUNTIME_UNIT_FOLDER = "/run/systemd/system"
#: A folder that systemd and this process share; /tmp may be private to this process.
RUNTIME_FOLDER = "/run"
#: Seconds that systemctl may take longer than the program, so that the timeout of systemd expires first.
MARGIN = 30
PROPERTIES = "Result,ExecMainCode,ExecMainStatus"
#: The ExecMainCode (si_code of waitid(2)) of a program that was not ended by a signal.
EXITED = "1"
#: Exit codes of systemd for a program that could not be started, and the exit code for a file that cannot be executed.
NOT_BEGUN, NOT_EXECUTED = range(200, 246), 203
#: Limits of each transient unit; its output is a file in memory, so its size is limited. A program that fails in a
#: trial is no failure of the host, so systemd writes no error into the journal; the caller reports the failure.
LIMITS = ("TimeoutStopSec=5", "LimitCORE=0", "LimitFSIZE=16M", "LogLevelMax=emerg", "Environment=LC_ALL=C")
_numbers = itertools.count(1)


def run_in_sandbox(hardening: Hardening, command_line: Sequence[str], timeout: float | None) -> CommandResult:
    """Run a program to its end in a sandbox, and return its result, also where it fails.

    TuningError where it exceeds ``timeout`` seconds (None: no limit), or where systemd cannot make the sandbox.
    """
    if hardening is None:
        return command.try_command(command_line, timeout)
    with make_trial_folder(hardening) as folder:
        out, err = (os.path.join(folder, name) for name in ("out", "err"))
        with _temporary_unit(
            hardening, command_line, timeout, {"Input": "null", "Output": f"file:{out}", "Error": f"file:{err}"}
        ) as name:
            started = command.try_command(["systemctl", "start", name], None if timeout is None else timeout + MARGIN)
            code = 0 if started.code == 0 else _read_exit_code(name, command_line, timeout, started.err)
        return CommandResult(code, textfile.read_text(out) or "", textfile.read_text(err) or "")


class SandboxedProcess:
    """A program that runs in a sandbox; ``code`` is its exit code, None while it runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.code: int | None = None

    def has_ended(self) -> bool:
        """Return whether the program has ended."""
        return self.process.poll() is not None


@contextmanager
def start_in_sandbox(
    hardening: Hardening, command_line: Sequence[str], timeout: float, input_path: str, log_path: str
) -> Iterator[SandboxedProcess]:
    """Run a program in a sandbox until the block ends, with these files as its standard input and its log.

    TuningError at the end of the block where systemd could not make the sandbox.
    """
    # Imported here because most runs of the library start no server.
    import subprocess

    stdio = {"Input": f"file:{input_path}", "Output": f"append:{log_path}", "Error": "inherit"}
    with (
        _temporary_unit(hardening, command_line, timeout, stdio) as name,
        open(input_path, "rb") as input_file,
        open(log_path, "ab") as log,
    ):
        # The library runs on the host without Ansible too, so it has no run_command to call.
        process = subprocess.Popen(  # pylint: disable=ansible-bad-function
            command_line if hardening is None else ["systemctl", "start", name],
            env={**os.environ, "PATH": command.PATH, "LC_ALL": "C"},
            stdin=input_file,
            stdout=log if hardening is None else subprocess.DEVNULL,
            stderr=log if hardening is None else subprocess.DEVNULL,
        )
        sandboxed = SandboxedProcess(process)
        try:
            yield sandboxed
        finally:
            if not sandboxed.has_ended():
                if hardening is None:
                    process.kill()
                else:
                    with suppress(TuningError):  # The program may have ended meanwhile.
                        command.run_command(["systemctl", "kill", "--signal=KILL", name])
            process.wait()
        sandboxed.code = (
            process.returncode
            if hardening is None or process.returncode == 0
            else _read_exit_code(name, command_line, timeout, "")
        )


@contextmanager
def make_trial_folder(hardening: Hardening) -> Iterator[str]:
    """Make a folder for the input and output of a trial during the block; only root can enter it."""
    with tempfile.TemporaryDirectory(
        prefix="sovereign-epyc-", dir=None if hardening is None else RUNTIME_FOLDER
    ) as folder:
        yield folder


def visible_folder_settings(paths: Iterable[str]) -> list[str]:
    """Return unit settings that make the folders of files visible, read-only, where HARDENING hides them."""
    return [f"BindReadOnlyPaths={_quote_path(folder)}" for folder in hidden_folders_to_show(paths)]


def writable_folder_settings(path: str, shown_path: str) -> list[str]:
    """Return unit settings that make a folder visible and writable at another path."""
    return [f"BindPaths={_quote_path(path)}:{_quote_path(shown_path)}"]


def _quote_path(path: str) -> str:
    """Return a path quoted for BindPaths= and similar settings, with escaped colons."""
    return unit_syntax.quote_unit_word(path, escape_variables=False).replace(":", "\\:")


@contextmanager
def _temporary_unit(
    hardening: Hardening, command_line: Sequence[str], timeout: float | None, stdio: dict[str, str]
) -> Iterator[str]:
    """Write a unit that runs a program once, and yield its name; the unit is removed at the end of the block."""
    name = f"sovereign-epyc-try-{os.getpid()}-{next(_numbers)}.service"
    if hardening is None:
        yield name
        return
    if not os.path.isdir(RUNTIME_UNIT_FOLDER):
        raise TuningError(
            f"There is no {RUNTIME_UNIT_FOLDER}: this host was not booted with systemd, and instances need it."
        )
    lines = [
        "[Unit]\nDescription=A program of llama.cpp, tried once; its failure does no harm\n\n[Service]\nType=oneshot",
        *(f"Standard{kind}={value}" for kind, value in stdio.items()),
        f"ExecStart={unit_syntax.format_unit_command_line(command_line[0], command_line[1:])}",
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
        with suppress(TuningError):  # A unit that did not fail has no failed state to reset.
            command.run_command(["systemctl", "reset-failed", name])


def _read_exit_code(name: str, command_line: Sequence[str], timeout: float | None, systemd_message: str) -> int:
    """Return the exit code of the program of a failed unit, negative for a signal; TuningError where it is unknown."""
    rows = command.run_command(["systemctl", "show", f"--property={PROPERTIES}", name]).splitlines()
    properties = dict(row.partition("=")[::2] for row in rows)
    status = int(properties.get("ExecMainStatus") or 0)
    if properties.get("Result") == "timeout":
        raise TuningError(
            f"'{' '.join(command_line[:2])}' had not ended after {timeout or 0:g} seconds, and was stopped."
        )
    if status and properties.get("ExecMainCode") != EXITED:
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
        "unit_settings."
    )
