# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIOS settings that change a virtual EPYC: at the next boot, QEMU gets another machine of the same shape.

`nps` (nodes of a socket), `l3_as_numa`, `smt`, `boost`, and of cores `cores_per_l3`, `cores_per_socket` and
`l3_domains`, for which None and 0 mean all. `iommu` is accepted and changes nothing: Linux 6.12 needs CMPXCHG16B for an
IOMMU, and the lab hides that instruction from the kernel (kernel_patch.py has the reason).

`dimms` is hardware that no BMC sets: how many memory modules are plugged in, in slots for each of the channels. A
machine without this setting shows one module without a speed. `boot_partition` is a second disk, and `uefi` starts the
machine from that, which a guest must have filled before; no BMC sets them either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import VepycError
from .shapes import Shape

HARDWARE_KNOBS = ("dimms", "boot_partition", "uefi")
KNOBS = (
    "nps",
    "l3_as_numa",
    "smt",
    "boost",
    "iommu",
    "cores_per_l3",
    "cores_per_socket",
    "l3_domains",
    *HARDWARE_KNOBS,
)


def bios_settings_of_shape(shape: Shape) -> dict[str, Any]:
    """Return the BIOS settings of a machine of this shape that nobody has changed."""
    return {
        "nps": shape.nodes // shape.sockets,
        "l3_as_numa": shape.l3_as_numa,
        "smt": shape.threads > 1,
        "boost": shape.boost,
        "iommu": False,
    }


def apply_bios_settings(shape: Shape, settings: Mapping[str, Any]) -> Shape:
    """Return the shape of a machine after a boot with these settings. An impossible NPS becomes 1, as on a board."""
    if unknown := settings.keys() - set(KNOBS):
        raise VepycError(f"there is no BIOS setting {min(unknown)!r}; the settings are {', '.join(KNOBS)}")
    wanted = {**bios_settings_of_shape(shape), **settings}
    domains = min(wanted.get("l3_domains") or shape.l3_domains, shape.l3_domains)
    cores = wanted.get("cores_per_l3") or shape.cores_per_l3
    if total := wanted.get("cores_per_socket"):
        cores = total // domains
    cores = max(1, min(cores, shape.cores_per_l3))
    nps = wanted["nps"] if wanted["nps"] in (1, 2, 4) and domains % wanted["nps"] == 0 else 1
    dimms, slots = wanted.get("dimms", shape.dimms), shape.channels * shape.sockets
    if dimms is not None and not 1 <= dimms <= slots:
        raise VepycError(f"this machine has slots for 1 to {slots} memory modules, and not for {dimms}")
    per_socket = domains if wanted["l3_as_numa"] else nps
    return replace(
        shape,
        l3_domains=domains,
        cores_per_l3=cores,
        threads=2 if wanted["smt"] else 1,
        nodes=per_socket * shape.sockets,
        l3_as_numa=wanted["l3_as_numa"],
        boost=wanted["boost"],
        dimms=dimms,
        boot_partition=wanted.get("boot_partition", False),
        uefi=wanted.get("uefi", False),
    )
