# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest whenever a Python starts there: caches the bytecode of modules.

Ansible sends every module as an archive of sources, for which Python stores no bytecode. To compile them takes real
hardware a fraction of a second, and the emulator seconds. bytecode_store.py sends what a guest has compiled to others.
"""

from __future__ import annotations

import _imp
import marshal
import os
import zipimport
from importlib.machinery import SourceFileLoader

# Modules that only checkers of types need would cost each start of Python a quarter of its time.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

# On the disk, so that they outlive a reboot; no test looks at what /root holds.
_FOLDER = "/root/.vepyc-bytecode"  # bytecode that this guest has compiled, a file for each source
_SENT = "/root/.vepyc-given"  # bytecode that other guests have compiled: length of the index, index, code

_original_archive_compile = zipimport._compile_source  # type: ignore[attr-defined]
_original_file_compile = SourceFileLoader.source_to_code
# When that file was written, and for each source where in it the code begins and how long it is.
_index: tuple[int, dict[str, tuple[int, int]]] = (0, {})


def _read_own_code(name: str) -> bytes:
    with open(f"{_FOLDER}/{name}", "rb") as file:
        return file.read()


def _read_sent_code(name: str) -> bytes:
    global _index
    with open(_SENT, "rb") as given:
        written = os.fstat(given.fileno()).st_mtime_ns
        if written != _index[0]:  # a process that was saved with the machine finds a new file after a resume
            _index = (written, marshal.loads(given.read(int.from_bytes(given.read(8), "big"))))
        start, length = _index[1][name]
        given.seek(start)
        return given.read(length)


def _load_or_compile(source: bytes, compiled: Callable[[], CodeType]) -> CodeType:
    """Return the bytecode of a source, loaded if this or another guest has compiled it, or compiled now."""
    name = f"{_imp.source_hash(0, source).hex()}-{len(source)}"
    file = f"{_FOLDER}/{name}"
    for read in (_read_own_code, _read_sent_code):
        try:
            cached: CodeType = marshal.loads(read(name))
            return cached
        except (OSError, EOFError, ValueError, TypeError, KeyError):  # missing, or incomplete after a power cut
            pass
    code = compiled()
    try:
        os.makedirs(_FOLDER, exist_ok=True)
        with open(f"{file}.{os.getpid()}", "wb") as new:
            new.write(marshal.dumps(code))
        os.replace(new.name, file)
    except OSError:  # this user may not write there
        pass
    return code


def _compile_archive_source(path: str, source: bytes) -> CodeType:
    return _load_or_compile(source, lambda: _original_archive_compile(path, source))


def _compile_file_source(self: SourceFileLoader, data: Any, path: str, **options: Any) -> CodeType:
    return _load_or_compile(data, lambda: _original_file_compile(self, data, path, **options))


zipimport._compile_source = _compile_archive_source  # type: ignore[attr-defined]
SourceFileLoader.source_to_code = _compile_file_source  # type: ignore[method-assign,assignment]
