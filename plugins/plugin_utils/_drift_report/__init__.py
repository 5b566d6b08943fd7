# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drift report of a fleet: gathered from the results of tasks, and rendered in each of its formats."""
