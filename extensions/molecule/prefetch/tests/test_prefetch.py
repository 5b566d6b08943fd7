# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the registers of the host itself hold."""

from __future__ import annotations


def test_registers(host):
    def prefetch_control(cpu):
        return host.check_output(
            f"dd if=/dev/cpu/{cpu}/msr bs=8 skip=$((0xc0000108 / 8)) count=1 | od -An -tx8"
        ).strip()

    assert int(prefetch_control(9), 16) & 0b101111 == 0b10  # draft: no stride prefetcher
    assert int(prefetch_control(1), 16) & 0b101111 == 0  # verify: all of them
    assert int(prefetch_control(0), 16) & 0b101111 == 0  # housekeeping: nobody asked
