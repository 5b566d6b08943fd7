# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file with the originals of BIOS settings: of another machine, without a place to go back to, damaged."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import (
    BadRequest,
    Damaged,
    NewerFormat,
    TuningError,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.bios_runs import Runs
from ansible_collections.sovereign.epyc.tests.unit.fakes.bmcs import Bmc


def test_originals_of_another_machine_are_refused(bmc: Bmc, run: Runs) -> None:
    run(nps="4")
    bmc.system["UUID"] = "u-2"
    with pytest.raises(TuningError, match="holds the originals of the machine u-1"):
        run(nps="4")


def test_originals_that_have_no_place_any_more(bmc: Bmc, run: Runs) -> None:
    run(nps="4")
    bmc.boot()
    del bmc.registry["Attributes"][0]
    with pytest.raises(BadRequest, match=r"NumaMemoryDomainsPerSocket .* cannot be put back"):
        run(undo=True)


def test_a_damaged_file_of_originals(run: Runs) -> None:
    for text in ("{", "[]", '{"format": "x"}'):
        run.file.write_text(text)
        with pytest.raises(Damaged, match="originals"):
            run(nps="4")


def test_a_file_of_originals_of_a_newer_version(run: Runs) -> None:
    run.file.write_text('{"format": 9, "collection": "9.8.7"}')
    with pytest.raises(NewerFormat, match=r"was written by a newer version of the collection \(9\.8\.7\): its format"):
        run(nps="4")
