# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest and executes Python programs there, each in a process forked from this one.

On an emulated CPU it takes seconds to start Python and to import what every module needs; here both happen once.
Requests and answers are lines of JSON, on the standard input and output, or with --socket on each connection to the
socket that is the standard input. With --socket, the programs are modules that Ansible sends to a new Python (ssh.py).
Each of them has an archive of its imports. Archives are stored, and modules that several archives contain are imported
once.
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

# Modules of Python's library that modules of Ansible import, without those that are imported by others in this list.
_PRELOADED = """\
argparse base64 ctypes dataclasses datetime decimal encodings.idna gettext glob grp hashlib locale logging platform pwd
random runpy selectors shlex syslog tempfile textwrap urllib.parse
"""

# Every module imports these of Ansible. With their own imports, they are four fifths of a module's time in a guest.
_ANSIBLE_MODULES = ("ansible.module_utils.basic", "ansible.module_utils._internal._ansiballz._loader")
_UTILITIES = "/plugins/module_utils/"
_REQUEST_TIMEOUT = 60.0
# A file for each archive of programs, with its text as it stands in them.
_ARCHIVES = "/run/vepyc-archives"


def main() -> None:
    if sys.argv[1:] == ["--socket"]:
        for name in _PRELOADED.split():
            importlib.import_module(name)
        gc.freeze()  # otherwise a collection in each process would write to, and so copy, all shared memory
        _serve_connections(socket.socket(fileno=os.dup(0)))
    else:
        _answer_requests(sys.stdin, sys.stdout)


def _serve_connections(listener: socket.socket) -> None:
    """Start a program for each connection, any number at a time, and answer it when its program ends."""
    library = _SharedModules()
    waiting = selectors.PollSelector()
    waiting.register(listener, selectors.EVENT_READ)

    def detach_from_server() -> None:
        """Called in the process of a program: start a session of its own and close the server's files."""
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
                _send_answer(*key.data)
                continue
            connection = listener.accept()[0]
            request = _read_request(connection)
            if request:
                library.import_new_modules(request["program"], request["archive"])
                hide = partial(library.hide_modules, library.modules_to_hide(request["archive"]))
                program = _Program(request, detach_from_server, connection.close, hide)
                waiting.register(os.pidfd_open(program.process), selectors.EVENT_READ, (connection, program))
            else:
                connection.close()


def _read_request(connection: socket.socket) -> dict[str, Any] | None:
    """Return the request of a connection; None if the client only tried whether the server answers.

    The program contains the name of its archive, a digest, instead of its text. The text is fetched from the client if
    it is not stored yet.
    """
    connection.settimeout(_REQUEST_TIMEOUT)
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
def _compile_program(text: str) -> CodeType:
    return compile(text, "<stdin>", "exec")


def _read_archive_text(archive: str) -> str:
    with open(f"{_ARCHIVES}/{archive}") as file:
        return file.read()


def _read_archive(archive: str) -> bytes:
    return base64.b64decode(_read_archive_text(archive))


@cache
def _list_archive_files(archive: str) -> dict[str, int]:
    """Return the files of an archive with their checksums; none for a program without an archive."""
    if not archive:
        return {}
    with zipfile.ZipFile(io.BytesIO(_read_archive(archive))) as opened:
        return {member.filename: member.CRC for member in opened.infolist()}


def _send_answer(connection: socket.socket, program: _Program) -> None:
    answer = program.wait_for_answer()
    with suppress(OSError), connection:
        connection.sendall(f"{json.dumps(answer)}\n".encode())


