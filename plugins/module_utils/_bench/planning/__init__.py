# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plans the time of a run: what starts and passes cost, which precision they buy, and what the given minutes settle."""
