# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A llama-server asked before a unit relies on it: what it can do, whether it takes the very arguments, and whether
this CPU can run it.

None of it is guessed from a version. --help works on a binary that dies of an unknown instruction at the first token,
and a server takes its arguments one after another, so that --version behind them ends it when all are accepted.
Whatever is asked of it, it is asked behind the walls of its unit (sandbox.py).
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress

from ..._errors import Absent, BadRequest
from ..._io import sandbox
from ..._models import zero_model
from ..unit.beside import find_free_port
from . import arguments as server_arguments
from .capabilities import parse
from .error_line import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._io.sandbox import Hardening, SandboxedProcess
    from .capabilities import Capabilities

SECONDS = 60
#: What the server looks up while it reads its arguments: a credential that only the unit has, and another process that
#: only runs with it. Newer builds abort when they do not reach it.
KEY_FILE, OTHER = "--api-key-file", "--rpc"
DEVICE, LATER_DEVICE = ("--spec-draft-device", "--device-draft"), "RPC0"
OPENMP = re.compile(r"\blib(?:g|i)?omp\d*\.so")
#: Where ldd found a library, and those that belong to a server wherever they are; all others are the distribution's.
LIBRARY = re.compile(r"=> (/\S.*) \(0x")
OWN = re.compile(r"lib(?:llama|ggml|mtmd)")
#: What a server loads by itself; a build with a library for each kind of CPU computes with one of them.
BACKEND, CPU_BACKEND = re.compile(r"libggml-.*\.so"), re.compile(r"libggml-cpu.*\.so")
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
#: What a help has in it. That of ik_llama.cpp ends with exit code 1.
ASKED = "--ctx-size"
#: 132 is what a shell makes of the signal.
ILLEGAL = (-signal.SIGILL, 128 + signal.SIGILL)


def capabilities(binary: str, walls: Hardening) -> Capabilities:
    """Return what a binary can do, and of which files it consists. BadRequest when it is no server, or cannot start."""
    refuse_missing(binary)
    answers = {word: sandbox.run_in_sandbox(walls, [binary, word], SECONDS) for word in ("--help", "--version")}
    for word, done in answers.items():
        if done.code in ILLEGAL:
            raise _other_cpu(binary)
        if done.code != 0 and not (word == "--help" and ASKED in done.out):
            raise BadRequest(
                f"{binary} does not answer to {word}, exit code {done.code}: {sentence(done.out, done.err)}"
            )
    version = answers["--version"]
    libraries = _ldd(binary, walls)
    found = parse(answers["--help"].out, version.err + version.out, binary, bool(OPENMP.search(libraries)))
    found.files = _identities(binary, libraries)
    return found


def program_files(binary: str, walls: Hardening) -> dict[str, list[int]]:
    """Return the files that another program of llama.cpp consists of, as those of a server are told."""
    return program(binary, walls)[0]


def program(binary: str, walls: Hardening) -> tuple[dict[str, list[int]], bool]:
    """Return the files of another program of llama.cpp, and whether it was built with OpenMP."""
    refuse_missing(binary)
    libraries = _ldd(binary, walls)
    return _identities(binary, libraries), bool(OPENMP.search(libraries))


def refuse_missing(binary: str) -> None:
    """Raise Absent when there is no such file, which a shell would say less clearly."""
    if not os.path.isfile(binary):
        raise Absent(f"there is no {binary}. Install it, or correct its path.")


def _ldd(binary: str, walls: Hardening) -> str:
    """Return what ldd says of a binary and of the libraries beside it that compute. It says nothing of a static one.

    ldd runs the loader that the program names, so that it is no safer than the program.
    """
    return sandbox.run_in_sandbox(walls, ["ldd", binary, *_beside(binary, CPU_BACKEND)], SECONDS).out


def _beside(binary: str, pattern: re.Pattern[str]) -> list[str]:
    folder = os.path.dirname(os.path.realpath(binary))
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if pattern.match(name)]


def _identities(binary: str, libraries: str) -> dict[str, list[int]]:
    """Return by path the size and the time of the last change, in nanoseconds, of a program and its own libraries."""
    linked = [os.path.realpath(path) for path in LIBRARY.findall(libraries)]
    own = [path for path in linked if OWN.match(os.path.basename(path)) or not path.startswith(SYSTEM)]
    paths = {os.path.realpath(path) for path in (binary, *own, *_beside(binary, BACKEND))}
    found = {path: os.stat(path) for path in sorted(paths) if os.path.exists(path)}
    return {path: [status.st_size, status.st_mtime_ns] for path, status in found.items()}


def dry_run(binary: str, arguments: Sequence[str], walls: Hardening) -> None:
    """Let the server read these arguments and end. BadRequest with its own words when it does not take them."""
    done = sandbox.run_in_sandbox(walls, [binary, *without_the_unit(arguments), "--version"], SECONDS)
    if done.code in ILLEGAL:
        raise _other_cpu(binary)
    if done.code != 0:
        raise BadRequest(
            f"{binary} does not take its arguments, exit code {done.code}: {sentence(done.out, done.err)}",
            arguments=list(arguments),
        )


def without_the_unit(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with something that is there for what is only there when the unit runs."""
    words: list[str] = []
    before = ""
    for word in arguments:
        if before == OTHER:
            words.pop()
        elif before == KEY_FILE:
            words.append(os.devnull)
        elif before in DEVICE and word == LATER_DEVICE:
            words.append("none")
        else:
            words.append(word)
        before = word
    return words


def _other_cpu(binary: str) -> BadRequest:
    return BadRequest(
        f"{binary} was built for another CPU: it ends with SIGILL, an instruction that this one lacks. Build it on "
        "this host, or take one that was built without GGML_NATIVE for a CPU that can no more than this one."
    )


# One real token


def one_token(binary: str, capabilities: Capabilities, walls: Hardening) -> list[str]:
    """Let the server compute a token with a model of nothing. BadRequest when this CPU cannot run it.

    What else goes wrong is no proof against the binary: it is returned as a remark.
    """
    port = find_free_port()
    with sandbox.make_trial_folder(walls) as folder:
        model, log = (os.path.join(folder, name) for name in ("model", "log"))
        with open(model, "wb") as file:
            file.write(zero_model.contents())
        # The server opens it anew by its descriptor, since it cannot enter the folder.
        os.chmod(model, 0o644)
        wants = {"model": "/proc/self/fd/0", "host": "127.0.0.1", "port": port, "context": 256, "slots": 1}
        arguments = server_arguments.arguments({**wants, "threads": 1, "threads_batch": 1}, capabilities)
        with sandbox.start_in_sandbox(walls, [binary, *arguments], SECONDS, model, log) as server:
            got = _wait_for_token(server, port)
        if server.code in ILLEGAL:
            raise _other_cpu(binary)
        if got:
            return []
        with open(log, encoding="utf-8", errors="replace") as said:
            return [f"Whether {binary} runs on this CPU could not be tried: {sentence('', said.read())}"]


def _wait_for_token(server: SandboxedProcess, port: int) -> bool:
    """Ask until a token comes, the server ends, or the time is up."""
    import http.client

    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not server.has_ended():
        asked = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        with suppress(OSError, http.client.HTTPException):
            asked.request(
                "POST", "/completion", '{"prompt": "a", "n_predict": 1}', {"Content-Type": "application/json"}
            )
            if asked.getresponse().status == 200:
                return True
        asked.close()
        time.sleep(0.1)
    return False
