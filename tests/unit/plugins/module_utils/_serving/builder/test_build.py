# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds of llama.cpp up to the first step of cmake: what they are named after, and which are kept.

What cmake and a compiler do is tested with real ones, in tests/service.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder import build as llama_build
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder import cmake
from ansible_collections.sovereign.epyc.tests.unit.fakes.builders import (
    CPUINFO,
    TREE,
    Builder,
    checksum,
    packed,
)

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
        ("", "there was no output."),
    ],
)
def test_the_first_error_is_the_one_to_know(log: str, first: str) -> None:
    assert cmake.find_first_error_or_last_line(log).endswith(first)
