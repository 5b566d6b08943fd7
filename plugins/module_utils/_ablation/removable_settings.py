# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The settings of a host that an ablation can remove: all settings whose value differs from the original."""

from __future__ import annotations

from .._bench.rounds import schedule
from .._drift.judge import judge_requests, waits_for_reboot
from .._drift.verdict import is_single_setting
from .._errors import BadRequest
from .._knobs.catalogue import REBOOT, find_knob_row
from .._knobs.protocol.ledger import Ledger
from .._knobs.protocol.stored_requests import load_stored_requests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._host.host import Host
    from .._io.store import Store

NEEDS_REBOOT = "it needs a reboot"


def list_removable_settings(
    host: Host, store: Store, reboots: bool = False
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the removable settings for build_ablation_arms, and by name why other settings are not tested.

    With ``reboots``, boot parameters are removable too. BadRequest where the host has drifted from its stored requests,
    because the run would not measure the stored settings then.
    """
    originals = Ledger(store, host.fs).load_originals()
    removable: dict[str, dict[str, Any]] = {}
    untested: dict[str, str] = {}
    for verdict in judge_requests(host, store, load_stored_requests(store)[1]):
        row = find_knob_row(verdict.address)
        if not verdict.is_clean and not waits_for_reboot(verdict) and verdict.supported:
            reason = verdict.reason or f"it is {verdict.found}, and should be {verdict.wanted}"
            raise BadRequest(f"This host is not as it was configured: {verdict.address}: {reason}. Run site.yml first.")
        if row is None or not is_single_setting(verdict.address) or verdict.address not in originals:
            continue
        original = originals[verdict.address]
        if original == verdict.wanted:
            continue
        rest = verdict.address.partition(":")[2]
        when = row.when_takes_effect(rest)
        # Each boot parameter has an arm of its own, because a boot without one takes as long as a boot without all.
        name = rest if row.needs_reboot else row.ablation_name(rest)
        if when == REBOOT and not (reboots and row.needs_reboot):
            untested[name] = NEEDS_REBOOT
            continue
        if when == REBOOT and waits_for_reboot(verdict):
            raise BadRequest(
                f"{verdict.address} waits for a reboot, and the tuned state is not there to compare with: run "
                "reboot.yml first."
            )
        setting = removable.setdefault(name, {"name": name, "class": when, "settings": {}, "arguments": []})
        setting["settings"][verdict.address] = original
        # Addresses with one name are removed together, so the address with the most expensive class decides.
        setting["class"] = max(setting["class"], when, key=list(schedule.REPETITIONS).index)
    return list(removable.values()), untested
