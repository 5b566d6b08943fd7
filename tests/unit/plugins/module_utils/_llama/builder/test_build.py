# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds of llama.cpp up to the first step of cmake: what they are named after, and what is refused.

What cmake and a compiler do is tested with real ones, in tests/service.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.builder import build as llama_build
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.builder import cmake, source
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

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
    return packed_by(path, lambda tar: [_add(tar, name, content) for name, content in members.items()], mode)


def packed_by(path: Path, fill: Callable[[tarfile.TarFile], object], mode: str = "w:gz") -> Path:
    options: Any = {"mode": mode}
    with tarfile.open(path, **options) as tar:
        fill(tar)
    return path


def _add(tar: tarfile.TarFile, name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, aim: str = "") -> None:
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
        return llama_build.ensure(self.options(**more), None, check, self.host.fs)

    def refused(self, **more: Any) -> str:
        """The sentence of a refusal that left nothing."""
        with pytest.raises(TuningError) as refusal:
            self(**more)
        assert not self.folder.exists()
        return str(refusal.value)


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builder:
    builder = Builder(tmp_path)
    monkeypatch.setattr(command, "PATH", str(builder.programs))
    return builder


# The key


def test_a_build_is_named_after_all_that_goes_into_it(builder: Builder, tmp_path: Path) -> None:
    keys = [builder.build().key]
    assert builder.build(jobs=3, reserve="2GiB").key == keys[0]
    keys.append(builder.build(engine="ik_llama.cpp").key)
    keys.append(builder.build(cmake_options={"GGML_AVX512": True}).key)
    keys.append(builder.build(archive=str(packed(tmp_path / "other.tar.gz", {**TREE, "more": b""}))).key)
    keys.append(builder.build(cmake_options={"CMAKE_CXX_COMPILER": "other++"}).key)
    builder.program("c++", "c++ 1.1")
    keys.append(builder.build().key)
    builder.host.put("/proc/cpuinfo", CPUINFO.replace("avx512f", ""))
    keys.append(builder.build().key)
    builder.host.put("/proc/cpuinfo", CPUINFO.replace("9754", "9755"))
    keys.append(builder.build().key)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("native", [False, "OFF", "no", 0])
def test_the_cpu_counts_only_for_a_native_build(builder: Builder, native: object) -> None:
    before = builder.build(cmake_options={"GGML_NATIVE": native}).key
    builder.host.put("/proc/cpuinfo", CPUINFO.replace("avx512f", ""))
    assert builder.build(cmake_options={"GGML_NATIVE": native}).key == before


#: What one kernel says of a 9754, and a later one: the kernel's own findings and workarounds stand among the flags.
FLAGS = (
    "fpu sse sse2 rep_good nopl pni pclmulqdq ssse3 fma movbe aes avx f16c abm sse4a bmi1 avx2 bmi2 avx512f gfni vaes"
)
LATER = "cpuid extd_apicid tsc_known_freq ibrs_enhanced overflow_recov succor debug_swap ibpb_exit_to_user srso_user"


def test_what_the_kernel_adds_to_the_flags_does_not_count(builder: Builder) -> None:
    """An update of the kernel compiles nothing anew: compilers ask the CPU itself."""
    keys = set()
    for flags in (FLAGS, f"{FLAGS} {LATER}", FLAGS.replace("rep_good nopl ", "")):
        builder.host.put("/proc/cpuinfo", CPUINFO.replace("fpu avx2 avx512f", flags))
        keys.add(builder.build().key)
    assert len(keys) == 1


@pytest.mark.parametrize(
    "flag",
    ["sse4_2", "ssse3", "pni", "avx512_bf16", "avx_vnni", "amx_tile", "f16c", "fma", "bmi2", "abm", "sha_ni", "vaes"],
)
def test_an_instruction_that_a_compiler_uses_counts(builder: Builder, flag: str) -> None:
    before = builder.build().key
    builder.host.put("/proc/cpuinfo", CPUINFO.replace("avx512f", f"avx512f {flag}"))
    assert builder.build().key != before


def test_the_order_of_flags_does_not_count(builder: Builder) -> None:
    before = builder.build().key
    builder.host.put("/proc/cpuinfo", CPUINFO.replace("fpu avx2 avx512f", "avx512f fpu avx2"))
    assert builder.build().key == before


def test_options_go_over_ours_as_cmake_writes_them(builder: Builder) -> None:
    given = {"BUILD_SHARED_LIBS": True, "GGML_LTO": False, "LLAMA_BUILD_NUMBER": 11434, "CMAKE_C_FLAGS": "-O2 -g"}
    options = builder.build(cmake_options=given).options
    assert options["BUILD_SHARED_LIBS"] == "ON" and options["GGML_LTO"] == "OFF"
    assert options["LLAMA_BUILD_NUMBER"] == "11434" and options["CMAKE_C_FLAGS"] == "-O2 -g"
    assert options["GGML_NATIVE"] == "ON"


