# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That what the checklist calls fine is what the host itself shows."""

from __future__ import annotations


def test_partition(host):
    assert "L3:0=000f;" in host.check_output("grep L3: /sys/fs/resctrl/draft/schemata")


def test_own_check_of_the_host(host):
    assert host.run("sovereign-epyc check").rc == 0
