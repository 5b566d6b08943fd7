# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A llama-server asked before a unit relies on it: what it can do, whether it takes the very arguments, and whether
this CPU can run it.

None of it is guessed from a version. --help works on a binary that dies of an unknown instruction at the first token,
and a server takes its arguments one after another, so that --version behind them ends it when all are accepted.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress

from ..._errors import BadRequest, TuningError
from ..._io.command import attempt, run
from ..._models import blank
from . import arguments as server_arguments
from .capabilities import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from .capabilities import Capabilities

SECONDS = 60
#: What the server looks up while it reads its arguments: a credential that only the unit has, and another process that
#: only runs with it. Newer builds abort when they do not reach it.
KEY_FILE, OTHER = "--api-key-file", "--rpc"
DEVICE, LATER_DEVICE = ("--spec-draft-device", "--device-draft"), "RPC0"
OPENMP = re.compile(r"\blib(?:g|i)?omp\d*\.so")
#: 132 is what a shell makes of the signal.
ILLEGAL = (-signal.SIGILL, 128 + signal.SIGILL)
#: The time and the level before a line of the log.
STAMP = re.compile(r"^\d[\d.]* [A-Z] ")


def capabilities(binary: str) -> Capabilities:
    """Return what a binary can do. BadRequest when it is no server, or does not start."""
    answers = {word: attempt([binary, word], SECONDS) for word in ("--help", "--version")}
    for word, done in answers.items():
        if done.code in ILLEGAL:
            raise _other_cpu(binary)
        if done.code != 0:
            raise BadRequest(
                f"{binary} does not answer to {word}, exit code {done.code}: {sentence(done.out, done.err)}"
            )
    version = answers["--version"]
    return parse(answers["--help"].out, version.err + version.out, binary, openmp(binary))


def openmp(binary: str) -> bool:
    """Return whether its threads are those of OpenMP, which GOMP_CPU_AFFINITY binds; False where that is not known.

    A build with a library for each kind of CPU loads one of them by itself, so those beside the binary count too.
    """
    folder = os.path.dirname(os.path.realpath(binary))
    with suppress(OSError):
        beside = sorted(name for name in os.listdir(folder) if name.startswith("libggml-cpu") and ".so" in name)
        for path in [binary, *(os.path.join(folder, name) for name in beside)]:
            with suppress(TuningError):
                if OPENMP.search(run(["ldd", path])):
                    return True
    return False


def dry_run(binary: str, arguments: Sequence[str]) -> None:
    """Let the server read these arguments and end. BadRequest with its own words when it does not take them."""
    done = attempt([binary, *without_the_unit(arguments), "--version"], SECONDS)
    if done.code in ILLEGAL:
        raise _other_cpu(binary)
    if done.code != 0:
        raise BadRequest(
            f"{binary} does not take its arguments, exit code {done.code}: {sentence(done.out, done.err)}",
            arguments=list(arguments),
        )


def sentence(out: str, err: str) -> str:
    """Return the line with which a server says why it stops, without the manual of the argument that follows."""
    texts = (re.split(r"\n\s*usage:", f"\n{text}", maxsplit=1)[0] for text in (out, err))
    lines = [STAMP.sub("", line.strip()) for text in texts for line in text.splitlines() if line.strip()]
    for kind in ("^error", "error|invalid|failed|unknown", ""):
        found = [line for line in lines if re.search(kind, line, re.IGNORECASE)]
        if found:
            return f"{found[-1].rstrip('.')}."
    return "it says nothing."


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


def one_token(binary: str, capabilities: Capabilities) -> list[str]:
    """Let the server compute a token with a model of nothing. BadRequest when this CPU cannot run it.

    What else goes wrong is no proof against the binary: it is returned as a remark.
    """
    # Imported here because most runs of the engine start no server.
    import socket
    import subprocess

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    model, log = (os.memfd_create(name) for name in ("model", "log"))
    try:
        with open(model, "wb", closefd=False) as file:
            file.write(blank.contents())
        wants = {"model": f"/proc/self/fd/{model}", "host": "127.0.0.1", "port": port, "context": 256, "slots": 1}
        arguments = server_arguments.arguments({**wants, "threads": 1, "threads_batch": 1}, capabilities)
        # The engine runs on the host without Ansible too, so it has no run_command to call.
        server = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [binary, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[model]
        )
        try:
            got = _wait_for_token(server, port)
        finally:
            if server.poll() is None:
                server.kill()
            code = server.wait()
        if code in ILLEGAL:
            raise _other_cpu(binary)
        if got:
            return []
        os.lseek(log, 0, os.SEEK_SET)
        with open(log, encoding="utf-8", errors="replace", closefd=False) as file:
            said = sentence("", file.read())
        return [f"Whether {binary} runs on this CPU could not be tried: {said}"]
    finally:
        os.close(model)
        os.close(log)


def _wait_for_token(server: subprocess.Popen[bytes], port: int) -> bool:
    """Ask until a token comes, the server ends, or the time is up."""
    import http.client

    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
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
