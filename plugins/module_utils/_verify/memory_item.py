# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The item of the checklist on the memory bandwidth of a host: measured, and compared with modules and CCDs."""

from __future__ import annotations

from .._host.memory_channels import LEAST_SHARE
from .._host.memory_speed import MEASURE_COMMAND
from .checklist_items import NOT_CONFIGURED, OK, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._drift.metrics import Sample
    from .._host.memory_speed import MemorySpeed

NAME, TITLE = "memory_bandwidth", "memory bandwidth"
METRIC = "sovereign_epyc_memory_bandwidth_share"
HELP = {METRIC: "The measured memory bandwidth over what the memory modules and the CCDs allow; below 0.6 is a fault."}


def memory_bandwidth_metric(speed: MemorySpeed) -> dict[str, list[Sample]]:
    """Return the samples by name of the metric; empty where nothing was measured."""
    return (
        {}
        if speed.share_of_theoretical_bandwidth is None
        else {METRIC: [({}, round(speed.share_of_theoretical_bandwidth, 3))]}
    )


def build_memory_item(speed: MemorySpeed, is_judged: bool = True) -> Item:
    """Return the item; it is wrong where the host loses so much bandwidth that tuning it is of little use.

    An item that is not judged only reports that.
    """
    faults = " ".join(speed.faults)
    expected = None if speed.theoretical_gbps is None else f"{LEAST_SHARE * speed.theoretical_gbps:.0f} GB/s"
    measured = None if speed.measured_gbps is None else f"{speed.measured_gbps:.0f} GB/s"
    if speed.is_slow:
        return Item(NAME, TITLE, WRONG if is_judged else NOT_CONFIGURED, faults, expected, measured)
    if speed.share_of_theoretical_bandwidth is None:
        sentence = speed.stale_reason or f"It was not measured on this host. {MEASURE_COMMAND} measures it in seconds."
        return Item(NAME, TITLE, NOT_CONFIGURED, " ".join(filter(None, [faults, sentence])), None, None)
    share = f"{speed.share_of_theoretical_bandwidth:.0%} of {speed.theoretical_gbps:.0f} GB/s"
    sentence = f"{share} were measured at {speed.measured_at}."
    return Item(NAME, TITLE, OK, " ".join(filter(None, [sentence, faults])), expected, measured)
