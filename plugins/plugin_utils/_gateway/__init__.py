# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the gateways need to know of the hosts behind them and of each other."""
