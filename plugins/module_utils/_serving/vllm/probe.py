# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finds out what an installation of vLLM is and can do, in a sandbox with the hardening of its unit.

To list its arguments, vLLM loads all of PyTorch, so the list of each version is stored until the next boot.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from posixpath import realpath

from ..._errors import BadRequest
from ..._io import sandbox, textfile
from ..unit import hardening
from .options import HOME_FOLDERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..._io.command import CommandResult
    from .options import VllmOptions

#: The seconds that the import of PyTorch may take on a busy host.
PROBE_TIMEOUT = 600
INSTALL_ADVICE = "Name what is to be installed in epyc_vllm_packages, or the folder where it is in epyc_vllm_folder."
#: The folder of the stored lists of arguments, one for each version.
ARGUMENT_LISTS = "/run/sovereign-epyc/vllm-arguments"
FLAG_PATTERN = re.compile(r"--[a-z][a-z0-9-]+")
#: The hardening of llama-server with three exceptions: PyTorch writes code at run time, its processes use sockets, and
#: each process sets its own memory policy.
VLLM_HARDENING = (
    *(
        line
        for line in sandbox.HARDENING
        if not line.startswith(("MemoryDenyWriteExecute=", "RestrictAddressFamilies=", "SystemCallFilter="))
    ),
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "SystemCallFilter=@system-service",
    "SystemCallFilter=~@privileged",
)
#: Prints the properties of an installation without loading it. The command of some packages does not find its own
#: version.
DESCRIBE_PROGRAM = """
import ctypes, importlib.metadata, importlib.util, json, sys

if importlib.util.find_spec("vllm") is None:
    sys.exit("there is no package vllm in " + sys.prefix)
packages = [package for package in importlib.metadata.distributions() if "vllm" in package.metadata["Name"]]
try:
    numa = bool(ctypes.CDLL("libnuma.so.1"))
except OSError:
    numa = False
print(json.dumps({
    "numa": numa,
    "versions": {package.metadata["Name"]: package.version for package in packages},
    "files": [str(one.locate_file(file)) for one in packages for file in one.files or () if file.name == "METADATA"]
             or [str(one._path) for one in packages],
}))
"""
#: Serves without the command vllm, which some packages of third parties lack.
SERVER_MODULE = "vllm.entrypoints.openai.api_server"
#: The same as the command vllm, for a host of a group; the module above serves on a single host only.
GROUP_PROGRAM = """
if __name__ == "__main__":
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.entrypoints.serve.utils.api_utils import cli_env_setup
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    cli_env_setup()
    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args()
    validate_parsed_serve_args(arguments)
    ServeSubcommand.cmd(arguments)
"""


class Capabilities:
    """What an installation of vLLM can do.

    ``name`` is the installed version, ``flags`` are its arguments, and ``files`` change with the version. ``serve`` and
    ``serve_group`` are the words before the model that start it on one host and on a host of a group.
    """

    def __init__(
        self, name: str, flags: frozenset[str], files: dict[str, list[int]], folder: str, has_command: bool
    ) -> None:
        self.name = name
        self.flags = flags
        self.files = files
        python = f"{folder}/bin/python"
        command = [f"{folder}/bin/vllm", "serve"]
        self.serve = command if has_command else [python, "-m", SERVER_MODULE, "--model"]
        self.serve_group = command if has_command else [python, "-c", GROUP_PROGRAM, "--model"]


def read_vllm_capabilities(host: Host, options: VllmOptions) -> Capabilities:
    """Return what the installation of an instance can do; BadRequest where no service could run it."""
    folder, python = options.folder, options.binary
    real_path = realpath(python)
    if real_path.startswith(HOME_FOLDERS):
        raise BadRequest(
            f"vLLM in {folder} runs with {real_path}, and services do not see the homes of users: make the environment "
            "elsewhere, with a Python that is elsewhere."
        )
    if not os.path.exists(python):
        raise BadRequest(f"{python} runs no vLLM: there is no such file. {INSTALL_ADVICE}")
    described = _run_in_sandbox(options, [python, "-c", DESCRIBE_PROGRAM])
    if described.code:
        raise BadRequest(f"{python} runs no vLLM: {_last_output_line(described)}. {INSTALL_ADVICE}")
    facts = json.loads(described.out)
    if not facts["numa"]:
        # Without this library vLLM prints a warning, and never serves.
        raise BadRequest("This host has no libnuma.so.1, by which vLLM places its memory: install libnuma1.")
    name = "-".join(f"{package}-{version}" for package, version in sorted(facts["versions"].items())) or "vllm"
    has_command = "vllm" in facts["versions"]
    text = _read_help_text_of_arguments(host, options, name, has_command)
    status = {path: os.stat(path) for path in facts["files"] if os.path.exists(path)}
    files = {path: [file.st_size, file.st_mtime_ns] for path, file in status.items()}
    return Capabilities(name, frozenset(FLAG_PATTERN.findall(text)), files, folder, has_command)


def require_compiler() -> None:
    if not shutil.which("g++"):
        raise BadRequest("compile needs g++ on this host: install it, or leave compile out.")


def _read_help_text_of_arguments(host: Host, options: VllmOptions, name: str, has_command: bool) -> str:
    """Return the text in which this version lists its arguments."""
    path = f"{ARGUMENT_LISTS}/{name}.txt"
    text = textfile.read_text(path)
    if text is None:
        python, folder = options.binary, options.folder
        words = [f"{folder}/bin/vllm", "serve"] if has_command else [python, "-m", SERVER_MODULE]
        listed = _run_in_sandbox(options, [*words, "--help=all"])
        if listed.code:
            raise BadRequest(f"{name} does not list its arguments: {_last_output_line(listed)}.")
        text = listed.out
        if not host.fs.read_only:
            os.makedirs(ARGUMENT_LISTS, exist_ok=True)
            textfile.write_file(path, text)
    return text


def _run_in_sandbox(options: VllmOptions, python_arguments: Sequence[str]) -> CommandResult:
    home = ["Environment=HOME=/tmp VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 HF_HUB_OFFLINE=1"]
    return sandbox.run_in_sandbox(
        [*hardening.trial_sandbox_lines(options, [], VLLM_HARDENING), *home], python_arguments, PROBE_TIMEOUT
    )


def _last_output_line(result: CommandResult) -> str:
    lines = (result.err.strip() or result.out.strip()).splitlines()
    return lines[-1].rstrip(".") if lines else f"exit code {result.code}"
