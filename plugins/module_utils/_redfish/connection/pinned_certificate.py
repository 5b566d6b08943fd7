# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""TLS with a certificate that is known by its fingerprint, because BMCs come with self-signed certificates.

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


def parse_sha256_fingerprint(text: str) -> bytes:
    """Return the 32 bytes of a SHA-256 in hexadecimal digits, with or without colons."""
    plain = re.sub(r"^sha256[:=]", "", text.strip(), flags=re.IGNORECASE)
    digits = re.sub(r"[:\s]", "", plain)
    if not re.fullmatch(r"[0-9A-Fa-f]{64}", digits):
        raise BmcError(
            "fingerprint: it has to be the SHA-256 of the certificate, 64 hexadecimal digits, with or without colons. "
            "Show it with openssl x509 -noout -fingerprint -sha256."
        )
    return bytes.fromhex(digits)


class PinnedContext(ssl.SSLContext):
    """A TLS context that accepts only the certificate with ``sha256``, whatever its signature and its name are."""

    sha256 = b""

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        """Make the handshake; raises BmcError for any other certificate."""
        wrapped = super().wrap_socket(*args, **kwargs)
        actual_sha256 = hashlib.sha256(wrapped.getpeercert(binary_form=True) or b"").digest()
        if not hmac.compare_digest(actual_sha256, self.sha256):
            wrapped.close()
            raise BmcError(
                f"The certificate of the BMC has the fingerprint {actual_sha256.hex(':').upper()}, which differs from "
                "the option fingerprint. The certificate was replaced, or another computer answers in place of the "
                "BMC. No password was sent."
            )
        return wrapped


def make_pinned_tls_context(sha256: bytes) -> ssl.SSLContext:
    """Return a TLS context that accepts only the certificate with this SHA-256."""
    context = PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.sha256 = sha256
    return context
