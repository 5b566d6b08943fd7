# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A llama-server built by Debian, for guests whose Debian is older than the release that it was built for.

To compile llama.cpp takes ten minutes on two cores; the packages are 7 MB. Debian has a library of compute code for
each kind of CPU, and llama.cpp loads the best one that it finds. A guest gets the plain one only, because QEMU computes
with vectors one number after the other.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

from ..cache_folders import ensure_folder
from ..errors import VepycError
from ..images.debian_packages import ensure_extracted
from ..paths import compute_digest, ensure_directory

#: The first Debian that has llama.cpp.
LLAMA_SUITE = "forky"
_PACKAGES = ("llama.cpp-tools", "libllama0", "libggml0")
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
#: The path of each file in a guest, by its path in the packages; libraries stay where llama-server looks for them.
_GUEST_PATHS = {
    "usr/bin/llama-server": "opt/llama/bin/llama-server",
    **{
        name: name
        for name in (
            f"{_LIBRARIES}/libggml-base.so.0",
            f"{_LIBRARIES}/libggml.so.0",
            f"{_LIBRARIES}/libllama-common.so.0",
            f"{_LIBRARIES}/libllama.so.0",
            f"{_LIBRARIES}/libmtmd.so.0",
            f"{_LIBRARIES}/llama/libllama-server-impl.so",
            f"{_LIBRARIES}/ggml/backends0/libggml-cpu-x64.so",
        )
    },
}
#: The C library of the guests' Debian.
_GUEST_GLIBC = (2, 41)
#: Functions whose newer version computes the same as the oldest one. The newer sqrtf only sets no errno.
_SAME_IN_OLDEST = {"sqrtf"}
_OLDEST = "GLIBC_2.2.5"


def ensure_debian_build() -> Path:
    """Return a folder with the files of llama-server below it as in a guest; fetch them first when they are missing."""
    folder = (
        ensure_directory("llama")
        / f"{LLAMA_SUITE}-{compute_digest([*_PACKAGES, *_GUEST_PATHS, *_GUEST_PATHS.values()])}"
    )
    return ensure_folder(folder, _copy_guest_files)


def _copy_guest_files(folder: Path) -> None:
    """Copy the files that a guest needs from Debian's packages into a folder, and make them fit its C library."""
    print("fetching llama-server as Debian built it (once, 7 MB, usually 5 to 30 s)", flush=True)
    packages = ensure_extracted(LLAMA_SUITE, *_PACKAGES)
    try:
        for origin, place in _GUEST_PATHS.items():
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(packages / origin, target)
            require_oldest_glibc_versions(target)
    except (OSError, subprocess.CalledProcessError) as error:
        raise VepycError(f"Debian's packages of llama.cpp are not as they were: {error}") from None


def require_oldest_glibc_versions(file: Path) -> None:
    """Make a program or library require the oldest version of functions that are newer than the guests' C library.

    A function that is not known to compute the same in its oldest version is an error.
    """
    symbols = set(re.findall(r"\((GLIBC_[\d.]+)\)\s+(\S+)", _run_objdump("-T", file)))
    newer = {version for version, name in symbols if _is_newer_than_guest_glibc(version)}
    unknown = sorted(name for version, name in symbols if version in newer and name not in _SAME_IN_OLDEST)
    if unknown:
        raise VepycError(f"{file.name} of Debian's llama.cpp needs a newer C library than guests have: {unknown}")
    content = file.read_bytes()
    for version in newer:
        content = _replace_version(content, _required_versions(file), version)
    file.write_bytes(content)


def _is_newer_than_guest_glibc(version: str) -> bool:
    """True if a version, such as GLIBC_2.43, is newer than the C library of guests."""
    return tuple(map(int, version.removeprefix("GLIBC_").split("."))) > _GUEST_GLIBC


def _required_versions(file: Path) -> list[tuple[str, bytes]]:
    """Return the name of each symbol version that a file requires, with the first 8 bytes of its record."""
    lines = re.findall(r"0x([0-9a-f]{8}) 0x([0-9a-f]{2}) (\d+) (\S+)$", _run_objdump("-p", file), re.MULTILINE)
    return [
        (name, struct.pack("<IHH", int(hashed, 16), int(flags, 16), int(number)))
        for hashed, flags, number, name in lines
    ]


def _replace_version(content: bytes, required: list[tuple[str, bytes]], version: str) -> bytes:
    """Return the content of a file with the records of ``version`` changed to require the oldest version.

    A record (vernaux of ELF) has 16 bytes: hash of the version's name, flags, number, offset of the name, and offset of
    the next record. Hash and name are copied from the record of the oldest version.
    """
    oldest = content.index(next(record for name, record in required if name == _OLDEST))
    for name, record in required:
        if name == version:
            place = content.index(record)
            content = (
                content[:place]
                + content[oldest : oldest + 4]
                + content[place + 4 : place + 8]
                + content[oldest + 8 : oldest + 12]
                + content[place + 12 :]
            )
    return content


def _run_objdump(option: str, file: Path) -> str:
    return subprocess.run(["objdump", option, str(file)], capture_output=True, text=True, check=True).stdout
