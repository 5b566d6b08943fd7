# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers of a host at a gateway: taken out of service until they have no requests, and put back into service.

HAProxy's state "drain" still accepts requests of known conversations, so a host in this state may never be idle. The
state "maint" accepts no request, and ends no request that has begun.
"""

from __future__ import annotations

import re
import time

from .._errors import BadRequest, NotApplied, TuningError
from .._io import textfile
from . import server_state_file
from .gateway_lock import hold_gateway_lock
from .haproxy import DRAIN, MAINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .haproxy import Haproxy, Server

STATES = {"ready": 0, "drain": DRAIN, "maint": MAINT}
#: Seconds between two counts of requests.
PAUSE = 0.5
NOT_PUT_BACK = "It could not be put back into service."


class GatewayMember:
    """A host with its servers at a gateway."""

    def __init__(self, haproxy: Haproxy, file: str, host: str, clock: Any = time) -> None:
        """``file`` is HAProxy's server-state-file, which keeps servers out of service after a reload of HAProxy."""
        self.haproxy = haproxy
        self.file = file
        self.host = host
        self.clock = clock

    def list_servers(self) -> list[Server]:
        """Return the servers of the host; raises BadRequest where the gateway has no server of the host."""
        all_servers = self.haproxy.list_servers()
        # The configuration of HAProxy has a _ in place of any other character of a host's name.
        name = re.sub(r"[^A-Za-z0-9_.:-]", "_", self.host)
        servers = [server for server in all_servers if server.host == name]
        if not servers:
            hosts = sorted({server.host for server in all_servers})
            listed = ", ".join(hosts[:5]) + (", and others" if len(hosts) > 5 else "")
            raise BadRequest(
                f"The gateway has no server of {self.host}, but of {listed}: run gateway.yml if the host is new, or"
                " say the host as the inventory names it. Nothing was changed."
            )
        return servers

    def move_servers_to_state_and_report(
        self, state: str | None, timeout: float, allow_last: bool, check: bool
    ) -> dict[str, Any]:
        """Set the state of the host's servers, wait until servers out of service have no requests, and return a report.

        Without a state, the states are only reported. ``allow_last`` permits to take out the last host of a model.
        Servers that have requests after ``timeout`` seconds are put back into service, and TuningError is raised, as it
        is where another run holds the lock of the gateway for too long.
        """
        out = state in ("drain", "maint")
        with hold_gateway_lock(check or state is None):
            before = self.list_servers()
            movable = [server for server in before if not server.is_out_of_service_by_configuration]
            changes = [server for server in movable if state and server.state != state]
            names = [server.backend_and_server_name for server in before]
            if out and not allow_last:
                self._refuse_last_servers_of_model(changes)
            requests_before = self.haproxy.count_active_and_queued_requests(names)
            if state and not check:
                try:
                    self._save_and_set_server_states(movable, changes, state)
                except TuningError as error:
                    if out:
                        error.args = (f"{error} {self._restore_states_and_describe(changes)}",)
                    raise
        # Requests may take minutes, so another run may take out another host meanwhile.
        if out and timeout > 0 and not check:
            try:
                self._wait_until_no_requests(names, timeout)
                self._require_servers_in_state([server.backend_and_server_name for server in changes], state or "")
            except TuningError as error:
                error.args = (f"{error} {self._restore_states_with_lock_and_describe(changes)}",)
                raise
        now = before if check else self.list_servers()
        drained = [server.name for server in before if server.is_out_of_service_by_configuration and state == "ready"]
        return {
            "changed": bool(changes),
            "diff": {
                "before": {server.backend_and_server_name: server.state for server in changes},
                "after": {server.backend_and_server_name: state for server in changes},
            },
            "in_work": {"before": requests_before, "after": self.haproxy.count_active_and_queued_requests(names)},
            "servers": [{"backend": server.backend, "name": server.name, "state": server.state} for server in now],
            "out": all(server.state != "ready" for server in now),
            "remarks": [
                f"{name} stays out of service, because epyc_gateway_drained keeps it so: remove {self.host} from this"
                " variable, and run gateway.yml."
                for name in drained
            ],
        }

    def _refuse_last_servers_of_model(self, changes: Sequence[Server]) -> None:
        """Raise BadRequest where a model is served by these servers only."""
        loads = self.haproxy.read_load_by_server()
        usable = [
            server
            for server in self.haproxy.list_servers()
            if server.backend_and_server_name in loads and loads[server.backend_and_server_name].takes_requests
        ]
        leaving = [server.backend_and_server_name for server in changes]
        for backend in sorted({server.backend for server in changes}):
            serving = [server.backend_and_server_name for server in usable if server.backend == backend]
            if serving and all(name in leaving for name in serving):
                raise BadRequest(
                    f"No host but {self.host} serves {backend} now, so its clients would get the status 503 meanwhile."
                    " Have another host serve it, or accept that with epyc_gateway_drain_last=true (allow_last of the"
                    " module). Nothing was changed."
                )

    def _save_and_set_server_states(self, movable: Sequence[Server], changes: Sequence[Server], state: str) -> None:
        """Set the state of ``changes``, after writing the server-state-file: HAProxy may be reloaded at any time.

        The file is corrected for all ``movable`` servers, because a killed run may have written the file alone.
        """
        text = textfile.read_text(self.file)
        out = movable if state != "ready" else ()
        lines = {
            server.backend_and_server_name: server_state_file.format_server_state_line(server, STATES[state])
            for server in out
        }
        new_text = server_state_file.replace_servers_in_state_file(
            text, [server.backend_and_server_name for server in movable], lines
        )
        if new_text != (text or server_state_file.HEAD):
            textfile.write_file(self.file, new_text)
        for server in changes:
            self.haproxy.set_administrative_state(server.backend_and_server_name, state)
        self._require_servers_in_state([server.backend_and_server_name for server in changes], state)

    def _require_servers_in_state(self, names: Sequence[str], state: str) -> None:
        """Raise NotApplied where a server is in another state, because another program sets the state too."""
        for server in self.list_servers():
            if server.backend_and_server_name in names and server.state != state:
                raise NotApplied(
                    f"{server.backend_and_server_name} was set to {state}, and is {server.state}: something else "
                    "sets it, too. An agent check that answers 'ready' sets the state; the answer 'up' does not."
                )

    def _wait_until_no_requests(self, names: Sequence[str], timeout: float) -> None:
        """Wait until two counts in succession are 0: a single count may miss a request between queue and server."""
        end = self.clock.monotonic() + timeout
        idle = 0
        while idle < 2:
            work = self.haproxy.count_active_and_queued_requests(names)
            idle = 0 if work else idle + 1
            if work and self.clock.monotonic() >= end:
                raise TuningError(
                    f"{self.host} still works on {work} {'request' if work == 1 else 'requests'} after {timeout:g}"
                    " seconds. Give it longer with epyc_gateway_drain_timeout (timeout of the module); with 0 nothing "
                    "is waited for, and what is in work may be lost.",
                    in_work=work,
                )
            self.clock.sleep(PAUSE)

    def _restore_states_with_lock_and_describe(self, changes: Sequence[Server]) -> str:
        """Restore states as _restore_states_and_describe does, where the lock is not held any more."""
        try:
            with hold_gateway_lock():
                return self._restore_states_and_describe(changes)
        except TuningError as error:
            return f"{NOT_PUT_BACK} {error}"

    def _restore_states_and_describe(self, changes: Sequence[Server]) -> str:
        """Set servers to the states that they had before, and return a message about it."""
        if not changes:
            return "It was out of service before, and stays so."
        try:
            for server in changes:
                self._save_and_set_server_states([server], [server], server.state)
        except TuningError:
            return NOT_PUT_BACK
        return "It was put back into service."
