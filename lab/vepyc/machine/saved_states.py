# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Saved states of machines, so that the next one starts in seconds.

A snapshot is the state after the first boot of a shape. A prepared state is what a program made of such a machine after
that, for instance one on which a playbook has run.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import qemu
from ..cache_folders import replaced_folder
from ..epyc import acpi, kernel_patch, smbios
from ..epyc.shapes import Shape
from ..errors import VepycError
from ..guest import STOP_UDEV, Release
from ..image import image_dir, image_key
from ..paths import digest, directory, locked, run_tool
from ..quick_python.ssh import SOCKET
from .run_directory import RunDirectory
from .running import Machine

# What an Ansible run needs first: with it in memory, the first module of a resumed machine is as quick as the second.
# The Python that waits for modules says a word when it has imported what they share; a machine that is saved before
# would have to do the rest at each resume. The sync afterwards leaves nothing for the frozen disk to miss.
_WARM_UP = f"""\
python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("{SOCKET}"); s.recv(1)'
ls -R /sys/devices/system/cpu /sys/devices/system/node >/dev/null
sync
"""


@dataclass(frozen=True)
class Preparation:
    """What is done to a machine before its state is saved, so that others can start from there."""

    name: str
    source_digest: (
        str  # a digest of all that decides what `do` makes of a machine; another one leads to another saved state
    )
    apply: Callable[[Machine], None]


def snapshot_dir(shape: Shape, release: Release) -> Path:
    """Where the snapshot of this shape is, or would be: its name is the hash of all that made it."""
    args = qemu.machine_args(shape, "ssdt.aml")
    parts = [
        image_key(release),
        qemu.version(),
        *args,
        acpi.render_ssdt(shape),
        STOP_UDEV,
        _WARM_UP,
        repr(kernel_patch.MSR_RESET_VALUES),
    ]
    key = digest(
        [
            *parts,
            kernel_patch.HOOKS_SOURCE.read_bytes(),
            kernel_patch.cpuid_table(shape),
            *smbios.build_structures(shape),
        ]
    )
    return directory("snapshots") / f"{shape.name}-{release.kernel}-{key}"


def prepared_dir(shape: Shape, release: Release, preparation: Preparation) -> Path:
    """Where the state of this shape after the preparation is, or would be."""
    key = digest([snapshot_dir(shape, release).name, preparation.source_digest])
    return directory("prepared") / f"{shape.name}-{release.kernel}-{preparation.name}-{key}"


def take_snapshot(machine: Machine, shape: Shape, release: Release, replace: bool = False) -> Path:
    """Freeze the state of a machine that was booted from its disk, unless there is a snapshot and it is to stay."""
    if machine.resumed:
        raise VepycError(f"{machine.name!r} came out of a snapshot itself; start it with --cold to make a new one")
    target = snapshot_dir(shape, release)
    with locked(f"snapshot-{target.name}"):
        if target.exists():
            if not replace:
                return target
            _require_unused(target)
        machine.run(_WARM_UP, check=False)
        _save_state(machine, target)
    return target


def save_prepared(machine: Machine, target: Path, release: Release) -> None:
    """Save the state of a prepared machine, and remove the states that it replaces.

    Those have the same name and another key. One stays as long as there is a machine that was started from it.
    """
    # What prepared it may have rebooted it, and udev runs then.
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
    """Freeze a machine; with ``image``, on a disk that needs this image only and no other saved state."""
    with replaced_folder(target) as work:
        machine.disconnect()
        machine.run_dir.send_request("save", timeout=600, target=str(work))
        if image:
            run_tool(["qemu-img", "rebase", "-f", "qcow2", "-F", "raw", "-b", str(image), str(work / "disk.qcow2")])


def _require_unused(target: Path) -> None:
    """A machine reads its frozen disk all its life, and opens it anew when it reboots, or is started again."""
    users = [run_dir.path.name for run_dir in RunDirectory.list_all() if run_dir.uses_saved_state(target)]
    if users:
        raise VepycError(f"{', '.join(users)} runs from the snapshot that would be replaced; take it down first")