class _SharedModules:
    """Modules from the archives of programs, of Ansible and of collections, each imported once for all programs."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}  # imported files with their checksums, by their paths in archives
        self._tried: set[str] = set()  # modules that were tried; an older Ansible lacks some
        self._modules_to_hide: dict[str, list[str]] = {}  # by archive
        self._hidden: list[ModuleType] = []  # kept, because freeing them would write to, and so copy, shared memory

    def import_new_modules(self, program: list[str], archive: str) -> None:
        """Import modules of a program's archive that are not imported yet, and compile the code that programs share."""
        for common in program[:-1]:
            with suppress(SyntaxError):  # the program's own process reports it
                _compile_program(common)
        files_of_archive = _list_archive_files(archive)
        utilities = [
            _file_to_module_name(file)
            for file in files_of_archive
            if file.startswith("ansible_collections/") and _UTILITIES in file
        ]
        new = [name for name in (*_ANSIBLE_MODULES, *utilities) if name not in self._tried]
        if not files_of_archive or not new or self._is_other_version(files_of_archive):
            return
        with tempfile.NamedTemporaryFile(suffix=".zip", dir="/run") as file:
            file.write(_read_archive(archive))
            file.flush()
            sys.path.insert(0, file.name)
            for name in new:
                with suppress(ImportError):
                    importlib.import_module(name)
                self._tried.add(name)
            sys.path.remove(file.name)
        for name, module in _list_imported().items():
            if hasattr(module, "__path__"):
                module.__path__ = _PackagePath(name)  # type: ignore[assignment]
        names = {_file_to_module_name(file): file for file in files_of_archive}
        self._files.update({names[name]: files_of_archive[names[name]] for name in _list_imported() if name in names})
        self._modules_to_hide.clear()
        gc.freeze()

    def modules_to_hide(self, archive: str) -> list[str]:
        """Return the imported modules that are not in an archive, or all if it has another version of some."""
        if archive not in self._modules_to_hide:
            files_of_archive = _list_archive_files(archive)
            needed = (
                set()
                if self._is_other_version(files_of_archive)
                else {_file_to_module_name(file) for file in files_of_archive}
            )
            self._modules_to_hide[archive] = [name for name in _list_imported() if name not in needed]
        return self._modules_to_hide[archive]

    def hide_modules(self, names: list[str]) -> None:
        """Remove modules from this process, so that its program does not find them."""
        for name in names:
            self._hidden.append(sys.modules.pop(name))
            parent, _, attribute = name.rpartition(".")
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(attribute, None)

    def _is_other_version(self, files_of_archive: dict[str, int]) -> bool:
        """True if a file differs from the imported one. Modules refer to each other, so then none can be used."""
        return any(files_of_archive.get(file, checksum) != checksum for file, checksum in self._files.items())


class _PackagePath:
    """The `__path__` of a package: its folder in the archive that a running program puts into sys.path."""

    def __init__(self, package: str) -> None:
        self._folder = package.replace(".", "/")

    def __iter__(self) -> Iterator[str]:
        return (f"{place}/{self._folder}" for place in sys.path if place.endswith(".zip"))


def _list_imported() -> dict[str, ModuleType]:
    packages = ("ansible", "ansible_collections")
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in packages}


def _file_to_module_name(file: str) -> str:
    """Return the name of a module from the path of its file in an archive."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _answer_requests(requests: TextIO, answers: TextIO) -> None:
    for line in requests:
        _run_request(json.loads(line), answers)


def _run_request(request: dict[str, Any], answers: TextIO) -> None:
    for name in request["imports"]:
        importlib.import_module(name)
    print(json.dumps(_Program(request).wait_for_answer()), file=answers, flush=True)


class _Program:
    """A program in a process of its own."""

    def __init__(self, request: dict[str, Any], *preparations: Callable[[], None]) -> None:
        """``preparations`` are called in that process before the program."""
        self._output, self._errors = os.memfd_create("output"), os.memfd_create("errors")
        self.process = os.fork()
        if self.process == 0:
            for step in preparations:
                step()
            _execute_program(request, self._output, self._errors)

    def wait_for_answer(self) -> dict[str, Any]:
        """Wait until the program ends; return its exit code and what it wrote."""
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        # As a shell reports a program that was ended by a signal.
        code = code if code >= 0 else 128 - code
        return {"code": code, "output": _read_descriptor(self._output), "errors": _read_descriptor(self._errors)}


def _execute_program(request: dict[str, Any], output: int, errors: int) -> None:
    """Execute a program in this process, part by part, and end the process. ``parameters`` are a module's, or None."""
    for source, target in ((os.open(os.devnull, os.O_RDONLY), 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    if request["parameters"] is not None:
        basic: Any = importlib.import_module("ansible.module_utils.basic")
        basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = json.dumps(request["parameters"]).encode(), "legacy"
    # As in a Python that was started to read its program from the standard input.
    sys.argv, sys.path[0] = [""], ""
    module = sys.modules["__main__"] = ModuleType("__main__")
    if request.get("archive"):
        vars(module)[request["archive"]] = _read_archive_text(request["archive"])
    code = 0
    try:
        for part in request["program"]:
            exec(_compile_program(part), vars(module))
    except SystemExit as end:
        if isinstance(end.code, int):
            code = end.code
        elif end.code is not None:
            print(end.code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    _end_process(code)


def _end_process(code: int) -> NoReturn:
    """End this process as Python does, but without freeing memory that it shares, which would copy that memory."""
    if "threading" in sys.modules:
        sys.modules["threading"]._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def _read_descriptor(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, errors="surrogateescape") as stream:
        return stream.read()


if __name__ == "__main__":
    main()
