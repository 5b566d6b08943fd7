# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Python environments, each built once, for what the clone's own does not have: another Python or ansible-core."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from .paths import digest, directory, locked, run_tool

#: The oldest ansible-core that works, and runs on each Python that the clone's own environment can be of.
OLDEST_CORE = "ansible-core==2.19.14"


def venv(*packages: str, python: str = sys.executable) -> Path:
    """The folder of programs of an environment of this Python with these packages, as pip spells them."""
    version = subprocess.run([python, "-VV"], stdout=subprocess.PIPE, text=True, check=True).stdout
    name = digest([python, version, *packages])
    folder = directory("venvs") / name
    with locked(f"venv-{name}"):
        # An environment cannot be moved once built, so a file written last tells a whole one from a torn one.
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            log = directory("logs") / f"venv-{name}.log"
            run_tool([python, "-m", "venv", str(folder)], log)
            pip = [str(folder / "bin/python"), "-m", "pip", "install", "--disable-pip-version-check"]
            run_tool([*pip, *packages], log)
            (folder / "complete").touch()
    return folder / "bin"
