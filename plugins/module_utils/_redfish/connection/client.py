# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to the Redfish service of one BMC, within one session that is always ended.

A BMC is a small computer that locks accounts, has few sessions, and answers slowly after a reset. So a refused password
is never tried twice, a session never outlives the run, a request is repeated at growing intervals while the BMC is
busy, and no two requests are sent at once. Certificates are verified, or compared with a pinned fingerprint.
Source: DMTF DSP0266 (the Redfish specification), sections on sessions, ETags and HTTP redirects.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import zlib
from contextlib import suppress
from http.client import HTTPException
from urllib.parse import urljoin, urlsplit

from ..._io.foreign_json import parse_json
from . import pinned_certificate
from .responses import BmcBusy, BmcError, RequestRefused, Response, bmc_connection_error_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SERVICE_ROOT = "/redfish/v1"
SESSIONS_PATH = f"{SERVICE_ROOT}/SessionService/Sessions"
#: Seconds to wait after each response of a busy BMC; after the last pause the request is sent a last time.
BUSY_PAUSES = (1, 2, 4, 8, 15, 30)
BUSY_STATUSES = (429, 503)
#: The largest response, which is a registry of BIOS attributes, in bytes.
MAX_RESPONSE_BYTES = 64 << 20
#: The first bytes of a body in the gzip format, and the argument by which zlib reads this format.
GZIP_MAGIC, GZIP_WINDOW_BITS = b"\x1f\x8b", 31
#: Words in the response of a BMC that has no free session: iDRAC (RAC0218) and the standard registry of messages.
NO_SESSION_WORDS = ("RAC0218", "SessionLimitExceeded", "maximum number of user sessions", "session limit")


class BmcAccess:
    """The address of a BMC, the account to use, and how its certificate is verified."""

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
        self.base_url = bmc_address_to_https_url(address)
        self.username = username
        self.password = password
        self.ca_path = ca_path
        self.certificate_sha256 = pinned_certificate.parse_sha256_fingerprint(fingerprint) if fingerprint else None
        self.validate_certs = validate_certs
        self.timeout = timeout
        self.patience = patience

    @property
    def bmc_name(self) -> str:
        return urlsplit(self.base_url).netloc


def bmc_address_to_https_url(address: str) -> str:
    """Return scheme, host and port of a BMC as a URL. Only HTTPS is accepted, because the password is sent there."""
    text = address if "://" in address else f"https://{address}"
    shown = address
    try:
        parts = urlsplit(text)
        shown = parts.hostname or address
        is_valid = parts.scheme == "https" and parts.hostname and not parts.path.strip("/") and not parts.query
        # The property port raises ValueError for a port that is no number.
        if is_valid and "@" not in parts.netloc and parts.port != 0:
            return f"https://{parts.netloc}"
    except ValueError:
        pass
    raise BmcError(
        f"bmc: '{shown}' is no BMC; say a name such as bmc7.example.com, or a URL that begins with https://."
    )


