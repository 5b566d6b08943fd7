# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measuring what an instance of llama-server does, and which settings make it faster."""
