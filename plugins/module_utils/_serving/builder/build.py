# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""llama.cpp, built on the host for its own CPU, once for each combination of what goes into it.

A build is in FOLDER/KEY. It is made beside, tried there, and then gets its name, so that whoever uses one has it whole.
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
from ..._io.safe_open import find_shared_folder
from ..._io.web.download import require_disk_space
from ..._kernel import partitions
from ..._notation.cpulist import parse_cpulist
from ..._notation.numbers import require_whole
from ..._notation.sizes import parse_bytes
from ..llama_cpp.error_line import sentence
from .cmake import Cmake, is_on, rendered
from .compiler_age import too_old
from .source_archive import Archive, tree_in, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..._io.store import Store

#: What we ask of each build. Only the targets below are built, so that most of what could be left out needs no option.
#: Without shared libraries the two programs are all it takes.
DEFAULTS = {
    "BUILD_SHARED_LIBS": "OFF",
    # Whoever wants the libraries has them beside the programs, in a folder that gets another name at the end.
    "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON",
    "CMAKE_BUILD_TYPE": "Release",
    "GGML_CCACHE": "OFF",
    "GGML_NATIVE": "ON",
    "GGML_RPC": "ON",
    "LLAMA_BUILD_TESTS": "OFF",
    # A build asks no network, and a server on a loopback or behind a proxy needs no encryption of its own.
    "LLAMA_CURL": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
SERVER = "llama-server"
#: Makes smaller files of models.
QUANTIZE = "llama-quantize"
#: The target of the RPC server by its names, now and in older builds.
RPC = ("ggml-rpc-server", "rpc-server")
RECORD = "build.json"
PREFIX = "llama_build:"
#: What sources and objects take until the build is whole; measured 0.2 GiB with b11434.
NEEDED = 1 << 30
SECONDS = 60
CPUS = "/sys/devices/system/cpu"
#: Instructions that compilers choose among, by their names in /proc/cpuinfo. The kernel lists what it found or works
#: around beside them, and a later kernel lists more of the same CPU.
INSTRUCTIONS = re.compile(
    r"(?:pni|s?sse\d\w*|sse|avx\w*|amx\w*|fma\d?|f16c|bmi\d|abm|popcnt|movbe|v?aes|v?pclmulqdq|gfni|sha\w*|adx|xop|tbm)"
)


def ensure(
    options: Mapping[str, Any], dummy: Store | None, check: bool = False, fs: KernelFS | None = None
) -> dict[str, Any]:
    """Have the build that the options ask for, and return a module's result; with check, only say."""
    build = Build(options, fs or KernelFS(read_only=True))
    build.refuse_shared_folder()
    address = f"{PREFIX}{build.folder}"
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    if not build.whole():
        before[address], after[address] = None, ALGORITHM + build.archive.wanted
        build.archive.prove()
        build.check_space(0)
        if not check:
            build.make()
    for folder in build.unused() if options.get("prune") else []:
        before[PREFIX + folder], after[PREFIX + folder] = "a build", None
        if not check:
            shutil.rmtree(folder)
    return {
        "changed": bool(after),
        "diff": {"before": before, "after": after},
        "remarks": build.remarks + build.archive.remarks,
        **build.facts(),
    }


class Build:
    """One build: what goes into it, and where it is."""

    def __init__(self, asked: Mapping[str, Any], fs: KernelFS) -> None:
        wanted = parse_checksum(asked["checksum"])
        if not wanted:
            raise BadRequest("checksum: say which archive it shall be, as sha256:HEX.")
        self.archive = Archive(asked["archive"], wanted)
        self.engine: str = asked.get("engine") or "llama.cpp"
        self.options = {**DEFAULTS, **rendered(asked.get("cmake_options") or {})}
        self.reserve = parse_bytes(asked.get("reserve") or "1GiB", "reserve")
        jobs = asked.get("jobs")
        self.jobs = _free_cpus(fs) if jobs is None else require_whole(jobs, "jobs")
        if not self.jobs:
            raise BadRequest("jobs: '0' is too few; say how many compilers may run at once, from 1 up.")
        self.cmake = Cmake(self.options)
        native, first = is_on(self.options["GGML_NATIVE"]), _first_cpu(fs)
        self.made_of = {
            "checksum": ALGORITHM + wanted,
            "engine": self.engine,
            "options": self.options,
            "compiler": self.cmake.compiler,
            "cpu": _cpu(first) if native else None,
            "programs": [SERVER, QUANTIZE],
        }
        self.key = hashlib.sha256(json.dumps(self.made_of, sort_keys=True).encode()).hexdigest()[:12]
        self.home = os.path.abspath(asked.get("folder") or "/opt/llama")
        self.folder = os.path.join(self.home, self.key)
        self.part = f"{self.folder}.part"
        self.log = f"{self.folder}.log"
        self.remarks = _too_old(first, self.cmake.compiler) if native else []

    def whole(self) -> bool:
        """Return whether the build is there already."""
        return all(os.path.isfile(os.path.join(self.folder, name)) for name in (RECORD, f"bin/{SERVER}"))

    def refuse_shared_folder(self) -> None:
        """Raise BadRequest where somebody else than root could put another program in the place of a built one."""
        shared = find_shared_folder(self.home)
        if shared:
            raise BadRequest(
                f"folder: others than root may write into {shared}, and services would run what they put there. Choose "
                f"another folder, such as /opt/llama, or 'chown root {shared}; chmod go-w {shared}'."
            )

    def unused(self) -> list[str]:
        """Return the folders of other builds that no unit of the host names."""
        if not os.path.isdir(self.home):
            return []
        builds = [entry.path for entry in os.scandir(self.home) if os.path.isfile(os.path.join(entry.path, RECORD))]
        # With what was dropped in beside them.
        files = [os.path.join(place, name) for place, dummy, names in os.walk(UNIT_FOLDER) for name in names]
        texts = [textfile.read_text(file) or "" for file in files if os.path.isfile(file)]
        return sorted(
            folder for folder in builds if folder != self.folder and not any(f"{folder}/" in text for text in texts)
        )

    def check_space(self, coming: int | None) -> None:
        """Refuse what the disk does not hold; a server need not tell the size of an archive."""
        require_disk_space(self.folder, NEEDED + (coming or 0), self.reserve)

    def facts(self) -> dict[str, Any]:
        """Return where all of it is, or would be in a check."""
        record = textfile.read_text(os.path.join(self.folder, RECORD))
        binaries = [os.path.join(self.folder, "bin", name) for name in RPC]
        found = [path for path in binaries if os.path.isfile(path)]
        if record is None and is_on(self.options["GGML_RPC"]):
            found = binaries[self.engine == "ik_llama.cpp" :]
        return {
            "key": self.key,
            "folder": self.folder,
            "binary": os.path.join(self.folder, "bin", SERVER),
            "rpc_binary": found[0] if found else None,
            "quantize_binary": os.path.join(self.folder, "bin", QUANTIZE),
            "version": json.loads(record)["version"] if record else None,
            "compiler": self.cmake.compiler,
            "cmake_options": self.options,
        }

    # Building

    def make(self) -> None:
        """Build it, alone in the folder of all builds."""
        new = not os.path.isdir(self.home)
        # A service with a user of its own runs it, however strict root is.
        umask = os.umask(0o022)
        try:
            os.makedirs(self.home, exist_ok=True)
            with hold_file_lock(self.home, self.home):
                if not self.whole():
                    self._make()
        except OSError as error:
            raise TuningError(f"{error.filename or self.home} cannot be written: {error.strerror}.") from None
        finally:
            os.umask(umask)
            if new:
                with suppress(OSError):
                    os.rmdir(self.home)

    def _make(self) -> None:
        if os.path.isdir(self.part):
            # The compilers of a run that was killed may live on; they hold this lock until the last one has ended.
            with hold_file_lock(self.part, self.part, timeout=0):
                shutil.rmtree(self.part)
        textfile.remove_file(self.log)
        path = self.archive.bring(self.home, self.check_space)
        try:
            for place in ("source", "build"):
                os.makedirs(os.path.join(self.part, place))
            source, objects = os.path.join(self.part, "source"), os.path.join(self.part, "build")
            unpack(path, self.archive.place, source)
            tree = tree_in(source, self.archive.place, self.engine)
            self.cmake.begin(self.part, self.log)
            self.cmake.configure(tree, objects, self.options)
            targets = self.cmake.targets(objects)
            programs = [SERVER, *([QUANTIZE] if QUANTIZE in targets else []), *self._rpc_target(targets)]
            self.cmake.build(objects, programs, self.jobs)
            os.rename(os.path.join(objects, "bin"), os.path.join(self.part, "bin"))
            shutil.rmtree(source)
            shutil.rmtree(objects)
            self._finish()
        finally:
            shutil.rmtree(self.part, ignore_errors=True)
            self.archive.drop(self.home)

    def _rpc_target(self, targets: Sequence[str]) -> list[str]:
        if not is_on(self.options["GGML_RPC"]):
            return []
        found = [name for name in RPC if name in targets][:1]
        if not found:
            self.remarks.append(f"{self.archive.place} has no RPC server: none of its targets is {' or '.join(RPC)}.")
        return found

    def _finish(self) -> None:
        """Try what was built without all that it was built from, and give it its name."""
        for entry in os.scandir(os.path.join(self.part, "bin")):
            textfile.flush_path(entry.path)
        done = try_command([os.path.join(self.part, "bin", SERVER), "--version"], SECONDS)
        if done.code != 0:
            raise TuningError(
                f"What was built does not run: '{SERVER} --version' ends with exit code {done.code}. It says: "
                f"{sentence(done.out, done.err)} What was said before is in {self.log}."
            )
        said = [line.strip() for line in (done.err + done.out).splitlines() if line.strip()]
        version = next((line for line in said if line.startswith("version")), said[0] if said else "")
        record = json.dumps({**self.made_of, "version": version}, indent=1, sort_keys=True)
        textfile.write_file(os.path.join(self.part, RECORD), f"{record}\n")
        if os.path.isdir(self.folder):
            # A program was taken out of it by somebody.
            shutil.rmtree(self.folder)
        os.rename(self.part, self.folder)
        textfile.flush_parent_folder(self.folder)
        textfile.remove_file(self.log)


def _first_cpu(fs: KernelFS) -> dict[str, str]:
    """Return what the kernel tells of the first CPU."""
    rows = (line.partition(":") for line in fs.read("/proc/cpuinfo").split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, dummy, value in rows}


def _cpu(first: Mapping[str, str]) -> dict[str, str]:
    """Return what -march=native decides by."""
    flags = sorted(flag for flag in first.get("flags", "").split() if INSTRUCTIONS.fullmatch(flag))
    return {"model": " ".join(first.get("model name", "").split()), "flags": " ".join(flags)}


def _too_old(first: Mapping[str, str], compiler: str) -> list[str]:
    """Return the remark on a compiler that does not know the CPU."""
    family, model = (first.get(name, "") for name in ("cpu family", "model"))
    if not (family.isdecimal() and model.isdecimal()):
        return []
    said = too_old(compiler, first.get("vendor_id", ""), int(family), int(model))
    return [said] if said else []


def _free_cpus(fs: KernelFS) -> int:
    """Return how many CPUs are left to compilers: an isolated one takes none, or all, and disturbs what it is for.

    Those of a partition take none.
    """
    online, isolated = (parse_cpulist(fs.read_if_present(f"{CPUS}/{name}") or "") for name in ("online", "isolated"))
    return max(1, len(set(online).difference(isolated, partitions.read_partition_in_force(fs)[1])))
