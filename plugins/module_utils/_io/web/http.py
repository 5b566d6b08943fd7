# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to HTTP servers that have files: how one is sent, what the answer says of the file, and errors in words.

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
from ..._notation.numbers import parse_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: The header with a token, which goes to the server that was named and to no other.
AUTHORIZATION = "Authorization"
#: What to say beside a status code that will not pass.
STATUS_REASONS = {401: "it asks for a key", 403: "it is forbidden", 404: "it has no such file", 410: "it is gone"}


class ServedFile:
    """What a server says about its file; None for a size or a validator that it does not send."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self.size = parse_whole(headers.get("Content-Length"))
        # Only a strong validator promises the same bytes; the time of the last change is one by RFC 9110, 8.8.2.2.
        tag = headers.get("ETag")
        self.validator: str | None = tag if tag and tag.startswith('"') else headers.get("Last-Modified")
        self.sha256 = parse_sha256_header(headers)


def validate_url(url: str, option: str = "url") -> None:
    """Refuse other protocols than HTTP, and what is no URL."""
    try:
        # Reading the port raises ValueError where it is none, and reading the rest where a bracket is not closed.
        right = urlsplit(url).scheme in ("http", "https") and urlsplit(url).port != 0 and len(url.split()) == 1
    except ValueError:
        right = False
    if not right:
        raise BadRequest(f"{option}: '{url}' cannot be fetched; say one that begins with https:// or http://.")


def fetch_file_headers(url: str, timeout: float, headers: Mapping[str, str] | None = None) -> ServedFile:
    """Ask for the size, the validator and the digest without fetching the file.

    Where a server redirects, it alone is believed on the digest; a hub also says the size, and the store behind it may
    refuse this kind of request. BadRequest where a hub does not give the file to everybody.
    """
    redirects = Redirects()
    try:
        with open_url(url, timeout, dict(headers or {}), method="HEAD", redirects=redirects) as response:
            remote = ServedFile(response.headers)
    except (OSError, http.client.HTTPException) as error:
        if reason := _access_denied_reason(url, error):
            raise BadRequest(reason) from None
        if not any("X-Linked-Size" in passed for passed in redirects.redirect_headers[:1]):
            raise TuningError(f"{url} cannot be fetched: {error_reason(error)}.") from None
        remote = ServedFile({})
    for first in redirects.redirect_headers[:1]:
        remote.sha256 = parse_sha256_header(first)
        remote.size = parse_whole(first.get("X-Linked-Size")) or remote.size
    return remote


def is_encrypted_or_local(url: str) -> bool:
    """Return whether nobody on the way can read or change what is sent."""
    split = urlsplit(url)
    return split.scheme == "https" or split.hostname in ("127.0.0.1", "::1", "localhost")


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections, and keeps the headers of each: some servers say there alone what the file is."""

    def __init__(self) -> None:
        self.redirect_headers: list[Mapping[str, str]] = []

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Remember the headers, and go where they lead; with the token only where it is the same server."""
        self.redirect_headers.append(headers)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request and req.get_method() == "HEAD":
            request.method = "HEAD"  # Older Pythons would fetch the file then.
        token = req.unredirected_hdrs.get(AUTHORIZATION)
        if request and token and urlsplit(newurl)[:2] == urlsplit(req.full_url)[:2]:
            request.add_unredirected_header(AUTHORIZATION, token)
        return request


def open_url(
    url: str, timeout: float, headers: dict[str, str], method: str = "GET", redirects: Redirects | None = None
) -> Any:
    """Send a request, through the proxy that the environment names, and follow redirections within HTTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
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


def permanent_error(url: str, error: Exception) -> TuningError:
    """Return the sentence on an error that another try would meet again."""
    if reason := _access_denied_reason(url, error):
        return BadRequest(reason)
    if isinstance(error, urllib.error.HTTPError):
        way = f": {STATUS_REASONS[error.code]}" if error.code in STATUS_REASONS else ""
        return TuningError(
            f"{url} cannot be fetched: the server answers {error.code} {error.reason}{way}. Check the URL."
        )
    trust = "its certificate is not trusted here: " if is_untrusted_certificate(error) else ""
    return TuningError(f"{url} cannot be fetched: {trust}{error_reason(error)}.")


def _access_denied_reason(url: str, error: Exception) -> str:
    """Return the sentence on a file that a hub does not give to this caller, empty for any other answer."""
    page, at, dummy = url.partition("/resolve/")
    if not at or not isinstance(error, urllib.error.HTTPError) or error.code not in (401, 403):
        return ""
    if urlsplit(error.filename or url)[1] != urlsplit(url)[1]:
        return ""  # Not the hub refuses it, but the store that it redirects to.
    if error.headers.get("X-Error-Code") == "GatedRepo":
        return f"{url} is gated: accept its licence at {page} and set llama_hub_token to a token of that account."
    return (
        f"{url} cannot be fetched: the hub answers {error.code} {error.reason}. Either there is no {page}, so check its"
        " name; or it is not for everybody, so set llama_hub_token to a token of an account that may read it."
    )


def is_untrusted_certificate(error: Exception) -> bool:
    """Return whether the certificate of the server is what was wrong."""
    return type(getattr(error, "reason", None)).__name__ == "SSLCertVerificationError"


def error_reason(error: Exception) -> str:
    """Return an error without its class, for a sentence."""
    reason = getattr(error, "reason", None)
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answers {error.code} {error.reason}"
    if isinstance(reason, OSError):
        return reason.strerror or str(reason)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def parse_content_range(text: str) -> tuple[int | None, int | None]:
    """Return begin and total of a Content-Range such as 'bytes 100-199/200'."""
    unit, dummy, rest = text.partition(" ")
    span, dummy, total = rest.partition("/")
    begin = span.partition("-")[0]
    return (parse_whole(begin) if unit == "bytes" else None), parse_whole(total)


def parse_sha256_header(headers: Mapping[str, str]) -> str | None:
    """Return the SHA-256 of the whole file, in hexadecimal digits, as far as the headers of an answer say it.

    Hugging Face has it in X-Linked-ETag of the answer that redirects to the file.
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
