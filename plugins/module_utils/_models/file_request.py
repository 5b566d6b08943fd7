# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of the module model_file: path, URL, checksum, size, owner and mode of each file of a model.

A request names a model in several files by the path and the URL of the first file, with a checksum for each file.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from urllib.parse import urlsplit, urlunsplit

from .._errors import BadRequest, TuningError
from .._io import textfile
from .._io.checksum import parse_checksum
from .._io.web.http import AUTHORIZATION, is_encrypted_or_local, validate_url
from .._notation.gguf_parts import list_gguf_parts
from .._notation.numbers import parse_whole_number, require_whole_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The value of the option checksum with which the server of the file states the checksum.
CHECKSUM_FROM_SERVER = "server"
#: A URL of a hub with a commit. The file at such a URL never changes.
COMMIT_URL = re.compile(r"/resolve/[0-9a-f]{40}/")
#: The mode of a new file, so that services with any user can read the file.
DEFAULT_MODE = 0o644
#: The largest number of a user or a group in the kernel.
LARGEST_ID = (1 << 32) - 2


class FileRequest:
    """A requested file: its path, its URL, the digits of its checksum, and its size in bytes if known.

    ``takes_stated`` is True where the server of the URL states the checksum, because the request has none. With
    ``asks_always``, the server even states the checksum of a file that is on the host and came from another source.
    """

    __slots__ = ("asks_always", "path", "sha256", "size", "takes_stated", "url")

    def __init__(self, path: str, url: str | None, checksum: str | None, size: int | None) -> None:
        self.path = path
        self.url = url
        self.asks_always = checksum == CHECKSUM_FROM_SERVER
        self.takes_stated = self.asks_always or bool(url and not checksum)
        self.sha256 = None if self.takes_stated else parse_checksum(checksum)
        self.size = size


def parse_file_requests(options: Mapping[str, Any]) -> list[FileRequest]:
    """Return the files that the options of model_file request; BadRequest for options that contradict each other."""
    path, url = os.path.abspath(options["path"]), options.get("url")
    checksums = [str(checksum) for checksum in _as_list(options.get("checksum")) if checksum]
    sizes = [require_whole_number(size, "size") for size in _as_list(options.get("size"))]
    stated = CHECKSUM_FROM_SERVER in checksums or bool(url and not checksums)
    paths = list_gguf_parts(path) if len(checksums) > 1 or stated else [path]
    if url:
        validate_url(url)
    elif CHECKSUM_FROM_SERVER in checksums:
        raise BadRequest(f"checksum: '{CHECKSUM_FROM_SERVER}' needs a url, whose server says the checksum.")
    if CHECKSUM_FROM_SERVER in checksums:
        _validate_server_checksum(str(url), checksums)
        checksums *= len(paths)
    for option, given in (("checksum", checksums), ("size", sizes)):
        if given and len(given) != len(paths):
            raise BadRequest(f"{option}: {path} has {len(paths)} files, and {len(given)} are given; give one for each.")
    urls = _part_urls_or_none(url, paths) if url else [None] * len(paths)
    if path != paths[0]:
        raise BadRequest(f"path: {path} is not the first of its {len(paths)} files; give {paths[0]}.")
    return [
        FileRequest(file, urls[number], checksums[number] if checksums else None, sizes[number] if sizes else None)
        for number, file in enumerate(paths)
    ]


def missing_checksum_message(url: str, reason: str) -> str:
    """Return the message that a file needs a checksum to be fetched, with the line to add to the inventory."""
    several = (
        " of a model in several files, a list with one for each,"
        if len(list_gguf_parts(urlsplit(url).path)) > 1
        else ""
    )
    return (
        f"checksum: {url} is not taken without a checksum, because {reason}. Add the line 'checksum: sha256:HEX',"
        f"{several} where HEX is what 'curl -sL {shlex.quote(url)} | sha256sum' prints."
    )


