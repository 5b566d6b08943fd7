# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of an instance: names, defaults, limits, what excludes each other, and the names of its units."""
