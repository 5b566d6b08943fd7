# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC: Redfish over TLS in front of a virtual EPYC, or of nothing, for tests of clients.

    from vepyc.bmc import Faults, serve_bmc

    with serve_bmc("dell", Faults(etag_races=1)) as bmc:  # or ami, hpe, idrac10, lenovo, supermicro, cisco
        bmc.url, bmc.address, bmc.port                    # https://127.0.0.1:PORT, 127.0.0.1, PORT
        bmc.user, bmc.password                            # of its only account
        bmc.access_data                                   # all of these and `vendor`, as texts
        bmc.ca, bmc.fingerprint                           # PEM file to trust; SHA-256 of the certificate, 64 digits
        bmc.faults.two_boots = True                       # faults can be switched while it runs; faults.py lists them
        bmc.active_settings, bmc.pending_settings         # attributes, as the BMC shows them
        bmc.machine_state                                 # what the machine really has: {"nps": 1, "smt": True, ...}
        bmc.boot_machine()                                # the machine boots, as after a `reboot` of its system
        bmc.request_log                                   # Request(method, path, status, auth, body, headers), in order
        bmc.open_sessions, bmc.jobs, bmc.failed_logins    # left by clients; wrong passwords so far
        bmc.host.on, bmc.host.boots, bmc.host.is_in_post  # the machine
        bmc.stop()                                        # from now on, connections are refused

`serve_bmc(active={"NumaNodesPerSocket": "4"})` starts with other active values, `post_seconds=2` makes each POST take
time, `session_limit` and `lock_after` limit sessions and wrong passwords. In lab/tests the fixture `bmc` is
`serve_bmc`, ended by pytest: `there = bmc("hpe", Faults(two_boots=True))`.

`serve_bmc(recording=Path("bmc.json"))` answers as the BMC did whose owner has sent this recording (docs/bios.md says
how they are made); such a BMC can only be read.

Modules: `personality` (a vendor, from `data/`), `registry` (allowed values), `state` (active and pending settings,
jobs, boots), `host` (power, POST), `accounts`, `tree` (resources for GET), `requests` (all methods), `server`, `tls`,
`tasks` (answers before the work is done), `recorded` (recordings of real BMCs) and `errors`.
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
from .personality import PERSONALITIES, load_personality
from .recorded import Recording
from .server import Request, Server
from .state import Job

__all__ = ["PERSONALITIES", "Bmc", "Faults", "Request", "serve_bmc"]


class Bmc:
    """A running BMC, with the methods by which a test looks into it and switches faults."""

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
        recording: Path | None = None,
    ) -> None:
        chosen = load_personality(personality)
        self.faults = faults or Faults(**chosen.get("faults", {}))
        # Never starts with a hyphen, because some clients would take the password for an option.
        self.password = password or f"p{secrets.token_urlsafe(15)}"
        self.host = Host(chosen, self.faults, active or {}, power, post_seconds)
        self.accounts = Accounts(self.user, self.password, self.faults, personality, session_limit, lock_after)
        files = tls.ensure_tls_files(folder)
        self.ca, self.fingerprint = files.ca, files.fingerprint
        replayed = Recording(recording) if recording else None
        self._server = Server(self.host, self.accounts, files, port, replayed)
        self.address, self.port = "127.0.0.1", int(self._server.server_address[1])
        self.url = f"https://{self.address}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def access_data(self) -> dict[str, str]:
        """Vendor, address, user, password and certificate that a client needs, as texts."""
        login = {"vendor": self.host.personality.name, "url": self.url, "user": self.user, "password": self.password}
        return {**login, "ca": str(self.ca), "fingerprint": self.fingerprint}

    @property
    def request_log(self) -> list[Request]:
        """Every request so far, in order."""
        return list(self._server.log)

    @property
    def active_settings(self) -> dict[str, Any]:
        """The settings in force, as the BMC shows them."""
        with self.host.lock:
            return dict(self.host.bios.active)

    @property
    def pending_settings(self) -> dict[str, Any]:
        """The settings that wait for a boot."""
        with self.host.lock:
            return dict(self.host.bios.pending)

    @property
    def machine_state(self) -> dict[str, Any]:
        """What the machine really has, which the BMC may show wrongly."""
        with self.host.lock:
            return dict(self.host.bios.machine_state)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that apply settings, for vendors that have jobs."""
        with self.host.lock:
            return list(self.host.bios.jobs.values())

    @property
    def open_sessions(self) -> list[str]:
        """The ids of open sessions."""
        with self.host.lock:
            return list(self.accounts.sessions)

    @property
    def failed_logins(self) -> int:
        """How many logins were refused."""
        return self.accounts.failures

    def boot_machine(self) -> dict[str, Any]:
        """Let the machine boot; return what it has afterwards, as {"nps": 4, ...}."""
        return self.host.boot_machine()

    def stop(self) -> None:
        """Stop listening, and end the server's thread."""
        self._server.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextlib.contextmanager
def serve_bmc(personality: str = "dell", faults: Faults | None = None, **options: Any) -> Iterator[Bmc]:
    """Run a BMC without a machine behind it, on a free port, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="vepyc-bmc-") as folder:
        bmc = Bmc(Path(folder), personality, faults, **options)
        try:
            yield bmc
        finally:
            bmc.stop()