def test_isolated_cpus_get_no_compiler(builder: Builder) -> None:
    assert builder.build().jobs == 3
    assert builder.build(jobs=5).jobs == 5
    builder.host.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.partition", "root")
    builder.host.put("/sys/fs/cgroup/llama.slice/cpuset.cpus.effective", "6-7")
    assert builder.build().jobs == 2
    builder.host.put("/sys/devices/system/cpu/isolated", "0-7")
    assert builder.build().jobs == 1


# Checks


def test_a_check_tells_where_it_would_be_and_writes_nothing(builder: Builder) -> None:
    done = builder(check=True)
    assert done["changed"] is True and not builder.folder.exists()
    folder = f"{builder.folder}/{done['key']}"
    assert (done["folder"], done["binary"]) == (folder, f"{folder}/bin/llama-server")
    assert done["rpc_binary"] == f"{folder}/bin/ggml-rpc-server" and done["version"] is None
    assert done["diff"]["after"] == {f"llama_build:{folder}": checksum(builder.archive)}
    assert builder(check=True, engine="ik_llama.cpp")["rpc_binary"].endswith("/bin/rpc-server")
    assert builder(check=True, cmake_options={"GGML_RPC": False})["rpc_binary"] is None


def test_a_check_does_not_fetch(builder: Builder) -> None:
    """Nobody listens there."""
    assert builder(check=True, archive="http://127.0.0.1:1/x.tar.gz")["changed"] is True


def test_what_is_there_is_not_built_and_not_even_asks_for_its_archive(builder: Builder) -> None:
    options = builder.options()
    build = builder.build()
    Path(build.folder, "bin").mkdir(parents=True)
    Path(build.folder, "bin/llama-server").touch()
    builder.archive.unlink()
    with pytest.raises(BadRequest, match="there is no file"):
        builder(**options)
    Path(build.folder, "build.json").write_text('{"version": "version: 7"}')
    done = builder(**options)
    assert (done["changed"], done["version"], done["rpc_binary"]) == (False, "version: 7", None)
    assert done["diff"] == {"before": {}, "after": {}}


def test_builds_that_no_unit_names_are_removed(
    builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = tmp_path / "units"
    units.mkdir()
    monkeypatch.setattr(llama_build, "UNIT_FOLDER", str(units))
    mine = Path(builder.build().folder)
    used, unused, foreign = (builder.folder / name for name in ("used", "unused", "foreign"))
    for folder in (mine, used, unused, foreign):
        Path(folder, "bin").mkdir(parents=True)
        Path(folder, "bin/llama-server").touch()
        if folder != foreign:
            Path(folder, "build.json").write_text('{"version": "version: 7"}')
    (units / "other.service.d").mkdir()
    (units / "other.service.d/mine.conf").write_text(f"ExecStart={used}/bin/llama-server --port 8080\n")
    (units / "gone.service").symlink_to("/nowhere")
    assert builder()["changed"] is False
    for check in (True, False):
        done = builder(check=check, prune=True)
        assert done["diff"] == {
            "before": {f"llama_build:{unused}": "a build"},
            "after": {f"llama_build:{unused}": None},
        }
        assert unused.exists() == check
    assert used.exists() and foreign.exists() and mine.exists()
    assert builder(prune=True)["changed"] is False


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checksum": "md5:d41d8cd98f00b204e9800998ecf8427e"}, "say sha256: and 64 hexadecimal digits"),
        ({"checksum": ""}, "checksum: say which archive it shall be"),
        ({"checksum": f"sha256:{'1' * 64}"}, f"but sha256:{'1' * 64} was requested."),
        ({"archive": "sources.tar.gz"}, "archive: 'sources.tar.gz' is no URL and no whole path"),
        ({"archive": "ftp://127.0.0.1/x"}, "archive: 'ftp://127.0.0.1/x' cannot be fetched"),
        ({"archive": "/nowhere/x"}, "archive: there is no file /nowhere/x on the host"),
        ({"cmake_options": {"-DGGML_NATIVE": True}}, "'-DGGML_NATIVE' is no name of an option; say it without -D"),
        ({"cmake_options": {"A B": True}}, "'A B' is no name of an option"),
        ({"cmake_options": {"A": None}}, "A has no value that cmake takes"),
        ({"cmake_options": {"A": ["x"]}}, "A has no value that cmake takes"),
        ({"cmake_options": {"A": "x\n"}}, "A has no value that cmake takes"),
        ({"cmake_options": {"CMAKE_CXX_COMPILER": "g++-99"}}, "g++-99 cannot be found on the host."),
        ({"jobs": 0}, "jobs: '0' is too few"),
        ({"jobs": -1}, "jobs: '-1' is no whole number"),
        ({"reserve": "much"}, "reserve: 'much' is no amount of memory"),
        ({"reserve": "900000GiB"}, "does not fit: 1 GiB are needed and 900000.0 GiB must stay free"),
    ],
)
def test_what_cannot_be_is_refused_in_a_check_too(builder: Builder, options: dict[str, Any], words: str) -> None:
    for check in (True, False):
        assert words in builder.refused(check=check, **options)


