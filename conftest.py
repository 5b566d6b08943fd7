# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the settings of a run of pytest are, and the fixtures that all tiers share."""

from __future__ import annotations

pytest_plugins = [
    # What tests start from, by the same names in all tiers.
    "tests.fixtures.guests",
    "tests.fixtures.containers",
    "tests.fixtures.gateways",
    "tests.fixtures.rolling",
    # Which tests a run has, in which order, and what it says of them.
    "tests.harness.selection",
    "tests.harness.order",
    "tests.harness.summary",
]
