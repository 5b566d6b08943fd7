# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""llama_build as users run it, with a real cmake and compiler, on a project that looks like llama.cpp but is small.

The real one is built by `vepyc.llama.llama_cpp`, with the same module.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from vepyc.container import Container, running_container
from vepyc.playbook_runs import clean_environment, run_playbook, write_inventory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HOME = "/opt/llama"
SERVER = """
#include <cstdio>
#ifdef BREAK
int broken = nonsense;
#endif
int main() { fprintf(stderr, "version: 7 (%s)\\n", SAID); return CODE; }
"""
#: WAIT holds the build up until a file is there.
CMAKE = """
cmake_minimum_required(VERSION 3.14)
project("llama.cpp" CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CODE 0 CACHE STRING "")
add_executable(llama-server tools/server/server.cpp)
target_compile_definitions(llama-server PRIVATE SAID="${SAID}" CODE=${CODE} $<$<BOOL:${BREAK}>:BREAK>)
if (GGML_RPC AND NOT OLD)
    add_executable(ggml-rpc-server tools/server/server.cpp)
    target_compile_definitions(ggml-rpc-server PRIVATE SAID="rpc" CODE=${CODE})
endif()
if (WAIT)
    set(SLEEP "for i in $(seq 1500); do if test -e ${WAIT}; then exit 0; fi; sleep 0.1; done; exit 1")
    add_custom_target(wait COMMAND touch ${WAIT}.begun COMMAND sh -c "${SLEEP}" VERBATIM)
    add_dependencies(llama-server wait)
endif()
if (STOP)
    message(FATAL_ERROR "It stops here.")
endif()
"""


def pack_sources(path: Path, *more: tuple[str, str]) -> None:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in (("llama-b7/CMakeLists.txt", CMAKE), ("llama-b7/tools/server/server.cpp", SERVER), *more):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))


class Host:
    """A container with the archives, and the module run in it."""

    def __init__(self, box: Container, folder: Path, sources: Path) -> None:
        self.run = box.run
        self.folder = folder
        self.sources = sources
        self.environment: dict[str, str] = {}
        write_inventory(folder, {box.name: box.inventory_variables()})

    def options(self, archive: str, **more: Any) -> dict[str, Any]:
        checksum = hashlib.sha256((self.sources / archive).read_bytes()).hexdigest()
        return {"archive": f"/srv/{archive}", "checksum": f"sha256:{checksum}", **more}

    def playbook(self, asked: dict[str, Any]) -> Path:
        path = self.folder / "build.yml"
        task = {"name": "Build", "environment": self.environment, "sovereign.epyc.llama_build": asked}
        path.write_text(json.dumps([{"hosts": "all", "tasks": [task]}]))
        return path

    def build(self, *arguments: str, archive: str = "sources.tar.gz", **more: Any) -> dict[str, Any]:
        play = run_playbook(self.folder, self.playbook(self.options(archive, **more)), *arguments)
        assert play.results, play.output
        return play["Build"]

    def refused(self, **more: Any) -> str:
        """The sentence of a failure."""
        result = self.build(**more)
        assert result["status"] == "failed", result
        return str(result["msg"])

    def names(self, path: str = HOME) -> list[str]:
        return self.run(f"ls -A {path}").stdout.split()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    sources = tmp_path_factory.mktemp("sources")
    pack_sources(sources / "sources.tar.gz")
    pack_sources(sources / "leaving.tar.gz", ("../../../escaped", "no"))
    with running_container("test-llama-build", {sources: "/srv"}) as box:
        yield Host(box, tmp_path_factory.mktemp("plays"), sources)


@pytest.fixture(autouse=True)
def clean(host: Host) -> None:
    host.run(f"rm -rf {HOME}")
    host.environment = {}


def options(**more: Any) -> dict[str, Any]:
    return {"SAID": "tiny", **more}


def test_it_is_built_once_and_nothing_else_stays(host: Host) -> None:
    said = host.build("--check", cmake_options=options())
    assert said["changed"] is True and host.run(f"ls {HOME}", check=False).returncode != 0
    done = host.build(cmake_options=options())
    assert done["status"] == "ok" and done["changed"] is True
    assert {name: done[name] for name in ("folder", "binary", "rpc_binary", "key", "diff")} == {
        name: said[name] for name in ("folder", "binary", "rpc_binary", "key", "diff")
    }
    assert done["version"] == "version: 7 (tiny)" and "g++" in done["compiler"].replace("c++", "g++")
    assert host.run(f"{done['rpc_binary']} 2>&1").stdout == "version: 7 (rpc)\n"
    assert host.names() == [done["key"]]
    assert host.names(done["folder"]) == ["bin", "build.json"]
    assert host.names(f"{done['folder']}/bin") == ["ggml-rpc-server", "llama-server"]
    record = json.loads(host.run(f"cat {done['folder']}/build.json").stdout)
    assert record["options"]["SAID"] == "tiny" and record["cpu"]["flags"] and record["compiler"] == done["compiler"]

    before = host.run(f"stat -c '%i %z' {done['binary']}").stdout
    again = host.build(cmake_options=options())
    assert again["changed"] is False and again["diff"]["prepared"] == ""
    assert again["version"] == done["version"] and again["rpc_binary"] == done["rpc_binary"]
    assert host.build("--check", cmake_options=options())["changed"] is False
    assert host.run(f"stat -c '%i %z' {done['binary']}").stdout == before


