# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the files of an instance are once they are staged in huge pages."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._models.model import Model
    from .options import Options


def staging_folder(options: Options) -> str:
    """Return the folder on the hugetlbfs in which the files of an instance are."""
    return f"{options.hugetlbfs.rstrip('/')}/llama-{options.name}"


def staged_paths(options: Options, model: Model) -> list[str]:
    """Return where the files of a model are once they are staged; the first is the one to pass to a server."""
    return [f"{staging_folder(options)}/{os.path.basename(part.path)}" for part in model.parts]
