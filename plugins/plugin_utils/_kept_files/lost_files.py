# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that a run keeps on the controller for later runs, and the folders in which they would be lost.

A job of AWX has its project and its inventory in a folder that is deleted when the job ends. An execution environment
is a container that is deleted with the job, but for the folders that are mounted into it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Set by ansible-runner to a folder two levels below the folder of the job.
ARTIFACTS_VARIABLE = "AWX_ISOLATED_DATA_DIR"
#: Set by AWX and Automation Controller, and by no other program that runs ansible-runner.
AWX_VARIABLE = "AWX_PRIVATE_DATA_DIR"
#: Where ansible-runner mounts the folder of the job in an execution environment.
FOLDER_IN_CONTAINER = Path("/runner")


def lost_file_reason(path: str, environment: Mapping[str, str]) -> str:
    """Return why a file that a run writes to this path would not be there for a later run, "" if it would.

    The reason is the end of a sentence about the file. ``environment`` is that of ansible-playbook.
    """
    file = Path(os.path.realpath(os.path.expanduser(path)))
    parent = next(parent for parent in file.parents if os.path.lexists(parent))
    if not parent.is_dir():
        return f"cannot be written, because {parent} is no folder"
    if not os.access(parent, os.W_OK | os.X_OK):
        return f"cannot be written, because {parent} is read-only"
    if ARTIFACTS_VARIABLE not in environment:
        return ""
    folder = Path(os.path.realpath(environment[ARTIFACTS_VARIABLE])).parent.parent
    if AWX_VARIABLE in environment and file.is_relative_to(folder):
        return f"would be in {folder}, which AWX deletes when this job ends"
    if folder == FOLDER_IN_CONTAINER and parent.stat().st_dev == os.stat("/").st_dev:
        return "would be in the container of this job, which is deleted when the job ends"
    return ""


def lost_file_refusal(path: str, variable: str, environment: Mapping[str, str]) -> str:
    """Return the refusal of a run that would lose a file at the path of a variable, "" if the file would stay."""
    reason = lost_file_reason(path, environment)
    if not reason:
        return ""
    return (
        f"{path} {reason}, and later runs need this file. Set {variable} to a path in a folder that stays; in an "
        "execution environment this is a folder that is mounted into it."
    )
