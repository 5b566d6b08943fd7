# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host that GRUB boots, for the tests of boot parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import Boot, bootable


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    """The kernel files and the configuration of the host."""
    return bootable(tmp_path)


@pytest.fixture
def boot(tree: hosts.Host) -> Boot:
    """The host with its boot loader."""
    return Boot(tree)
