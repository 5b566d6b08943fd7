# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Archives of llama.cpp: downloaded, checked, unpacked without a file outside their folder, and removed."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder import missing_files, source_archive
from ansible_collections.sovereign.epyc.tests.unit.fakes.builders import (
    TREE,
    Builder,
    add_member,
    checksum,
    packed,
    packed_by,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

# Refusals


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"README.md": b""}, "holds no llama.cpp: no folder in it has a CMakeLists.txt and tools/server or"),
        ({"x/CMakeLists.txt": b""}, "holds no llama.cpp"),
        ({"x/tools/server/a.cpp": b""}, "holds no llama.cpp"),
        ({f"{a}/{name}": b"" for a in "ab" for name in TREE}, "holds more than one llama.cpp: a/llama and b/llama."),
        ({**TREE, "llama/ggml/src/iqk/x.cpp": b""}, "holds ik_llama.cpp, and engine is llama.cpp"),
    ],
)
def test_what_is_no_llama_is_refused(builder: Builder, tmp_path: Path, members: dict[str, bytes], words: str) -> None:
    assert words in builder.refused(archive=str(packed(tmp_path / "x.tar.gz", members)))


def test_what_is_no_archive_is_refused(builder: Builder, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<html>Not found</html>")
    assert f"{page} is no archive; a tar.gz, tar.xz, tar.bz2 or zip" in builder.refused(archive=str(page))
    for name, mode in (("x.tar.gz", "w:gz"), ("x.tar.xz", "w:xz"), ("x.zip", "zip")):
        noise = os.urandom(1 << 18)
        torn = packed(tmp_path / name, {**TREE, "noise": noise, "more": noise}, mode)
        content = torn.read_bytes()
        torn.write_bytes(content[: len(content) // 2] if mode != "zip" else content.replace(noise, noise[::-1]))
        assert f"{torn} cannot be unpacked: " in builder.refused(archive=str(torn))


LEAVING: dict[str, Callable[[tarfile.TarFile], None]] = {
    "../escaped": lambda tar: add_member(tar, "../escaped"),
    "llama/../../escaped": lambda tar: add_member(tar, "llama/../../escaped"),
    "/tmp/escaped": lambda tar: add_member(tar, "/tmp/escaped"),
    "a link": lambda tar: add_member(tar, "link", kind=tarfile.SYMTYPE, aim="../escaped"),
    "a whole link": lambda tar: add_member(tar, "link", kind=tarfile.SYMTYPE, aim="/etc"),
    "a hard link": lambda tar: add_member(tar, "link", kind=tarfile.LNKTYPE, aim="../escaped"),
    "a device": lambda tar: add_member(tar, "null", kind=tarfile.CHRTYPE),
}


@pytest.mark.parametrize("name", LEAVING)
@pytest.mark.parametrize("filtered", [True, False])
def test_an_archive_that_leaves_its_folder_is_refused(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, filtered: bool
) -> None:
    """Also on a Python whose tarfile has no filter."""
    if not filtered:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    archive = packed_by(tmp_path / "x.tar.gz", LEAVING[name])
    assert "it is not unpacked." in builder.refused(archive=str(archive))
    assert not list(tmp_path.rglob("escaped"))


def test_nothing_is_written_through_a_link(builder: Builder, tmp_path: Path) -> None:
    def fill(tar: tarfile.TarFile) -> None:
        add_member(tar, "a/b/link", kind=tarfile.SYMTYPE, aim="..")
        add_member(tar, "a/b/link/file")

    assert "holds 'a/b/link/file'" in builder.refused(archive=str(packed_by(tmp_path / "x.tar.gz", fill)))


def test_a_zip_that_leaves_its_folder_is_refused(builder: Builder, tmp_path: Path) -> None:
    archive = packed(tmp_path / "x.zip", {**TREE, "../escaped": b""}, "zip")
    assert "holds '../escaped', which leads out of its folder" in builder.refused(archive=str(archive))


# Downloads


def test_a_wrong_download_is_removed(builder: Builder) -> None:
    with serving(lambda request: say(request, 200, b"another")) as server:
        sentence = builder.refused(archive=f"{server.url}/x.tar.gz", checksum=f"sha256:{'1' * 64}")
    assert f"but sha256:{'1' * 64} was requested. Check both" in sentence and "is removed." in sentence


def test_a_download_that_is_none_leaves_nothing(builder: Builder) -> None:
    with serving(lambda request: say(request, 404)) as server:
        assert "it has no such file" in builder.refused(archive=f"{server.url}/x.tar.gz")


def test_a_download_is_unpacked_and_removed(builder: Builder, tmp_path: Path) -> None:
    """That it is no llama.cpp is known only when it is there."""
    archive = packed(tmp_path / "x.tar.gz", {"README.md": b""})
    with serving(lambda request: say(request, 200, archive.read_bytes())) as server:
        sentence = builder.refused(archive=f"{server.url}/x.tar.gz", checksum=checksum(archive))
    assert sentence.startswith(f"{server.url}/x.tar.gz holds no llama.cpp")


# Kinds of archives


@pytest.mark.filterwarnings("ignore:Python 3.14:DeprecationWarning")
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
@pytest.mark.parametrize("filtered", [True, False])
def test_every_kind_of_archive_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, filtered: bool
) -> None:
    """Its name does not count: many a URL ends in a tag."""
    if not filtered:
        monkeypatch.delattr(tarfile, "data_filter", raising=False)
    archive = packed(tmp_path / "b11434", {**TREE, "llama/x/CMakeLists.txt": b"", "llama/x/tools/server/a": b""}, mode)
    source_archive.unpack_archive(str(archive), "it", str(tmp_path / "out"))
    tree = source_archive.find_source_tree(str(tmp_path / "out"), "it", "llama.cpp")
    assert tree == str(tmp_path / "out/llama")
    assert Path(tree, "CMakeLists.txt").read_bytes() == TREE["llama/CMakeLists.txt"]


def test_the_file_that_a_package_lacks_is_supplied_where_its_template_is(tmp_path: Path) -> None:
    tree = tmp_path / "ik_llama_cpp_python-0.1.5/vendor/ik_llama.cpp"
    (tree / "common").mkdir(parents=True)
    assert not missing_files.supply_build_info_script(str(tree), "any")
    (tree / missing_files.TEMPLATE).touch()
    assert missing_files.supply_build_info_script(str(tree), 'ik-0.1.5") evil(')
    text = (tree / missing_files.SCRIPT).read_text()
    assert 'set(BUILD_COMMIT "ik-0.1.5___evil_")' in text and "${CMAKE_C_COMPILER_ID}" in text
    (tree / missing_files.SCRIPT).write_text("its own")
    assert not missing_files.supply_build_info_script(str(tree), "any")
    assert (tree / missing_files.SCRIPT).read_text() == "its own"


def test_a_tree_below_a_project_of_another_kind_is_found(tmp_path: Path) -> None:
    """A Python package with the sources has a CMakeLists.txt of its own above them."""
    for name in ("CMakeLists.txt", "vendor/ik/CMakeLists.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "vendor/ik/examples/server").mkdir(parents=True)
    (tmp_path / "vendor/ik/ggml/src/iqk").mkdir(parents=True)
    assert source_archive.find_source_tree(str(tmp_path), "it", "ik_llama.cpp") == str(tmp_path / "vendor/ik")
