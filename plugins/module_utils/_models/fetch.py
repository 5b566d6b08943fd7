# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Downloads and verifies the files of a model on the host. Old files stay until all new files are verified.

It takes minutes to compute the digest of a large file, so the store has the digest with size, time and inode of the
file.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.checksum import ALGORITHM, compute_sha256, mismatch_message, server_mismatch_message
from .._io.safe_open import open_folder
from .._io.web.download import Download, count_free_bytes, require_disk_space
from .._io.web.http import ServedFile, fetch_file_headers, is_encrypted_or_local
from .._notation.sizes import format_bytes_short
from . import gguf
from .file_request import missing_checksum_message, parse_file_requests
from .model_file import (
    FACTS_FILE,
    SHAPE,
    AbsentFile,
    FetchRun,
    ModelFile,
    find_file_status,
    load_facts_even_if_changed,
    load_facts_of_unchanged_file,
    read_file_stamp,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._io.store import Store
    from .file_request import FileRequest


def ensure_model_files(options: Mapping[str, Any], store: Store, check: bool = False) -> dict[str, Any]:
    """Fetch, verify or remove the files of a model by the options of model_file, and return the module's result."""
    run = FetchRun(options, store, check)
    if options["state"] == "absent":
        absent = [AbsentFile(run, request) for request in parse_file_requests(options)]
        for file in absent:
            file.remove()
        facts: dict[str, Any] = {"path": absent[0].path}
    else:
        facts = _ensure_files_present([PresentFile(run, request) for request in parse_file_requests(options)], run)
    remarks = list(dict.fromkeys(run.remarks))
    diff = {"before": run.before, "after": run.after}
    return {"changed": run.before != run.after, "diff": diff, "remarks": remarks, **facts}


def fetch_impossible_reason(options: Mapping[str, Any], store: Store) -> str | None:
    """Return the reason why the files of a model cannot be fetched, None where no reason is known.

    Nothing is written, and no file is read whole, so a wrong checksum is found by ``ensure_model_files`` only.
    """
    try:
        run = FetchRun(options, store, check=True)
        run.reads_files = False
        files = [PresentFile(run, request) for request in parse_file_requests(options)]
        for file in files:
            file.verify_file_and_record_difference()
        _require_disk_space_for_missing_files([file for file in files if file.reason], run)
    except TuningError as error:
        return str(error)
    return None


def _ensure_files_present(files: Sequence[PresentFile], run: FetchRun) -> dict[str, Any]:
    """Verify all files, download missing and wrong files, and rename the downloads when all of them are verified."""
    for file in files:
        file.verify_file_and_record_difference()
    missing = [file for file in files if file.reason]
    _require_disk_space_for_missing_files(missing, run)
    begun = time.monotonic()
    try:
        for file in missing if not run.check else ():
            file.download()
    finally:
        if run.progress and missing:
            textfile.remove_file(run.progress)
    seconds = round(time.monotonic() - begun, 1)
    for file in missing if not run.check else ():
        file.install_downloaded_part()
    for file in files:
        run.attributes.apply(file.path, file.status, file.record_difference)
    facts: dict[str, Any] = {"path": files[0].path}
    facts.update(downloaded=sum(file.downloaded for file in files), resumed=sum(file.resumed for file in files))
    facts["size"] = None if missing and run.check else sum(os.stat(file.path).st_size for file in files)
    checksums = [f"{ALGORITHM}{file.wanted}" if file.wanted else None for file in files]
    facts["checksum"] = checksums[0] if len(files) == 1 else checksums
    if missing and not run.check:
        facts["seconds"] = seconds
    return facts


def _require_disk_space_for_missing_files(missing: Sequence[PresentFile], run: FetchRun) -> None:
    """Raise an error before the first byte where the disk has too little space for the missing files.

    A single file of unknown size is checked later: the server states the size when it begins to send the file.
    """
    if not run.check and len(missing) < 2 and not any(file.request.size for file in missing):
        return
    to_come = [file.count_missing_bytes() for file in missing]
    run.total = sum(size for size in to_come if size is not None) if None not in to_come else None
    known = sum(size or 0 for size in to_come)
    if known:
        require_disk_space(missing[0].path, known, run.reserve, len(missing))


class PresentFile(ModelFile):
    """A file that must be on the host, complete and with the requested checksum."""

    def __init__(self, run: FetchRun, request: FileRequest) -> None:
        super().__init__(run, request)
        self.wanted = request.sha256
        #: The facts of the file that the server stated, None as long as the server was not asked.
        self.stated: ServedFile | None = None
        #: The reason why the file on the host is not the requested file, None for the requested file.
        self.reason: str | None = None
        self.downloaded = self.resumed = 0

    def verify_file_and_record_difference(self) -> None:
        """Verify the file on the host, and record a difference where it is missing or wrong."""
        digest_text: str | None = None
        if self.request.takes_stated:
            self._set_wanted_digest_from_server()
        self.reason = f"There is no file {self.path} on the host. Give its url, or copy it there first."
        if self.status:
            digest_text, self.reason = self._digest_and_mismatch_reason()
        if self.reason and not self.request.url:
            raise BadRequest(self.reason)
        if self.reason:
            self.record_difference("", digest_text, f"{ALGORITHM}{self.wanted}" if self.wanted else "a file")

    def _set_wanted_digest_from_server(self) -> None:
        """Set ``wanted`` to the digest that the server stated when the file was fetched, or that it states now.

        A file that did not come from the URL counts as right, unless ``asks_always`` is set.
        """
        stored = load_facts_even_if_changed(self.run.store, self.path)
        if self.status and stored.get("url") == self.request.url:
            self.wanted = stored["sha256"]
        elif self.status and not self.request.asks_always and not stored.get("url"):
            self.wanted = load_facts_of_unchanged_file(self.run.store, self.path).get("sha256")
        elif not self.run.hides_token:
            self.wanted = self._fetch_stated_digest(str(self.request.url))

    def _fetch_stated_digest(self, url: str) -> str:
        """Return the digest that the server states; BadRequest, with the line to add, where the server states none."""
        if not is_encrypted_or_local(url):
            raise BadRequest(missing_checksum_message(url, "whoever is on the way of http:// could state another one"))
        try:
            self.stated = fetch_file_headers(url, self.run.timeout, self.run.headers)
        except BadRequest:
            raise
        except TuningError as error:
            reason = str(error).replace(f"{url} cannot be fetched: ", "").rstrip(".")
            raise BadRequest(missing_checksum_message(url, f"its server cannot be asked for one: {reason}")) from None
        if not self.stated.sha256:
            raise BadRequest(missing_checksum_message(url, "its server states no SHA-256 of it"))
        self.run.remarks.append(
            f"{self.path}: {ALGORITHM}{self.stated.sha256} is stated by the server of the file alone. Give it as the "
            "checksum, so that no other file is taken later."
        )
        return self.stated.sha256

    def _digest_and_mismatch_reason(self) -> tuple[str, str | None]:
        """Return the file's digest for people, and the reason why it is not the requested file (None if it is)."""
        if not self.wanted:
            gguf.read_file_header(self.path)
            return "a file", None
        known = load_facts_of_unchanged_file(self.run.store, self.path).get("sha256")
        if not known and not self.run.reads_files:
            return "a file", None
        digest = known or self._compute_digest_with_progress()
        text = ALGORITHM + digest
        if digest != self.wanted:
            return text, mismatch_message(self.path, digest, self.wanted)
        if not known:
            gguf.read_file_header(self.path)
            if not self.run.check:
                self._save_facts_of_complete_file()
        return text, None

    def _compute_digest_with_progress(self) -> str:
        """Return the SHA-256 of the whole file; the progress goes to the file of the option progress."""
        if not self.run.progress:
            return compute_sha256(self.path)
        try:
            return compute_sha256(self.path, Progress(self.run.progress))
        finally:
            textfile.remove_file(self.run.progress)

    def _save_facts_of_complete_file(self) -> None:
        row: dict[str, object] = {"sha256": self.wanted, "stamp": read_file_stamp(self.path)}
        self.save_or_remove_file_facts(files={**row, "url": self.request.url} if self.request.url else row, parts=None)

    def count_missing_bytes(self) -> int | None:
        """Return how many bytes of the file are still missing, None where the size of the file is unknown.

        Check mode always asks the server for the size, unless the server needs a token.
        """
        size = self.request.size
        if self.run.hides_token:
            self.run.remarks.append(f"{self.request.url}: in check mode no token is sent, so the server was not asked.")
        elif size is None or self.run.check:
            try:
                stated_size = (
                    self.stated or fetch_file_headers(str(self.request.url), self.run.timeout, self.run.headers)
                ).size
            except BadRequest:
                raise
            except TuningError as error:
                self.run.remarks.append(f"{error} This was only a HEAD request, which some servers refuse.")
            else:
                self._require_expected_size(stated_size)
                size = size or stated_size
                if size is None:
                    self._require_space_for_download(None)
        left = find_file_status(self.part)
        return None if size is None else max(0, size - (left.st_size if left else 0))

    def _require_expected_size(self, stated_size: int | None) -> None:
        if self.request.size and stated_size not in (None, self.request.size):
            raise BadRequest(
                f"{self.request.url} has {stated_size} bytes, but {self.request.size} are expected: it is truncated, "
                "or another file. Check the size, and the file on the server."
            )

    def _require_space_for_download(self, missing: int | None, download: Download | None = None) -> int | None:
        """Raise an error for a download of a wrong size, or for a download that is too large for the disk.

        Where the missing bytes are not known, return the most bytes that the file may have.
        """
        if missing is None:
            url = self.request.url
            self.run.remarks.append(f"{url}: the server does not report the size, so free space was not checked.")
            return self.request.size or count_free_bytes(self.path) - self.run.reserve
        self._require_expected_size(download.total if download else None)
        require_disk_space(self.path, missing, self.run.reserve)
        return None

    def download(self) -> None:
        """Download the file to its ``.part``, and verify the ``.part``."""
        try:
            with open_folder(os.path.dirname(self.path), make=True):
                pass
        except OSError as error:
            raise TuningError(f"{os.path.dirname(self.path)} cannot be made: {error.strerror}.") from None
        known = self.run.store.load_cache(FACTS_FILE, SHAPE).get("parts", {}).get(self.path)
        download = Download(str(self.request.url), self.part, known, self.run.timeout)
        download.headers = self.run.headers
        download.require_space = lambda missing: self._require_space_for_download(missing, download)
        download.store_facts = lambda facts: self.save_or_remove_file_facts(parts=facts)
        download.check_first_bytes = lambda: self._verify_part_or_remove(lambda: gguf.validate_magic(self.part))
        if self.run.progress:
            download.report_progress = self._make_progress_function(Progress(self.run.progress))
        try:
            digest = download.fetch_with_digest(str(self.wanted))
        finally:
            self.run.remarks += download.remarks
        if download.resumed_bytes:
            self.run.remarks.append(f"Resumed after {format_bytes_short(download.resumed_bytes)} from an earlier run.")
        self.downloaded, self.resumed = download.received - download.resumed_bytes, download.resumed_bytes
        self.run.done += self.downloaded
        self._verify_part_or_remove(lambda: self._verify_part(digest))

    def _make_progress_function(self, progress: Progress) -> Callable[[int, int | None], None]:
        """Return the function that reports the progress of all files, or of this file if not all sizes are known."""
        done, total = self.run.done, self.run.total
        if total is None:
            return progress
        left = find_file_status(self.part)
        already_fetched = left.st_size if left else 0
        return lambda have, dummy: progress(done + max(0, have - already_fetched), total)

    def _verify_part(self, digest: str) -> None:
        gguf.read_file_header(self.part)
        if digest != self.wanted:
            raise BadRequest(server_mismatch_message(str(self.request.url), digest, str(self.wanted)))

    def _verify_part_or_remove(self, verify: Callable[[], None]) -> None:
        """Verify a ``.part``, and remove a refused one, because resuming its download could not give the right file."""
        try:
            verify()
        except BadRequest as error:
            textfile.remove_file(self.part)
            self.save_or_remove_file_facts(parts=None)
            stays = f" {self.path} is unchanged." if self.status else ""
            raise BadRequest(f"{error}{stays} The download is removed.") from None

    def install_downloaded_part(self) -> None:
        """Set owner and mode of the ``.part``, by default as the old file has them, and rename it to the file."""
        self.run.attributes.set_owner_and_mode_of_new_file(self.part, self.status)
        textfile.rename_file(self.part, self.path)
        self._save_facts_of_complete_file()


#: The seconds between two updates of the progress.
INTERVAL = 5


class Progress:
    """A file with one line about the progress of a download; a call updates the line every INTERVAL seconds."""

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.clock = clock
        self.written = self.begun = clock()
        self.first: int | None = None

    def __call__(self, have: int, total: int | None) -> None:
        now = self.clock()
        self.first = have if self.first is None else self.first
        if now - self.written < INTERVAL:
            return
        self.written = now
        speed = max(1, round((have - self.first) / (now - self.begun)))
        text = f"{format_bytes_short(have)}, {format_bytes_short(speed)}/s"
        if total:
            left = round((total - have) / speed)
            text = (
                f"{format_bytes_short(have)} of {format_bytes_short(total)} ({100 * have // total} %), "
                f"{format_bytes_short(speed)}/s, {left} s left"
            )
        # A download must not fail because its progress cannot be written.
        with suppress(TuningError):
            textfile.write_file(self.path, f"{text}\n")
