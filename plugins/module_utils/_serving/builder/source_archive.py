# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The archive with the sources of llama.cpp: verified by its checksum, unpacked, and searched for the source tree.

Archives of releases, of commits and of Python packages have the source tree at different depths.
"""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.checksum import compute_sha256, mismatch_message, server_mismatch_message
from ..._io.web.download import Download
from ..._io.web.http import validate_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: The folder of the server in current and in older sources. A source tree of llama.cpp is recognized by this folder.
SERVER = ("tools/server", "examples/server")
#: A folder that is in the sources of ik_llama.cpp, and not in those of llama.cpp.
IK = "ggml/src/iqk"
UNPACK_ERRORS = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


class Archive:
    """The requested archive: ``place`` is its URL or its path on the host, ``wanted`` is its expected digest."""

    def __init__(self, place: str, wanted: str) -> None:
        self.place = place
        self.wanted = wanted
        self.remote = "://" in place
        self.remarks: list[str] = []
        if self.remote:
            validate_url(place, "archive")
        elif not os.path.isabs(place):
            raise BadRequest(f"archive: '{place}' is no URL and no whole path of a file on the host; say one of them.")

    def verify_digest_of_local_archive(self) -> None:
        """Raise BadRequest where the archive is a file of the host, and the file is missing or has another digest."""
        if self.remote:
            return
        if not os.path.isfile(self.place):
            raise BadRequest(f"archive: there is no file {self.place} on the host. Copy it there first, or say a URL.")
        digest = compute_sha256(self.place)
        if digest != self.wanted:
            raise BadRequest(mismatch_message(self.place, digest, self.wanted))

    def fetch(self, folder: str, check_space: Callable[[int | None], int | None]) -> str:
        """Return the path of the archive; an archive at a URL is downloaded to this folder and verified."""
        if not self.remote:
            return self.place
        download = Download(self.place, self._download_path(folder))
        download.require_space = check_space
        try:
            digest = download.fetch_with_digest(self.wanted)
        finally:
            self.remarks += download.remarks
        if digest != self.wanted:
            self.remove_download(folder)
            raise BadRequest(f"{server_mismatch_message(self.place, digest, self.wanted)} The download is removed.")
        return download.part

    def remove_download(self, folder: str) -> None:
        """Remove a downloaded archive; an archive that is a file of the host stays."""
        if self.remote:
            textfile.remove_file(self._download_path(folder))

    def _download_path(self, folder: str) -> str:
        return os.path.join(folder, f"{self.wanted[:12]}.archive.part")


def unpack_archive(path: str, name: str, target: str) -> None:
    """Unpack an archive into a folder; BadRequest for a file that is no archive, is damaged, or leaves the folder."""
    try:
        if tarfile.is_tarfile(path):
            with tarfile.open(path) as tar:
                _refuse_members_outside_archive(
                    name, ((member.name, _link_target_in_archive(name, member)) for member in tar)
                )
                # The filter of tarfile repeats the validation. The first versions of Python 3.9 to 3.11 have no filter.
                more: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                tar.extractall(target, **more)
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                _refuse_members_outside_archive(name, ((member, None) for member in packed.namelist()))
                packed.extractall(target)
        else:
            raise BadRequest(f"{name} is no archive; a tar.gz, tar.xz, tar.bz2 or zip with the sources is needed.")
    except UNPACK_ERRORS as error:
        raise BadRequest(f"{name} cannot be unpacked: {error}.") from None
    except OSError as error:
        raise TuningError(f"{name} cannot be unpacked: {error.strerror or error}.") from None


def _link_target_in_archive(name: str, member: tarfile.TarInfo) -> str | None:
    """Return the target of a link, relative to the top of the archive; None for a member that is no link."""
    if member.issym():
        return os.path.join(os.path.dirname(member.name), member.linkname)
    if member.islnk():
        return member.linkname
    if member.isfile() or member.isdir():
        return None
    raise BadRequest(f"{name} holds '{member.name}', which is no file, folder or link; it is not unpacked.")


def _refuse_members_outside_archive(name: str, members: Iterable[tuple[str, str | None]]) -> None:
    """Raise BadRequest for an archive with a member that leaves the archive's folder, by its name or through a link.

    ``members`` has the name of each member, and the target of a link or None.
    """
    links: set[str] = set()
    for path, aim in members:
        path = os.path.normpath(path)
        above = [path[:at] for at, letter in enumerate(path) if letter == "/"]
        if _leads_outside(path) or (aim is not None and _leads_outside(aim)) or not links.isdisjoint(above):
            raise BadRequest(f"{name} holds '{path}', which leads out of its folder; it is not unpacked.")
        if aim is not None:
            links.add(path)


def _leads_outside(path: str) -> bool:
    return os.path.isabs(path) or os.path.normpath(path).split("/")[0] == ".."


def find_source_tree(folder: str, name: str, engine: str) -> str:
    """Return the topmost source tree in a folder; BadRequest for none, several, or a tree of another engine."""
    level = [folder]
    while level:
        trees = [path for path in level if _is_source_tree(path)]
        if len(trees) > 1:
            both = " and ".join(sorted(os.path.relpath(path, folder) for path in trees))
            raise BadRequest(f"{name} holds more than one llama.cpp: {both}. Pack only the tree that is to be built.")
        if trees:
            actual_engine = "ik_llama.cpp" if os.path.isdir(os.path.join(trees[0], IK)) else "llama.cpp"
            if actual_engine != engine:
                raise BadRequest(
                    f"{name} holds {actual_engine}, and engine is {engine}; say 'engine: {actual_engine}'."
                )
            return trees[0]
        level = [entry.path for path in level for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]
    raise BadRequest(f"{name} holds no llama.cpp: no folder in it has a CMakeLists.txt and {' or '.join(SERVER)}.")


def _is_source_tree(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "CMakeLists.txt")) and any(
        os.path.isdir(os.path.join(path, place)) for place in SERVER
    )
