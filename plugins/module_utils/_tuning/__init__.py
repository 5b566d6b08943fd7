# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tunings: find the options with which an instance is fastest on this host, and prove their gain."""
