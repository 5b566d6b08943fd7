# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lock that every run takes before it changes the gateway of this host.

Runs of two controllers would otherwise remove each other's files, save each other's configuration as the original, and
write server-state-files that lack servers. The requests of a host that leaves are waited for without the lock, because
that takes minutes.
"""

from __future__ import annotations

import os

from .._errors import TuningError
from .._io.blocks import contextmanager
from .._io.kernelfs import hold_file_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "/run/sovereign-epyc/gateway.lock"
#: Seconds to wait for another run, which may wait for a reload of HAProxy.
TIMEOUT = 30.0


@contextmanager
def hold_gateway_lock(check: bool = False) -> Iterator[None]:
    """Hold the lock during the block; TuningError where another run holds it for too long. A check takes no lock."""
    if check:
        yield
        return
    try:
        os.makedirs(os.path.dirname(LOCK), 0o755, exist_ok=True)
        # Other users cannot open the file, so that they cannot hold the lock.
        os.close(os.open(LOCK, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise TuningError(f"{LOCK} cannot be made: {os.strerror(error.errno or 0)}. Nothing was changed.") from None
    with hold_file_lock(LOCK, LOCK, TIMEOUT):
        yield
