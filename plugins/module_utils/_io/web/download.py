# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Downloads a large file from an HTTP server into PATH.part, and continues where an earlier try ended.

The caller compares the returned digest. A download is continued only while the server reports that its file is
unchanged. Source: RFC 9110, sections 13.1.5 (If-Range), 14 (Range requests) and 15.5.17 (416).
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
from contextlib import contextmanager

from ..._errors import BadRequest, TuningError
from ..._notation.numbers import parse_whole_number
from ..._notation.sizes import format_bytes_short
from .. import textfile
from ..safe_open import open_folder
from .http import (
    ServedFile,
    failed_request_reason,
    is_untrusted_certificate,
    open_url,
    parse_first_byte_and_total,
    permanent_request_error,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    #: Facts that a later run needs to continue: the URL, and size and validator (ETag or date) of the server's file.
    Facts = dict[str, Any]

#: The download fails after this many tries in a row without a byte. The pauses between tries double up to LONGEST_PAUSE
#: seconds.
TRIES = 5
LONGEST_PAUSE = 30
#: How often a download may start from the beginning again, for example because the server's file has changed.
RESTARTS = 3
CHUNK = 1 << 20
#: The download ends where fewer bytes than this come in so many seconds; otherwise a server could keep a run for ever.
LEAST_BYTES, LEAST_BYTES_SECONDS = 1 << 20, 600
#: Status codes after which a download is tried again: timeouts, too many requests, faults of servers and gateways.
TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)


def require_disk_space(path: str, missing_bytes: int, reserved_bytes: int, file_count: int = 1) -> None:
    """Raise BadRequest where missing and reserved bytes do not fit on the disk of a path (one of several files)."""
    free = count_free_bytes(path)
    if missing_bytes + reserved_bytes > free:
        other_files = f" with its {file_count - 1} other files" if file_count > 1 else ""
        raise BadRequest(
            f"{path}{other_files} does not fit: {format_bytes_short(missing_bytes)} are needed and "
            f"{format_bytes_short(reserved_bytes)} must stay free (reserve), but the file system of "
            f"{_nearest_folder(path)} has only {format_bytes_short(free)}. Make room, or choose another path."
        )


def count_free_bytes(path: str) -> int:
    """Return the free bytes of the file system on which a file would be made."""
    file_system = os.statvfs(_nearest_folder(path))
    return file_system.f_bavail * file_system.f_frsize


