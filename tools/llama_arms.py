# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers that `make bench-llama` compares: a plain one, and those that the engine plans for this host.

What the unit of a planned one would do is done here without systemd: the commands before and after its start, its
environment, and the CPUs that it may use. Not its sandbox, which does not touch what is measured.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io import paths as host_paths
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.binary import arguments as server_arguments
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.binary import probe
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.hooks import cli
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan import memory, need, plan
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.plan.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._llama.unit import files
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model as gguf_model
from tools.llama_prompts import Prompt
from vepyc import VepycError, paths

POOL = Path("/proc/sys/vm/nr_hugepages")
HUGETLBFS = "hugetlbfs"
DIES_WITH_US = ("setpriv", "--pdeathsig=KILL")
START_TIMEOUT = 120
REQUEST_TIMEOUT = 600
TOKENS = 128
#: No prompt comes twice here, and pages for a cache of them would be reserved in vain.
NOTHING_KEPT = {"prompt_cache": "0MiB", "checkpoints": 0}
#: Which line of smaps_rollup shows the huge pages that the proof of a unit asks for.
KINDS = {"thp": "AnonHugePages", "hugetlb": "Hugetlb"}
#: The word before a command in a unit file that is run as root and outside of the sandbox; a minus lets it fail.
STEP = re.compile(rf"^ExecStart(Pre|Post)=-?\+?\"?{re.escape(host_paths.COMMAND)}\"? llama (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Arm:
    """One way to serve the model; ``against`` is the arm that it is compared with, None for the plain server.

    A core for the operating system is one of a hundred on an EPYC, and one of two on a small machine. So by default
    none is kept, and all arms compute on the same CPUs.
    """

    name: str
    against: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    intent: dict[str, Any] = field(default_factory=lambda: {"housekeeping": {"cores": 0}})


@dataclass(frozen=True)
class Answer:
    """What a server said to one prompt."""

    text: str
    tokens: int
    milliseconds: float
    drafted: int
    accepted: int


class Server:
    """A llama-server that runs and serves; `served` makes these."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, huge: dict[str, int]) -> None:
        self.process = process
        self._port = port
        #: The MiB in huge pages that the unit's proof would ask for, by kind.
        self.huge = huge

    def ask(self, prompt: Prompt, tokens: int = TOKENS) -> Answer:
        """Ask for a number of tokens, always the most probable ones, without anything cached from earlier requests."""
        begun = [{"role": "assistant", "content": prompt.begun}] if prompt.begun else []
        asked = {
            "messages": [{"role": "user", "content": prompt.asked}, *begun],
            "max_tokens": tokens,
            "temperature": 0,
            "seed": 1,
            "ignore_eos": True,
            "cache_prompt": False,
        }
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=REQUEST_TIMEOUT)
        with contextlib.closing(connection):
            connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
            response = connection.getresponse()
            body = response.read()
        if response.status != 200:
            raise VepycError(f"the server on port {self._port} answers {response.status}: {body.decode()}")
        answer = json.loads(body)
        times = answer["timings"]
        if times["predicted_n"] != tokens:
            raise VepycError(f"the server on port {self._port} made {times['predicted_n']} tokens, not {tokens}")
        text = answer["choices"][0]["message"]["content"]
        drafts = times.get("draft_n", 0), times.get("draft_n_accepted", 0)
        return Answer(text, tokens, times["predicted_ms"], *drafts)

    def processor_seconds(self) -> float:
        """The processor time that it has used."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def huge_mebibytes(self, kind: str) -> float:
        """How much of its memory is in huge pages of a kind."""
        lines = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.partition(":")[0].endswith(KINDS[kind])) / 1024


@dataclass(frozen=True)
class Start:
    """How a server begins: what is run before it and once it is there, and what its huge pages must hold at least."""

    command: list[str]
    environment: dict[str, str]
    cpus: set[int]
    before: list[list[str]]
    after: list[list[str]]
    huge: dict[str, int]


