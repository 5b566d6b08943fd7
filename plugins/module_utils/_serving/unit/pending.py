# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run has still to install on the host before its instances start, which an early check must not demand yet."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..options.option_table import OptionTable


class Pending:
    """Model files that will be fetched or built, servers that will be installed or built, and changes of the placement.

    ``placement`` is True where free CPUs or memory will differ by then: an earlier layer changes huge pages or SMT, or
    the plan was refused. ``systemd`` is True where the host has no systemd that could run a trial or list what runs.
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
        return self.systemd or (options.binary in self.binaries and not os.path.isfile(options.binary))

    def can_plan_with_models(self, model_files: Collection[str]) -> bool:
        return not (self.placement or self.files.intersection(model_files))


#: When the instances are really installed, nothing is pending.
NOTHING_PENDING = Pending()
