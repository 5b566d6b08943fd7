# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to HTTP servers of files: sending requests, reading facts about the file from headers, and error messages.

Source: RFC 9110; RFC 9530 for the header Repr-Digest, and RFC 3230 for Digest, which it replaces. Headers X-Linked and
X-Error are those of Hugging Face hubs, as huggingface_hub reads them (get_hf_file_metadata, hf_raise_for_status).
"""

from __future__ import annotations

import base64
import binascii
import http.client
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from ..._errors import BadRequest, TuningError
from ..._notation.ip_addresses import LOOPBACK
from ..._notation.numbers import parse_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The header with a token, which is not sent to the server of a redirection.
AUTHORIZATION = "Authorization"
#: Explanations of status codes after which a new try is useless.
STATUS_REASONS = {401: "it asks for a key", 403: "it is forbidden", 404: "it has no such file", 410: "it is gone"}


class ServedFile:
    """Size, validator and SHA-256 of a server's file, from its headers; None for each that is not sent."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.size = parse_whole_number(headers.get("Content-Length"))
        # Only a strong validator promises equal bytes; Last-Modified counts as strong by RFC 9110, 8.8.2.2.
        tag = headers.get("ETag")
        self.validator: str | None = tag if tag and tag.startswith('"') else headers.get("Last-Modified")
        self.sha256 = parse_sha256_header(headers)


def validate_url(url: str, option: str = "url") -> None:
    """Raise BadRequest for a text that is no URL, and for other protocols than HTTP."""
    try:
        # urlsplit raises ValueError for an open bracket, and its port for a text that is no port.
        is_url = urlsplit(url).scheme in ("http", "https") and urlsplit(url).port != 0 and len(url.split()) == 1
    except ValueError:
        is_url = False
    if not is_url:
        raise BadRequest(f"{option}: '{url}' cannot be fetched; say one that begins with https:// or http://.")


def fetch_file_headers(url: str, timeout: float, headers: Mapping[str, str] | None = None) -> ServedFile:
    """Return size, validator and digest of a server's file by a HEAD request.

    After a redirection the digest of the first server counts. A hub also sends the size with its redirection, because
    the storage server that it redirects to may refuse HEAD. BadRequest where a hub denies access to the file.
    """
    redirects = Redirects()
    try:
        with open_url(url, timeout, dict(headers or {}), method="HEAD", redirects=redirects) as response:
            remote = ServedFile(response.headers)
    except (OSError, http.client.HTTPException) as error:
        if reason := _access_denied_reason(url, error):
            raise BadRequest(reason) from None
        if not any("X-Linked-Size" in headers for headers in redirects.redirect_headers[:1]):
            raise TuningError(f"{url} cannot be fetched: {failed_request_reason(error)}.") from None
        remote = ServedFile({})
    for first in redirects.redirect_headers[:1]:
        remote.sha256 = parse_sha256_header(first)
        remote.size = parse_whole_number(first.get("X-Linked-Size")) or remote.size
    return remote


def is_encrypted_or_local(url: str) -> bool:
    """Return whether a URL is encrypted or on this host, so that nobody in the network can read or change its data."""
    split = urlsplit(url)
    return split.scheme == "https" or split.hostname in LOOPBACK


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections and stores the headers of each: some servers send facts about the file only there."""

    def __init__(self) -> None:
        self.redirect_headers: list[Mapping[str, str]] = []

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Store the headers and follow the redirection; the token is sent only to the same server."""
        self.redirect_headers.append(headers)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request and req.get_method() == "HEAD":
            request.method = "HEAD"  # Older Pythons would send GET after a redirection.
        token = req.unredirected_hdrs.get(AUTHORIZATION)
        if request and token and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
            request.add_unredirected_header(AUTHORIZATION, token)
        return request


class ProxyForOtherHosts(urllib.request.ProxyHandler):
    """Sends requests through the proxies of the environment, except for requests to this host.

    A proxy elsewhere cannot reach the loopback of this host, and would get the token of the request.
    """

    def proxy_open(self, req: Any, proxy: str, type: str) -> Any:
        """Return None for a request that goes to its server directly, as the class of the standard library does."""
        return None if urlsplit(req.full_url).hostname in LOOPBACK else super().proxy_open(req, proxy, type)


