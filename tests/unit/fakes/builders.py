# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that builds llama.cpp, with stand-ins for cmake and the compilers, and archives for it to unpack."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder import build as llama_build
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

#: The least that is taken for a llama.cpp.
TREE = {"llama/CMakeLists.txt": b"project(x)", "llama/tools/server/server.cpp": b""}
CPUINFO = "model name\t: AMD EPYC 9754\nflags\t\t: fpu avx2 avx512f\n\nprocessor\t: 1\nmodel name\t: another\n"


def packed(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    """An archive with files."""
    if mode == "zip":
        with zipfile.ZipFile(path, "w") as target:
            for name, content in members.items():
                target.writestr(name, content)
        return path
    return packed_by(path, lambda tar: [add_member(tar, name, content) for name, content in members.items()], mode)


def packed_by(path: Path, fill: Callable[[tarfile.TarFile], object], mode: str = "w:gz") -> Path:
    options: Any = {"mode": mode}
    with tarfile.open(path, **options) as tar:
        fill(tar)
    return path


def add_member(
    tar: tarfile.TarFile, name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, aim: str = ""
) -> None:
    """Write a file, a link or a device into an archive; a link leads to its aim."""
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = len(content), kind, aim
    tar.addfile(member, io.BytesIO(content))


def checksum(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


class Builder:
    """A host with stand-ins for the programs, of which only the compiler is ever asked, and the options of a build."""

    def __init__(self, folder: Path) -> None:
        self.host = hosts.Host(folder / "host")
        self.host.put("/proc/cpuinfo", CPUINFO)
        self.host.put("/sys/devices/system/cpu/online", "0-7")
        self.host.put("/sys/devices/system/cpu/isolated", "2-6")
        self.programs = folder / "programs"
        self.programs.mkdir()
        for name in ("cmake", "make", "c++", "other++"):
            self.program(name, f"{name} 1.0")
        self.folder = folder / "builds"
        self.archive = packed(folder / "sources.tar.gz", TREE)

    def program(self, name: str, says: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\necho '{says}'\necho more\n")
        path.chmod(0o755)

    def options(self, **more: Any) -> dict[str, Any]:
        archive = Path(more.get("archive") or self.archive)
        known = {"checksum": checksum(archive)} if archive.is_file() else {}
        base = {
            "archive": str(archive),
            "folder": str(self.folder),
            "reserve": "1MiB",
            "checksum": f"sha256:{'0' * 64}",
        }
        return {**base, **known, **more}

    def build(self, **more: Any) -> llama_build.Build:
        return llama_build.Build(self.options(**more), self.host.fs)

    def __call__(self, check: bool = False, **more: Any) -> dict[str, Any]:
        return llama_build.ensure_build(self.options(**more), None, check, self.host.fs)

    def refused(self, **more: Any) -> str:
        """The sentence of a refusal that left nothing."""
        with pytest.raises(TuningError) as refusal:
            self(**more)
        assert not self.folder.exists()
        return str(refusal.value)


def builder_with_programs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Return a builder whose programs are the only ones that commands find."""
    builder = Builder(folder)
    monkeypatch.setattr(command, "PATH", str(builder.programs))
    return builder
