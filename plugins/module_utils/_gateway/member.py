# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers of one host at a gateway: taken out of service until nothing is in work, and put back.

HAProxy's own drain lets known conversations come on, so that it never ends where conversations keep their host: who is
to be restarted is put into maintenance, which ends no request either.
"""

from __future__ import annotations

import re
import time

from .._errors import BadRequest, NotApplied, TuningError
from .._io import textfile
from . import server_state_file
from .haproxy import DRAIN, MAINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .haproxy import Haproxy, Server

STATES = {"ready": 0, "drain": DRAIN, "maint": MAINT}
#: Seconds between two looks at what is in work.
PAUSE = 0.5


class GatewayMember:
    """A host at a gateway."""

    def __init__(self, haproxy: Haproxy, file: str, host: str, clock: Any = time) -> None:
        """``file`` is where servers are kept out of service over a reload of HAProxy."""
        self.haproxy = haproxy
        self.file = file
        self.host = host
        self.clock = clock

    def list_servers(self) -> list[Server]:
        """Return the servers of the host; BadRequest where the gateway has none."""
        there = self.haproxy.list_servers()
        # As the configuration names them.
        name = re.sub(r"[^A-Za-z0-9_.:-]", "_", self.host)
        found = [one for one in there if one.host == name]
        if not found:
            others = sorted({one.host for one in there})
            listed = ", ".join(others[:5]) + (", and others" if len(others) > 5 else "")
            raise BadRequest(
                f"The gateway has no server of {self.host}, but of {listed}: run gateway.yml if the host is new, or"
                " say the host as the inventory names it. Nothing was changed."
            )
        return found

    def move_to_state(self, state: str | None, timeout: float, allow_last: bool, check: bool) -> dict[str, Any]:
        """Bring the host into a state, and wait for so many seconds until nothing is in work where it goes out of it.

        Without a state it only looks. With ``last`` it may be the last host of a model. What was taken out and still
        has work at the end of the time is put back, with an error.
        """
        before = self.list_servers()
        changes = [one for one in before if state and one.state != state and not one.is_drained_by_configuration]
        addresses = [one.command_name for one in before]
        out = state in ("drain", "maint")
        if out and not allow_last:
            self._refuse_last_server(changes)
        at_first = self.haproxy.count_requests(addresses)
        if state and not check:
            try:
                self._set_states(changes, state)
                if out and timeout > 0:
                    self._wait_until_idle(addresses, timeout)
                    self._require_state([one.command_name for one in changes], state)
            except TuningError as error:
                if out:
                    error.args = (f"{error} {self._restore_states(changes)}",)
                raise
        now = before if check else self.list_servers()
        fixed = [one.name for one in before if one.is_drained_by_configuration and state == "ready"]
        return {
            "changed": bool(changes),
            "diff": {
                "before": {one.command_name: one.state for one in changes},
                "after": {one.command_name: state for one in changes},
            },
            "in_work": {"before": at_first, "after": self.haproxy.count_requests(addresses)},
            "servers": [{"backend": one.backend, "name": one.name, "state": one.state} for one in now],
            "out": all(one.state != "ready" for one in now),
            "remarks": [
                f"{name} stays out of service, because gateway_drained keeps it so: take {self.host} out of that"
                " variable, and run gateway.yml."
                for name in fixed
            ],
        }

    def _refuse_last_server(self, changes: Sequence[Server]) -> None:
        """Refuse to take out of service who alone serves a model; of one that nobody serves nothing is lost."""
        counters = self.haproxy.read_loads()
        usable = [
            one
            for one in self.haproxy.list_servers()
            if one.command_name in counters and counters[one.command_name].takes_requests
        ]
        ours = [one.command_name for one in changes]
        for backend in sorted({one.backend for one in changes}):
            serving = [one.command_name for one in usable if one.backend == backend]
            if serving and all(address in ours for address in serving):
                raise BadRequest(
                    f"No host but {self.host} serves {backend} now, so its clients would get the status 503 meanwhile."
                    " Have another host serve it, or accept that with gateway_drain_last=true (allow_last of the"
                    " module). Nothing was changed."
                )

    def _set_states(self, servers: Sequence[Server], state: str) -> None:
        """Set the state of servers; the file comes first, because HAProxy may be reloaded at any time."""
        text = textfile.read_text(self.file)
        lines = {
            one.command_name: server_state_file.format_line(one, STATES[state]) for one in servers if state != "ready"
        }
        made = server_state_file.replace_servers(text, [one.command_name for one in servers], lines)
        if servers and made != (text or server_state_file.HEAD):
            textfile.write_file(self.file, made)
        for one in servers:
            self.haproxy.set_server_state(one.command_name, state)
        self._require_state([one.command_name for one in servers], state)

    def _require_state(self, addresses: Sequence[str], state: str) -> None:
        """Fail where a server is in another state: somebody else sets it, too."""
        for one in self.list_servers():
            if one.command_name in addresses and one.state != state:
                raise NotApplied(
                    f"{one.command_name} was set to {state}, and is {one.state}: something else sets it, too. An "
                    "agent of the host that answers 'ready' does; its 'up' does not."
                )

    def _wait_until_idle(self, addresses: Sequence[str], timeout: float) -> None:
        """Wait until nothing is in work, seen twice: a request may be on its way from the queue to the server."""
        end = self.clock.monotonic() + timeout
        idle = 0
        while idle < 2:
            work = self.haproxy.count_requests(addresses)
            idle = 0 if work else idle + 1
            if work and self.clock.monotonic() >= end:
                raise TuningError(
                    f"{self.host} still works on {work} {'request' if work == 1 else 'requests'} after {timeout:g}"
                    " seconds. Give it longer with gateway_drain_timeout (timeout of the module); with 0 nothing is"
                    " waited for, and what is in work may be lost.",
                    in_work=work,
                )
            self.clock.sleep(PAUSE)

    def _restore_states(self, changes: Sequence[Server]) -> str:
        """Put servers back into the states that they had; return a sentence on that."""
        if not changes:
            return "It was out of service before, and stays so."
        try:
            for one in changes:
                self._set_states([one], one.state)
        except TuningError:
            return "It could not be put back into service."
        return "It was put back into service."
