# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the host itself says that interrupts and its own work go."""

from __future__ import annotations

import pytest

HOUSEKEEPING = "1111"  # CPUs 0, 4, 8 and 12


@pytest.mark.parametrize(
    "path",
    ["/proc/irq/default_smp_affinity", *(f"/sys/devices/virtual/workqueue/{n}cpumask" for n in ("", "writeback/"))],
)
def test_masks(host, path):
    assert host.check_output(f"cat {path}").strip() == HOUSEKEEPING


def test_interrupts(host):
    lists = host.check_output(
        "for irq in /sys/kernel/irq/*; do"
        ' [ -z "$(cat $irq/actions)" ] || cat /proc/irq/${irq##*/}/smp_affinity_list; done'
    ).split()
    assert lists.count("0,4,8,12") >= 4  # Others are the kernel's own to place.
