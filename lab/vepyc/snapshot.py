# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots: the state of a booted machine, kept so that the next one of its shape starts in seconds."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import acpi, patch, qemu
from .errors import VepycError
from .guest import Release
from .image import image_key
from .machine import Machine
from .paths import digest, directory, locked
from .rundir import RunDir
from .shapes import Shape

# What an Ansible run touches first: with it in the page cache, the first module of a resumed machine is as quick as the
# second. The sync afterwards leaves nothing for the frozen disk to miss.
_WARM_UP = """\
python3 -c 'import ast, base64, ctypes, datetime, fcntl, glob, grp, hashlib, json, locale, logging, os, platform, pwd
import re, selectors, shlex, subprocess, tempfile, traceback, zipfile'
ls -R /sys/devices/system/cpu /sys/devices/system/node >/dev/null
sync
"""


def snapshot_dir(shape: Shape, release: Release) -> Path:
    """Where the snapshot of this shape is, or would be: its name is the hash of all that made it."""
    args = qemu.machine_args(shape, "ssdt.aml")
    parts = [image_key(release), qemu.version(), *args, acpi.ssdt(shape), _WARM_UP, repr(patch.MSRS)]
    key = digest([*parts, patch.SOURCE.read_bytes(), patch.cpuid_table(shape)])
    return directory("snapshots") / f"{shape.name}-{release.kernel}-{key}"


def take_snapshot(machine: Machine, shape: Shape, release: Release, replace: bool = False) -> Path:
    """Freeze the state of a machine that was booted from its disk, unless there is a snapshot and it is to stay."""
    if machine.resumed:
        raise VepycError(f"{machine.name!r} came out of a snapshot itself; start it with --cold to make a new one")
    target = snapshot_dir(shape, release)
    with locked(f"snapshot-{target.name}"):
        if target.exists():
            if not replace:
                return target
            _refuse_if_used(target)
        work = target.with_name(target.name + ".building")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            machine.run(_WARM_UP, check=False)
            machine.disconnect()
            machine.run_dir.ask("save", timeout=600, target=str(work))
            shutil.rmtree(target, ignore_errors=True)
            work.rename(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return target


def _refuse_if_used(target: Path) -> None:
    """A machine reads its frozen disk all its life, and opens it anew when it reboots."""
    users = [run_dir.path.name for run_dir in RunDir.all() if run_dir.alive() and run_dir.uses(target)]
    if users:
        raise VepycError(f"{', '.join(users)} runs from the snapshot that would be replaced; take it down first")
