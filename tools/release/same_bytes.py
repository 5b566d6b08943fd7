#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write the archive of a collection anew so that the same files always give the same bytes.

`ansible-galaxy collection build` writes the present time, and lists files in the order of the folder on the disk. Here
every file has the time SECONDS since 1970, files are sorted, and the digest of their list is computed again.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import tarfile
from hashlib import sha256
from pathlib import Path

FILES, MANIFEST = "FILES.json", "MANIFEST.json"


def sort_file_list(contents: dict[str, bytes]) -> None:
    """Sort the list of files in the contents of an archive, and renew its digest in the manifest."""
    files = json.loads(contents[FILES])
    files["files"].sort(key=lambda entry: entry["name"])
    contents[FILES] = json.dumps(files, indent=True).encode()
    manifest = json.loads(contents[MANIFEST])
    manifest["file_manifest_file"]["chksum_sha256"] = sha256(contents[FILES]).hexdigest()
    contents[MANIFEST] = json.dumps(manifest, indent=True).encode()


def rewrite_archive(path: Path, seconds: int) -> None:
    """Replace an archive by one with the same files in a fixed order and at a fixed time."""
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        # In the order of the archive, because a step back would decompress it from its beginning again.
        contents = {member.name: file.read() for member in members if (file := archive.extractfile(member))}
    members.sort(key=lambda member: member.name)
    sort_file_list(contents)
    with (
        path.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=seconds) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for member in members:
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            content = contents.get(member.name, b"")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("seconds", type=int)
    arguments = parser.parse_args()
    rewrite_archive(arguments.archive, arguments.seconds)


if __name__ == "__main__":
    main()
