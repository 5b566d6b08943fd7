# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Saved states of machines, so that the next one starts in seconds.

A snapshot is the state after the first boot of a shape. A prepared state was saved after a program has changed such a
machine, for instance after a playbook has run on it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..cache_folders import replaced_folder
from ..epyc import acpi, kernel_patch, smbios
from ..epyc.shapes import Shape
from ..errors import VepycError
from ..images.guest_image import image_dir, image_key
from ..images.guest_system import STOP_UDEV, Release
from ..paths import compute_digest, ensure_directory, hold_lock, run_tool
from ..quick_python.ssh import SOCKET
from . import qemu_arguments
from .run_directory import RunDirectory
from .running import Machine

# Loads what an Ansible run needs first, so that the first module on a resumed machine is as fast as the second. The
# fork server sends a word when it has imported what modules share; a machine saved earlier would repeat those imports
# at each resume. `sync` at the end, because the frozen disk has only what was written to it.
_WARM_UP = f"""\
python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("{SOCKET}"); s.recv(1)'
ls -R /sys/devices/system/cpu /sys/devices/system/node >/dev/null
sync
"""


@dataclass(frozen=True)
class Preparation:
    """A change of a machine before its state is saved, from which other machines start."""

    name: str
    source_digest: str  # a digest of all sources that decide what `apply` does; a new one needs a new saved state
    apply: Callable[[Machine], None]


def snapshot_dir(shape: Shape, release: Release) -> Path:
    """Return the path of this shape's snapshot, which need not exist; its name has a hash of all it was made of."""
    args = qemu_arguments.build_machine_args(shape, "ssdt.aml")
    parts = [
        image_key(release),
        qemu_arguments.qemu_version(),
        *args,
        acpi.render_ssdt(shape),
        STOP_UDEV,
        _WARM_UP,
        repr(kernel_patch.MSR_RESET_VALUES),
    ]
    key = compute_digest(
        [
            *parts,
            kernel_patch.HOOKS_SOURCE.read_bytes(),
            kernel_patch.cpuid_table(shape),
            *smbios.build_structures(shape),
        ]
    )
    return ensure_directory("snapshots") / f"{shape.name}-{release.kernel}-{key}"


def prepared_dir(shape: Shape, release: Release, preparation: Preparation) -> Path:
    """Return the path of the state of this shape after the preparation, which need not exist."""
    key = compute_digest([snapshot_dir(shape, release).name, preparation.source_digest])
    return ensure_directory("prepared") / f"{shape.name}-{release.kernel}-{preparation.name}-{key}"


def take_snapshot(machine: Machine, shape: Shape, release: Release, replace: bool = False) -> Path:
    """Save the state of a machine that was booted from its disk; with ``replace``, also if there is a snapshot."""
    if machine.resumed:
        raise VepycError(f"{machine.name!r} came out of a snapshot itself; start it with --cold to make a new one")
    target = snapshot_dir(shape, release)
    with hold_lock(f"snapshot-{target.name}"):
        if target.exists():
            if not replace:
                return target
            _require_unused(target)
        machine.run(_WARM_UP, check=False)
        _save_state(machine, target)
    return target


def save_prepared(machine: Machine, target: Path, release: Release) -> None:
    """Save the state of a prepared machine, and remove older states of the same preparation.

    Older states have the same name and another key. A state stays as long as a machine that was started from it exists.
    """
    # udev runs again if the preparation has rebooted the machine.
    machine.run(f"{STOP_UDEV}; sync")
    _save_state(machine, target, image_dir(release) / "disk.raw")
    for old in target.parent.iterdir():
        same_name = old.name.rpartition("-")[0] == target.name.rpartition("-")[0]
        if (
            same_name
            and old != target
            and not any(run_dir.uses_saved_state(old) for run_dir in RunDirectory.list_all())
        ):
            shutil.rmtree(old)


def _save_state(machine: Machine, target: Path, image: Path | None = None) -> None:
    """Save memory and disk of a machine; with ``image``, the saved disk depends on this image only."""
    with replaced_folder(target) as work:
        machine.disconnect()
        machine.run_dir.send_request("save", timeout=600, target=str(work))
        if image:
            run_tool(["qemu-img", "rebase", "-f", "qcow2", "-F", "raw", "-b", str(image), str(work / "disk.qcow2")])


def _require_unused(target: Path) -> None:
    """Raise an error if a machine was started from this state: it reads the frozen disk as long as it exists."""
    users = [run_dir.path.name for run_dir in RunDirectory.list_all() if run_dir.uses_saved_state(target)]
    if users:
        raise VepycError(f"{', '.join(users)} runs from the snapshot that would be replaced; take it down first")
