# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest and executes Python programs there, each in a process of its own that is forked from this one.

On an emulated processor it takes seconds to start Python and to import what every module needs; here both happen once.
Requests and answers are lines of JSON, on the standard input and output, or with --socket on each connection to the
socket that is the standard input. There the programs are what Ansible sends to a Python that it starts (ssh.py). What
modules import of such a program's archive is imported once for all that bring the same, and the archive is sent once.
"""

from __future__ import annotations

import atexit
import base64
import gc
import importlib
import io
import json
import os
import selectors
import socket
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from types import CodeType, ModuleType
from typing import Any, NoReturn, TextIO

# Of Python's own modules, those that a module of Ansible imports and that do not import each other.
_PRELOADED = """\
argparse base64 ctypes dataclasses datetime decimal encodings.idna gettext glob grp hashlib locale logging platform pwd
random runpy selectors shlex syslog tempfile textwrap urllib.parse
"""

# What every module imports of Ansible itself, with all that these import: four fifths of its time here.
_OF_ANSIBLE = ("ansible.module_utils.basic", "ansible.module_utils._internal._ansiballz._loader")
_UTILITIES = "/plugins/module_utils/"
_PATIENCE = 60.0
# A file for each archive that programs brought, with the text that they have it in.
_ARCHIVES = "/run/vepyc-archives"


def main() -> None:
    if sys.argv[1:] == ["--socket"]:
        for name in _PRELOADED.split():
            importlib.import_module(name)
        gc.freeze()  # or else a collection in each process writes to all that these have in common
        _serve(socket.socket(fileno=os.dup(0)))
    else:
        _answer(sys.stdin, sys.stdout)


def _serve(listener: socket.socket) -> None:
    """Answer each connection when its program ends; meanwhile others are begun."""
    library = _Library()
    waiting = selectors.PollSelector()
    waiting.register(listener, selectors.EVENT_READ)

    def leave() -> None:
        """In the process of a program: hold nothing that is this server's, and belong to no session of others."""
        os.setsid()
        for key in waiting.get_map().values():
            os.close(key.fd)
            if key.data:
                key.data[0].close()

    while True:
        for key, _ in waiting.select():
            if key.data:
                waiting.unregister(key.fd)
                os.close(key.fd)
                _send(*key.data)
                continue
            connection = listener.accept()[0]
            request = _request(connection)
            if request:
                library.learn(request["program"], request["archive"])
                hide = partial(library.hide, library.unneeded(request["archive"]))
                program = _Program(request, leave, connection.close, hide)
                waiting.register(os.pidfd_open(program.process), selectors.EVENT_READ, (connection, program))
            else:
                connection.close()


def _request(connection: socket.socket) -> dict[str, Any] | None:
    """What somebody asks for who has connected; nothing, if it was only to see that this is here.

    The program has a name, made of a digest, where it had the text of its archive. That text is asked for once.
    """
    connection.settimeout(_PATIENCE)
    with suppress(OSError, ValueError), connection.makefile("rw") as stream:
        print(json.dumps("ready"), file=stream, flush=True)
        request = dict(json.loads(stream.readline()))
        archive = f"{_ARCHIVES}/{request['archive']}"
        if request["archive"] and not os.path.exists(archive):
            print(json.dumps("archive"), file=stream, flush=True)
            text = json.loads(stream.readline())
            os.makedirs(_ARCHIVES, exist_ok=True)
            with open(f"{archive}.coming", "w") as file:
                file.write(text)
            os.rename(file.name, archive)
        return request
    return None


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<stdin>", "exec")


def _text_of(archive: str) -> str:
    with open(f"{_ARCHIVES}/{archive}") as file:
        return file.read()


def _content_of(archive: str) -> bytes:
    return base64.b64decode(_text_of(archive))


@cache
def _brought_by(archive: str) -> dict[str, int]:
    """The files that an archive has, each with its checksum; a program without an archive brings none."""
    if not archive:
        return {}
    with zipfile.ZipFile(io.BytesIO(_content_of(archive))) as opened:
        return {one.filename: one.CRC for one in opened.infolist()}


