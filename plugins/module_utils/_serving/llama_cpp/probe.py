# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probes a llama-server binary before a unit uses it: its flags, whether it accepts arguments, and whether it computes.

No capability is derived from a version. --help works even for a binary that this CPU cannot run, so the server also
computes a token. A server parses its arguments in order, so that --version as the last argument ends the server
successfully when all arguments before were accepted. All probes run in the sandbox of the unit (sandbox.py).
"""

from __future__ import annotations

import glob
import os
import re
import signal
import time
from contextlib import suppress

from ..._errors import Absent, BadRequest
from ..._io import sandbox
from ..._io.web.free_port import find_free_port
from ..._models import zero_model
from ..._notation.error_line import find_last_error_line
from . import arguments as server_arguments
from .capabilities import parse_capabilities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ..._io.sandbox import Hardening, SandboxedProcess
    from .capabilities import Capabilities

SECONDS = 60
#: Flags whose values exist only while the unit runs, although the server uses them when it parses its arguments: the
#: path of a credential, and the address of another process. Newer builds abort when they cannot reach this process.
KEY_FILE, RPC_FLAG = "--api-key-file", "--rpc"
DRAFT_DEVICE_FLAGS, RPC_DEVICE = ("--spec-draft-device", "--device-draft"), "RPC0"
#: A folder that each trial can write, instead of a folder that systemd makes at the start of the unit.
TRIAL_FOLDER = "/tmp"
OPENMP = re.compile(r"\blib(?:g|i)?omp\d*\.so")
#: A library in the output of ldd, and the names of libraries that belong to a server and not to the distribution.
LIBRARY = re.compile(r"=> (/\S.*) \(0x")
OWN_LIBRARY = re.compile(r"lib(?:llama|ggml|mtmd)")
#: Libraries that a server loads at run time, and among them the libraries that compute on a kind of CPU.
BACKEND, CPU_BACKEND = re.compile(r"libggml-.*\.so"), re.compile(r"libggml-cpu.*\.so")
#: Folders of such libraries, from the folder of libggml.so.
BACKEND_FOLDERS = "ggml/backends*"
SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
#: A flag that every help text has. --help of ik_llama.cpp ends with exit code 1, so a text with this flag is a success.
FLAG_IN_EVERY_HELP = "--ctx-size"
#: The exit codes of a program that SIGILL ended, without and with a shell in between.
ILLEGAL_INSTRUCTION = (-signal.SIGILL, 128 + signal.SIGILL)


def probe_capabilities(binary: str, walls: Hardening) -> Capabilities:
    """Return what a server binary can do; BadRequest for another program, or for a binary that cannot start here."""
    require_program_file(binary)
    answers = {word: sandbox.run_in_sandbox(walls, [binary, word], SECONDS) for word in ("--help", "--version")}
    for word, done in answers.items():
        if done.code in ILLEGAL_INSTRUCTION:
            raise _wrong_cpu_error(binary)
        if done.code != 0 and not (word == "--help" and FLAG_IN_EVERY_HELP in done.out):
            raise BadRequest(
                f"{binary} does not answer to {word}, exit code {done.code}: {find_last_error_line(done.out, done.err)}"
            )
    version = answers["--version"]
    libraries = _run_ldd(binary, walls)
    capabilities = parse_capabilities(
        answers["--help"].out, version.err + version.out, binary, bool(OPENMP.search(libraries))
    )
    capabilities.files = _read_sizes_and_times(binary, libraries)
    return capabilities


def list_program_file_sizes_and_times(binary: str, walls: Hardening) -> dict[str, list[int]]:
    """Return size and modification time of a program of llama.cpp and of each of its libraries, by path."""
    return list_program_files_and_openmp(binary, walls)[0]


def list_program_files_and_openmp(binary: str, walls: Hardening) -> tuple[dict[str, list[int]], bool]:
    """Return the files with size and time, as above, and whether the program has OpenMP."""
    require_program_file(binary)
    libraries = _run_ldd(binary, walls)
    return _read_sizes_and_times(binary, libraries), bool(OPENMP.search(libraries))


def require_program_file(binary: str) -> None:
    """Raise Absent when there is no file of this path."""
    if not os.path.isfile(binary):
        raise Absent(f"there is no {binary}. Install it, or correct its path.")


def _run_ldd(binary: str, walls: Hardening) -> str:
    """Return the output of ldd for a binary, and then for the CPU libraries that it loads; empty for a static binary.

    ldd runs the loader that the binary names, so that ldd needs the sandbox as the binary does.
    """
    linked = sandbox.run_in_sandbox(walls, ["ldd", binary], SECONDS).out
    backends = _list_backends(binary, linked, CPU_BACKEND)
    return linked + (sandbox.run_in_sandbox(walls, ["ldd", *backends], SECONDS).out if backends else "")


def _list_backends(binary: str, linked: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the libraries that a server loads at run time, of the names that match.

    They are beside the binary, or where Debian has them: in a folder ggml/backends0 beside libggml.so. ``linked`` is
    the output of ldd for the binary.
    """
    folders = {os.path.dirname(os.path.realpath(binary))}
    for library in LIBRARY.findall(linked):
        if OWN_LIBRARY.match(os.path.basename(library)):
            folders.update(glob.glob(os.path.join(glob.escape(os.path.dirname(library)), BACKEND_FOLDERS)))
    return [
        os.path.join(folder, name)
        for folder in sorted(folders)
        for name in sorted(os.listdir(folder))
        if pattern.match(name)
    ]


