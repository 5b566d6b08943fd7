# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest, whenever a Python starts there: keeps what is compiled of modules.

Ansible sends every module as an archive of sources, and Python keeps no bytecode of those. Hardware compiles them in a
fraction of a second, the emulator in seconds, again and again. What one machine compiled, the next one has (kept.py).
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
_FOLDER = "/root/.vepyc-bytecode"  # what is compiled here, a file for each source
_GIVEN = "/root/.vepyc-given"  # what other machines compiled: the length of the index, the index, and all code

_of_archive = zipimport._compile_source  # type: ignore[attr-defined]
_of_file = SourceFileLoader.source_to_code
# When that file was written, and for each source where in it the code begins and how long it is.
_index: tuple[int, dict[str, tuple[int, int]]] = (0, {})


def _compiled_here(name: str) -> bytes:
    with open(f"{_FOLDER}/{name}", "rb") as kept:
        return kept.read()


def _given(name: str) -> bytes:
    global _index
    with open(_GIVEN, "rb") as given:
        written = os.fstat(given.fileno()).st_mtime_ns
        if written != _index[0]:  # a process that outlives a saved state sees another file than before
            _index = (written, marshal.loads(given.read(int.from_bytes(given.read(8), "big"))))
        start, length = _index[1][name]
        given.seek(start)
        return given.read(length)


def _once(source: bytes, compiled: Callable[[], CodeType]) -> CodeType:
    """What is compiled from a source, wherever that is."""
    name = f"{_imp.source_hash(0, source).hex()}-{len(source)}"
    file = f"{_FOLDER}/{name}"
    for read in (_compiled_here, _given):
        try:
            kept: CodeType = marshal.loads(read(name))
            return kept
        except (OSError, EOFError, ValueError, TypeError, KeyError):  # not there, or cut short by a power cut
            pass
    code = compiled()
    try:
        os.makedirs(_FOLDER, exist_ok=True)
        with open(f"{file}.{os.getpid()}", "wb") as new:
            new.write(marshal.dumps(code))
        os.replace(new.name, file)
    except OSError:  # not our user's
        pass
    return code


def _archive_once(path: str, source: bytes) -> CodeType:
    return _once(source, lambda: _of_archive(path, source))


def _file_once(self: SourceFileLoader, data: Any, path: str, **options: Any) -> CodeType:
    return _once(data, lambda: _of_file(self, data, path, **options))


zipimport._compile_source = _archive_once  # type: ignore[attr-defined]
SourceFileLoader.source_to_code = _file_once  # type: ignore[method-assign,assignment]