def open_url(
    url: str, timeout: float, headers: dict[str, str], method: str = "GET", redirects: Redirects | None = None
) -> Any:
    """Send a request, through the proxy of the environment for other hosts, and follow redirections within HTTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        ProxyForOtherHosts(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        redirects or Redirects(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    # Servers of models refuse Python's own User-Agent.
    headers = {"User-Agent": "sovereign.epyc", "Accept-Encoding": "identity", **headers}
    token = headers.pop(AUTHORIZATION, None)
    request = urllib.request.Request(url, headers=headers, method=method)
    if token:
        request.add_unredirected_header(AUTHORIZATION, token)
    return opener.open(request, timeout=timeout)


def permanent_request_error(url: str, error: Exception) -> TuningError:
    """Return the TuningError for a failed request that would fail again."""
    if reason := _access_denied_reason(url, error):
        return BadRequest(reason)
    if isinstance(error, urllib.error.HTTPError):
        reason = f": {STATUS_REASONS[error.code]}" if error.code in STATUS_REASONS else ""
        return TuningError(
            f"{url} cannot be fetched: the server answers {error.code} {error.reason}{reason}. Check the URL."
        )
    trust = "its certificate is not trusted here: " if is_untrusted_certificate(error) else ""
    return TuningError(f"{url} cannot be fetched: {trust}{failed_request_reason(error)}.")


def _access_denied_reason(url: str, error: Exception) -> str:
    """Return why a hub denies access to a file, with what to do; an empty text for any other error."""
    page, at, dummy = url.partition("/resolve/")
    if not at or not isinstance(error, urllib.error.HTTPError) or error.code not in (401, 403):
        return ""
    if urlsplit(error.filename or url)[1] != urlsplit(url)[1]:
        return ""  # The store that the hub redirects to has refused the request.
    if error.headers.get("X-Error-Code") == "GatedRepo":
        return f"{url} is gated: accept its licence at {page} and set epyc_llama_hub_token to a token of that account."
    return (
        f"{url} cannot be fetched: the hub answers {error.code} {error.reason}. Either there is no {page}, so check its"
        " name; or it is not for everybody, so set epyc_llama_hub_token to a token of an account that may read it."
    )


def is_untrusted_certificate(error: Exception) -> bool:
    """Return whether a request failed because the server's certificate is not trusted."""
    return type(getattr(error, "reason", None)).__name__ == "SSLCertVerificationError"


def failed_request_reason(error: Exception) -> str:
    """Return the reason of a failed request as a part of a message."""
    reason = getattr(error, "reason", None)
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(reason, OSError):
        return reason.strerror or str(reason)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def parse_first_byte_and_total(text: str) -> tuple[int | None, int | None]:
    """Return the first byte and the total of a Content-Range such as 'bytes 100-199/200'; None for missing ones."""
    unit, dummy, rest = text.partition(" ")
    span, dummy, total = rest.partition("/")
    begin = span.partition("-")[0]
    return (parse_whole_number(begin) if unit == "bytes" else None), parse_whole_number(total)


def parse_sha256_header(headers: Mapping[str, str]) -> str | None:
    """Return the SHA-256 of the whole file, in hexadecimal, from the headers of a response; None where it is missing.

    Hugging Face sends it as X-Linked-ETag with the redirection to the file.
    """
    digits = (headers.get("X-Linked-ETag") or "").strip('"').lower()
    if len(digits) == 64 and set(digits) <= set("0123456789abcdef"):
        return digits
    for word in ",".join(headers.get(name) or "" for name in ("Repr-Digest", "Digest")).split(","):
        name, dummy, text = word.strip().partition("=")
        try:
            digest = base64.b64decode(text.strip(":"), validate=True) if name.lower() == "sha-256" else b""
        except binascii.Error:
            continue
        if len(digest) == 32:
            return digest.hex()
    return None
