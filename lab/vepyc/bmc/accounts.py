# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Authentication: one account, a limit of sessions, and a lock after too many wrong passwords."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
import time
from dataclasses import dataclass, field
from email.message import Message

from .errors import RefusedRequest
from .faults import Faults


@dataclass(frozen=True)
class Session:
    """An open session."""

    id: str
    token: str
    user: str


@dataclass
class Accounts:
    """The only account of a BMC, and its sessions. Callers have to hold the lock of `Host`."""

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
    def is_locked(self) -> bool:
        """True while even the right password is refused."""
        return time.monotonic() < self._locked_until

    def require_password(self, user: object, password: object) -> None:
        """Raise RefusedRequest for a wrong password, and for any password while the account is locked."""
        is_right = hmac.compare_digest(f"{user}:{password}".encode(), f"{self.user}:{self.password}".encode())
        if self.is_locked or not is_right:
            self.failures += 1
            self._in_a_row += 1
            if self._in_a_row >= self.lock_after:
                self._locked_until = time.monotonic() + self.lock_seconds
            raise RefusedRequest(401, "NoValidSession", headers={"WWW-Authenticate": 'Basic realm="Redfish"'})
        self._in_a_row = 0

    def open_session(self, user: object, password: object) -> Session:
        """Open a session; RefusedRequest for a wrong password or too many sessions."""
        self.require_password(user, password)
        if self.faults.sessions_exhausted or len(self.sessions) >= self.session_limit:
            raise RefusedRequest(
                503, "IDRAC.2.8.RAC0218" if self.vendor in ("dell", "idrac10") else "SessionLimitExceeded"
            )
        self._made += 1
        session = Session(str(self._made), secrets.token_hex(16), str(user))
        self.sessions[session.id] = session
        return session

    def authenticate(self, headers: Message[str, str]) -> str:
        """Return by what a request is authenticated, `session N` or `basic`; RefusedRequest if it is not."""
        if token := headers.get("X-Auth-Token"):
            for session in self.sessions.values():
                if hmac.compare_digest(session.token.encode(), token.encode()):
                    return f"session {session.id}"
            raise RefusedRequest(401, "NoValidSession")
        scheme, _, encoded = (headers.get("Authorization") or "").partition(" ")
        if scheme.lower() != "basic":
            raise RefusedRequest(401, "NoValidSession", headers={"WWW-Authenticate": 'Basic realm="Redfish"'})
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            user = password = ""
        self.require_password(user, password)
        return "basic"
