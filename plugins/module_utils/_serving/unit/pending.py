# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run brings to the host before its instances start, so that an early look cannot hold instances against it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..options.option_table import OptionTable


class Pending:
    """Files of models that will be fetched or made, servers that will be installed or built, and the placement.

    ``placement`` is True where CPUs or free memory will be others by then: an earlier layer changes huge pages or SMT,
    or the plan was refused. ``systemd`` is True where the host has none that could run a trial or tell what runs.
    """

    __slots__ = ("binaries", "files", "placement", "systemd")

    def __init__(
        self,
        files: Collection[str] = (),
        binaries: Collection[str] = (),
        placement: bool = False,
        systemd: bool = False,
    ) -> None:
        self.files = frozenset(files)
        self.binaries = frozenset(binaries)
        self.placement = placement
        self.systemd = systemd

    def is_binary_pending(self, options: OptionTable) -> bool:
        """Return whether the server of an instance will be installed, or can be asked, only later."""
        return self.systemd or (options.binary in self.binaries and not os.path.isfile(options.binary))

    def can_plan(self, model_files: Collection[str]) -> bool:
        """Return whether an instance with these models can be planned already."""
        return not (self.placement or self.files.intersection(model_files))


#: Nothing is pending when the instances are run.
NOTHING_PENDING = Pending()
