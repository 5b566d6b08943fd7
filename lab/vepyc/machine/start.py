# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting a machine: from a saved state, from the image, or from the disk that it left."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..bmc import personality
from ..epyc.bios import apply_bios_settings
from ..epyc.shapes import Shape, get_shape
from ..errors import VepycError
from ..images.guest_image import ensure_image, image_dir
from ..images.guest_system import Release, get_release
from ..paths import PACKAGE, ensure_directory, hold_lock, require_disk_space, run_tool
from .run_directory import Config, RunDirectory
from .running import Machine
from .saved_states import Preparation, prepared_dir, save_prepared, snapshot_dir, take_snapshot

_BOOT_TIMEOUT = 1800
_RESUME_TIMEOUT = 300
# Below the ports that the kernel gives to outgoing connections, which could take a port before QEMU listens.
_PORTS = range(28000, 29000)


@dataclass(frozen=True)
class _Order:
    """What the caller wants to start."""

    run_dir: RunDirectory
    shape: Shape
    release: Release
    port: int | None
    bmc: str | None
    bios: dict[str, Any]


def start_machine(
    shape: str,
    name: str | None = None,
    kernel: str = "6.12",
    port: int | None = None,
    cold: bool = False,
    prepared: Preparation | None = None,
    bmc: str | None = None,
    bios: dict[str, Any] | None = None,
) -> Machine:
    """Return the running machine of that name; start it first if needed, from its snapshot or with ``cold`` from disk.

    With ``bmc``, the name of a vendor, it has a BMC that speaks Redfish. With ``bios``, settings of epyc/bios.py, it
    starts from disk, because snapshots are of unchanged shapes.

    With ``prepared``, it has to be a new machine, and starts from the state that was saved after that preparation. If
    there is no such state, the machine is prepared now, and its state is saved.
    """
    wanted, release = get_shape(shape), get_release(kernel)
    if bmc:
        personality.load_personality(bmc)  # raises an error for an unknown vendor
    if bios and prepared:
        raise VepycError("a machine cannot have other BIOS settings and be prepared: nobody saved that state")
    if bios:
        apply_bios_settings(wanted, bios)  # raises an error for an unknown setting
    name = name or shape
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?", name):
        raise VepycError(f"{name!r} cannot be a host name; use lower-case letters, digits and hyphens")
    with hold_lock(f"up-{name}"):
        run_dir = RunDirectory.of_machine(name)
        if run_dir.is_alive() and not (prepared or bios):
            return _require_equal_machine(Machine(run_dir), shape, kernel, port, bmc)
        if run_dir.is_alive():
            why = "with BIOS settings of its own" if bios else "and nobody knows in which state"
            raise VepycError(f"{name!r} is already up, {why}; take it down first")
        if run_dir.stopped.exists():
            raise VepycError(
                f"{name!r} was stopped, and its disk was kept; boot it with: vepyc start {name}, or throw it away with:"
                f" vepyc down {name}"
            )
        run_dir.remove()
        order = _Order(run_dir, wanted, release, port, bmc, bios or {})
        return _start_prepared(order, prepared) if prepared else _start_from_shape(order, cold)


def start_again(name: str) -> Machine:
    """Return the running machine of that name; if it was stopped or killed, boot it first from the disk that it left.

    A machine is killed with its supervisor, for instance when this computer goes down.
    """
    with hold_lock(f"up-{name}"):
        run_dir = RunDirectory.of_machine(name)
        if run_dir.is_alive():
            return Machine(run_dir)
        if not run_dir.has_bootable_disk():
            raise VepycError(f"there is no machine {name!r} that could be started again; make one with: vepyc up")
        config = run_dir.read_config()
        if config.bmc:
            raise VepycError(f"{name!r} had a BMC, whose settings ended with it; take it down, and up again")
        if not _is_port_free(config.port):
            raise VepycError(f"port {config.port} on 127.0.0.1, which is that of {name!r}, is taken")
        # The disk then depends on the image alone, and no longer on a saved state, which may be removed.
        image = Path(config.image, "disk.raw")
        run_tool(["qemu-img", "rebase", "-f", "qcow2", "-F", "raw", "-b", str(image), str(run_dir.disk)])
        bios = json.loads(run_dir.bios.read_text()) if run_dir.bios.exists() else config.bios
        run_dir.write_config(replace(config, snapshot=None, bios=bios))
        run_dir.clear_leftovers()
        print(f"booting {name} from its own disk (usually 40 to 120 s)", flush=True)
        return _start_and_wait(run_dir)


def _start_from_shape(order: _Order, cold: bool = False) -> Machine:
    """Start a machine from the snapshot of its shape; without one, boot it from the image and save its snapshot."""
    saved = snapshot_dir(order.shape, order.release)
    machine = _create_machine(order, saved if saved.exists() and not (cold or order.bios) else None)
    if not (saved.exists() or order.bios):
        print(f"saving the state of {machine.name}, so that the next start takes seconds (5 to 15 s)", flush=True)
        take_snapshot(machine, order.shape, order.release)
    return machine


