# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kills a server that has stopped to compute without ending, so that systemd restarts the unit.

``/health`` is answered by other threads than those that compute, even when the latter hang. ``/metrics`` goes through
the loop that computes, which answers between two batches: the limit must be longer than the longest batch of a prompt.
Source: tools/server/server-context.cpp of llama.cpp, build 11434.
"""

from __future__ import annotations

import time

from ..._io import command
from . import keys, server_http

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from ..._io.kernelfs import KernelFS

#: The longest pause between two requests, in seconds; a short limit has shorter pauses.
PAUSE_SECONDS = 15.0


def watch_and_kill_silent_server(
    fs: KernelFS,
    url: str,
    unit: str,
    silence_limit: float,
    key_file: str | None,
    report: Callable[[str], None],
    clock: Any = time,
) -> NoReturn:
    """Send requests until systemd ends this process with the unit; kill a server that is silent for too long."""
    answered_at = clock.monotonic()
    while True:
        seconds_left = silence_limit - (clock.monotonic() - answered_at)
        status, text = server_http.send_get_request(
            url, "/metrics", seconds_left, keys.read_api_key_loaded_by_unit(fs, unit, key_file)
        )
        silent_seconds = clock.monotonic() - answered_at
        # A server that has not started yet, or has ended, is a matter of systemd.
        if status is not None or text == server_http.CONNECTION_REFUSED:
            answered_at = clock.monotonic()
        elif silent_seconds >= silence_limit:
            report(
                f"{unit} has not answered for {silent_seconds:.0f} s, at {url}/metrics. It is killed, and starts anew."
            )
            command.run_command(["systemctl", "kill", "--signal=KILL", unit])
            answered_at = clock.monotonic()
        clock.sleep(min(PAUSE_SECONDS, silence_limit / 4))
