# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Takes secrets out of whatever is shown, in each spelling in which a BMC may repeat them.

A BMC may quote the request that it refuses: as JSON with its escapes, as part of a URL, or with its headers.
"""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLACEHOLDER = "***"
#: A shorter secret is left in, because it would take every word apart in which its letters are.
MIN_SECRET_LENGTH = 4


def list_spellings(secret: str) -> list[str]:
    """Return a secret as it is, as in JSON and as in URLs, the longest first."""
    as_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    # Some programs escape the slash, and some write the digits of an escape in capital letters.
    as_json += [text.replace("/", "\\/") for text in as_json]
    as_url = [quote(secret, safe=safe, errors="surrogatepass") for safe in ("/", "")]
    as_url += [as_url[1].lower(), quote_plus(secret, errors="surrogatepass")]
    spellings = {secret, *as_json, *as_url, repr(secret)[1:-1], secret.replace('"', '\\"')}
    return sorted(filter(None, spellings), key=len, reverse=True)


def encode_basic_credentials(username: str, password: str) -> str:
    """Return a user and a password as the header Authorization of HTTP has them, without the word Basic."""
    return base64.b64encode(f"{username}:{password}".encode("utf-8", "surrogatepass")).decode()


class Scrubber:
    """The secrets of a connection, in all their spellings."""

    def __init__(self, username: str, password: str) -> None:
        self._spellings: list[str] = []
        self.add_secret(password)
        self.add_secret(encode_basic_credentials(username, password))

    def add_secret(self, secret: str) -> None:
        """Have one more secret taken out, such as the token of the session."""
        if len(secret) >= MIN_SECRET_LENGTH:
            self._spellings = sorted({*self._spellings, *list_spellings(secret)}, key=len, reverse=True)

    def scrub_text(self, text: str) -> str:
        """Return a text with a placeholder in place of each secret."""
        for spelling in self._spellings:
            text = text.replace(spelling, PLACEHOLDER)
        return text

    def scrub(self, value: Any) -> Any:
        """Return a value, with all that is in it, with a placeholder in place of each secret."""
        if isinstance(value, str):
            return self.scrub_text(value)
        if isinstance(value, dict):
            return {self.scrub(key): self.scrub(entry) for key, entry in value.items()}
        if isinstance(value, (list, tuple, set)):
            return [self.scrub(entry) for entry in value]
        return value
