# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the beginning of a file on an HTTP server without fetching the rest.

The file is fetched by range requests of growing size. A server without range requests sends the whole file; then the
connection is closed after the bytes that are read.
Source: RFC 9110, sections 13.1.5 (If-Range) and 14 (Range requests).
"""

from __future__ import annotations

import http.client
import os
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from .http import (
    Redirects,
    ServedFile,
    open_url,
    parse_first_byte_and_total,
    parse_sha256_header,
    permanent_request_error,
    validate_url,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Bytes of the first request and of the largest one. Most headers of models have 2 to 12 MiB, small ones 100 KiB.
FIRST, LARGEST = 1 << 20, 16 << 20
#: Bytes of each read from a server that sends the whole file.
CHUNK = 1 << 16


class RemoteFile:
    """A file on a server, open for reading; a context manager that closes the connection.

    ``size`` is that of the whole file in bytes, ``sha256`` its digest in hexadecimal digits where the server sends it.
    TuningError has the reason where it cannot be read.
    """

    def __init__(self, url: str, timeout: float = 60) -> None:
        validate_url(url)
        self.url = url
        self.timeout = timeout
        self.size = 0
        self.sha256: str | None = None
        self._data = bytearray()
        self._at = 0
        self._step = FIRST
        self._validator: str | None = None
        #: The open response of a server without range requests.
        self._whole: Any = None
        self._fetch_more()

    def __enter__(self) -> RemoteFile:
        return self

    def __exit__(self, *dummy: object) -> None:
        if self._whole:
            self._whole.close()

    @property
    def received_bytes(self) -> int:
        """The number of bytes that were received."""
        return len(self._data)

    def read(self, count: int) -> bytes:
        """Return the next bytes; fewer only at the end of the file."""
        end = min(self._at + count, self.size)
        while len(self._data) < end:
            before = len(self._data)
            self._fetch_more()
            if len(self._data) == before:
                raise TuningError(f"{self.url} cannot be fetched: the connection ended after {before} bytes.")
        data = bytes(self._data[self._at : end])
        self._at = end
        return data

    def read_at_least(self, count: int) -> bytes:
        """Return the next bytes as read() does, with bytes after them that were received already."""
        data = self.read(count)
        return data + self.read(max(0, min(CHUNK, len(self._data) - self._at)))

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset, from the start of the file or from the current position."""
        self._at = offset + (self._at if whence == os.SEEK_CUR else 0)
        return self._at

    def _fetch_more(self) -> None:
        """Receive the next bytes."""
        try:
            if self._whole:
                self._data += self._whole.read1(CHUNK)
            else:
                self._request_part()
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "code", 0) == 416 and not self._data:
                raise BadRequest(f"{self.url} is empty: check the URL, and the file on the server.") from None
            raise permanent_request_error(self.url, error) from None

    def _request_part(self) -> None:
        have = len(self._data)
        headers = {"Range": f"bytes={have}-{have + self._step - 1}"}
        if self._validator:
            headers["If-Range"] = self._validator
        redirects = Redirects()
        response = open_url(self.url, self.timeout, headers, redirects=redirects)
        remote = ServedFile(response.headers)
        if response.status == 206:
            with response:
                self._read_part(response, remote)
            self._step = min(2 * self._step, LARGEST)
        elif have:
            response.close()
            raise TuningError(f"{self.url} has changed on the server while its header was read. Try again.")
        else:
            self._whole, self.size = response, remote.size or 0
            if not remote.size:
                response.close()
                empty = remote.size == 0
                raise BadRequest(
                    f"{self.url} is empty: check the URL, and the file on the server."
                    if empty
                    else f"{self.url}: the server neither sends parts of a file nor says how large it is."
                )
        if not have:
            answers = [*redirects.redirect_headers, response.headers]
            self.sha256 = next((digest for digest in map(parse_sha256_header, answers) if digest), None)

    def _read_part(self, response: Any, remote: ServedFile) -> None:
        """Read the requested range of a response, and no byte more."""
        begin, total = parse_first_byte_and_total(response.headers.get("Content-Range") or "")
        if begin != len(self._data) or not total or total != (self.size or total):
            raise TuningError(f"{self.url}: the server answers with another range than it was asked for.")
        if self._data and self._validator and remote.validator not in (None, self._validator):
            raise TuningError(f"{self.url} has changed on the server while its header was read. Try again.")
        self.size = total
        self._validator = self._validator or remote.validator
        end = min(len(self._data) + self._step, total)
        # Bytes from before the end of a connection stay, and the next request continues there.
        with suppress(http.client.IncompleteRead):
            while len(self._data) < end:
                data = response.read1(min(CHUNK, end - len(self._data)))
                if not data:
                    break
                self._data += data
