# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One model file on the host: downloaded, verified, and only then put in place; until then the old file stays.

The digest of a large file takes minutes, so the store remembers it with the size, time and inode of the file.
"""

from __future__ import annotations

import os
import stat
import time

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.checksum import ALGORITHM, digest_in, digest_of, mismatch, mismatch_on_server
from .._io.download import Download, check_space
from .._io.http import check_url, head
from .._io.store import ANY
from .._notation.sizes import about, bytes_of, whole
from . import gguf
from .progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._io.store import Store

#: The file in the store: what is known of complete files, and of parts of interrupted downloads.
KNOWN = "model_files.json"
SHAPE = {"files": {ANY: dict}, "parts": {ANY: dict}}
MODE = 0o644


def ensure(options: Mapping[str, Any], store: Store, check: bool = False) -> dict[str, Any]:
    """Make a model file what the options ask for, and return a module's result; with check, change nothing."""
    wanted = Absent if options["state"] == "absent" else Present
    file = wanted(options, store, check)
    file.make()
    return {
        "changed": file.before != file.after,
        "diff": {"before": file.before, "after": file.after},
        "remarks": file.remarks,
        "path": file.path,
        **file.facts,
    }


class ModelFile:
    """What both states share. ``before`` and ``after`` hold the differences, by address."""

    def __init__(self, options: Mapping[str, Any], store: Store, check: bool) -> None:
        self.options = options
        self.store = store
        self.check = check
        self.path = os.path.abspath(options["path"])
        self.part = f"{self.path}.part"
        self.before: dict[str, str | None] = {}
        self.after: dict[str, str | None] = {}
        self.remarks: list[str] = []
        self.facts: dict[str, Any] = {}
        self.found = _status(self.path)
        if self.found and not stat.S_ISREG(self.found.st_mode):
            raise BadRequest(f"path: {self.path} is not a regular file; give the full path of a model file.")

    def make(self) -> None:
        """Bring the file to the wanted state."""
        raise TypeError("a subclass must define make")

    def differs(self, what: str, before: str | None, after: str | None) -> None:
        """Record a difference."""
        if before != after:
            self.before[f"model_file:{self.path}{what}"] = before
            self.after[f"model_file:{self.path}{what}"] = after

    def known_digest(self) -> str | None:
        """Return the remembered digest of the file; None when there is none or the file has changed since."""
        known = self.store.load_cache(KNOWN, SHAPE).get("files", {}).get(self.path, {})
        return known.get("sha256") if known and known.get("stamp") == _stamp(self.path) else None

    def remember(self, **rows: Mapping[str, object] | None) -> None:
        """Store what is known of the complete file (``files``) or of the part (``parts``); None removes the entry."""
        with self.store.lock():
            data = self.store.load_cache(KNOWN, SHAPE)
            for table, row in rows.items():
                data.setdefault(table, {}).pop(self.path, None)
                if row is not None:
                    data[table][self.path] = row
            self.store.save(KNOWN, data)


class Absent(ModelFile):
    """The state absent: neither the file nor a part of it."""

    def make(self) -> None:
        """Remove the file, its part, and what the store knows of them."""
        digest = self.known_digest()
        if self.found:
            self.differs("", ALGORITHM + digest if digest else "a file", None)
        if _status(self.part):
            self.differs(".part", "a file", None)
        if self.after and not self.check:
            textfile.remove(self.path)
            textfile.remove(self.part)
            self.remember(files=None, parts=None)


