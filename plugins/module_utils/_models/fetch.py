# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of one model on the host: downloaded, verified, and only then put in place; until then the old ones stay.

The digest of a large file takes minutes, so the store remembers it with the size, time and inode of the file.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.checksum import ALGORITHM, compute_sha256, mismatch_message, server_mismatch_message
from .._io.safe_open import open_folder
from .._io.web.download import Download, require_disk_space
from .._io.web.http import ServedFile, fetch_file_headers, is_encrypted_or_local
from .._notation.sizes import format_bytes_short
from . import gguf
from .file_request import files_of, missing_checksum_message
from .model_file import KNOWN, SHAPE, Absent, ModelFile, Run, stamp, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .._io.store import Store
    from .file_request import Asked


def ensure(options: Mapping[str, Any], store: Store, check: bool = False) -> dict[str, Any]:
    """Make a model what the options ask for, and return a module's result; with check, change nothing."""
    run = Run(options, store, check)
    if options["state"] == "absent":
        absent = [Absent(run, asked) for asked in files_of(options)]
        for file in absent:
            file.make()
        facts: dict[str, Any] = {"path": absent[0].path}
    else:
        facts = _present([Present(run, asked) for asked in files_of(options)], run)
    remarks = list(dict.fromkeys(run.remarks))
    diff = {"before": run.before, "after": run.after}
    return {"changed": run.before != run.after, "diff": diff, "remarks": remarks, **facts}


def find_refusal(options: Mapping[str, Any], store: Store) -> str | None:
    """Return why the files of a model cannot be had, None if nothing stands against it.

    Nothing is written, and no file is read whole: one that has another checksum than asked for is found by `ensure`.
    """
    try:
        run = Run(options, store, check=True)
        run.reads_files = False
        files = [Present(run, asked) for asked in files_of(options)]
        for file in files:
            file.look()
        _check_space([file for file in files if file.reason], run)
    except TuningError as error:
        return str(error)
    return None


def _present(files: Sequence[Present], run: Run) -> dict[str, Any]:
    """Have all files: refuse what can be refused, download, and give them their names when every one is right."""
    for file in files:
        file.look()
    missing = [file for file in files if file.reason]
    _check_space(missing, run)
    begun = time.monotonic()
    try:
        for file in missing if not run.check else ():
            file.fetch()
    finally:
        if run.progress and missing:
            textfile.remove_file(run.progress)
    seconds = round(time.monotonic() - begun, 1)
    for file in missing if not run.check else ():
        file.put_in_place()
    for file in files:
        run.attributes.make(file.path, file.found, file.differs)
    facts: dict[str, Any] = {"path": files[0].path}
    facts.update(downloaded=sum(file.downloaded for file in files), resumed=sum(file.resumed for file in files))
    facts["size"] = None if missing and run.check else sum(os.stat(file.path).st_size for file in files)
    checksums = [f"{ALGORITHM}{file.wanted}" if file.wanted else None for file in files]
    facts["checksum"] = checksums[0] if len(files) == 1 else checksums
    if missing and not run.check:
        facts["seconds"] = seconds
    return facts


def _check_space(missing: Sequence[Present], run: Run) -> None:
    """Refuse, before the first byte, what has too little space. The server of a single file says its size with it."""
    if not run.check and len(missing) < 2 and not any(file.asked.size for file in missing):
        return
    to_come = [file.to_come() for file in missing]
    run.total = sum(size for size in to_come if size is not None) if None not in to_come else None
    known = sum(size or 0 for size in to_come)
    if known:
        require_disk_space(missing[0].path, known, run.reserve, len(missing))