def test_anybody_may_run_it_whatever_the_umask(host: Host) -> None:
    """A service has a user of its own."""
    host.run(
        "printf '#!/bin/sh\\numask 077\\nexec sh \"$@\"\\n' >/usr/local/bin/strict && chmod +x /usr/local/bin/strict"
    )
    done = host.build("-e", "ansible_shell_executable=/usr/local/bin/strict", cmake_options=options())
    # setpriv itself has all rights until it runs another program.
    said = host.run(f"setpriv --reuid=65534 --regid=65534 --clear-groups sh -c '{done['binary']} 2>&1'").stdout
    assert said == "version: 7 (tiny)\n"


def test_an_option_makes_another_build_beside(host: Host) -> None:
    one = host.build(cmake_options=options())
    other = host.build(cmake_options=options(SAID="other words"))
    assert other["changed"] is True and other["version"] == "version: 7 (other words)"
    assert host.names() == sorted([one["key"], other["key"]])
    assert host.build(cmake_options=options())["changed"] is False


def test_variables_of_the_environment_take_no_part(host: Host) -> None:
    """They are not in the key."""
    host.environment = {"CXXFLAGS": "-DBREAK"}
    assert host.build(cmake_options=options())["changed"] is True


def test_the_first_error_of_the_compiler_is_told(host: Host) -> None:
    told = host.refused(cmake_options=options(BREAK=True))
    assert "tools/server/server.cpp:4:14: error: " in told and "nonsense" in told
    (log,) = host.names()
    assert f"{HOME}/{log}" in told and log.endswith(".log")
    assert "error: " in host.run(f"cat {HOME}/{log}").stdout
    assert host.refused(cmake_options=options(BREAK=True)) == told
    assert host.names() == [log]


def test_an_error_of_cmake_is_told(host: Host) -> None:
    assert "(message): It stops here." in host.refused(cmake_options=options(STOP=True))


def test_what_does_not_run_is_not_kept(host: Host) -> None:
    told = host.refused(cmake_options=options(CODE=3))
    assert "'llama-server --version' ends with exit code 3. It says: version: 7 (tiny)." in told
    assert [name.partition(".")[2] for name in host.names()] == ["log"]


def test_torn_builds_are_replaced(host: Host) -> None:
    key = host.build("--check", cmake_options=options())["key"]
    host.run(f"mkdir -p {HOME}/{key}.part/bin {HOME}/{key}/bin; touch {HOME}/{key}.part/bin/x {HOME}/{key}/build.json")
    host.run(f"echo old >{HOME}/{key}.log")
    assert host.build(cmake_options=options())["changed"] is True
    assert host.names() == [key]
    assert host.names(f"{HOME}/{key}") == ["bin", "build.json"]


def test_sources_without_an_rpc_server_are_a_remark(host: Host) -> None:
    done = host.build(cmake_options=options(OLD=True))
    assert done["rpc_binary"] is None
    assert "none of its targets is ggml-rpc-server or rpc-server" in done["remarks"][0]
    done = host.build(cmake_options=options(GGML_RPC=False))
    assert done["rpc_binary"] is None and done["remarks"] == []


def test_refusals_leave_nothing(host: Host) -> None:
    assert f"but sha256:{'0' * 64} was requested." in host.refused(checksum=f"sha256:{'0' * 64}")
    assert "leads out of its folder" in host.refused(archive="leaving.tar.gz")
    assert host.run(f"ls {HOME}; find / -xdev -name escaped", check=False).stdout == ""


def test_compilers_of_a_killed_run_are_waited_for(host: Host) -> None:
    """They go on in the folder that the next run would remove."""
    asked = options(WAIT="/run/wait")
    playbook = host.playbook(host.options("sources.tar.gz", cmake_options=asked))
    command = ["ansible-playbook", "-i", str(host.folder / "hosts.json"), str(playbook)]
    with subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdout=subprocess.DEVNULL) as killed:
        try:
            wait_until(lambda: host.run("test -e /run/wait.begun", check=False).returncode == 0)
            owner = host.run(f"lslocks --noheadings --output PID,PATH | awk '$2 == \"{HOME}\" {{ print $1 }}'").stdout
            host.run(f"kill -KILL {owner}")
            assert killed.wait(60) != 0
        finally:
            killed.kill()
    assert "Another program has held the lock on" in host.refused(cmake_options=asked)
    host.run("touch /run/wait")
    wait_until(lambda: not host.run("lslocks --noheadings --output PATH | grep part", check=False).stdout)
    assert host.build(cmake_options=asked)["changed"] is True


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)
