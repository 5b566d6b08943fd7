# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archives of Debian and Ubuntu, and packages that few tests need, which no image of a guest or container contains.

Guests and containers have no network. So apt fetches the packages on this machine, once, with lists and a status of its
own, apart from the packages that this machine has installed.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..cache_folders import ensure_folder
from ..errors import VepycError
from ..paths import compute_digest, ensure_directory, hold_lock, run_tool
from .guest_system import get_release

if TYPE_CHECKING:
    from ..machine.running import Machine

#: The keys of Debian's suites, and those of Ubuntu's in a package of Debian.
DEBIAN_KEYS, UBUNTU_KEYS = (f"/usr/share/keyrings/{name}-archive-keyring.gpg" for name in ("debian", "ubuntu"))
#: The suites of Ubuntu; all others are Debian's.
UBUNTU_SUITES = ("noble",)
# debootstrap's script for all suites of Ubuntu names their mirror. The other commands in it are left out.
_PRINT_UBUNTU_MIRROR = 'PATH= ARCH=amd64; default_mirror() { echo "$1"; }; . /usr/share/debootstrap/scripts/gutsy'
#: HAProxy, and its dependencies that the image of the containers lacks.
HAPROXY = ("haproxy", "libjemalloc2", "liblua5.4-0", "libopentracing1", "libopentracing-c-wrapper0t64")


def archive_line(suite: str) -> str:
    """Return the line by which apt finds a suite; its mirror is that of VEPYC_MIRROR or VEPYC_UBUNTU_MIRROR, if set."""
    if suite in UBUNTU_SUITES:
        keys = f"{ensure_extracted('trixie', 'ubuntu-keyring')}{UBUNTU_KEYS}"
        mirror = os.environ.get("VEPYC_UBUNTU_MIRROR") or _ubuntu_mirror(suite)
        return f"deb [signed-by={keys}] {mirror} {suite} main universe"
    return f"deb [signed-by={DEBIAN_KEYS}] {os.environ.get('VEPYC_MIRROR') or _debian_mirror()} {suite} main"


def _debian_mirror() -> str:
    """Return the default of debootstrap."""
    script = shutil.which("debootstrap", path="/usr/sbin:/usr/bin")
    lines = Path(script).read_text().splitlines() if script else []
    return _require_mirror(line.partition("=")[2].strip('"') for line in lines if line.startswith("DEF_MIRROR="))


def _ubuntu_mirror(suite: str) -> str:
    """Return the default of debootstrap for a suite of Ubuntu."""
    command = ["env", f"SUITE={suite}", "/bin/sh", "-c", _PRINT_UBUNTU_MIRROR]
    return _require_mirror(iter(subprocess.run(command, capture_output=True, text=True).stdout.split()))


def _require_mirror(found: Iterator[str]) -> str:
    mirror = next(found, None)
    if mirror is None:
        raise VepycError("debootstrap is not installed; lab/README.md lists the packages the lab needs")
    return mirror


def install_packages(machine: Machine, *names: str) -> None:
    """Install packages in a guest; ``names`` must include the dependencies that its image lacks."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for package in fetch_packages(get_release(machine.kernel).suite, *names):
            archive.add(package, package.name)
    command = [*machine.ssh_command(), "mkdir -p /run/debs && tar -xC /run/debs && dpkg -i /run/debs/*.deb 2>&1"]
    done = subprocess.run(command, cwd=machine.run_dir.path, input=buffer.getvalue(), capture_output=True)
    if done.returncode:
        raise VepycError(f"{machine.name}: dpkg could not install {', '.join(names)}: {done.stdout.decode()}")


def fetch_packages(suite: str, *names: str) -> list[Path]:
    """Return the .deb files of these packages, which are downloaded once into a folder of the cache."""
    folder = ensure_directory("packages", f"{suite}-{compute_digest(names)}")
    with hold_lock(f"packages-{folder.name}"):
        if len(list(folder.glob("*.deb"))) < len(names):
            for name in ("lists/partial", "cache/archives/partial"):
                (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / "status").touch()
            (folder / "sources.list").write_text(f"{archive_line(suite)}\n")
            settings = {
                "Dir::Etc::sourcelist": folder / "sources.list",
                "Dir::Etc::sourceparts": "/dev/null",
                "Dir::State::lists": folder / "lists",
                "Dir::State::status": folder / "status",
                "Dir::Cache": folder / "cache",
                "APT::Architecture": "amd64",
                "APT::Sandbox::User": "root",
            }
            apt = ["apt-get", "-qq", *(f"-o{key}={value}" for key, value in settings.items())]
            log = ensure_directory("logs") / f"packages-{folder.name}.log"
            run_tool([*apt, "update"], log)
            run_tool(["env", f"--chdir={folder}", *apt, "download", *names], log)
    return sorted(folder.glob("*.deb"))


def ensure_extracted(suite: str, *names: str) -> Path:
    """Return a folder with these packages unpacked, and links that stay inside it; this machine gets nothing in"""
    files = fetch_packages(suite, *names)

    def build(folder: Path) -> None:
        for file in files:
            subprocess.run(["dpkg-deb", "--extract", file, folder], check=True)
        for path in folder.rglob("*"):
            if path.is_symlink() and (target := os.readlink(path)).startswith("/"):
                path.unlink()
                path.symlink_to(folder / target.lstrip("/"))

    return ensure_folder(ensure_directory("extracted") / files[0].parent.name, build, in_place=True)
