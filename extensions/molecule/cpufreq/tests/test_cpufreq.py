# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself says of its frequencies."""

from __future__ import annotations

CPUFREQ = "/sys/devices/system/cpu/cpufreq"


def test_governors(host):
    assert host.check_output(f"cat {CPUFREQ}/policy*/scaling_governor").split() == ["performance"] * 16
    assert host.check_output(f"cat {CPUFREQ}/boost").strip() == "1"


def test_limits(host):
    def lowest(cpu):
        return host.check_output(f"cat {CPUFREQ}/policy{cpu}/scaling_min_freq").strip()

    assert [lowest(cpu) for cpu in (0, 1, 9)] == ["1500000", "1500000", "2250000"]  # only the last is of verify
