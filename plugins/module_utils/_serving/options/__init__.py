# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance: their names, defaults, limits and conflicts, and the names of its units."""
