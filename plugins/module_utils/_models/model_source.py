# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the headers of a model at a path of this host or at a URL.

A model at a URL is described as if its files were already in a folder of this host, and with the files to fetch.
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

    from .gguf import GgufFile
    from .model import Model


class FileToFetch:
    """A file to fetch: its future path on the host, its URL, its checksum with ``sha256:``, and its size in bytes."""

    __slots__ = ("checksum", "path", "size", "url")

    def __init__(self, path: str, url: str, checksum: str, size: int) -> None:
        self.path = path
        self.url = url
        self.checksum = checksum
        self.size = size


class ModelSource:
    """A model, and the files to fetch for the model; a model on this host needs no files."""

    __slots__ = ("files", "model")

    def __init__(self, model: Model, files: list[FileToFetch]) -> None:
        self.model = model
        self.files = files


def is_http_url(text: str) -> bool:
    """Return whether a text is a URL, and not a path."""
    return "://" in text


def read_model_and_files_to_fetch(
    path_or_url: str, checksums: Sequence[str], folder: str, timeout: float = 60
) -> ModelSource:
    """Return the model at a path or URL, with the files to fetch for the model.

    ``checksums`` has a checksum for each file at a URL, or is empty where the server states the checksums. ``folder``
    is the future folder of files at a URL, and ``timeout`` the seconds for which a server may be silent. BadRequest or
    another TuningError for a model that cannot be read.
    """
    if is_http_url(path_or_url):
        validate_url(path_or_url, "model")
        return _read_from_server(path_or_url, checksums, folder, timeout)
    if not path_or_url.startswith("/"):
        raise BadRequest(f"models: '{path_or_url}' is neither a URL nor a whole path, which begins with /.")
    if checksums:
        raise BadRequest(
            f"checksum: {path_or_url} is on the host already, so its checksum is not asked for. Leave it out."
        )
    return ModelSource(gguf_model.read_model(path_or_url), [])


def _read_from_server(url: str, checksums: Sequence[str], folder: str, timeout: float) -> ModelSource:
    urls = _list_part_urls(url)
    if checksums and len(checksums) != len(urls):
        raise BadRequest(f"checksum: {url} has {len(urls)} files, and {len(checksums)} checksums are given.")
    parts: list[GgufFile] = []
    files = []
    for number, part_url in enumerate(urls):
        given = parse_checksum(checksums[number]) if checksums else None
        with RemoteFile(part_url, timeout) as file:
            header = read_header(file, part_url, file.size, file.read_at_least)  # type: ignore[arg-type]
            parts.append(header)
            digest = given or file.sha256
            if not digest:
                raise BadRequest(
                    f"The server does not say the SHA-256 of {part_url}, without which it is not fetched later. Give "
                    "the model as a dictionary, {model: URL, checksum: [sha256:HEX]}, with a checksum for each file."
                )
            files.append(
                FileToFetch(f"{folder.rstrip('/')}/{_file_name(part_url)}", part_url, f"{ALGORITHM}{digest}", file.size)
            )
    model = gguf_model.join_model_files(parts)
    for part, to_fetch in zip(parts, files):
        part.path = to_fetch.path
    return ModelSource(model, files)


def _list_part_urls(url: str) -> list[str]:
    """Return the URLs of all files of a model, each with the query of the given URL."""
    split = urlsplit(url)
    if not _file_name(url).endswith(".gguf"):
        raise BadRequest(f"{url} does not end in the name of a .gguf file. Give the URL by which it is downloaded.")
    return [urlunsplit(split._replace(path=path)) for path in list_gguf_parts(split.path)]


def _file_name(url: str) -> str:
    return os.path.basename(unquote(urlsplit(url).path))
