# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs Debian or Ubuntu into a directory, for guests and containers."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..paths import ensure_directory, run_tool
from .debian_packages import archive_line

# mmdebstrap mounts /proc and starts many programs. All of them end, and what they mounted is gone, when this process
# is killed; else the next build would remove files from under them, and a mounted /proc with them.
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")

#: Where mmdebstrap writes the options of dpkg.
_DPKG_OPTIONS = "/etc/dpkg/dpkg.cfg.d/99mmdebstrap"
#: Where mmdebstrap writes the options of apt.
_APT_OPTIONS = "/etc/apt/apt.conf.d/99mmdebstrap"
_INITRAMFS = "/etc/initramfs-tools/conf.d"


def install_debian(suite: str, packages: Sequence[str], root: Path, log: Path, kernel_suite: str = "") -> None:
    """Install a suite of Debian or Ubuntu with these packages into a directory; downloaded packages are cached.

    With ``kernel_suite``, the kernel comes from that suite, and all other packages from ``suite``.

    mmdebstrap unpacks all packages in one call of dpkg. Two temporary settings save time: dpkg does not wait until each
    file is on the disk, and the initramfs of the kernel package has no modules, because it is rebuilt later.
    """
    cached = shlex.quote(str(ensure_directory("packages", suite)))
    archives = "/var/cache/apt/archives"
    command = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"]
    command += [f"--include={','.join(packages)}", "--skip=download/empty", "--skip=essential/unlink"]
    command += [f'--setup-hook=mkdir -p "$1"{archives} && cp -n {cached}/*.deb "$1"{archives}/ || true']
    command += [f'--customize-hook=cp -n "$1"{archives}/*.deb {cached}/']
    command += ["--dpkgopt=force-unsafe-io", f'--customize-hook=rm "$1"{_DPKG_OPTIONS}']
    if "initramfs-tools" in packages:
        command += [f'--setup-hook=mkdir -p "$1"{_INITRAMFS} && echo MODULES=list >"$1"{_INITRAMFS}/first']
        command += [f'--customize-hook=rm "$1"{_INITRAMFS}/first']
    command += [f"--aptopt={line}" for line in _list_date_check_settings()]
    command += [f'--customize-hook=rm -f "$1"{_APT_OPTIONS}']
    sources = [archive_line(suite)]
    if kernel_suite:
        sources.append(archive_line(kernel_suite))
        pin = rf"Package: linux-*\nPin: release n={kernel_suite}\nPin-Priority: 500\n"
        folder = "/etc/apt/preferences.d"
        command += [f'--setup-hook=mkdir -p "$1"{folder} && printf {shlex.quote(pin)} >"$1"{folder}/kernel']
    run_tool([*_ENDS_WITH_US, *command, suite, str(root), *sources], log)


def _list_date_check_settings() -> list[str]:
    """Return the settings of this machine's apt on dates of a mirror, which mmdebstrap would not read.

    A mirror that is a stored copy of an earlier day looks expired, and only who chose it knows that this is right.
    """
    command = ["apt-config", "dump", "Acquire::Check-Valid-Until", "Acquire::Check-Date"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def write_files_and_links(root: Path, files: Mapping[str, str], links: Mapping[str, str]) -> None:
    """Write text files and symbolic links by their paths below ``root``; scripts become executable."""
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    for path, to in links.items():
        link = root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(to)
