# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""BMCs of the lab that run until a test ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from vepyc.bmc import Bmc

from .runs import Runs, Start


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate of all BMCs, which takes half a second to make."""
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture
def start(tmp_path: Path, certificates: Path) -> Iterator[Start]:
    """Start a BMC, or several, until the test ends."""
    with ExitStack() as stack:

        def start_bmc(vendor: str, *given: object, **more: object) -> Runs:
            bmc = Bmc(certificates, vendor, *given, **more)  # type: ignore[arg-type]
            stack.callback(lambda: bmc.stop())
            return Runs(bmc, tmp_path)

        yield start_bmc
