# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The version of the collection, for the host tool, which has no galaxy.yml; a gate compares both."""

from __future__ import annotations

VERSION = "1.0.0"
