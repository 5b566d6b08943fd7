# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Puts onto a guest what an operator has on a server before the first playbook: llama-server, and a model."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from ..errors import GuestError, VepycError
from ..machine.running import Machine
from ..paths import PACKAGE
from .debian_build import ensure_debian_build
from .llama_cpp import GUEST, ensure_llama, ensure_model

#: The folders in which inventories/lab expects llama-server and models.
PROGRAMS, MODELS = "/opt/llama/bin", "/srv/models"
SERVER_PATH = f"{PROGRAMS}/llama-server"
#: Begins each line that the background build prints.
BACKGROUND_PREFIX = "meanwhile "

#: The command that builds or fetches llama-server and the model where they are missing.
_BUILD_COMMAND = (sys.executable, "-m", __name__)


@contextlib.contextmanager
def built_in_background() -> Iterator[None]:
    """Build what `install_llama` needs in a process beside the block, and wait for it; end it if the block fails.

    It costs the block little: downloads wait for the network, and building an image leaves one of two CPUs idle.
    """
    maker = subprocess.Popen(_BUILD_COMMAND, cwd=PACKAGE.parent, stdout=subprocess.PIPE, text=True)
    relay = threading.Thread(target=_print_background_lines, args=(maker.stdout,), daemon=True)
    relay.start()
    try:
        yield
        if maker.poll() is None:
            print("waiting for llama-server and its model (usually 5 to 60 s, 15 minutes if it is built)", flush=True)
        if maker.wait():
            raise VepycError("llama-server or its model could not be made, for the reason above")
    finally:
        maker.kill()
        maker.wait()


def _print_background_lines(lines: IO[str]) -> None:
    """Print each line of the background build behind the prefix that marks it."""
    for line in lines:
        print(f"{BACKGROUND_PREFIX}{line}", end="", flush=True)


def install_llama(machine: Machine) -> None:
    """Send llama-server and a small real model to a machine, except files that it already has in the same size."""
    if _send_missing_files(machine, find_server_files()) and not _server_starts(machine):
        print("llama-server as Debian built it does not start in this guest, so it is built here", flush=True)
        _send_missing_files(machine, _compiled_server_files())
    model = ensure_model()
    target = f"{MODELS}/{model.name}"
    size = model.stat().st_size
    if machine.run(f"stat -c %s {target}", check=False).stdout.strip() != str(size):
        print(f"bringing {model.name} ({size / 1e6:.0f} MB, usually 5 to 20 s) to {machine.name}", flush=True)
        write_guest_file(machine, target, model.read_bytes())


def find_server_files() -> dict[str, Path]:
    """Return the files of llama-server by their paths in a guest: Debian's, or if that fails compiled here."""
    try:
        folder = ensure_debian_build()
    except VepycError as error:
        print(f"{error}; so llama-server is built here", flush=True)
        return _compiled_server_files()
    return {f"/{path.relative_to(folder)}": path for path in sorted(folder.rglob("*")) if path.is_file()}


def _compiled_server_files() -> dict[str, Path]:
    return {SERVER_PATH: ensure_llama(GUEST) / "bin/llama-server"}


def _send_missing_files(machine: Machine, files: Mapping[str, Path]) -> bool:
    """Write the files that a guest lacks or has in another size; return whether there were any."""
    sizes = {place: path.stat().st_size for place, path in files.items()}
    present = machine.run(f"stat -c '%n %s' {' '.join(files)}", check=False).stdout.splitlines()
    missing = [place for place, size in sizes.items() if f"{place} {size}" not in present]
    if missing:
        megabytes = sum(sizes[place] for place in missing) / 1e6
        print(f"bringing llama-server ({megabytes:.0f} MB, usually 2 to 5 s) to {machine.name}", flush=True)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as packed:
            for place in missing:
                packed.add(files[place], place)
        _run_with_input(machine, "tar --no-same-owner -xC /", archive.getvalue(), "llama-server")
    return bool(missing)


def _server_starts(machine: Machine) -> bool:
    """True if `llama-server --version` succeeds in the guest."""
    return machine.run(f"{SERVER_PATH} --version", check=False).returncode == 0


def write_guest_file(machine: Machine, target: str, data: bytes, mode: int = 644) -> None:
    """Write a file in a guest, which is complete or absent at any moment; zeros at its end are not sent."""
    part = f"{target}.part"
    write = f"mkdir -p $(dirname {target}) && cat >{part} && truncate -s {len(data)} {part}"
    _run_with_input(machine, f"{write} && chmod {mode} {part} && mv {part} {target}", data.rstrip(b"\0"), target)


def _run_with_input(machine: Machine, command: str, data: bytes, file_name: str) -> None:
    """Run a command in a guest with ``data`` as its standard input; a failure names the file that is written."""
    done = subprocess.run(
        [*machine.ssh_command(), command],
        cwd=machine.run_dir.path,
        input=data,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise GuestError(f"{machine.name}: {file_name} could not be written: {done.stderr.decode().strip()}")


if __name__ == "__main__":
    try:
        find_server_files()
        ensure_model()
    except VepycError as error:
        sys.exit(f"vepyc: {error}")
