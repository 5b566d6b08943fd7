# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is named after an instance on the host: its units, the credential with its API keys, its staged files."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._models.model import Model
    from .options import Options


def unit_of(name: str) -> str:
    """Return the name of an instance's unit."""
    return f"llama-{name}.service"


def rpc_unit_of(name: str) -> str:
    """Return the name of the unit that drafts for an instance on a CCD of its own."""
    return f"llama-{name}-rpc.service"


def key_path(name: str) -> str:
    """Return where the server finds its API keys: systemd puts a credential there that only the service can read."""
    return f"/run/credentials/{unit_of(name)}/api-key"


def staging_folder(options: Options) -> str:
    """Return the folder on the hugetlbfs in which the files of an instance are."""
    return f"{options.hugetlbfs.rstrip('/')}/llama-{options.name}"


def staged_paths(options: Options, model: Model) -> list[str]:
    """Return where the files of a model are once they are staged; the first is the one to pass to a server."""
    return [f"{staging_folder(options)}/{os.path.basename(part.path)}" for part in model.parts]
