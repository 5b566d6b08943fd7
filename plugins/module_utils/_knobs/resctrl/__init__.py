# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""L3 cache allocation and memory bandwidth limits through resctrl."""
