# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate authority for a server, made at its start, so that clients really check certificates."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path

from ..paths import run_tool

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30")
# Python 3.13 and later refuse certificates that leave out one of these.
_AUTHORITY = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
_SERVER = """\
subjectAltName=DNS:localhost,IP:127.0.0.1
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid
"""


@dataclass(frozen=True)
class TlsFiles:
    """The certificate files of a server."""

    ca: Path  # for clients
    certificate: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the server's certificate, as people pin it: 64 digits in lower case."""
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(self.certificate.read_text())).hexdigest()

    def build_context(self) -> ssl.SSLContext:
        """Return the context for the server's sockets."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def ensure_tls_files(folder: Path) -> TlsFiles:
    """Return the files of an authority and a certificate for 127.0.0.1; make them first if they are missing."""
    files = TlsFiles(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    if files.certificate.exists():
        return files
    authority, request, extensions = folder / "ca.key", folder / "server.csr", folder / "server.ext"
    extensions.write_text(_SERVER)
    subject = ["-subj", "/O=vepyc/CN=vepyc BMC authority"]
    run_tool(
        ["openssl", "req", "-x509", *_KEY, *_AUTHORITY, *subject, "-keyout", str(authority), "-out", str(files.ca)]
    )
    subject = ["-subj", "/O=vepyc/CN=vepyc BMC"]
    run_tool(["openssl", "req", *_KEY[:-2], *subject, "-keyout", str(files.key), "-out", str(request)])
    command = ["openssl", "x509", "-req", "-days", "30", "-in", str(request), "-extfile", str(extensions)]
    command += ["-CA", str(files.ca), "-CAkey", str(authority), "-CAcreateserial"]
    run_tool([*command, "-out", str(files.certificate)])
    return files
