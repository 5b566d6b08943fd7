# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The items of the checklist on the memory of a host: its bandwidth, compared with modules and CCDs, and what is left
of it beside huge pages.
"""

from __future__ import annotations

from .._host.memory_channels import LEAST_SHARE
from .._host.memory_speed import MEASURE_COMMAND
from .._kernel.hugepages import read_host_memory
from .._notation.sizes import format_bytes_short
from .checklist_items import NOT_CONFIGURED, OK, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._drift.metrics import Sample
    from .._host.memory_speed import MemorySpeed
    from .._io.kernelfs import KernelFS

NAME, TITLE = "memory_bandwidth", "memory bandwidth"
#: The available bytes, and the part of all memory, of which the smaller must be left beside huge pages.
LEAST_LEFT_BYTES, LEAST_LEFT_PART = 512 << 20, 32
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


def list_items_on_memory_beside_huge_pages(fs: KernelFS) -> list[Item]:
    """Return an item on the memory that is left to the system beside huge pages; an empty list without such pages."""
    memory = read_host_memory(fs)
    if memory is None or not memory.huge_pages:
        return []
    name, title = "memory_left", "memory beside huge pages"
    least = min(LEAST_LEFT_BYTES, memory.total // LEAST_LEFT_PART)
    available = format_bytes_short(memory.available)
    sentence = (
        f"{available} of {format_bytes_short(memory.total)} are available to the system beside "
        f"{format_bytes_short(memory.huge_pages)} of huge pages."
    )
    if memory.available >= least:
        return [Item(name, title, OK, sentence, None, available)]
    advice = (
        "The kernel may end services, or fail to boot, for want of memory. Ask for fewer huge pages "
        "(epyc_numa_hugepages, epyc_grub_params_hugepages)."
    )
    return [Item(name, title, WRONG, f"{sentence} {advice}", f"{format_bytes_short(least)} or more", available)]