def _nearest_folder(path: str) -> str:
    """Return the nearest folder above a path that exists."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


class Download:
    """The download of a file; ``known`` has the facts that an earlier run stored about the part that it left.

    The caller may set these functions: ``require_space`` may refuse the number of missing bytes, and where this is None
    it returns the most bytes that the file may have; ``store_facts`` gets the facts about the part before its first
    byte is written, ``check_first_bytes`` may refuse the file by its first bytes, and ``report_progress`` gets the
    bytes so far and in total.
    """

    def __init__(self, url: str, part: str, known: Facts | None = None, timeout: float = 60) -> None:
        self.url = url
        self.part = part
        self.timeout = timeout
        #: Headers of each request, for example Authorization.
        self.headers: dict[str, str] = {}
        self.require_space: Callable[[int | None], int | None] = lambda dummy: None
        self.store_facts: Callable[[Facts], None] = lambda dummy: None
        self.check_first_bytes: Callable[[], None] = lambda: None
        self.report_progress: Callable[[int, int | None], None] = lambda dummy, more: None
        self.sleep: Callable[[float], None] = time.sleep
        known = known if known and known.get("url") == url else {}
        self.total: int | None = known.get("size")
        self.validator: str | None = known.get("validator")
        self.remarks: list[str] = []
        #: The bytes of the part so far, how many of them an earlier run fetched, and their digest.
        self.received = self.resumed_bytes = 0
        self.digest = hashlib.sha256()
        self._restarts = 0
        self._fd = -1
        self._most_bytes: int | None = None
        #: When the seconds of LEAST_BYTES began, and how many bytes there were then.
        self._window = (time.monotonic(), 0)

    def fetch(self) -> str:
        """Fetch the missing bytes, flush the part to the disk, and return its digest."""
        with self._open_locked_part():
            self._compute_digest_of_earlier_part()
            tries = 0
            while not self._is_complete():
                before = self.received
                try:
                    self._request_missing_bytes()
                    reason = f"the connection ended after {self.received} bytes"
                except (OSError, http.client.HTTPException) as error:
                    reason = self._retry_reason_or_raise(error)
                if self._is_complete():
                    break
                tries = 0 if self.received > before else tries + 1
                if tries == TRIES:
                    raise TuningError(
                        f"{self.url} cannot be fetched: {reason}. {TRIES} tries in a row brought nothing. "
                        f"{self.received} bytes stay in {self.part}; the next run goes on there."
                    )
                self.sleep(min(2**tries, LONGEST_PAUSE))
            os.fsync(self._fd)
        return self.digest.hexdigest()

    def fetch_with_digest(self, wanted_digest: str) -> str:
        """Fetch the file, anew where the part of an earlier run led to another digest, and return its digest."""
        digest = self.fetch()
        if digest != wanted_digest and self.resumed_bytes:
            digest = self.fetch_from_start("what an earlier run left belongs to another file")
        return digest

    def _is_complete(self) -> bool:
        return self.total is not None and self.received == self.total

    @contextmanager
    def _open_locked_part(self) -> Iterator[None]:
        """Open and lock the partial file during the block, so that no other run writes into it.

        The folder may belong to another user, so a link and a file with a second name (hard link) are refused.
        """
        try:
            with open_folder(os.path.dirname(self.part)) as folder:
                self._fd = folder.open_file(os.path.basename(self.part), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        except OSError as error:
            raise TuningError(f"{self.part} cannot be written: {error.strerror}.") from None
        try:
            if os.fstat(self._fd).st_nlink > 1:
                raise TuningError(f"{self.part} is another file's second name, so it is not written. Remove it.")
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                other = not os.path.samestat(os.fstat(self._fd), os.stat(self.part))
            except (BlockingIOError, FileNotFoundError):
                other = True
            if other:
                raise TuningError(
                    f"Another run is fetching {self.part}; nothing was changed. 'fuser -v {self.part}' names it."
                )
            try:
                yield
            finally:
                if not os.fstat(self._fd).st_size:
                    textfile.remove_file(self.part)
        finally:
            os.close(self._fd)

    def _compute_digest_of_earlier_part(self) -> None:
        """Compute size and digest of the part that an earlier run left."""
        size = os.fstat(self._fd).st_size
        if self.total is not None and size > self.total:
            self.received = size
            self._discard_part("what an earlier run left is larger than the file")
            return
        while True:
            data = os.read(self._fd, CHUNK)
            if not data:
                break
            self.digest.update(data)
        self.received = self.resumed_bytes = size

    def _discard_part(self, reason: str = "") -> None:
        """Empty the partial file; TuningError where this happens too often."""
        if self.received and reason:
            self.remarks.append(f"{self.url} is fetched from the beginning again: {reason}.")
            self._restarts += 1
        if self._restarts > RESTARTS:
            raise TuningError(f"{self.url} cannot be fetched: it was begun {RESTARTS + 1} times, because {reason}.")
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        self.received = self.resumed_bytes = 0
        self.digest = hashlib.sha256()
        self.total = self.validator = None

    def fetch_from_start(self, reason: str) -> str:
        """Discard the part, fetch the whole file, and return its digest."""
        with self._open_locked_part():
            self.received = os.fstat(self._fd).st_size
            self._discard_part(reason)
        return self.fetch()

    def _request_missing_bytes(self) -> None:
        """Send a request for the missing bytes, and write the response into the part."""
        headers = dict(self.headers)
        if self.received:
            headers["Range"] = f"bytes={self.received}-"
            if self.validator:
                headers["If-Range"] = self.validator
        try:
            response = open_url(self.url, self.timeout, headers)
        except urllib.error.HTTPError as error:
            if error.code != 416 or not self.received:
                raise
            total = parse_whole_number((error.headers.get("Content-Range") or "").rpartition("/")[2])
            if total == self.received:
                self.total = total
            else:
                self._discard_part("the server has no such range of it")
            return
        with response:
            if self._prepare_for_response(response):
                self._write_response(response)

    def _prepare_for_response(self, response: Any) -> bool:
        """Prepare the part for a response with the rest or with the whole file; return whether to write its bytes."""
        remote = ServedFile(response.headers)
        if response.status == 206:
            begin, total = parse_first_byte_and_total(response.headers.get("Content-Range") or "")
            if begin != self.received or total is None or total != (self.total or total):
                self._discard_part("the server answered with another range than it was asked for")
                return False
            if self.validator and remote.validator not in (None, self.validator):
                self._discard_part("the file on the server has changed")
                return False
            self.total = total
            self.validator = self.validator or remote.validator
        else:
            changed = self.validator and remote.validator != self.validator
            self._discard_part("the file on the server has changed" if changed else "the server sends no parts of it")
            self.total, self.validator = remote.size, remote.validator
        allowed = self.require_space(None if self.total is None else self.total - self.received)
        self._most_bytes = allowed if self.total is None else self.total
        self.store_facts({"url": self.url, "size": self.total, "validator": self.validator})
        return True

    def _write_response(self, response: Any) -> None:
        """Write the bytes of a response until it, or the connection, ends."""
        checked = False
        os.lseek(self._fd, self.received, os.SEEK_SET)
        while True:
            data = response.read1(CHUNK)
            if not data:
                break
            self._require_expected_amount_and_speed(len(data))
            self._write_bytes(data)
            if not checked and self.received >= 64:
                self.check_first_bytes()
                checked = True
            self.report_progress(self.received, self.total)
        if self.total is None:
            self.total = self.received

    def _require_expected_amount_and_speed(self, count: int) -> None:
        """Raise TuningError for a server that sends more bytes than it may, or hardly any."""
        if self._most_bytes is not None and self.received + count > self._most_bytes:
            os.ftruncate(self._fd, 0)
            raise TuningError(
                f"{self.url} sends more than the {self._most_bytes} bytes that "
                f"{'may be written here' if self.total is None else 'it announced'}. The part was removed. Check the "
                "URL, and the file on the server."
            )
        begun, bytes_then = self._window
        seconds = time.monotonic() - begun
        if seconds > LEAST_BYTES_SECONDS:
            if 0 <= self.received - bytes_then < LEAST_BYTES:
                raise TuningError(
                    f"{self.url} cannot be fetched: {self.received - bytes_then} bytes came in {seconds:.0f} s. "
                    f"{self.received} bytes stay in {self.part}; the next run goes on there."
                )
            self._window = (time.monotonic(), self.received)

    def _write_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                count = os.write(self._fd, view)
            except OSError as error:
                # Other programs need the disk too, so a part that fills it is removed.
                os.ftruncate(self._fd, 0)
                raise TuningError(
                    f"{self.part} cannot be written: {os.strerror(error.errno or 0)}. The part was removed."
                ) from None
            self.digest.update(view[:count])
            self.received += count
            view = view[count:]

    def _retry_reason_or_raise(self, error: Exception) -> str:
        """Return the reason of an error after which to try again; raise the error where a new try is useless."""
        passes = not isinstance(error, urllib.error.HTTPError) or error.code in TRANSIENT_STATUS
        if not passes or is_untrusted_certificate(error):
            raise permanent_request_error(self.url, error) from None
        return failed_request_reason(error)
