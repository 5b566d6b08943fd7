# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model by its path on this host or by its URL, of which only the headers of its files are read.

A model at a URL is described as if its files were in a folder of this host already, with what it takes to fetch them.
"""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit, urlunsplit

from .._errors import BadRequest
from .._io.checksum import ALGORITHM, parse_checksum
from .._io.web.http import validate_url
from .._io.web.remote_file import RemoteFile
from .._notation.gguf_parts import list_gguf_parts
from . import model as gguf_model
from .gguf import read_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .gguf import Part
    from .model import Model


class File:
    """A file to fetch: where it will be, its URL, its checksum with ``sha256:``, and its bytes."""

    __slots__ = ("checksum", "path", "size", "url")

    def __init__(self, path: str, url: str, checksum: str, size: int) -> None:
        self.path = path
        self.url = url
        self.checksum = checksum
        self.size = size


class Source:
    """A model, and the files to fetch for it, none where they are on this host."""

    __slots__ = ("files", "model")

    def __init__(self, model: Model, files: list[File]) -> None:
        self.model = model
        self.files = files


def is_url(text: str) -> bool:
    """Return whether a text names something on a server."""
    return "://" in text


def read(text: str, checksums: Sequence[str], folder: str, timeout: float = 60) -> Source:
    """Read a model. ``checksums`` has one for each file at a URL, empty where the server says them.

    ``folder`` is where the files of a URL will be, ``timeout`` the seconds that a server may be silent. BadRequest or
    another TuningError says what is wrong with it.
    """
    if is_url(text):
        validate_url(text, "model")
        return _of_server(text, checksums, folder, timeout)
    if not text.startswith("/"):
        raise BadRequest(f"models: '{text}' is neither a URL nor a whole path, which begins with /.")
    if checksums:
        raise BadRequest(f"checksum: {text} is on the host already, so its checksum is not asked for. Leave it out.")
    return Source(gguf_model.read(text), [])


def _of_server(url: str, checksums: Sequence[str], folder: str, timeout: float) -> Source:
    urls = _urls(url)
    if checksums and len(checksums) != len(urls):
        raise BadRequest(f"checksum: {url} has {len(urls)} files, and {len(checksums)} checksums are given.")
    parts: list[Part] = []
    files = []
    for number, one in enumerate(urls):
        given = parse_checksum(checksums[number]) if checksums else None
        with RemoteFile(one, timeout) as file:
            parts.append(read_header(file, one, file.size))  # type: ignore[arg-type]
            digest = given or file.sha256
            if not digest:
                raise BadRequest(
                    f"The server does not say the SHA-256 of {one}, without which it is not fetched later. Give the "
                    "model as a dictionary, {model: URL, checksum: [sha256:HEX]}, with a checksum for each file."
                )
            files.append(File(f"{folder.rstrip('/')}/{_name(one)}", one, f"{ALGORITHM}{digest}", file.size))
    model = gguf_model.joined(parts)
    for part, to_fetch in zip(parts, files):
        part.path = to_fetch.path
    return Source(model, files)


def _urls(url: str) -> list[str]:
    """Return the URLs of all files of a model; what follows a ? is the same for each."""
    split = urlsplit(url)
    if not _name(url).endswith(".gguf"):
        raise BadRequest(f"{url} does not end in the name of a .gguf file. Give the URL by which it is downloaded.")
    return [urlunsplit(split._replace(path=path)) for path in list_gguf_parts(split.path)]


def _name(url: str) -> str:
    return os.path.basename(unquote(urlsplit(url).path))
