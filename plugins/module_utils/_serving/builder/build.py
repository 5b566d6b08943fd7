# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds llama.cpp on the host for its own CPU, once for each combination of sources, options, compiler and CPU.

A build is made and tried in the folder FOLDER/KEY.part, which is then renamed to FOLDER/KEY. So a folder FOLDER/KEY
always has a complete build.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..._io import textfile
from ..._io.checksum import ALGORITHM, parse_checksum
from ..._io.command import try_command
from ..._io.kernelfs import KernelFS, hold_file_lock
from ..._io.paths import UNIT_FOLDER
from ..._io.safe_open import find_folder_others_can_write
from ..._io.web.download import count_free_bytes, require_disk_space
from ..._kernel import partitions
from ..._notation.cpulist import parse_cpulist
from ..._notation.error_line import find_last_error_line
from ..._notation.numbers import require_whole_number
from ..._notation.sizes import parse_bytes
from .cmake import Cmake, is_true_for_cmake, parse_cmake_options
from .compiler_age import old_compiler_message
from .missing_files import SCRIPT, supply_build_info_script
from .source_archive import Archive, find_source_tree, unpack_archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._io.store import Store

#: The cmake options of each build. Most of llama.cpp needs no option to be left out, because only a few targets are
#: built. Without shared libraries, a build consists of its programs.
DEFAULTS = {
    "BUILD_SHARED_LIBS": "OFF",
    # If a user switches shared libraries on, programs must find them after the folder of the build was renamed.
    "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON",
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_CCACHE": "OFF",
    "GGML_NATIVE": "ON",
    "GGML_RPC": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    # A server fetches no files, and a server on the loopback or behind a proxy needs no encryption.
    "LLAMA_CURL": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
SERVER = "llama-server"
#: The program that makes smaller files of models.
QUANTIZE = "llama-quantize"
#: The names of the target of the RPC server, in current and in older sources.
RPC = ("ggml-rpc-server", "rpc-server")
RECORD = "build.json"
PREFIX = "llama_build:"
#: The disk space in bytes for sources and objects during a build; 0.2 GiB was measured with b11434.
BUILD_BYTES = 1 << 30
SECONDS = 60
CPUS = "/sys/devices/system/cpu"
#: The flags in /proc/cpuinfo that stand for instructions, which compilers use. Other flags depend on the release and
#: the settings of the kernel, so that an update of the kernel would cause a new build.
INSTRUCTIONS = re.compile(
    r"(?:pni|s?sse\d\w*|sse|avx\w*|amx\w*|fma\d?|f16c|bmi\d|abm|popcnt|movbe|v?aes|v?pclmulqdq|gfni|sha\w*|adx|xop|tbm)"
)


def ensure_build(
    options: Mapping[str, Any], dummy: Store | None, check: bool = False, fs: KernelFS | None = None
) -> dict[str, Any]:
    """Make the requested build unless it exists, and return a module's result; check mode builds nothing."""
    build = Build(options, fs or KernelFS(read_only=True))
    build.require_root_only_folder()
    address = f"{PREFIX}{build.folder}"
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    if not build.is_complete():
        before[address], after[address] = None, ALGORITHM + build.archive.wanted
        build.archive.verify_digest_of_local_archive()
        build.require_disk_space(0)
        if not check:
            build.build_under_lock()
    for folder in build.list_builds_without_unit() if options.get("prune") else []:
        before[PREFIX + folder], after[PREFIX + folder] = "a build", None
        if not check:
            shutil.rmtree(folder)
    return {
        "changed": bool(after),
        "diff": {"before": before, "after": after},
        "remarks": build.remarks + build.archive.remarks,
        **build.build_result_facts(),
    }


class Build:
    """One build: its inputs, its key, which is a digest of all inputs, and its folder."""

    def __init__(self, request: Mapping[str, Any], fs: KernelFS) -> None:
        wanted = parse_checksum(request["checksum"])
        if not wanted:
            raise BadRequest("checksum: say which archive it shall be, as sha256:HEX.")
        self.archive = Archive(request["archive"], wanted)
        self.engine: str = request.get("engine") or "llama.cpp"
        self.options = {**DEFAULTS, **parse_cmake_options(request.get("cmake_options") or {})}
        self.reserve = parse_bytes(request.get("reserve") or "1GiB", "reserve")
        jobs = request.get("jobs")
        self.jobs = _count_build_cpus(fs) if jobs is None else require_whole_number(jobs, "jobs")
        if not self.jobs:
            raise BadRequest("jobs: '0' is too few; say how many compilers may run at once, from 1 up.")
        self.cmake = Cmake(self.options)
        native, first = is_true_for_cmake(self.options["GGML_NATIVE"]), _read_cpuinfo_of_first_cpu(fs)
        self.inputs = {
            "checksum": ALGORITHM + wanted,
            "engine": self.engine,
            "options": self.options,
            "compiler": self.cmake.compiler,
            "cpu": _native_cpu_identity(first) if native else None,
            "programs": [SERVER, QUANTIZE],
        }
        self.key = hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()[:12]
        self.root_folder = os.path.abspath(request.get("folder") or "/opt/llama")
        self.folder = os.path.join(self.root_folder, self.key)
        self.part = f"{self.folder}.part"
        self.log = f"{self.folder}.log"
        self.remarks = _compiler_age_remarks(first, self.cmake.compiler) if native else []

    def is_complete(self) -> bool:
        """Return whether the build exists with its record and its server."""
        return all(os.path.isfile(os.path.join(self.folder, name)) for name in (RECORD, f"bin/{SERVER}"))

    def require_root_only_folder(self) -> None:
        """Raise BadRequest where another user than root could replace a program in the folder of all builds."""
        shared = find_folder_others_can_write(self.root_folder)
        if shared:
            raise BadRequest(
                f"folder: others than root may write into {shared}, and services would run what they put there. Choose "
                f"another folder, such as /opt/llama, or 'chown root {shared}; chmod go-w {shared}'."
            )

    def list_builds_without_unit(self) -> list[str]:
        """Return the folders of other builds that no unit of the host names."""
        if not os.path.isdir(self.root_folder):
            return []
        builds = [
            entry.path for entry in os.scandir(self.root_folder) if os.path.isfile(os.path.join(entry.path, RECORD))
        ]
        # The walk includes the drop-ins of units, which are in folders of their own.
        files = [os.path.join(place, name) for place, dummy, names in os.walk(UNIT_FOLDER) for name in names]
        texts = [textfile.read_text(file) or "" for file in files if os.path.isfile(file)]
        return sorted(
            folder for folder in builds if folder != self.folder and not any(f"{folder}/" in text for text in texts)
        )

    def require_disk_space(self, archive_bytes: int | None) -> int:
        """Raise an error where the disk lacks space for a build and its archive (None: of unknown size).

        Return the most bytes that an archive may have.
        """
        require_disk_space(self.folder, BUILD_BYTES + (archive_bytes or 0), self.reserve)
        return count_free_bytes(self.folder) - BUILD_BYTES - self.reserve

    def build_result_facts(self) -> dict[str, Any]:
        """Return the key, folder, programs, version and options of the build for the module's result."""
        record = textfile.read_text(os.path.join(self.folder, RECORD))
        binaries = [os.path.join(self.folder, "bin", name) for name in RPC]
        rpc_servers = [path for path in binaries if os.path.isfile(path)]
        if record is None and is_true_for_cmake(self.options["GGML_RPC"]):
            rpc_servers = binaries[self.engine == "ik_llama.cpp" :]
        return {
            "key": self.key,
            "folder": self.folder,
            "binary": os.path.join(self.folder, "bin", SERVER),
            "rpc_binary": rpc_servers[0] if rpc_servers else None,
            "quantize_binary": os.path.join(self.folder, "bin", QUANTIZE),
            "version": json.loads(record)["version"] if record else None,
            "compiler": self.cmake.compiler,
            "cmake_options": self.options,
        }

    def build_under_lock(self) -> None:
        """Make the build while a lock keeps other builds out of the folder of all builds."""
        new = not os.path.isdir(self.root_folder)
        # Services run the programs as other users, so a strict umask of root must not make the programs unreadable.
        umask = os.umask(0o022)
        try:
            os.makedirs(self.root_folder, exist_ok=True)
            with hold_file_lock(self.root_folder, self.root_folder):
                if not self.is_complete():
                    self._fetch_compile_and_install()
        except OSError as error:
            raise TuningError(f"{error.filename or self.root_folder} cannot be written: {error.strerror}.") from None
        finally:
            os.umask(umask)
            if new:
                with suppress(OSError):
                    os.rmdir(self.root_folder)

    def _fetch_compile_and_install(self) -> None:
        if os.path.isdir(self.part):
            # The compilers of a killed run may still be running. The last compiler to end releases this lock.
            with hold_file_lock(self.part, self.part, timeout=0):
                shutil.rmtree(self.part)
        textfile.remove_file(self.log)
        path = self.archive.fetch(self.root_folder, self.require_disk_space)
        try:
            for place in ("source", "build"):
                os.makedirs(os.path.join(self.part, place))
            source, objects = os.path.join(self.part, "source"), os.path.join(self.part, "build")
            unpack_archive(path, self.archive.place, source)
            tree = find_source_tree(source, self.archive.place, self.engine)
            if supply_build_info_script(tree, os.path.relpath(tree, source).split(os.sep)[0]):
                self.remarks.append(
                    f"{self.archive.place} lacks {SCRIPT}, which the build needs. It was supplied, and the server "
                    "names the folder of the archive as its version."
                )
            self.cmake.set_lock_and_log(self.part, self.log)
            self.cmake.configure(tree, objects, self.options)
            targets = self.cmake.list_words_of_target_list(objects)
            programs = [SERVER, *([QUANTIZE] if QUANTIZE in targets else []), *self._choose_rpc_server_target(targets)]
            self.cmake.build_targets(objects, programs, self.jobs)
            os.rename(os.path.join(objects, "bin"), os.path.join(self.part, "bin"))
            shutil.rmtree(source)
            shutil.rmtree(objects)
            self._verify_record_and_install_build()
        finally:
            shutil.rmtree(self.part, ignore_errors=True)
            self.archive.remove_download(self.root_folder)

    def _choose_rpc_server_target(self, targets: Sequence[str]) -> list[str]:
        if not is_true_for_cmake(self.options["GGML_RPC"]):
            return []
        rpc_targets = [name for name in RPC if name in targets][:1]
        if not rpc_targets:
            self.remarks.append(f"{self.archive.place} has no RPC server: none of its targets is {' or '.join(RPC)}.")
        return rpc_targets

    def _verify_record_and_install_build(self) -> None:
        """Verify that the built server runs without its sources, write the build's record, and rename the folder."""
        for entry in os.scandir(os.path.join(self.part, "bin")):
            textfile.flush_path(entry.path)
        done = try_command([os.path.join(self.part, "bin", SERVER), "--version"], SECONDS)
        if done.code != 0:
            raise TuningError(
                f"The new build does not run: '{SERVER} --version' ends with exit code {done.code}. It says: "
                f"{find_last_error_line(done.out, done.err)} The output of the build is in {self.log}."
            )
        output_lines = [line.strip() for line in (done.err + done.out).splitlines() if line.strip()]
        version = next(
            (line for line in output_lines if line.startswith("version")), output_lines[0] if output_lines else ""
        )
        record = json.dumps({**self.inputs, "version": version}, indent=1, sort_keys=True)
        textfile.write_file(os.path.join(self.part, RECORD), f"{record}\n")
        if os.path.isdir(self.folder):
            # Somebody removed a program from the folder of an earlier build, so that build is incomplete.
            shutil.rmtree(self.folder)
        os.rename(self.part, self.folder)
        textfile.flush_parent_folder(self.folder)
        textfile.remove_file(self.log)


def _read_cpuinfo_of_first_cpu(fs: KernelFS) -> dict[str, str]:
    """Return the values that /proc/cpuinfo has for the first CPU, by name."""
    rows = (line.partition(":") for line in fs.read("/proc/cpuinfo").split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, dummy, value in rows}


def _native_cpu_identity(first: Mapping[str, str]) -> dict[str, str]:
    """Return the model and the instructions of a CPU, which decide what -march=native builds."""
    flags = sorted(flag for flag in first.get("flags", "").split() if INSTRUCTIONS.fullmatch(flag))
    return {"model": " ".join(first.get("model name", "").split()), "flags": " ".join(flags)}


def _compiler_age_remarks(first: Mapping[str, str], compiler: str) -> list[str]:
    """Return a remark where the compiler is older than the CPU, else an empty list."""
    family, model = (first.get(name, "") for name in ("cpu family", "model"))
    if not (family.isdecimal() and model.isdecimal()):
        return []
    message = old_compiler_message(compiler, first.get("vendor_id", ""), int(family), int(model))
    return [message] if message else []


def _count_build_cpus(fs: KernelFS) -> int:
    """Return the number of CPUs that are neither isolated nor in a cpuset partition, and at least 1.

    The kernel spreads no compilers over isolated CPUs: all would run on one CPU and disturb the task of this CPU.
    """
    online, isolated = (parse_cpulist(fs.read_if_present(f"{CPUS}/{name}") or "") for name in ("online", "isolated"))
    return max(1, len(set(online).difference(isolated, partitions.read_active_partition(fs)[1])))
