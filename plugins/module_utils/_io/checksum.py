# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""SHA-256 checksums of files: parsed from ``sha256:`` and 64 hexadecimal digits, and computed."""

from __future__ import annotations

import hashlib
import os

from .._errors import BadRequest, TuningError
from .safe_open import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ALGORITHM = "sha256:"
CHUNK = 1 << 20


def parse_checksum(text: str | None) -> str | None:
    """Return the 64 digits of a checksum; None for an empty text, BadRequest for another one."""
    if not text:
        return None
    digits = text[len(ALGORITHM) :].lower()
    if not text.startswith(ALGORITHM) or len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise BadRequest(f"checksum: '{text}' is no checksum; say sha256: and 64 hexadecimal digits.")
    return digits


def compute_sha256(path: str, report_progress: Callable[[int, int | None], None] = lambda have, total: None) -> str:
    """Return a file's SHA-256 in hexadecimal; ``report_progress`` is called with the bytes so far and in total."""
    digest = hashlib.sha256()
    have = 0
    try:
        with open(open_file(path), "rb", buffering=0) as file:
            total = os.fstat(file.fileno()).st_size
            data = file.read(CHUNK)
            while data:
                digest.update(data)
                have += len(data)
                report_progress(have, total)
                data = file.read(CHUNK)
    except OSError as error:
        raise TuningError(f"{path} cannot be read: {error.strerror}.") from None
    return digest.hexdigest()


def mismatch_message(name: str, digest: str, wanted_digest: str) -> str:
    """Return the error message for a file with another checksum than the wanted one."""
    return f"{name} has the checksum {ALGORITHM}{digest}, but {ALGORITHM}{wanted_digest} was requested."


def server_mismatch_message(url: str, digest: str, wanted_digest: str) -> str:
    """Return the error message for a server's file with another checksum than the wanted one."""
    return f"{mismatch_message(url, digest, wanted_digest)} Check both, and whether the server has another file now."