def plain(binary: Path, model: Path, port: int) -> Start:
    """A server with no options but its model and where to listen."""
    command = [str(binary), "-m", str(model), "--port", str(port)]
    ready = ["await", f"http://127.0.0.1:{port}", "--timeout", str(START_TIMEOUT)]
    return Start(command, {}, os.sched_getaffinity(0), [], [ready], {})


def planned(arm: Arm, binary: Path, model: Path, port: int, hugetlbfs: Path) -> Start:
    """A server as the engine plans it. Raises TuningError when this host cannot have it."""
    asked = {"name": arm.name.replace("_", "-"), "binary": str(binary), "model": str(model), "port": port}
    options = Options.parse({**asked, **NOTHING_KEPT, "hugetlbfs": str(hugetlbfs), **arm.options})
    server = probe.capabilities(str(binary), None)
    host = Host(KernelFS(read_only=True), arm.intent)
    header = gguf_model.read(str(model))
    free = memory.read_free_memory(host, options, [header])
    service = plan.plan_service(options, host, server, header, None, free)
    seat = service.placement
    if seat.policy != "local":
        raise VepycError(f"{arm.name}: memory {seat.policy} on several nodes needs the unit; take a host with one node")
    arguments = server_arguments.arguments(service.wants, server)
    unit = next(iter(files.unit_files(service, arguments).values()))
    steps = [(kind, shlex.split(words)) for kind, words in STEP.findall(unit)]
    return Start(
        [str(binary), *arguments],
        seat.environment,
        set(seat.affinity or seat.cpus),
        [words for kind, words in steps if kind == "Pre"],
        [words for kind, words in steps if kind == "Post"],
        {kind: int(size.removesuffix("MiB")) for kind, size in service.expect.get("hugepages", {}).items()},
    )


@contextlib.contextmanager
def served(arm: Arm, binary: Path, model: Path, folder: Path) -> Iterator[Server]:
    """Start the server of an arm, and end it with the block. Raises TuningError when this host cannot have it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if arm.against is not None:
        start = planned(arm, binary, model, port, folder / HUGETLBFS)
    else:
        start = plain(binary, model, port)
    log = paths.directory("logs") / f"bench-llama-{arm.name}.log"
    for words in start.before:
        step(words, log)
    with log.open("w") as output:
        process = subprocess.Popen(
            # When this process is killed, so are its servers.
            [*DIES_WITH_US, "taskset", "--cpu-list", ",".join(map(str, sorted(start.cpus))), *start.command],
            # No variable of the caller's shell reaches a server, as with a unit.
            env={"PATH": os.defpath, "HOME": str(folder), **start.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        for words in start.after:
            step([str(process.pid) if word == "$MAINPID" else word for word in words], log)
        yield Server(process, port, start.huge)
    finally:
        process.kill()
        process.wait()


def step(words: list[str], log: Path) -> None:
    """Run a command of the unit as `sovereign-epyc llama` does, without its output."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        if cli.main(words):
            raise VepycError(f"llama {shlex.join(words)} failed; see {log}")


@contextlib.contextmanager
def huge_pages(binary: Path, model: Path, folder: Path) -> Iterator[None]:
    """Reserve what the arms with huge pages need, and mount a hugetlbfs; all of it ends with the block."""
    asked = {"name": "pool", "binary": str(binary), "model": str(model), "port": 1024}
    options = Options.parse({**asked, **NOTHING_KEPT})
    whole = need.need(options, probe.capabilities(str(binary), None), gguf_model.read(str(model)))[0]
    kb = memory.LARGEST_POOL
    pages = memory.pages_for(whole.total, kb) + memory.pages_for(model.stat().st_size, kb)
    mount = folder / HUGETLBFS
    mount.mkdir()
    old = int(POOL.read_text())
    try:
        POOL.write_text(str(old + pages))
        subprocess.run(["mount", "-t", "hugetlbfs", "-o", f"pagesize={kb}K", "none", mount], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no huge pages could be reserved: {error}", flush=True)
    try:
        yield
    finally:
        if os.path.ismount(mount):
            subprocess.run(["umount", mount], check=True)
        if int(POOL.read_text()) != old:
            POOL.write_text(str(old))
