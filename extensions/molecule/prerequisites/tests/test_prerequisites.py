# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host itself has of what tuning needs."""

from __future__ import annotations


def test_drivers(host):
    file = host.file("/etc/modules-load.d/sovereign-epyc.conf")
    assert (file.user, file.group, file.mode) == ("root", "root", 0o644)
    assert [line for line in file.content_string.splitlines() if not line.startswith("#")] == ["cpuid", "msr"]
    assert host.file("/dev/cpu/0/msr").exists
    assert host.file("/dev/cpu/0/cpuid").exists


def test_packages(host):
    assert host.package("numactl").is_installed
