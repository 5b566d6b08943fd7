# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waits until the RPC workers of an instance accept connections; llama-server aborts when one of them does not.

A worker has one client at a time, so a connection only shows that its host and its port are up.
"""

from __future__ import annotations

import time

from ..._errors import TuningError
from ..._notation.ip_addresses import parse_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The seconds between two attempts, and the limit of one attempt: a host that is down does not refuse connections.
PAUSE_SECONDS = 0.5
ATTEMPT_SECONDS = 5.0


def wait_for_workers(workers: str, timeout: float, clock: Any = time) -> str:
    """Wait until all workers of a list accept connections, and return a sentence; TuningError after the timeout."""
    # Imported here because most commands of the engine open no connection.
    import socket

    started_at = clock.monotonic()
    for endpoint in workers.split(","):
        address = parse_endpoint(endpoint, "workers")
        while True:
            seconds_left = timeout - (clock.monotonic() - started_at)
            try:
                socket.create_connection(address, max(0.1, min(seconds_left, ATTEMPT_SECONDS))).close()
                break
            except OSError as error:
                if seconds_left <= PAUSE_SECONDS:
                    raise TuningError(
                        f"The RPC worker {endpoint} does not answer after {timeout:g} s: {error.strerror or error}. "
                        "Look at 'systemctl status ggml-rpc-worker' on its host; group.yml starts it, and lets in the "
                        "epyc_group_address of this host only."
                    ) from None
            clock.sleep(PAUSE_SECONDS)
    return f"All of {workers} answer after {clock.monotonic() - started_at:.1f} s."