class RedfishClient:
    """A session at a BMC; a with statement starts and ends the session."""

    def __init__(
        self, access: BmcAccess, open_url: Callable[..., Any], sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.access = access
        self._open_url = open_url
        self.sleep = sleep
        self._context = (
            pinned_certificate.make_pinned_tls_context(access.certificate_sha256) if access.certificate_sha256 else None
        )
        self._token: str | None = None
        self._session: str | None = None

    def __enter__(self) -> RedfishClient:
        """Start the session."""
        body = {"UserName": self.access.username, "Password": self.access.password}
        response = self._send_until_not_busy("POST", SESSIONS_PATH, body, {})
        if response.status in (401, 403) and not response.messages_contain_any(*NO_SESSION_WORDS):
            raise BmcError(
                f"The BMC {self.access.bmc_name} refuses the user or the password{response.quote_error_messages()}. "
                "The request was not repeated, because BMCs lock accounts. Check the username and the password, or "
                "wait until a locked account is free. Nothing was changed."
            )
        if response.messages_contain_any(*NO_SESSION_WORDS):
            raise BmcError(
                f"The BMC {self.access.bmc_name} has no free session. Old sessions end by themselves, on most BMCs "
                "after 20 to 30 minutes; run again then, or end them in its web interface. Nothing was changed."
            )
        self._token = response.headers.get("x-auth-token")
        if response.status not in (200, 201, 204) or not self._token:
            raise BmcError(
                f"The BMC {self.access.bmc_name} gives no session: {response.status_and_error_messages()} "
                "Nothing was changed."
            )
        self._session = response.headers.get("location") or response.body.get("@odata.id")
        return self

    def __exit__(self, *dummy: object) -> None:
        """End the session. A failure to end the session is ignored, so that it hides no earlier error."""
        if self._session:
            with suppress(BmcError):
                self._send_following_redirects("DELETE", self._session, None, {})
        self._token = self._session = None

    def fetch_resource_body(self, path: str) -> dict[str, Any]:
        """Return the body of a resource; raises RequestRefused for any status but 200."""
        return self._require_status_200(path, self.send_request("GET", path)).body

    def fetch_resource_if_present(self, path: str) -> Response | None:
        """Return the response with a resource, None for a resource that the BMC does not have."""
        response = self.send_request("GET", path)
        return None if response.status in (404, 405, 410, 501) else self._require_status_200(path, response)

    def _require_status_200(self, path: str, response: Response) -> Response:
        if response.status != 200:
            message = f"The BMC {self.access.bmc_name} does not give {path}: {response.status_and_error_messages()}"
            raise RequestRefused(message, response)
        return response

    def send_request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Response:
        """Send a request until the BMC is not busy, and return the response with any status but 401."""
        response = self._send_until_not_busy(method, path, body, headers or {})
        if response.status == 401:
            raise BmcError(
                f"The BMC {self.access.bmc_name} ended the session in the middle of the run. Somebody else may have "
                "ended it, or the BMC was reset. Run again."
            )
        return response

    def _send_until_not_busy(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Response:
        waited = 0.0
        for pause in (*BUSY_PAUSES, None):
            response = self._send_following_redirects(method, path, body, headers)
            if response.status not in BUSY_STATUSES or response.messages_contain_any(*NO_SESSION_WORDS):
                return response
            seconds = response.retry_after_seconds() or pause
            if pause is None or seconds is None or waited + seconds > self.access.patience:
                break
            self.sleep(seconds)
            waited += seconds
        raise BmcBusy(
            f"The BMC {self.access.bmc_name} is busy{response.quote_error_messages()}: it did not take {method} "
            f"{path} within {self.access.patience:.0f} seconds. BMCs need some minutes after a reset; run again then.",
            again=True,
        )

    def _send_following_redirects(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Response:
        url = urljoin(f"{self.access.base_url}/", path)
        for dummy in range(3):
            response = self._send_once_without_redirects(method, url, body, headers)
            if response.status not in (301, 302, 303, 307, 308):
                return response
            url = urljoin(url, response.headers.get("location", ""))
            if urlsplit(url)[:2] != urlsplit(self.access.base_url)[:2]:
                raise BmcError(
                    f"The BMC {self.access.bmc_name} sends the request to another place, {urlsplit(url).scheme}://"
                    f"{urlsplit(url).netloc}. That was refused, because the password would go there."
                )
            if method not in ("GET", "HEAD") and response.status not in (307, 308):
                break
        raise BmcError(f"The BMC {self.access.bmc_name} answers {method} {path} with a redirection that leads nowhere.")

    def _send_once_without_redirects(self, method: str, url: str, body: Any, headers: dict[str, str]) -> Response:
        if urlsplit(url)[:2] != urlsplit(self.access.base_url)[:2]:
            raise BmcError(f"The BMC {self.access.bmc_name} names a resource at another place, {urlsplit(url).netloc}.")
        request_headers = {"Accept": "application/json", "OData-Version": "4.0", **headers}
        if self._token:
            request_headers["X-Auth-Token"] = self._token
        data = None
        if body is not None:
            request_headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        try:
            with self._open_url(
                method,
                url,
                data=data,
                headers=request_headers,
                timeout=self.access.timeout,
                use_proxy=False,
                use_netrc=False,
                follow_redirects="none",
                validate_certs=self.access.validate_certs,
                ca_path=self.access.ca_path,
                context=self._context,
            ) as reply:
                return self._parse_http_response(reply.status, reply.headers, reply.read(MAX_RESPONSE_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return self._parse_http_response(error.code, error.headers, error.read(MAX_RESPONSE_BYTES))
        except (OSError, HTTPException) as error:
            # A later run may reach the BMC, but an untrusted certificate stays untrusted.
            again = not isinstance(getattr(error, "reason", error), ssl.SSLError)
            raise BmcError(
                bmc_connection_error_message(self.access.bmc_name, error, self.access.timeout), again=again
            ) from None

    def _parse_http_response(self, status: int, headers: Any, body_bytes: bytes) -> Response:
        try:
            if body_bytes[:2] == GZIP_MAGIC:
                body_bytes = zlib.decompressobj(GZIP_WINDOW_BITS).decompress(body_bytes, MAX_RESPONSE_BYTES)
            body = parse_json(body_bytes) if body_bytes.strip() else {}
        except (ValueError, zlib.error):
            # The body is HTML of a proxy, of a login page, or of a web server whose Redfish service has not started.
            body = {}
        return Response(status, {key.lower(): value for key, value in headers.items()}, body, self.access.password)
