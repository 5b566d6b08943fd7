# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which CPUs interrupts go to, and the daemon irqbalance."""
