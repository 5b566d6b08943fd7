# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the file with the API keys of a server exactly as the server does.

Each line is a key, including its blanks. Empty lines are skipped, and so are lines that begin with # by builds whose
--help says so. A server whose file has no key is open to everyone. Source: --api-key-file in common/arg.cpp, and the
middleware in tools/server/server-http.cpp of llama.cpp.
"""

from __future__ import annotations

import os

from ..._errors import TuningError
from ..._io.safe_open import open_file
from ..._kernel.cgroups import list_processes
from ..options.unit_names import api_key_path_in_unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._io.kernelfs import KernelFS

COMMENT = "#"
ONE_PER_LINE = "It must hold one key per line"


def read_api_keys(path: str) -> list[str]:
    """Return the keys of a file. TuningError for a file without a key, and for a key that no client can send."""
    try:
        with open(open_file(path), encoding="utf-8", newline="") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise TuningError(f"The key file {path} cannot be read: {error.strerror}. {ONE_PER_LINE}.") from None
    except UnicodeDecodeError:
        raise TuningError(f"The key file {path} is not text. {ONE_PER_LINE}.") from None
    keys = []
    for number, line in enumerate(lines, 1):
        if not line or line.startswith(COMMENT):
            continue
        if line != line.strip():
            blank = "carriage return, as editors of Windows leave it" if line.endswith("\r") else "blank"
            raise TuningError(
                f"The key file {path} has a {blank}, at an end of line {number}: to the server it is a part of the "
                "key, and no client can send it. Take it out."
            )
        keys.append(line)
    if not keys:
        raise TuningError(f"The key file {path} holds no key, so that everyone could use the server. {ONE_PER_LINE}.")
    return keys


def read_api_key_loaded_by(path: str, processes: Iterable[int]) -> str | None:
    """Return a key that a running server has loaded; None where it was started without keys.

    systemd hides the credential of a unit from the commands that it runs for this unit later, even from those of root.
    So the file is read through the root folder of the server's own process.
    """
    for process in processes:
        credential = f"/proc/{process}/root{path}"
        if os.path.exists(credential):
            return read_api_keys(credential)[0]
    return None


def read_api_key_loaded_by_unit(fs: KernelFS, unit: str, file: str | None) -> str | None:
    """Return a key that a unit has loaded; None where its instance has no file of keys. TuningError for a bad file."""
    if not file:
        return None
    try:
        processes = list_processes(fs, unit)
    except TuningError:
        processes = []
    return read_api_key_loaded_by(api_key_path_in_unit(unit), processes) or read_api_keys(file)[0]


def has_comment_lines(path: str) -> bool:
    with open(open_file(path), encoding="utf-8", newline="") as file:
        return any(line.startswith(COMMENT) for line in file)
