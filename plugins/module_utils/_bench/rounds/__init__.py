# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arms and rounds of a run: their plan, the levels of each arm in each round, and why rounds are discarded."""
