# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits beyond which a round is discarded and their messages, and how many discarded rounds end a run."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: CPU time of other programs on the cores or the nodes of an instance, as a share of the time of these CPUs.
MAX_OTHER_CPU_SHARE = 0.02
#: CPU time that the hypervisor gave to other guests, as a share of the time in which this guest had work.
MAX_STEAL_SHARE = 0.005
#: Memory of the service on other nodes than planned, as a share of all memory of the service.
MAX_MISPLACED_SHARE = 0.01
#: Change of the anchor from one round to the next, as a natural logarithm: a drift of the machine is slower than this.
MAX_ANCHOR_JUMP = math.log(1.1)
#: After this many discarded rounds in a row a run gives up, because the disturbance does not end.
MAX_DISCARDED_IN_A_ROW = 10


def disturbance_messages(witness: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each share of the recorded activity of a host that is above its limit."""
    messages = []
    others, steal = witness["others"], witness["steal"]
    if others is not None and others > MAX_OTHER_CPU_SHARE:
        named = ", ".join(f"{unit['unit']} {unit['share']:.1%}" for unit in witness.get("busiest") or ())
        messages.append(
            f"Other programs took {others:.1%} of the time of the instance's CPUs, above {MAX_OTHER_CPU_SHARE:.1%}"
            f"{f'; the busiest: {named}' if named else ''}."
        )
    if steal is not None and steal > MAX_STEAL_SHARE:
        messages.append(f"The hypervisor took {steal:.1%} of the CPU time, above {MAX_STEAL_SHARE:.1%}.")
    return messages
