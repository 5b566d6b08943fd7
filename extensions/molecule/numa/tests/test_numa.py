# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself says of its memory."""

from __future__ import annotations


def read(host, path):
    return host.check_output(f"cat {path}").strip()


def test_memory(host):
    assert read(host, "/proc/sys/kernel/numa_balancing") == "0"
    assert read(host, "/sys/kernel/mm/transparent_hugepage/enabled") == "always [madvise] never"
    pools = read(host, "/sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages")
    assert pools.split() == ["8"] * 4