class Present(ModelFile):
    """The state present: the complete file, with the checksum that was asked for."""

    def __init__(self, options: Mapping[str, Any], store: Store, check: bool) -> None:
        super().__init__(options, store, check)
        self.url: str | None = options.get("url")
        self.wanted = digest_in(options.get("checksum"))
        if self.url:
            check_url(self.url)
            if not self.wanted:
                raise BadRequest("checksum: url needs the checksum of the file, as sha256:HEX.")
        self.mode = _mode_in(options.get("mode"))
        self.reserve = bytes_of(options.get("reserve") or "1GiB", "reserve")
        self.timeout = whole(options.get("timeout") or 60, "timeout")
        self.facts = {"downloaded": 0, "resumed": 0}

    def make(self) -> None:
        """Verify the file that is there, or download it; then set owner and mode."""
        found: str | None = None
        reason: str | None = f"There is no file {self.path} on the host. Give its url, or copy it there first."
        if self.found:
            found, reason = self._verify_file()
        if reason and not self.url:
            raise BadRequest(reason)
        if reason:
            self.differs("", found, f"{ALGORITHM}{self.wanted}")
        if reason and self.check:
            self._check_download()
        elif reason:
            self._fetch()
        self._attributes()
        self.facts["size"] = None if reason and self.check else os.stat(self.path).st_size
        self.facts["checksum"] = f"{ALGORITHM}{self.wanted}" if self.wanted else None

    def _verify_file(self) -> tuple[str, str | None]:
        """Return the digest found and the reason why the file is not the wanted one, None when it is."""
        if not self.wanted:
            gguf.read_part(self.path)
            return "a file", None
        known = self.known_digest()
        digest = known or self._digest()
        text = ALGORITHM + digest
        if digest != self.wanted:
            return text, mismatch(self.path, digest, self.wanted)
        if not known:
            gguf.read_part(self.path)
            if not self.check:
                self._remember_file()
        return text, None

    def _digest(self) -> str:
        """Read the whole file. In check mode nothing is written, so that nothing of its progress can be told."""
        progress = None if self.check else self.options.get("progress")
        if not progress:
            return digest_of(self.path)
        try:
            return digest_of(self.path, Progress(progress))
        finally:
            textfile.remove(progress)

    def _remember_file(self) -> None:
        self.remember(files={"sha256": self.wanted, "stamp": _stamp(self.path)}, parts=None)

    # Fetching

    def _check_download(self) -> None:
        """Check, without writing, whether the file could be downloaded."""
        left = _status(self.part)
        try:
            remote = head(str(self.url), self.timeout)
        except TuningError as error:
            self.remarks.append(f"{error} This was only a HEAD request, which some servers refuse.")
            return
        self._check_space(None if remote.size is None else max(0, remote.size - (left.st_size if left else 0)))

    def _fetch(self) -> None:
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
        except OSError as error:
            raise TuningError(f"{os.path.dirname(self.path)} cannot be made: {error.strerror}.") from None
        known = self.store.load_cache(KNOWN, SHAPE).get("parts", {}).get(self.path)
        download = Download(str(self.url), self.part, known, self.timeout)
        download.check_space = self._check_space
        download.keep = lambda facts: self.remember(parts=facts)
        download.begun = lambda: self._remove_if_refused(lambda: gguf.check_begin(self.part))
        progress = self.options.get("progress")
        begun = time.monotonic()
        if progress:
            download.tell = Progress(progress)
        try:
            digest = download.run_for(str(self.wanted))
        finally:
            self.remarks += download.remarks
            if progress:
                textfile.remove(progress)
        if download.resumed:
            self.remarks.append(f"Resumed after {about(download.resumed)} from an earlier run.")
        self.facts.update(downloaded=download.have - download.resumed, resumed=download.resumed)
        self.facts["seconds"] = round(time.monotonic() - begun, 1)
        self._remove_if_refused(lambda: self._verify_part(digest))
        self._put_in_place()
        self._remember_file()

    def _verify_part(self, digest: str) -> None:
        gguf.read_part(self.part)
        if digest != self.wanted:
            raise BadRequest(mismatch_on_server(str(self.url), digest, str(self.wanted)))

    def _remove_if_refused(self, verify: Callable[[], None]) -> None:
        """Verify a part and remove it when it is refused: resuming it could not give the right file."""
        try:
            verify()
        except BadRequest as error:
            textfile.remove(self.part)
            self.remember(parts=None)
            stays = f" {self.path} is unchanged." if self.found else ""
            raise BadRequest(f"{error}{stays} The download is removed.") from None

    def _check_space(self, missing: int | None) -> None:
        """Refuse a download for which the disk has too little space."""
        if missing is None:
            self.remarks.append(f"{self.url}: the server does not report the size, so free space was not checked.")
            return
        check_space(self.path, missing, self.reserve)

    def _put_in_place(self) -> None:
        """Give the part its owner and mode, by default those of the old file, and then rename it."""
        old = self.found
        owner = (old.st_uid, old.st_gid) if old else (-1, -1)
        textfile.give(self.part, *owner, self.mode if self.mode is not None else old.st_mode & 0o7777 if old else MODE)
        os.rename(self.part, self.path)
        textfile.flush_folder(self.path)

    # Owner and mode

    def _attributes(self) -> None:
        """Set owner, group and mode where they are asked for and differ."""
        old = self.found
        user = self._number("owner", "pwd", "getpwnam", "pw_uid")
        group = self._number("group", "grp", "getgrnam", "gr_gid")
        for what, number, before in (("owner", user, old and old.st_uid), ("group", group, old and old.st_gid)):
            if self.options.get(what):
                after = str(self.options[what] if number is None else number)
                self.differs(f"/{what}", None if before is None else str(before), after)
        if self.mode is not None:
            self.differs("/mode", f"{stat.S_IMODE(old.st_mode):04o}" if old else None, f"{self.mode:04o}")
        if self.check or not any(self.options.get(what) for what in ("owner", "group", "mode")):
            return
        textfile.give(self.path, -1 if user is None else user, -1 if group is None else group, self.mode)

    def _number(self, option: str, table: str, function: str, field: str) -> int | None:
        name = self.options.get(option)
        if not name or str(name).isdecimal():
            return int(name) if name else None
        try:
            return int(getattr(getattr(__import__(table), function)(name), field))
        except KeyError:
            if self.check:
                self.remarks.append(f"{option}: there is no '{name}' on this host yet.")
                return None
            raise BadRequest(f"{option}: there is no '{name}' on this host; make it first.") from None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise TuningError(f"{path} cannot be looked at: {error.strerror}.") from None


def _stamp(path: str) -> list[int]:
    """Return size, time and inode: together they change when the content changes."""
    found = _status(path)
    return [found.st_size, found.st_mtime_ns, found.st_ino] if found else []


def _mode_in(text: str | None) -> int | None:
    if not text:
        return None
    if text[0] != "0" or not set(text) <= set("01234567") or len(text) > 5:
        raise BadRequest(
            f"mode: '{text}' is not a mode; quote it as '0644', because YAML reads it as a number otherwise."
        )
    return int(text, 8)
