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
from http.client import HTTPException
from urllib.parse import urlsplit

from . import pinned_certificate
from .addresses import bmc_address_to_https_url, redirection_to_path, uri_to_path
from .bodies import MAX_RESPONSE_BYTES, parse_body
from .responses import BmcBusy, BmcError, NoRedfish, RequestRefused, Response, bmc_connection_error_message
from .scrubbing import Scrubber, encode_basic_credentials
from .time_limit import call_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

SERVICE_ROOT = "/redfish/v1"
SESSIONS_PATH = f"{SERVICE_ROOT}/SessionService/Sessions"
#: Seconds to wait after each response of a busy BMC; after the last pause the request is sent a last time.
BUSY_PAUSES = (1, 2, 4, 8, 15, 30)
BUSY_STATUSES = (429, 503)
#: Statuses of a gateway whose service starts. A request may have been done all the same, so it is only repeated where
#: a repetition does no harm.
GATEWAY_STATUSES = (502, 504)
#: How a request proves who sends it: by the token of a session, or by the password in each request.
SESSION, BASIC = "session", "basic"
#: Statuses that say that a session has ended: it is ended now, or its token is not known any more.
SESSION_ENDED_STATUSES = (200, 202, 204, 401)
#: Words in the response of a BMC that has no free session: iDRAC (RAC0218) and the standard registry of messages.
NO_SESSION_WORDS = (
    "RAC0218",
    "SessionLimitExceeded",
    "CreateLimitReachedForResource",
    "maximum number of user sessions",
    "session limit",
)


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
        auth: str = SESSION,
    ) -> None:
        self.base_url = bmc_address_to_https_url(address)
        self.username = username
        self.password = password
        self.ca_path = ca_path
        self.certificate_sha256 = pinned_certificate.parse_sha256_fingerprint(fingerprint) if fingerprint else None
        self.validate_certs = validate_certs
        self.timeout = timeout
        self.patience = patience
        self.auth = auth
        #: Takes the password, and later the token of the session, out of what is shown.
        self.scrubber = Scrubber(username, password)

    @property
    def bmc_name(self) -> str:
        return urlsplit(self.base_url).netloc

    @property
    def host_name(self) -> str:
        """Return the name or the address of the BMC, without a port."""
        return urlsplit(self.base_url).hostname or ""


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
        #: Where the BMC named the session: its Location, or its body; "" where it did not.
        self.session_place = ""
        #: Sentences on what could not be done, and yet fails no run.
        self.remarks: list[str] = []
        self._password_is_refused = False
        #: The last response to each GET, by its path, while they are recorded; None while they are not.
        self.recorded: dict[str, Response] | None = None

    def __enter__(self) -> RedfishClient:
        """Start the session. A BMC without sessions gets the password with each request instead."""
        if self.access.auth == BASIC:
            return self
        body = {"UserName": self.access.username, "Password": self.access.password}
        response = self._send_until_not_busy("POST", SESSIONS_PATH, body, {})
        name = self.access.bmc_name
        if response.messages_contain_any(*NO_SESSION_WORDS):
            raise BmcError(
                f"The BMC {name} has no free session. Old sessions end by themselves, on most BMCs "
                "after 20 to 30 minutes; run again then, or end them in its web interface. Nothing was changed."
            )
        if response.status in (401, 403):
            raise self._refused_password_error(response)
        self._token = response.headers.get("x-auth-token")
        if self._token:
            self.access.scrubber.add_secret(self._token)
        if response.status in (404, 405, 501):
            raise BmcError(
                f"The BMC {name} has no service of sessions, or it is off: {response.status_and_error_messages()} Say "
                "auth: basic, which sends the password with each request. Nothing was changed."
            )
        if response.status not in (200, 201, 204) or not self._token:
            raise BmcError(
                f"The BMC {name} gives no session: {response.status_and_error_messages()} Nothing was changed."
            )
        named_in_body = response.body.get("@odata.id") or response.body.get("Id")
        self.session_place = "its Location" if response.headers.get("location") else "its body" if named_in_body else ""
        session_id = str(response.body.get("Id") or "")
        self._session = (
            response.headers.get("location")
            or str(response.body.get("@odata.id") or "")
            or (f"{SESSIONS_PATH}/{session_id}" if session_id else None)
        )
        return self

    def _refused_password_error(self, response: Response) -> BmcError:
        self._password_is_refused = True
        hint = " A BMC without sessions answers so too: it needs auth: basic." if self.access.auth == SESSION else ""
        return BmcError(
            f"The BMC {self.access.bmc_name} refuses the user or the password{response.quote_error_messages()}. The "
            "request was not repeated, because BMCs lock accounts. Check the username and the password, or wait until "
            f"a locked account is free.{hint} Nothing was changed."
        )

    def __exit__(self, *dummy: object) -> None:
        """End the session. A failure to end the session is a remark, so that it hides no earlier error."""
        if self._token:
            try:
                reason = self._end_session()
            except BmcError as error:
                reason = str(error)
            if reason:
                self.remarks.append(
                    f"The session at the BMC {self.access.bmc_name} could not be ended: {reason} It ends by itself, on "
                    "most BMCs after 20 to 30 minutes. A BMC has few sessions."
                )
        self._token = self._session = None

    def _end_session(self) -> str:
        """End the session, and return the reason why it could not be ended; "" where it has ended."""
        path = self._session or self._find_only_session()
        if path is None:
            return "the BMC did not name it, and has others."
        response = self._send_until_not_busy("DELETE", path, None, {})
        return "" if response.status in SESSION_ENDED_STATUSES else response.status_and_error_messages()

    def _find_only_session(self) -> str | None:
        """Return the path of the only session of the BMC, which has to be this one; None where there are others."""
        members = self.fetch_resource_body(SESSIONS_PATH).get("Members")
        only = members[0] if isinstance(members, list) and len(members) == 1 else None
        return str(only.get("@odata.id") or "") or None if isinstance(only, dict) else None

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

    def send_request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        wants_resource: bool = True,
    ) -> Response:
        """Send a request until the BMC is not busy, and return the response with any status but 401.

        Raises NoRedfish for a GET that is answered by 200 and what is no JSON object, unless ``wants_resource`` is
        false.
        """
        response = self._send_until_not_busy(method, path, body, headers or {}, wants_resource)
        if response.status == 401 and self.access.auth == BASIC:
            raise self._refused_password_error(response)
        if response.status == 401:
            raise BmcError(
                f"The BMC {self.access.bmc_name} ended the session in the middle of the run. Somebody else may have "
                "ended it, or the BMC was reset. Run again."
            )
        return response

    def _send_until_not_busy(
        self, method: str, path: str, body: Any, headers: dict[str, str], wants_resource: bool = False
    ) -> Response:
        waited = 0.0
        is_repeatable = method in ("GET", "PATCH", "DELETE") or path == SESSIONS_PATH
        for pause in (*BUSY_PAUSES, None):
            response = self._send_following_redirects(method, path, body, headers)
            if method == "GET" and self.recorded is not None:
                self.recorded[uri_to_path(self.access.bmc_name, path)] = response
            is_no_resource = wants_resource and method == "GET" and response.status == 200 and not response.is_object
            is_busy = response.status in BUSY_STATUSES or (response.status in GATEWAY_STATUSES and is_repeatable)
            if not is_no_resource and (not is_busy or response.messages_contain_any(*NO_SESSION_WORDS)):
                return response
            seconds = response.retry_after_seconds() or pause
            if pause is None or seconds is None or waited + seconds > self.access.patience:
                break
            self.sleep(seconds)
            waited += seconds
        if is_no_resource:
            raise NoRedfish(
                f"The BMC {self.access.bmc_name} answers {path} with what is no Redfish: {response.flaw}. A service "
                "that starts may do so for some minutes; run again then. Nothing is known of this resource.",
                again=True,
            )
        raise BmcBusy(
            f"The BMC {self.access.bmc_name} is busy{response.quote_error_messages()}: it did not take {method} "
            f"{path} within {self.access.patience:.0f} seconds. BMCs need some minutes after a reset; run again then.",
            again=True,
        )

    def _send_following_redirects(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Response:
        name = self.access.bmc_name
        target = uri_to_path(name, path)
        for dummy in range(3):
            response = self._send_once_without_redirects(method, target, body, headers)
            if response.status not in (301, 302, 303, 307, 308):
                return response
            location = response.headers.get("location", "")
            next_target = redirection_to_path(self.access.base_url, target, location)
            if next_target is None:
                raise BmcError(
                    f"The BMC {name} sends the request to another place, {location}. That was refused, because the "
                    "password would go there."
                )
            is_same_path = response.status in (301, 302) and next_target.rstrip("/") == target.rstrip("/")
            if method not in ("GET", "HEAD") and response.status not in (307, 308) and not is_same_path:
                break
            target = next_target
        raise BmcError(f"The BMC {name} answers {method} {path} with a redirection that leads nowhere.")

    def _send_once_without_redirects(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Response:
        if self._password_is_refused:
            raise BmcError(f"The BMC {self.access.bmc_name} has refused the password, so it gets no other request.")
        request_headers = {"Accept": "application/json", "OData-Version": "4.0", **headers}
        if self._token:
            request_headers["X-Auth-Token"] = self._token
        if self.access.auth == BASIC:
            credentials = encode_basic_credentials(self.access.username, self.access.password)
            request_headers["Authorization"] = f"Basic {credentials}"
        data = None
        if body is not None:
            request_headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        url = f"{self.access.base_url}{path}"
        try:
            return call_within(self.access.timeout, lambda: self._exchange(method, url, data, request_headers))
        except (OSError, HTTPException) as error:
            # A later run may reach the BMC, but an untrusted certificate stays untrusted.
            again = not isinstance(getattr(error, "reason", error), ssl.SSLError)
            raise BmcError(
                bmc_connection_error_message(self.access.bmc_name, error, self.access.timeout), again=again
            ) from None

    def _exchange(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> Response:
        try:
            with self._open_url(
                method,
                url,
                data=data,
                headers=headers,
                timeout=self.access.timeout,
                use_proxy=False,
                use_netrc=False,
                follow_redirects="none",
                validate_certs=self.access.validate_certs,
                ca_path=self.access.ca_path,
                context=self._context,
            ) as reply:
                return self._parse_http_response(reply.status, reply.headers, reply.read(MAX_RESPONSE_BYTES + 1))
        except urllib.error.HTTPError as error:
            with error:
                return self._parse_http_response(error.code, error.headers, error.read(MAX_RESPONSE_BYTES + 1))

    def _parse_http_response(self, status: int, headers: Any, body_bytes: bytes) -> Response:
        body, flaw = parse_body(body_bytes)
        return Response(
            status, {key.lower(): value for key, value in headers.items()}, body, self.access.scrubber, flaw
        )
