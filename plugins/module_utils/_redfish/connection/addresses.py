# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address of a BMC, and the paths of its resources.

A BMC may name itself by an address that the controller cannot reach, in other letters or with a port. So of each URI
that it gives only the path is used, and nobody but the configured address gets a request.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin, urlsplit

from .responses import BmcError

HTTPS_PORT = 443
#: Characters of a path or a query that are sent as they are; % begins a character that is quoted already.
UNQUOTED = "/%:=&?~+!$,;'@()*[]-._"


def bmc_address_to_https_url(address: str) -> str:
    """Return scheme, host and port of a BMC as a URL. Only HTTPS is accepted, because the password is sent there."""
    text = address if "://" in address else f"https://{address}"
    shown = address
    try:
        parts = urlsplit(text)
        shown = parts.hostname or address
        # A port that is none raises ValueError in the property port, and urlsplit drops some control characters.
        is_valid = (
            not re.search(r"[\s\x00-\x1f]", address)
            and parts.scheme == "https"
            and parts.hostname
            and not parts.path.strip("/")
            and not parts.query
        )
        if is_valid and "@" not in parts.netloc and parts.port != 0:
            return f"https://{parts.netloc}"
    except ValueError:
        pass
    raise BmcError(
        f"bmc: '{shown}' is no BMC; say a name such as bmc7.example.com, or a URL that begins with https://."
    )


def uri_to_path(bmc_name: str, uri: str) -> str:
    """Return path and query of a URI that a BMC gives; its scheme, host and port are left out."""
    try:
        parts = urlsplit(uri.strip())
    except ValueError:
        raise BmcError(f"The BMC {bmc_name} names a resource by what is no URI, '{uri}'.") from None
    path = f"/{parts.netloc}{parts.path}" if parts.netloc == "redfish" and not parts.scheme else parts.path
    query = f"?{_quote(parts.query)}" if parts.query else ""
    return f"/{_quote(path).lstrip('/')}{query}"


def _quote(text: str) -> str:
    return quote(text, safe=UNQUOTED, errors="replace")


def redirection_to_path(base_url: str, path: str, location: str) -> str | None:
    """Return the path to which a BMC sends a request on; None for a redirection to another place than this BMC."""
    try:
        url = urljoin(f"{base_url}{path}", location.strip())
        is_same_place = _place(url) == _place(base_url)
    except ValueError:
        return None
    return uri_to_path("", url) if is_same_place else None


def _place(url: str) -> tuple[str, str | None, int]:
    """Return scheme, host in lower case and port of a URL; ValueError for a port that is none."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or HTTPS_PORT
