# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs in the guest, whenever a Python starts there: keeps what is compiled from archives.

Ansible sends every module as an archive of sources, and Python keeps no bytecode of those. Hardware compiles them in a
fraction of a second, the emulator in seconds, again and again.
"""

from __future__ import annotations

import _imp
import marshal
import os
import zipimport
from types import CodeType

_FOLDER = "/dev/shm/vepyc-bytecode"  # a tmpfs: nothing of this is on the disk

_compile = zipimport._compile_source  # type: ignore[attr-defined]


def _compile_once(path: str, source: bytes) -> CodeType:
    """What zipimport compiles from a source, whatever the archive that holds it."""
    file = f"{_FOLDER}/{_imp.source_hash(0, source).hex()}-{len(source)}"
    try:
        with open(file, "rb") as kept:
            code: CodeType = marshal.loads(kept.read())
            return code
    except (OSError, EOFError, ValueError, TypeError):  # not there yet, or cut short by a power cut
        code = _compile(path, source)
    try:
        os.makedirs(_FOLDER, exist_ok=True)
        with open(f"{file}.{os.getpid()}", "wb") as new:
            new.write(marshal.dumps(code))
        os.replace(new.name, file)
    except OSError:  # not our user's
        pass
    return code


zipimport._compile_source = _compile_once  # type: ignore[attr-defined]
