# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Roles that are without CPUs because these are offline. All settings are as planned then, and the plan is smaller."""

from __future__ import annotations

from .._errors import TuningError
from .._notation import cpulist
from .verdict import DRIFT, OK, Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._host.host import Host

#: The prefix of the CPUs that a role has.
PLAN = "plan"


def away(host: Host) -> list[Verdict]:
    """Return a verdict on each role that is without CPUs."""
    try:
        meant = host.plan.meant if host.topology.offline else {}
    except TuningError:
        return []  # The requests that need the plan report what is wrong with it.
    verdicts = []
    for role, cpus in meant.items():
        verdict = Verdict("", f"{PLAN}:{role}", cpulist.render(cpus))
        verdict.found, verdict.at_boot = cpulist.render(getattr(host.plan, role)), verdict.wanted
        verdict.live, verdict.persistent = DRIFT, OK
        verdict.reason = next(remark for remark in host.plan.remarks if remark.startswith(f"{role} is without CPU"))
        verdicts.append(verdict)
    return verdicts
