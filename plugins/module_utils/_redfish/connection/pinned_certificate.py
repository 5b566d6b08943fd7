# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A certificate that is known by its fingerprint, because BMCs come with certificates that nobody signed.

The fingerprint is compared after each handshake, before a byte of the request is sent.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl

from .responses import BmcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def parse_fingerprint(text: str) -> bytes:
    """Return the bytes of a SHA-256 as people write it, with colons or without."""
    plain = re.sub(r"^sha256[:=]", "", text.strip(), flags=re.IGNORECASE)
    digits = re.sub(r"[:\s]", "", plain)
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", digits):
        raise BmcError(
            "fingerprint: it has to be the SHA-256 of the certificate, 64 hexadecimal digits, with or without colons. "
            "Show it with openssl x509 -noout -fingerprint -sha256."
        )
    return bytes.fromhex(digits)


class Pinned(ssl.SSLContext):
    """Accepts one certificate, whoever signed it and whatever name it has."""

    pin = b""

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Make the handshake, and refuse any other certificate."""
        wrapped = super().wrap_socket(*args, **kwargs)
        found = hashlib.sha256(wrapped.getpeercert(binary_form=True) or b"").digest()
        if not hmac.compare_digest(found, self.pin):
            wrapped.close()
            raise BmcError(
                f"The certificate of the BMC has the fingerprint {found.hex(':').upper()}, and not the one that was "
                "given. It was replaced, or another computer answers in its place. No password was sent."
            )
        return wrapped


def pinned(pin: bytes) -> ssl.SSLContext:
    """Return a context that accepts the certificate with this SHA-256."""
    context = Pinned(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.pin = pin
    return context