def _read_sizes_and_times(binary: str, libraries: str) -> dict[str, list[int]]:
    linked = [os.path.realpath(path) for path in LIBRARY.findall(libraries)]
    server_libraries = [
        path for path in linked if OWN_LIBRARY.match(os.path.basename(path)) or not path.startswith(SYSTEM)
    ]
    backends = _list_backends(binary, libraries, BACKEND)
    paths = {os.path.realpath(path) for path in (binary, *server_libraries, *backends)}
    statuses = {path: os.stat(path) for path in sorted(paths) if os.path.exists(path)}
    return {path: [status.st_size, status.st_mtime_ns] for path, status in statuses.items()}


def require_accepted_arguments(
    binary: str, arguments: Sequence[str], walls: Hardening, unit_folders: Collection[str] = ()
) -> None:
    """Raise BadRequest, with the server's error line, when a server binary refuses these arguments.

    ``unit_folders`` are the folders that systemd makes at the start of the unit.
    """
    words = replace_unit_only_values(arguments, unit_folders)
    done = sandbox.run_in_sandbox(walls, [binary, *words, "--version"], SECONDS)
    if done.code in ILLEGAL_INSTRUCTION:
        raise _wrong_cpu_error(binary)
    if done.code != 0:
        raise BadRequest(
            f"{binary} does not take its arguments, exit code {done.code}: {find_last_error_line(done.out, done.err)}",
            arguments=list(arguments),
        )


def replace_unit_only_values(arguments: Sequence[str], unit_folders: Collection[str] = ()) -> list[str]:
    """Return the arguments with values that exist now instead of values that exist only while the unit runs.

    The trial has the real folders of the unit neither read nor made: systemd would give them to the user of the trial,
    although a running server uses them.
    """
    words: list[str] = []
    before = ""
    for word in arguments:
        if before == RPC_FLAG:
            words.pop()
        elif before == KEY_FILE:
            words.append(os.devnull)
        elif word.rstrip("/") in unit_folders:
            words.append(TRIAL_FOLDER)
        elif before in DRAFT_DEVICE_FLAGS and word == RPC_DEVICE:
            words.append("none")
        else:
            words.append(word)
        before = word
    return words


def _wrong_cpu_error(binary: str) -> BadRequest:
    return BadRequest(
        f"{binary} was built for another CPU: it ends with SIGILL, an instruction that this CPU lacks. Build it on "
        "this host, or take a build without GGML_NATIVE whose instructions this CPU has."
    )


def try_to_compute_one_token(binary: str, capabilities: Capabilities, walls: Hardening) -> list[str]:
    """Have the server compute a token with a tiny model; BadRequest when this CPU cannot run the binary.

    Any other error proves nothing about the CPU, so it is returned as a remark.
    """
    port = find_free_port()
    with sandbox.make_trial_folder(walls) as folder:
        model, log = (os.path.join(folder, name) for name in ("model", "log"))
        with open(model, "wb") as file:
            file.write(zero_model.build_zero_model_file())
        # The server cannot enter the folder, so it opens the model as an inherited descriptor, which needs this mode.
        os.chmod(model, 0o644)
        parameters = {"model": "/proc/self/fd/0", "host": "127.0.0.1", "port": port, "context": 256, "slots": 1}
        arguments = server_arguments.build_arguments({**parameters, "threads": 1, "threads_batch": 1}, capabilities)
        with sandbox.start_in_sandbox(walls, [binary, *arguments], SECONDS, model, log) as server:
            has_answered = _wait_for_token(server, port)
        if server.code in ILLEGAL_INSTRUCTION:
            raise _wrong_cpu_error(binary)
        if has_answered:
            return []
        with open(log, encoding="utf-8", errors="replace") as log_file:
            return [
                f"Whether {binary} runs on this CPU could not be tried: {find_last_error_line('', log_file.read())}"
            ]


def _wait_for_token(server: SandboxedProcess, port: int) -> bool:
    import http.client

    end = time.monotonic() + SECONDS
    while time.monotonic() < end and not server.has_ended():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        with suppress(OSError, http.client.HTTPException):
            connection.request(
                "POST", "/completion", '{"prompt": "a", "n_predict": 1}', {"Content-Type": "application/json"}
            )
            if connection.getresponse().status == 200:
                return True
        connection.close()
        time.sleep(0.1)
    return False
