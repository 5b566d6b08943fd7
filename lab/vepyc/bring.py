# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that an operator brings to a server before the first playbook: llama-server, and a model."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from .errors import GuestError, VepycError
from .llama import GUEST, ensure_llama, ensure_model
from .machine import Machine
from .paths import PACKAGE

#: Where inventories/lab expects them.
PROGRAMS, MODELS = "/opt/llama/bin", "/srv/models"


#: Makes what is brought, where it is missing.
_MAKE = (sys.executable, "-m", __name__)


@contextlib.contextmanager
def made_meanwhile() -> Iterator[None]:
    """Have what `bring_llama` needs made while the block is at work, by a process that ends when the block fails.

    Both take minutes on a new machine, and an image leaves one of two processors idle.
    """
    maker = subprocess.Popen(_MAKE, cwd=PACKAGE.parent)
    try:
        yield
        if maker.wait():
            raise VepycError("llama-server or its model could not be made, for the reason above")
    finally:
        maker.kill()
        maker.wait()


def bring_llama(machine: Machine) -> None:
    """Have a llama-server and a small real model on a machine. What is there already is not sent again."""
    server, model = ensure_llama(GUEST) / "bin/llama-server", ensure_model()
    for source, target, mode in ((server, f"{PROGRAMS}/{server.name}", 755), (model, f"{MODELS}/{model.name}", 644)):
        size = source.stat().st_size
        if machine.run(f"stat -c %s {target}", check=False).stdout.strip() != str(size):
            print(f"bringing {source.name} ({size / 1e6:.0f} MB) to {machine.name}", flush=True)
            put(machine, target, source.read_bytes(), mode)


def put(machine: Machine, target: str, data: bytes, mode: int = 644) -> None:
    """Write a file of a guest. It is whole, or not there; zeros at its end need not be sent."""
    part = f"{target}.part"
    write = f"mkdir -p $(dirname {target}) && cat >{part} && truncate -s {len(data)} {part}"
    command = f"{write} && chmod {mode} {part} && mv {part} {target}"
    done = subprocess.run(
        [*machine.ssh_command(), command],
        cwd=machine.run_dir.path,
        input=data.rstrip(b"\0"),
        capture_output=True,
        check=False,
    )
    if done.returncode:
        raise GuestError(f"{machine.name}: {target} could not be written: {done.stderr.decode().strip()}")


if __name__ == "__main__":
    try:
        ensure_llama(GUEST)
        ensure_model()
    except VepycError as error:
        sys.exit(f"vepyc: {error}")