class Present(ModelFile):
    """The state present: the complete file, with the checksum that was asked for."""

    def __init__(self, run: Run, asked: Asked) -> None:
        super().__init__(run, asked)
        self.wanted = asked.sha256
        #: What the server states of the file, None as long as it was not asked.
        self.stated: ServedFile | None = None
        #: Why the file that is there is not the wanted one, None when it is.
        self.reason: str | None = None
        self.downloaded = self.resumed = 0

    def look(self) -> None:
        """Verify the file that is there."""
        found: str | None = None
        if self.asked.takes_stated:
            self._find_stated_digest()
        self.reason = f"There is no file {self.path} on the host. Give its url, or copy it there first."
        if self.found:
            found, self.reason = self._verify_file()
        if self.reason and not self.asked.url:
            raise BadRequest(self.reason)
        if self.reason:
            self.differs("", found, f"{ALGORITHM}{self.wanted}" if self.wanted else "a file")

    def _find_stated_digest(self) -> None:
        """Set ``wanted`` to the digest that the server stated when the file was fetched, or states now.

        A file that came from elsewhere is taken as it is, unless the server has to be asked always.
        """
        stored = self.stored()
        if self.found and stored.get("url") == self.asked.url:
            self.wanted = stored["sha256"]
        elif self.found and not self.asked.asks_always and not stored.get("url"):
            self.wanted = self.known().get("sha256")
        elif not self.run.silent:
            self.wanted = self._ask_for_digest(str(self.asked.url))

    def _ask_for_digest(self, url: str) -> str:
        """Return the digest that the server states; BadRequest, with what to add, where it is not to be had."""
        if not is_encrypted_or_local(url):
            raise BadRequest(missing_checksum_message(url, "whoever is on the way of http:// could state another one"))
        try:
            self.stated = fetch_file_headers(url, self.run.timeout, self.run.headers)
        except BadRequest:
            raise
        except TuningError as error:
            words = str(error).replace(f"{url} cannot be fetched: ", "").rstrip(".")
            raise BadRequest(missing_checksum_message(url, f"its server cannot be asked for one: {words}")) from None
        if not self.stated.sha256:
            raise BadRequest(missing_checksum_message(url, "its server states no SHA-256 of it"))
        self.run.remarks.append(
            f"{self.path}: {ALGORITHM}{self.stated.sha256} is stated by the server of the file alone. Give it as the "
            "checksum, so that no other file is taken later."
        )
        return self.stated.sha256

    def _verify_file(self) -> tuple[str, str | None]:
        """Return the digest found and the reason why the file is not the wanted one, None when it is."""
        if not self.wanted:
            gguf.read_part(self.path)
            return "a file", None
        known = self.known().get("sha256")
        if not known and not self.run.reads_files:
            return "a file", None
        digest = known or self._digest()
        text = ALGORITHM + digest
        if digest != self.wanted:
            return text, mismatch_message(self.path, digest, self.wanted)
        if not known:
            gguf.read_part(self.path)
            if not self.run.check:
                self._remember_file()
        return text, None

    def _digest(self) -> str:
        """Read the whole file. In check mode nothing is written, so that nothing of its progress can be told."""
        if not self.run.progress:
            return compute_sha256(self.path)
        try:
            return compute_sha256(self.path, Progress(self.run.progress))
        finally:
            textfile.remove_file(self.run.progress)

    def _remember_file(self) -> None:
        row: dict[str, object] = {"sha256": self.wanted, "stamp": stamp(self.path)}
        self.remember(files={**row, "url": self.asked.url} if self.asked.url else row, parts=None)

    # Fetching

    def to_come(self) -> int | None:
        """Return how many bytes are missing, None where nobody says. In check mode the server is always asked."""
        size = self.asked.size
        if self.run.silent:
            self.run.remarks.append(f"{self.asked.url}: in check mode no token is sent, so the server was not asked.")
        elif size is None or self.run.check:
            try:
                said = (self.stated or fetch_file_headers(str(self.asked.url), self.run.timeout, self.run.headers)).size
            except BadRequest:
                raise
            except TuningError as error:
                self.run.remarks.append(f"{error} This was only a HEAD request, which some servers refuse.")
            else:
                self._check_size(said)
                size = size or said
                if size is None:
                    self._admit(None)
        left = status(self.part)
        return None if size is None else max(0, size - (left.st_size if left else 0))

    def _check_size(self, said: int | None) -> None:
        if self.asked.size and said not in (None, self.asked.size):
            raise BadRequest(
                f"{self.asked.url} has {said} bytes, but {self.asked.size} are expected: it is truncated, or another "
                "file. Check the size, and the file on the server."
            )

    def _admit(self, missing: int | None, download: Download | None = None) -> None:
        """Refuse a download of another size, or one for which the disk has too little space."""
        if missing is None:
            url = self.asked.url
            self.run.remarks.append(f"{url}: the server does not report the size, so free space was not checked.")
            return
        self._check_size(download.total if download else None)
        require_disk_space(self.path, missing, self.run.reserve)

    def fetch(self) -> None:
        """Download into the part, and verify it."""
        try:
            with open_folder(os.path.dirname(self.path), make=True):
                pass
        except OSError as error:
            raise TuningError(f"{os.path.dirname(self.path)} cannot be made: {error.strerror}.") from None
        known = self.run.store.load_cache(KNOWN, SHAPE).get("parts", {}).get(self.path)
        download = Download(str(self.asked.url), self.part, known, self.run.timeout)
        download.headers = self.run.headers
        download.require_space = lambda missing: self._admit(missing, download)
        download.store_facts = lambda facts: self.remember(parts=facts)
        download.check_first_bytes = lambda: self._remove_if_refused(lambda: gguf.check_begin(self.part))
        if self.run.progress:
            download.report_progress = self._telling(Progress(self.run.progress))
        try:
            digest = download.fetch_with_digest(str(self.wanted))
        finally:
            self.run.remarks += download.remarks
        if download.resumed_bytes:
            self.run.remarks.append(f"Resumed after {format_bytes_short(download.resumed_bytes)} from an earlier run.")
        self.downloaded, self.resumed = download.received - download.resumed_bytes, download.resumed_bytes
        self.run.done += self.downloaded
        self._remove_if_refused(lambda: self._verify_part(digest))

    def _telling(self, progress: Progress) -> Callable[[int, int | None], None]:
        """Tell how far all files are, where it is known how many bytes are to come; else how far this one is."""
        done, total = self.run.done, self.run.total
        if total is None:
            return progress
        left = status(self.part)
        there = left.st_size if left else 0
        return lambda have, dummy: progress(done + max(0, have - there), total)

    def _verify_part(self, digest: str) -> None:
        gguf.read_part(self.part)
        if digest != self.wanted:
            raise BadRequest(server_mismatch_message(str(self.asked.url), digest, str(self.wanted)))

    def _remove_if_refused(self, verify: Callable[[], None]) -> None:
        """Verify a part and remove it when it is refused: resuming it could not give the right file."""
        try:
            verify()
        except BadRequest as error:
            textfile.remove_file(self.part)
            self.remember(parts=None)
            stays = f" {self.path} is unchanged." if self.found else ""
            raise BadRequest(f"{error}{stays} The download is removed.") from None

    def put_in_place(self) -> None:
        """Give the part its owner and mode, by default those of the old file, and then rename it."""
        self.run.attributes.begin(self.part, self.found)
        textfile.rename_file(self.part, self.path)
        self._remember_file()


#: Seconds between two lines.
INTERVAL = 5


class Progress:
    """A file with one line about the progress of a download."""

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
