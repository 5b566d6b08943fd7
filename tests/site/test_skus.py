# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`make site` on every SKU, and on the 9754 with each kernel of the lab: from a host as installed to an answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from vepyc.images.guest_system import RELEASES
from vepyc.paths import hold_lock
from vepyc.playbook_runs import run_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SKUS = sorted(path.stem for path in ROOT.glob("inventories/lab/group_vars/epyc*.yml"))


#: The kernel of `make site` is the first one.
DEFAULT, *OTHER_KERNELS = RELEASES


@pytest.mark.parametrize(
    ("sku", "kernel"), [*((sku, DEFAULT) for sku in SKUS), *(("epyc9754", kernel) for kernel in OTHER_KERNELS)]
)
def test_site(sku: str, kernel: str) -> None:
    with hold_lock(f"site-{sku}"):  # its machine has one name, whoever runs these tests on this computer
        run_command("lab/bin/vepyc", "down", sku)
        try:
            done = run_command("tools/site.py", sku, "--kernel", kernel, timeout=3600, PYTHONPATH="lab")
        finally:
            run_command("lab/bin/vepyc", "down", sku)
    assert done.returncode == 0, done.stdout
