# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may come in: a name and a password, few sessions, and a lock after too many wrong passwords."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from dataclasses import dataclass, field
from email.message import Message

from .errors import Refused
from .faults import Faults


@dataclass(frozen=True)
class Session:
    """An open session."""

    id: str
    token: str
    user: str


@dataclass
class Accounts:
    """The one account of a BMC, and its sessions. Whoever calls holds the server's lock."""

    user: str
    password: str
    faults: Faults
    vendor: str
    session_limit: int = 4
    lock_after: int = 3  # wrong passwords in a row
    lock_seconds: float = 300
    failures: int = 0  # wrong passwords since the start
    sessions: dict[str, Session] = field(default_factory=dict)
    _in_a_row: int = 0
    _locked_until: float = 0
    _made: int = 0

    @property
    def locked(self) -> bool:
        """Whether even the right password is refused now."""
        return time.monotonic() < self._locked_until

    def check(self, user: object, password: object) -> None:
        """Refuse a wrong password, and any while the account is locked."""
        good = hmac.compare_digest(f"{user}:{password}".encode(), f"{self.user}:{self.password}".encode())
        if self.locked or not good:
            self.failures += 1
            self._in_a_row += 1
            if self._in_a_row >= self.lock_after:
                self._locked_until = time.monotonic() + self.lock_seconds
            raise Refused(401, "NoValidSession", headers={"WWW-Authenticate": 'Basic realm="Redfish"'})
        self._in_a_row = 0

    def open(self, user: object, password: object) -> Session:
        """Make a session."""
        self.check(user, password)
        if self.faults.sessions_exhausted or len(self.sessions) >= self.session_limit:
            raise Refused(503, "IDRAC.2.8.RAC0218" if self.vendor == "dell" else "SessionLimitExceeded")
        self._made += 1
        session = Session(str(self._made), secrets.token_hex(16), str(user))
        self.sessions[session.id] = session
        return session

    def who(self, headers: Message[str, str]) -> str:
        """How a request proves who sends it: `session N` or `basic`. Refuses one that does not."""
        if token := headers.get("X-Auth-Token"):
            for session in self.sessions.values():
                if hmac.compare_digest(session.token.encode(), token.encode()):
                    return f"session {session.id}"
            raise Refused(401, "NoValidSession")
        scheme, _, encoded = (headers.get("Authorization") or "").partition(" ")
        if scheme.lower() != "basic":
            raise Refused(401, "NoValidSession", headers={"WWW-Authenticate": 'Basic realm="Redfish"'})
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user = password = ""
        self.check(user, password)
        return "basic"