def _send(connection: socket.socket, program: _Program) -> None:
    answer = program.answer()
    with suppress(OSError), connection:
        connection.sendall(f"{json.dumps(answer)}\n".encode())


class _Library:
    """Modules that programs brought, Ansible's own and those of collections, imported once."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # of what is imported, as archives name it, with its checksum there
        self._tried: set[str] = set()  # an older Ansible lacks a name
        self._unneeded: dict[str, list[str]] = {}  # by archive
        self._hidden: list[ModuleType] = []  # freed, they would be written to, and their memory copied

    def learn(self, program: list[str], archive: str) -> None:
        """Import what a program brings and no program before it did, and compile what it has in common with others."""
        for common in program[:-1]:
            with suppress(SyntaxError):  # the program's own process says so
                _compiled(common)
        brought = _brought_by(archive)
        utilities = [_name(file) for file in brought if file.startswith("ansible_collections/") and _UTILITIES in file]
        new = [name for name in (*_OF_ANSIBLE, *utilities) if name not in self._tried]
        if not brought or not new or self._differs(brought):
            return
        with tempfile.NamedTemporaryFile(suffix=".zip", dir="/run") as file:
            file.write(_content_of(archive))
            file.flush()
            sys.path.insert(0, file.name)
            for name in new:
                with suppress(ImportError):
                    importlib.import_module(name)
                self._tried.add(name)
            sys.path.remove(file.name)
        for name, module in _imported().items():
            if hasattr(module, "__path__"):
                module.__path__ = _Path(name)  # type: ignore[assignment]
        names = {_name(file): file for file in brought}
        self._files.update({names[name]: brought[names[name]] for name in _imported() if name in names})
        self._unneeded.clear()
        gc.freeze()

    def unneeded(self, archive: str) -> list[str]:
        """The modules that a program shall not find, because it brings none of that name, or others than these."""
        if archive not in self._unneeded:
            brought = _brought_by(archive)
            needed = set() if self._differs(brought) else {_name(file) for file in brought}
            self._unneeded[archive] = [name for name in _imported() if name not in needed]
        return self._unneeded[archive]

    def hide(self, names: list[str]) -> None:
        """Have the program of this process not find these modules."""
        for name in names:
            self._hidden.append(sys.modules.pop(name))
            parent, _, attribute = name.rpartition(".")
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(attribute, None)

    def _differs(self, brought: dict[str, int]) -> bool:
        """Whether a module of the same name is another one. Those that import it hold it too, so then none is kept."""
        return any(brought.get(file, checksum) != checksum for file, checksum in self._files.items())


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
    print(json.dumps(_Program(request).answer()), file=answers, flush=True)


class _Program:
    """A program in a process of its own."""

    def __init__(self, request: dict[str, Any], *first: Callable[[], None]) -> None:
        """``first`` is done in that process before the program."""
        self._output, self._errors = os.memfd_create("output"), os.memfd_create("errors")
        self.process = os.fork()
        if self.process == 0:
            for step in first:
                step()
            _execute(request, self._output, self._errors)

    def answer(self) -> dict[str, Any]:
        """Wait for its end, and return what it wrote."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        # Of a program that a signal ended, a shell tells this number.
        code = code if code >= 0 else 128 - code
        return {"code": code, "output": _content(self._output), "errors": _content(self._errors)}


def _execute(request: dict[str, Any], output: int, errors: int) -> None:
    """Become the process of one program, and never return. ``parameters`` are those of a module, or nothing.

    The parts of the program are executed one after the other.
    """
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    if request["parameters"] is not None:
        basic: Any = importlib.import_module("ansible.module_utils.basic")
        basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = json.dumps(request["parameters"]).encode(), "legacy"
    # As if this Python had just been started to read its program from the standard input.
    sys.argv, sys.path[0] = [""], ""
    module = sys.modules["__main__"] = ModuleType("__main__")
    if request.get("archive"):
        vars(module)[request["archive"]] = _text_of(request["archive"])
    code = 0
    try:
        for part in request["program"]:
            exec(_compiled(part), vars(module))
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
