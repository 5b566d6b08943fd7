# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the Redfish service of one BMC, within one session that is ended whatever happens.

A BMC is a small computer that locks accounts, has few sessions, and answers slowly after a reset. So a refused password
is never tried twice, a session never outlives the run, a busy BMC is asked again at growing intervals, and no two
requests are sent at once. Certificates are verified, by a pinned fingerprint where one is given.
Source: DMTF DSP0266 (the Redfish specification), sections on sessions, ETags and HTTP redirects.
"""

from __future__ import annotations

import gzip
import json
import ssl
import time
import urllib.error
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urljoin, urlsplit

from . import pinned_certificate
from .responses import Answer, BmcError, Busy, RefusedByBmc, explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
#: Seconds between the attempts at a BMC that says it is busy; the last one is its last chance.
PAUSES = (1, 2, 4, 8, 15, 30)
BUSY = (429, 503)
#: What a registry of BIOS attributes may have at most, in bytes.
LARGEST = 64 << 20
#: Words in the answer of a BMC that has no session left: iDRAC (RAC0218) and the standard registry of messages.
NO_SESSION = ("RAC0218", "SessionLimitExceeded", "maximum number of user sessions", "session limit")


class Access:
    """Where a BMC is, who asks, and how its certificate is verified."""

    def __init__(
        self,
        address: str,
        username: str,
        password: str,
        ca_path: str | None = None,
        fingerprint: str | None = None,
        validate_certs: bool = True,
        timeout: float = 30,
        patience: float = 60,
    ) -> None:
        self.base = base_of(address)
        self.username = username
        self.password = password
        self.ca_path = ca_path
        self.pin = pinned_certificate.parse_fingerprint(fingerprint) if fingerprint else None
        self.validate_certs = validate_certs
        self.timeout = timeout
        self.patience = patience

    @property
    def name(self) -> str:
        """Return the name of the BMC for messages."""
        return urlsplit(self.base).netloc


def base_of(address: str) -> str:
    """Return the address of a BMC as the beginning of a URL; only HTTPS, because the password goes there."""
    text = address if "://" in address else f"https://{address}"
    named = address
    try:
        parts = urlsplit(text)
        named = parts.hostname or address
        right = parts.scheme == "https" and parts.hostname and not parts.path.strip("/") and not parts.query
        # Reading the port raises ValueError where it is none.
        if right and "@" not in parts.netloc and parts.port != 0:
            return f"https://{parts.netloc}"
    except ValueError:
        pass
    raise BmcError(
        f"bmc: '{named}' is no BMC; say a name such as bmc7.example.com, or a URL that begins with https://."
    )


class Client:
    """One session at one BMC; use it in a with statement."""

    def __init__(self, access: Access, send: Callable[..., Any], sleep: Callable[[float], None] = time.sleep) -> None:
        self.access = access
        self._send = send
        self._sleep = sleep
        self._context = pinned_certificate.pinned(access.pin) if access.pin else None
        self._token: str | None = None
        self._session: str | None = None

    def __enter__(self) -> Client:
        """Start the session."""
        body = {"UserName": self.access.username, "Password": self.access.password}
        answer = self._patiently("POST", SESSIONS, body, {})
        if answer.status in (401, 403) and not answer.says(*NO_SESSION):
            raise BmcError(
                f"The BMC {self.access.name} refuses the user or the password{answer.reason()}. It was not asked "
                "again, because BMCs lock accounts. Check the username and the password, or wait until a locked "
                "account is free. Nothing was changed."
            )
        if answer.says(*NO_SESSION):
            raise BmcError(
                f"The BMC {self.access.name} has no session left. Old ones end by themselves, on most BMCs after 20 to "
                "30 minutes; run again then, or end them in its web interface. Nothing was changed."
            )
        self._token = answer.headers.get("x-auth-token")
        if answer.status not in (200, 201, 204) or not self._token:
            raise BmcError(f"The BMC {self.access.name} gives no session: {answer.sentence()} Nothing was changed.")
        self._session = answer.headers.get("location") or answer.body.get("@odata.id")
        return self

    def __exit__(self, *dummy: object) -> None:
        """End the session. That this fails is no reason to hide what happened in it."""
        if self._session:
            with suppress(BmcError):
                self._once("DELETE", self._session, None, {})
        self._token = self._session = None

    def get(self, path: str) -> dict[str, Any]:
        """Return a resource; raises RefusedByBmc where there is none."""
        answer = self.ask("GET", path)
        if answer.status != 200:
            raise RefusedByBmc(f"The BMC {self.access.name} does not give {path}: {answer.sentence()}", answer)
        return answer.body

    def find(self, path: str) -> Answer | None:
        """Return the answer with a resource, None where there is none."""
        answer = self.ask("GET", path)
        if answer.status in (404, 405, 410, 501):
            return None
        if answer.status != 200:
            raise RefusedByBmc(f"The BMC {self.access.name} does not give {path}: {answer.sentence()}", answer)
        return answer

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """Send a request and return the answer, whatever its status; a busy BMC is asked again."""
        answer = self._patiently(method, path, body, headers or {})
        if answer.status == 401:
            raise BmcError(
                f"The BMC {self.access.name} ended the session in the middle of the run. Somebody else may have "
                "ended it, or the BMC was reset. Run again."
            )
        return answer

    def _patiently(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        waited = 0.0
        for pause in (*PAUSES, None):
            answer = self._once(method, path, body, headers)
            if answer.status not in BUSY or answer.says(*NO_SESSION):
                return answer
            wanted = answer.seconds_to_wait() or pause
            if pause is None or wanted is None or waited + wanted > self.access.patience:
                break
            self._sleep(wanted)
            waited += wanted
        raise Busy(
            f"The BMC {self.access.name} is busy{answer.reason()}: it did not take {method} {path} within "
            f"{self.access.patience:.0f} seconds. BMCs need some minutes after a reset; run again then.",
            again=True,
        )

    def _once(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        url = urljoin(f"{self.access.base}/", path)
        for dummy in range(3):
            answer = self._plainly(method, url, body, headers)
            if answer.status not in (301, 302, 303, 307, 308):
                return answer
            url = urljoin(url, answer.headers.get("location", ""))
            if urlsplit(url)[:2] != urlsplit(self.access.base)[:2]:
                raise BmcError(
                    f"The BMC {self.access.name} sends the request to another place, {urlsplit(url).scheme}://"
                    f"{urlsplit(url).netloc}. That was refused, because the password would go there."
                )
            if method not in ("GET", "HEAD") and answer.status not in (307, 308):
                break
        raise BmcError(f"The BMC {self.access.name} answers {method} {path} with a redirection that leads nowhere.")

    def _plainly(self, method: str, url: str, body: Any, headers: dict[str, str]) -> Answer:
        if urlsplit(url)[:2] != urlsplit(self.access.base)[:2]:
            raise BmcError(f"The BMC {self.access.name} names a resource at another place, {urlsplit(url).netloc}.")
        told = {"Accept": "application/json", "OData-Version": "4.0", **headers}
        if self._token:
            told["X-Auth-Token"] = self._token
        data = None
        if body is not None:
            told["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            with self._send(
                method,
                url,
                data=data,
                headers=told,
                timeout=self.access.timeout,
                use_proxy=False,
                use_netrc=False,
                follow_redirects="none",
                validate_certs=self.access.validate_certs,
                ca_path=self.access.ca_path,
                context=self._context,
            ) as response:
                return self._answer(response.status, response.headers, response.read(LARGEST))
        except urllib.error.HTTPError as error:
            with error:
                return self._answer(error.code, error.headers, error.read(LARGEST))
        except (OSError, HTTPException) as error:
            # What may be there later can be asked again; a certificate that is not trusted stays so.
            again = not isinstance(getattr(error, "reason", error), ssl.SSLError)
            raise BmcError(explain(self.access.name, error, self.access.timeout), again=again) from None

    def _answer(self, status: int, headers: Any, data: bytes) -> Answer:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        try:
            body = json.loads(data) if data.strip() else {}
        except ValueError:
            # A proxy, a login page, or a web server in front of a service that is not up yet.
            body = {}
        return Answer(status, {key.lower(): value for key, value in headers.items()}, body, self.access.password)
