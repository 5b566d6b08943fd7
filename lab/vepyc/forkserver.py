# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest and executes Python programs there, each in a process of its own that is forked from this one.

On an emulated processor it takes seconds to start Python and to import what every module needs; here both happen once.
Requests and answers are lines of JSON, on the standard input and output, or with --socket on each connection to the
socket that is the standard input. There the programs are what Ansible sends to a Python that it starts (ssh.py), and
what modules import of such a program's archive is imported once for all that bring the same.
"""

from __future__ import annotations

import atexit
import base64
import gc
import importlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, NoReturn, TextIO

# Of Python's own modules, those that a module of Ansible imports and that do not import each other.
_PRELOADED = """\
argparse base64 ctypes dataclasses datetime decimal encodings.idna gettext glob grp hashlib locale logging platform pwd
random runpy selectors shlex syslog tempfile textwrap urllib.parse zipfile
"""

# What every module imports of Ansible itself, with all that these import: four fifths of its time here.
_OF_ANSIBLE = ("ansible.module_utils.basic", "ansible.module_utils._internal._ansiballz._loader")
_UTILITIES = "/plugins/module_utils/"
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
        request = _request(connection)
        if request:
            library.learn(request)
            if os.fork() == 0:
                listener.close()
                os.setsid()
                library.keep(request)
                with connection.makefile("w") as answers:
                    _answer_one(request, answers)
                os._exit(0)
        connection.close()


def _request(connection: socket.socket) -> dict[str, Any] | None:
    """What somebody asks for who has connected; nothing, if it was only to see that this is here."""
    connection.settimeout(_PATIENCE)
    with suppress(OSError), connection.makefile("rw") as stream:
        print(json.dumps("ready"), file=stream, flush=True)
        line = stream.readline()
        connection.settimeout(None)
        return dict(json.loads(line)) if line else None
    return None


class _Library:
    """Modules that programs brought, Ansible's own and those of collections, imported once."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # of what is imported, as archives name it, with its checksum there
        self._tried: set[str] = set()  # an older Ansible lacks a name
        self._hidden: list[ModuleType] = []  # freed, they would be written to, and their memory copied

    def learn(self, request: dict[str, Any]) -> None:
        """Import what a program brings and no program before it did."""
        brought = request["files"]
        utilities = [_name(file) for file in brought if file.startswith("ansible_collections/") and _UTILITIES in file]
        new = [name for name in (*_OF_ANSIBLE, *utilities) if name not in self._tried]
        if not brought or not new or self._differs(brought):
            return
        with tempfile.NamedTemporaryFile(suffix=".zip", dir="/run") as archive:
            archive.write(base64.b64decode(request["program"][slice(*request["archive"])]))
            archive.flush()
            sys.path.insert(0, archive.name)
            self._look_in_archives()
            for name in new:
                with suppress(ImportError):
                    importlib.import_module(name)
                self._tried.add(name)
            sys.path.remove(archive.name)
        names = {_name(file): file for file in brought}
        self._files.update({names[name]: brought[names[name]] for name in _imported() if name in names})
        gc.freeze()

    def keep(self, request: dict[str, Any]) -> None:
        """Make this process one whose program finds all that it brings, and nothing else."""
        brought = request["files"]
        differs = self._differs(brought)
        needed = set() if differs else {_name(file) for file in brought}
        for name in _imported():
            if name not in needed:
                self._hidden.append(sys.modules.pop(name))
                parent, _, attribute = name.rpartition(".")
                if parent in sys.modules:
                    vars(sys.modules[parent]).pop(attribute, None)
        self._look_in_archives()

    def _differs(self, brought: dict[str, int]) -> bool:
        """Whether a module of the same name is another one. Those that import it hold it too, so then none is kept."""
        return any(brought.get(file, checksum) != checksum for file, checksum in self._files.items())

    def _look_in_archives(self) -> None:
        for name, module in _imported().items():
            if hasattr(module, "__path__"):
                module.__path__ = _Path(name)  # type: ignore[assignment]


class _Path:
    """Where a package has its modules: in the archive that its program puts into sys.path when it runs."""

    def __init__(self, package: str) -> None:
        self._folder = package.replace(".", "/")

    def __iter__(self) -> Iterator[str]:
        return (f"{place}/{self._folder}" for place in sys.path if place.endswith(".zip"))


def _imported() -> dict[str, ModuleType]:
    packages = ("ansible", "ansible_collections")
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}


def _name(file: str) -> str:
    """The name of a module, by its file in an archive."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


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
    module = sys.modules["__main__"] = ModuleType("__main__")
    code = 0
    try:
        exec(compile(request["program"], "<stdin>", "exec"), vars(module))
    except SystemExit as end:
        if isinstance(end.code, int):
            code = end.code
        elif end.code is not None:
            print(end.code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    _end(code)


def _end(code: int) -> NoReturn:
    """End this process as Python does, but without freeing what it shares with others, which would copy all of it."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def _content(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, errors="surrogateescape") as stream:
        return stream.read()


if __name__ == "__main__":
    main()
