# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That a role which only looks has left nothing on the host."""

from __future__ import annotations


def test_nothing_was_left(host):
    assert not host.file("/var/lib/sovereign-epyc").exists
    assert host.check_output("cat /proc/sys/kernel/tainted") == "0"
    assert host.check_output("cat /sys/devices/system/cpu/cpufreq/boost") == "1"
