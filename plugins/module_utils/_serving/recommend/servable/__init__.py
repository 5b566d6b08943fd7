# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which models of the catalogue a host can serve, how fast, and for how many users."""
