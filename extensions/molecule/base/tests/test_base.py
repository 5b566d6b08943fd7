# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the host itself could make its settings again."""

from __future__ import annotations


def test_services(host):
    assert host.service("sovereign-epyc").is_enabled
    assert host.service("sovereign-epyc").is_valid
    assert host.service("sovereign-epyc-watch").is_enabled
    assert host.service("sovereign-epyc-watch").is_running


def test_command(host):
    assert "who" in host.check_output("sovereign-epyc plan")
