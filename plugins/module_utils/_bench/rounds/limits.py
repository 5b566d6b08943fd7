# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits beyond which a round is discarded, and the number of discarded rounds after which a run gives up."""

from __future__ import annotations

import math

#: CPU time of other programs as a share of the CPU time of the service.
MAX_OTHER_CPU_SHARE = 0.02
#: CPU time that the hypervisor gave to other guests, as a share of the time in which this guest had work.
MAX_STEAL_SHARE = 0.005
#: Memory of the service on other nodes than planned, as a share of all memory of the service.
MAX_MISPLACED_SHARE = 0.01
#: Change of the anchor from one round to the next, as a natural logarithm: a drift of the machine is slower than this.
MAX_ANCHOR_JUMP = math.log(1.1)
#: After this many discarded rounds in a row a run gives up, because the disturbance does not end.
MAX_DISCARDED_IN_A_ROW = 10
