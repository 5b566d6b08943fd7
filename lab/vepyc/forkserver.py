# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest and executes Python programs there, each in a process of its own that is forked from this one.

On an emulated processor it takes seconds to start Python and to import what every module needs; here both happen once.
Requests and answers are lines of JSON, on the standard input and output, or with --socket on each connection to the
socket that is the standard input. There the programs are what Ansible sends to a Python that it starts (ssh.py), and
what such a program brings of Ansible's own modules is imported once for all that bring the same.
"""

from __future__ import annotations

import base64
import gc
import importlib
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, TextIO

# Of Python's own modules, those that a module of Ansible imports and that do not import each other.
_PRELOADED = """\
argparse base64 ctypes dataclasses datetime decimal encodings.idna gettext glob grp hashlib locale logging platform pwd
random runpy selectors shlex syslog tempfile textwrap urllib.parse zipfile
"""

# What the modules of Ansible import of Ansible itself, with all that these import: four fifths of their time here.
_OF_ANSIBLE = ("ansible.module_utils.basic", "ansible.module_utils._internal._ansiballz._loader")
_ARCHIVE = "/run/vepyc-ansible.zip"
_PATIENCE = 60.0


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
    library = _Library()
    while True:
        connection = listener.accept()[0]
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        connection.settimeout(_PATIENCE)
        with suppress(OSError), connection, connection.makefile("r") as requests, connection.makefile("w") as answers:
            print(json.dumps("ready"), file=answers, flush=True)
            line = requests.readline()
            if not line:
                continue
            request = json.loads(line)
            library.learn(request)
            if os.fork() == 0:
                listener.close()
                os.setsid()
                library.keep(request)
                _answer_one(request, answers)
                return


class _Library:
    """Ansible's own modules, as the first program brought them."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # what is imported, as an archive names it, with its checksum there

    def learn(self, request: dict[str, Any]) -> None:
        """Import what a program brings, unless another one did."""
        if self._files or not request["files"]:
            return
        with open(_ARCHIVE, "wb") as archive:
            archive.write(base64.b64decode(request["program"][slice(*request["archive"])]))
        sys.path.insert(0, _ARCHIVE)
        for name in _OF_ANSIBLE:
            with suppress(ImportError):  # an older Ansible has other names
                importlib.import_module(name)
        sys.path.remove(_ARCHIVE)
        files = [str(module.__file__).removeprefix(f"{_ARCHIVE}/") for module in self._imported().values()]
        self._files = {file: request["files"][file] for file in files}
        gc.freeze()

    def keep(self, request: dict[str, Any]) -> None:
        """Make this process one whose program finds all that it brings, and nothing else."""
        same = all(request["files"].get(file) == checksum for file, checksum in self._files.items())
        for name, module in self._imported().items():
            if not same:
                del sys.modules[name]
            elif hasattr(module, "__path__"):
                module.__path__ = _Path(name)  # type: ignore[assignment]

    def _imported(self) -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "ansible"}


class _Path:
    """Where a package has its modules: in the archive that its program puts into sys.path when it runs."""

    def __init__(self, package: str) -> None:
        self._folder = package.replace(".", "/")

    def __iter__(self) -> Iterator[str]:
        return (f"{place}/{self._folder}" for place in sys.path if place.endswith(".zip"))


def _answer(requests: TextIO, answers: TextIO) -> None:
    for line in requests:
        _answer_one(json.loads(line), answers)


def _answer_one(request: dict[str, Any], answers: TextIO) -> None:
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
