# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines of which only the data sheet is known here, for the question what one more host would add.

Source: AMD's data sheets; for the sixth generation the list of SKUs that StorageReview and Tom's Hardware published in
September 2026. Nobody has published a measurement of it. AMD says that a CCD has 32 cores and 128 MiB of L3 there; how
many CCDs the SKUs of fewer cores have is computed from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_channels import (
    ccd_gbps,
    find_socket_memory,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import PAPER, USUAL_SHARE
from ansible_collections.sovereign.epyc.plugins.module_utils._host.topology import Topology
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.prediction.step_floor import (
    Processor,
    find_core_speed,
)
from ansible_collections.sovereign.epyc.plugins.plugin_utils._capacity.machine import Machine, MachineSocket

if TYPE_CHECKING:
    from collections.abc import Iterator

GIB = 1 << 30
#: The largest SKU of the sixth generation.
SIXTH_GENERATION = "9996"
#: SKU -> CPU family, model number, cores, CCDs and channels of a socket, and its watts (TDP), None where not public.
DATA_SHEETS: dict[str, tuple[int, int, int, int, int, int | None]] = {
    "7601": (23, 0x01, 32, 4, 8, 180),
    "7742": (23, 0x31, 64, 8, 8, 225),
    "7543": (25, 0x01, 32, 8, 8, 225),
    "9124": (25, 0x11, 16, 4, 12, 200),
    "9354": (25, 0x11, 32, 8, 12, 280),
    "9554": (25, 0x11, 64, 8, 12, 360),
    "9654": (25, 0x11, 96, 12, 12, 360),
    "9754": (25, 0xA0, 128, 8, 12, 360),
    "9175F": (26, 0x02, 16, 16, 12, 320),
    "9355": (26, 0x02, 32, 8, 12, 280),
    "9655": (26, 0x02, 96, 12, 12, 400),
    "9755": (26, 0x02, 128, 16, 12, 500),
    "9965": (26, 0x11, 192, 12, 12, 500),
    "9656": (26, 0x50, 96, 4, 16, 400),
    "9756": (26, 0x50, 128, 4, 16, 500),
    "9966": (26, 0x50, 192, 6, 16, 600),
    "9996": (26, 0x50, 256, 8, 16, 600),
}
#: The memory module in each channel of a machine on paper.
MODULE_BYTES = 64 * GIB
#: Machines that can be bought, and the sixth generation: SKU and sockets.
MACHINES = (("9355", 1), ("9655", 1), ("9965", 1), ("9755", 2), (SIXTH_GENERATION, 1))


def processor_watts(sku: str, sockets: int) -> float | None:
    """Return the watts (TDP) of all processors of a host by the data sheet; None for an unknown SKU."""
    watts = DATA_SHEETS[sku][-1] if sku in DATA_SHEETS else None
    return None if watts is None else float(watts * sockets)


def list_data_sheet_machines() -> Iterator[Machine]:
    """Yield the machines that one more host could be, each with a module of 64 GiB in each channel."""
    for sku, sockets in MACHINES:
        yield build_data_sheet_machine(sku, sockets)


def build_data_sheet_machine(sku: str, sockets: int) -> Machine:
    """Return a machine by the data sheet of its SKU, with the usual share of its bandwidth."""
    family, model_number, cores, ccds, channels, dummy = DATA_SHEETS[sku]
    top = Topology()
    top.vendor, top.family, top.model_number, top.sku = "AuthenticAMD", family, model_number, sku
    top.ccds, top.sockets = [[] for dummy in range(ccds)], {0: ()}
    top.cores = tuple((core,) for core in range(cores))
    memory, link = find_socket_memory(top), ccd_gbps(top)
    if memory is None:
        raise LookupError(f"The SKU {sku} is of a CPU whose memory is not known.")
    gbps = USUAL_SHARE * (min(memory.gbps, ccds * link) if link else memory.gbps)
    processor = Processor(cores, cores, 1, find_core_speed(family, model_number))
    name = f"{'' if sockets == 1 else f'{sockets} x '}{sku}{' (paper)' if memory.is_paper else ''}"
    parts = [MachineSocket(channels * MODULE_BYTES, ccds, processor, gbps, PAPER) for dummy in range(sockets)]
    note = f"{channels * sockets} modules of {MODULE_BYTES // GIB} GiB"
    return Machine(name, parts, processor_watts(sku, sockets), note)
