# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC: Redfish over TLS in front of a virtual EPYC, or of nothing, for tests of clients.

    from vepyc.bmc import Faults, serve

    with serve("dell", Faults(etag_races=1)) as bmc:      # or ami, hpe, lenovo, supermicro
        bmc.url, bmc.address, bmc.port                    # https://127.0.0.1:PORT, 127.0.0.1, PORT
        bmc.user, bmc.password                            # of its one account
        bmc.reach                                         # all of these and `vendor`, as texts
        bmc.ca, bmc.fingerprint                           # PEM file to trust; SHA-256 of the certificate, 64 digits
        bmc.faults.two_boots = True                       # faults can be switched while it runs; faults.py lists them
        bmc.active, bmc.pending                           # the attributes as the BMC has them
        bmc.kernel                                        # what the machine really has: {"nps": 1, "smt": True, ...}
        bmc.boot()                                        # the machine boots, as after a `reboot` of its system
        bmc.log                                           # Request(method, path, status, auth, body, headers), in order
        bmc.sessions, bmc.jobs, bmc.failed_logins         # what a client has left; wrong passwords so far
        bmc.host.on, bmc.host.boots, bmc.host.in_post     # the machine
        bmc.stop()                                        # a dead one: connections are refused

`serve(active={"NumaNodesPerSocket": "4"})` starts with other active values, `post_seconds=2` makes each POST take time,
`session_limit` and `lock_after` bound sessions and wrong passwords. In lab/tests the fixture `bmc` is `serve`, ended by
pytest: `there = bmc("hpe", Faults(two_boots=True))`.

Parts: `personality` (a vendor, from `data/`), `registry` (what may be set), `state` (active, pending, jobs, a boot),
`host` (power and POST), `accounts`, `tree` (what GET finds), `requests` (what the others do), `server`, `tls`, and
`errors`.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from . import tls
from .accounts import Accounts
from .faults import Faults
from .host import Host
from .personality import PERSONALITIES, load
from .server import Request, Server
from .state import Job

__all__ = ["PERSONALITIES", "Bmc", "Faults", "Request", "serve"]


class Bmc:
    """A running BMC, and the hand that turns its switches."""

    user = "operator"

    def __init__(
        self,
        folder: Path,
        personality: str,
        faults: Faults | None = None,
        active: Mapping[str, Any] | None = None,
        port: int = 0,
        password: str | None = None,
        power: Callable[[str], None] | None = None,
        post_seconds: float = 0,
        session_limit: int = 4,
        lock_after: int = 3,
    ) -> None:
        chosen = load(personality)
        self.faults = faults or Faults(**chosen.get("faults", {}))
        # Not with a hyphen first, which some clients take for an option.
        self.password = password or f"p{secrets.token_urlsafe(15)}"
        self.host = Host(chosen, self.faults, active or {}, power, post_seconds)
        self.accounts = Accounts(self.user, self.password, self.faults, personality, session_limit, lock_after)
        files = tls.make(folder)
        self.ca, self.fingerprint = files.ca, files.fingerprint
        self._server = Server(self.host, self.accounts, files, port)
        self.address, self.port = "127.0.0.1", int(self._server.server_address[1])
        self.url = f"https://{self.address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def reach(self) -> dict[str, str]:
        """How a client reaches it, as texts."""
        found = {"vendor": self.host.personality.name, "url": self.url, "user": self.user, "password": self.password}
        return {**found, "ca": str(self.ca), "fingerprint": self.fingerprint}

    @property
    def log(self) -> list[Request]:
        """Every request so far."""
        return list(self._server.log)

    @property
    def active(self) -> dict[str, Any]:
        """The settings in force, as the BMC sees them."""
        with self.host.lock:
            return dict(self.host.bios.active)

    @property
    def pending(self) -> dict[str, Any]:
        """The settings that wait for a boot."""
        with self.host.lock:
            return dict(self.host.bios.pending)

    @property
    def kernel(self) -> dict[str, Any]:
        """What the machine has, whatever the BMC says of it."""
        with self.host.lock:
            return dict(self.host.bios.kernel)

    @property
    def jobs(self) -> list[Job]:
        """The jobs there are, of a vendor that has them."""
        with self.host.lock:
            return list(self.host.bios.jobs.values())

    @property
    def sessions(self) -> list[str]:
        """The sessions that are open."""
        with self.host.lock:
            return list(self.accounts.sessions)

    @property
    def failed_logins(self) -> int:
        """How many passwords were refused."""
        return self.accounts.failures

    def boot(self) -> dict[str, Any]:
        """Let the machine boot; what it has after that."""
        return self.host.boot()

    def stop(self) -> None:
        """Listen no more."""
        self._server.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def serve(personality: str = "dell", faults: Faults | None = None, **more: Any) -> Iterator[Bmc]:
    """A BMC without a machine behind it, on a free port, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="vepyc-bmc-") as folder:
        bmc = Bmc(Path(folder), personality, faults, **more)
        try:
            yield bmc
        finally:
            bmc.stop()