def build_headers_and_remove_token_file(options: Mapping[str, Any], check: bool) -> dict[str, str]:
    """Return the HTTP headers for downloads: the token, if there is one. The file with the token is removed.

    Check mode neither reads nor removes the file. BadRequest, without the token in its message, where somebody else
    could read the token on its way to the server.
    """
    file, token = options.get("token_file"), options.get("token")
    if file and not check:
        token = (textfile.read_text(file) or "").strip()
        textfile.remove_file(file)
        if not token:
            raise TuningError(f"token_file: {file} has no token; the controller writes it, and this module removes it.")
    if not token:
        return {}
    if len(token.split()) != 1 or not token.isascii() or not token.isprintable():
        raise BadRequest("token: it has spaces or other characters that no token has; look at epyc_llama_hub_token.")
    if not is_encrypted_or_local(str(options.get("url") or "https://")):
        raise BadRequest("token: everybody on the way could read it; give a url that begins with https://.")
    return {AUTHORIZATION: f"Bearer {token}"}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _validate_server_checksum(url: str, checksums: list[str]) -> None:
    if len(checksums) > 1:
        raise BadRequest(f"checksum: '{CHECKSUM_FROM_SERVER}' stands alone, for all files of the model.")
    if not COMMIT_URL.search(url) or not is_encrypted_or_local(url):
        raise BadRequest(
            f"checksum: '{CHECKSUM_FROM_SERVER}' believes whatever the server says, so the url must begin with "
            "https:// and name a commit of 40 hexadecimal digits, as in https://HUB/ORG/NAME/resolve/COMMIT/FILE."
        )


def _part_urls_or_none(url: str, paths: list[str]) -> list[str | None]:
    """Return the URL of each file of a model, each with the query of the given URL."""
    split = urlsplit(url)
    parts = list_gguf_parts(split.path) if len(paths) > 1 else [split.path]
    if len(parts) != len(paths):
        raise BadRequest(f"url: {url} is not the first of {len(paths)} files, as {paths[0]} is.")
    return [urlunsplit(split._replace(path=part)) for part in parts]


class OwnerAndMode:
    """The requested owner, group and mode of each file; BadRequest where this host has no such owner or group."""

    def __init__(self, options: Mapping[str, Any], check: bool, remarks: list[str]) -> None:
        self.options = options
        self.check = check
        self.remarks = remarks
        self.mode = _parse_mode(options.get("mode"))
        self.user = self._find_id("owner", "pwd", "getpwnam", "pw_uid")
        self.group = self._find_id("group", "grp", "getgrnam", "gr_gid")

    def set_owner_and_mode_of_new_file(self, path: str, old: os.stat_result | None) -> None:
        """Set owner, group and mode of a new file.

        By default, they are those of the replaced file, whose status is ``old``; None for no replaced file.
        """
        owner = (old.st_uid, old.st_gid) if old else (-1, -1)
        textfile.set_owner_and_mode(
            path, *owner, self.mode if self.mode is not None else old.st_mode & 0o7777 if old else DEFAULT_MODE
        )

    def apply(
        self, path: str, old: os.stat_result | None, differs: Callable[[str, str | None, str | None], None]
    ) -> None:
        """Set the requested owner, group and mode of a file.

        ``old`` is the status before the change, and ``differs`` is called with each option, its old and new value.
        """
        for option, number, before in (
            ("owner", self.user, old and old.st_uid),
            ("group", self.group, old and old.st_gid),
        ):
            if self.options.get(option):
                after = str(self.options[option] if number is None else number)
                differs(f"/{option}", None if before is None else str(before), after)
        if self.mode is not None:
            differs("/mode", f"{stat.S_IMODE(old.st_mode):04o}" if old else None, f"{self.mode:04o}")
        if self.check or not any(self.options.get(option) for option in ("owner", "group", "mode")):
            return
        textfile.set_owner_and_mode(
            path, -1 if self.user is None else self.user, -1 if self.group is None else self.group, self.mode
        )

    def _find_id(self, option: str, table: str, function: str, field: str) -> int | None:
        name = self.options.get(option)
        if not name:
            return None
        number = parse_whole_number(name)
        if number is not None and number <= LARGEST_ID:
            return number
        try:
            return int(getattr(getattr(__import__(table), function)(name), field))
        except (KeyError, ValueError):  # A name with a NUL, or one that cannot be encoded, is a ValueError.
            if self.check:
                self.remarks.append(f"{option}: there is no '{name}' on this host yet.")
                return None
            raise BadRequest(f"{option}: there is no '{name}' on this host; make it first.") from None


def _parse_mode(text: str | None) -> int | None:
    if not text:
        return None
    if text[0] != "0" or not set(text) <= set("01234567") or len(text) > 5:
        raise BadRequest(
            f"mode: '{text}' is not a mode; quote it as '0644', because YAML reads it as a number otherwise."
        )
    return int(text, 8)