def _start_prepared(order: _Order, preparation: Preparation) -> Machine:
    """Start a machine from the state after a preparation; without one, prepare a machine and save that state."""
    saved = prepared_dir(order.shape, order.release, preparation)
    # The lock keeps other processes from saving this state, or removing it as an old one.
    with hold_lock(f"prepared-{saved.name.rpartition('-')[0]}"):
        return _create_machine(order, saved) if saved.exists() else _prepare_and_save(order, preparation, saved)


def _prepare_and_save(order: _Order, preparation: Preparation, saved: Path) -> Machine:
    """Start a machine, apply the preparation, and save its state; end it if that fails."""
    machine = _start_from_shape(order)
    try:
        preparation.apply(machine)
        print(f"saving the state of {machine.name}, which is {preparation.name}", flush=True)
        save_prepared(machine, saved, order.release)
    except BaseException:
        machine.discard()
        raise
    return machine


def _create_machine(order: _Order, saved: Path | None) -> Machine:
    """Create the run directory of a machine and start it, from a saved state or from the image."""
    # Fails before minutes are spent. The space for an image is not checked in the module that builds it, because
    # each change of that file changes the image's key.
    choose_port(order.shape, order.run_dir.path.name, order.port)
    if not image_dir(order.release).exists():
        require_disk_space(ensure_directory("images"), 4, f"the {order.release.suite} image")
    elif not saved:
        require_disk_space(ensure_directory("snapshots"), 1.5, f"the first boot of a {order.shape.name}")
    run_dir, image = order.run_dir, ensure_image(order.release)
    if not saved:
        print(f"booting {order.run_dir.path.name} from the image (1 to 2 minutes)", flush=True)
    with hold_lock("ports"):
        config = Config(
            name=run_dir.path.name,
            shape=order.shape.name,
            kernel=order.release.kernel,
            port=choose_port(order.shape, run_dir.path.name, order.port),
            image=str(image),
            snapshot=str(saved) if saved else None,
            bmc=order.bmc,
            bios=order.bios,
        )
        run_dir.create(config)
    try:
        return _start_and_wait(run_dir)
    except BaseException as error:
        run_dir.kill_with_reason(str(error) or type(error).__name__)
        raise


def _start_and_wait(run_dir: RunDirectory) -> Machine:
    """Start the supervisor and wait until the guest has booted or resumed; set its name and clock."""
    _start_supervisor(run_dir)
    machine = Machine(run_dir)
    if machine.resumed:
        machine.wait_until_resumed(_RESUME_TIMEOUT)
    else:
        machine.wait_for_another_boot(timeout=_BOOT_TIMEOUT)
    machine.set_identity()
    return machine


def _require_equal_machine(machine: Machine, shape: str, kernel: str, port: int | None, bmc: str | None) -> Machine:
    """Return the running machine if it has this shape, kernel, port and BMC; raise an error otherwise."""
    present = machine.run_dir.read_config().bmc
    if (
        (machine.shape, machine.kernel) != (shape, kernel)
        or port not in (None, machine.port)
        or bmc not in (None, present)
    ):
        raise VepycError(
            f"{machine.name!r} is already up as {machine.shape} with kernel {machine.kernel} on port {machine.port},"
            f" {f'with the BMC {present}' if present else 'without a BMC'}; take it down, or choose another --name"
        )
    return machine


def choose_port(shape: Shape, name: str, port: int | None) -> int:
    """Return the given port, or the shape's for a machine named like it, or any free port; an error if it is taken."""
    if port is None and name == shape.name:
        port = shape.port
    if port is not None:
        if not _is_port_free(port):
            raise VepycError(
                f"port {port} on 127.0.0.1 is taken, `ss -ltnp sport = :{port}` shows by whom; end that, or choose"
                " another port with --port and name it in the inventory"
            )
        return port
    # The run directory of a machine reserves its port before QEMU listens on it.
    promised = {run_dir.read_port() for run_dir in RunDirectory.list_all()}
    for candidate in _PORTS:
        if candidate not in promised and _is_port_free(candidate):
            return candidate
    raise VepycError(f"no port from {_PORTS[0]} to {_PORTS[-1]} on 127.0.0.1 is free; choose another one with --port")


def _is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _start_supervisor(run_dir: RunDirectory) -> None:
    """Start the supervisor as a process of its own and wait until it answers requests."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    with run_dir.log.open("w") as log:
        subprocess.run(
            [sys.executable, "-m", "vepyc.machine.supervisor", str(run_dir.path)],
            check=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + 60
    while not (run_dir.path / "control.sock").exists():
        if run_dir.error.exists():
            raise VepycError(f"{run_dir.path.name}: {run_dir.error.read_text().strip()}")
        if time.monotonic() > deadline:
            raise VepycError(f"the supervisor of {run_dir.path.name} did not start; see {run_dir.log}")
        time.sleep(0.02)
