# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest and executes Python programs there, each in a process of its own that is forked from this one.

On an emulated processor it takes seconds to start Python and to import what every module needs; here both happen once.
Requests and answers are lines of JSON, on the standard input and output, or with --socket on each connection to the
socket that is the standard input. There the programs are what Ansible sends to a Python that it starts (ssh.py).
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
from contextlib import suppress
from types import ModuleType
from typing import Any, TextIO

# Of Python's own modules, those that a module of Ansible imports and that do not import each other.
_PRELOADED = """\
argparse base64 ctypes dataclasses datetime decimal encodings.idna gettext glob grp hashlib locale logging platform pwd
random runpy selectors shlex syslog tempfile textwrap urllib.parse zipfile
"""


def main() -> None:
    if sys.argv[1:] == ["--socket"]:
        for name in _PRELOADED.split():
            importlib.import_module(name)
        gc.freeze()  # or else a collection in each process writes to all that these have in common
        _serve(socket.socket(fileno=os.dup(0)))
    else:
        _answer(sys.stdin, sys.stdout)


def _serve(listener: socket.socket) -> None:
    """Answer each connection in a process of its own, so that one program does not wait for another's end."""
    while True:
        connection = listener.accept()[0]
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        if os.fork() == 0:
            listener.close()
            os.setsid()
            with connection.makefile("r") as requests, connection.makefile("w") as answers:
                print(json.dumps("ready"), file=answers, flush=True)
                _answer(requests, answers)
            return
        connection.close()


def _answer(requests: TextIO, answers: TextIO) -> None:
    for line in requests:
        request = json.loads(line)
        for name in request["imports"]:
            importlib.import_module(name)
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        child = os.fork()
        if child == 0:
            _execute(request, output, errors)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # Of a program that a signal ended, a shell tells this number.
        answer = {"code": code if code >= 0 else 128 - code, "output": _content(output), "errors": _content(errors)}
        print(json.dumps(answer), file=answers, flush=True)


def _execute(request: dict[str, Any], output: int, errors: int) -> None:
    """Become the process of one program, and never return. ``parameters`` are those of a module, or nothing."""
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    if request["parameters"] is not None:
        basic: Any = importlib.import_module("ansible.module_utils.basic")
        basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = json.dumps(request["parameters"]).encode(), "legacy"
    # As if this Python had just been started to read its program from the standard input.
    sys.argv, sys.path[0] = [""], ""
    sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(request["program"], "<stdin>", "exec"), vars(sys.modules["__main__"]))
    sys.exit()


def _content(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, errors="surrogateescape") as stream:
        return stream.read()


if __name__ == "__main__":
    main()
