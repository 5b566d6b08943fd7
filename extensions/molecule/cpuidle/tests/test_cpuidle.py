# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself says of its idle states."""

from __future__ import annotations


def test_idle_states(host):
    def forbidden(cpu):
        return host.check_output(f"cat /sys/devices/system/cpu/cpu{cpu}/cpuidle/state*/disable").split()

    # Only the last is of verify.
    assert [forbidden(cpu) for cpu in (0, 1, 9)] == [["0", "0", "0"], ["0", "0", "0"], ["0", "0", "1"]]