def test_a_folder_that_cannot_be_made_is_named(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TuningError, match=r"file/builds cannot be written: Not a directory\.$"):
        builder(folder=str(tmp_path / "file/builds"))


def test_missing_programs_are_named_with_their_packages(builder: Builder) -> None:
    (builder.programs / "c++").unlink()
    assert builder.refused(cmake_options={}) == (
        "c++ cannot be found on the host. Install it: on Debian and Ubuntu with 'apt install g++'."
    )
    (builder.programs / "cmake").unlink()
    assert "cmake and c++ cannot be found on the host. Install it: on Debian" in builder.refused(check=True)
    assert builder.refused(check=True).endswith("with 'apt install cmake g++'.")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"README.md": b""}, "holds no llama.cpp: no folder in it has a CMakeLists.txt and tools/server or"),
        ({"x/CMakeLists.txt": b""}, "holds no llama.cpp"),
        ({"x/tools/server/a.cpp": b""}, "holds no llama.cpp"),
        ({f"{a}/{name}": b"" for a in "ab" for name in TREE}, "holds more than one llama.cpp: a/llama and b/llama."),
        ({**TREE, "llama/ggml/src/iqk/x.cpp": b""}, "holds ik_llama.cpp, and asked for is llama.cpp"),
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
    "../escaped": lambda tar: _add(tar, "../escaped"),
    "llama/../../escaped": lambda tar: _add(tar, "llama/../../escaped"),
    "/tmp/escaped": lambda tar: _add(tar, "/tmp/escaped"),
    "a link": lambda tar: _add(tar, "link", kind=tarfile.SYMTYPE, aim="../escaped"),
    "a whole link": lambda tar: _add(tar, "link", kind=tarfile.SYMTYPE, aim="/etc"),
    "a hard link": lambda tar: _add(tar, "link", kind=tarfile.LNKTYPE, aim="../escaped"),
    "a device": lambda tar: _add(tar, "null", kind=tarfile.CHRTYPE),
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
        _add(tar, "a/b/link", kind=tarfile.SYMTYPE, aim="..")
        _add(tar, "a/b/link/file")

    assert "holds 'a/b/link/file'" in builder.refused(archive=str(packed_by(tmp_path / "x.tar.gz", fill)))


def test_a_zip_that_leaves_its_folder_is_refused(builder: Builder, tmp_path: Path) -> None:
    archive = packed(tmp_path / "x.zip", {**TREE, "../escaped": b""}, "zip")
    assert "holds '../escaped', which leads out of its folder" in builder.refused(archive=str(archive))


def test_compilers_of_a_killed_run_are_not_disturbed(builder: Builder) -> None:
    part = Path(builder.build().part)
    part.mkdir(parents=True)
    with held(part), pytest.raises(TuningError, match=r"Another program has held the lock on .*\.part"):
        builder()
    assert part.is_dir()


def test_two_builds_in_a_folder_wait_for_each_other(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = llama_build.hold
    monkeypatch.setattr(llama_build, "hold", lambda path, name, seconds=0.0: real(path, name, 0.0))
    builder.folder.mkdir()
    with held(builder.folder), pytest.raises(TuningError, match="Another program has held the lock on"):
        builder()
    assert list(builder.folder.iterdir()) == []


@contextmanager
def held(folder: Path) -> Iterator[None]:
    file = os.open(folder, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(file)


# Archives


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
    source.unpack(str(archive), "it", str(tmp_path / "out"))
    tree = source.tree_in(str(tmp_path / "out"), "it", "llama.cpp")
    assert tree == str(tmp_path / "out/llama")
    assert Path(tree, "CMakeLists.txt").read_bytes() == TREE["llama/CMakeLists.txt"]


def test_a_tree_below_a_project_of_another_kind_is_found(tmp_path: Path) -> None:
    """A Python package with the sources has a CMakeLists.txt of its own above them."""
    for name in ("CMakeLists.txt", "vendor/ik/CMakeLists.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "vendor/ik/examples/server").mkdir(parents=True)
    (tmp_path / "vendor/ik/ggml/src/iqk").mkdir(parents=True)
    assert source.tree_in(str(tmp_path), "it", "ik_llama.cpp") == str(tmp_path / "vendor/ik")


# What is said


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("[ 1%] Building\n/x/a.cpp:3:5: error: 'y' was not declared\nb.cpp: error: no\n", "'y' was not declared."),
        (
            "-- ok\nCMake Error at CMakeLists.txt:3 (message):\n\n  No such thing.\n\n-- no\n",
            "(message): No such thing.",
        ),
        ("-- ok\nmake: *** [all] Killed\n\n", "make: *** [all] Killed."),
        ("", "nothing was said."),
    ],
)
def test_the_first_error_is_the_one_to_know(log: str, first: str) -> None:
    assert cmake.first_error(log).endswith(first)
