# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ends a server that computes no more and has not ended, so that its unit starts it anew.

``/health`` is answered by threads of their own, whatever the others do. ``/metrics`` goes through the loop that
computes, which answers between two batches: a limit has to be longer than the longest batch of a prompt.
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

#: Seconds between two questions, where the limit is not shorter.
PAUSE_SECONDS = 15.0


def watch_server(
    fs: KernelFS,
    url: str,
    unit: str,
    limit: float,
    key_file: str | None,
    tell: Callable[[str], None],
    clock: Any = time,
) -> NoReturn:
    """Ask again and again, until systemd ends this with the unit."""
    begun = clock.monotonic()
    while True:
        left = limit - (clock.monotonic() - begun)
        status, said = server_http.send_get(url, "/metrics", left, keys.read_key_of_unit(fs, unit, key_file))
        silent = clock.monotonic() - begun
        # One that is not there yet, or not any more, is a matter of systemd.
        if status is not None or said == server_http.CONNECTION_REFUSED:
            begun = clock.monotonic()
        elif silent >= limit:
            tell(f"{unit} has not answered for {silent:.0f} s, at {url}/metrics. It is killed, and starts anew.")
            command.run_command(["systemctl", "kill", "--signal=KILL", unit])
            begun = clock.monotonic()
        clock.sleep(min(PAUSE_SECONDS, limit / 4))
