# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIOS settings that a virtual EPYC really has: each makes another machine of its shape at the next boot.

`nps` (nodes of a socket), `l3_as_numa`, `smt`, `boost`, and of cores `cores_per_l3`, `cores_per_socket` and
`l3_domains`, for which None and 0 mean all. `iommu` is taken and changes nothing: Linux 6.12 wants CMPXCHG16B for an
IOMMU, and the lab hides that instruction from the kernel (patch.py says why).

And `dimms`, which somebody plugs in, whatever a BMC says: how many memory modules the machine has, in slots for each of
its channels. A machine without it shows one module without a speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import VepycError
from .shapes import Shape

HARDWARE_KNOBS = ("dimms",)
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
    """What a machine of this shape is set to before anybody changes it."""
    return {
        "nps": shape.nodes // shape.sockets,
        "l3_as_numa": shape.l3_as_numa,
        "smt": shape.threads > 1,
        "boost": shape.boost,
        "iommu": False,
    }


def apply_bios_settings(shape: Shape, settings: Mapping[str, Any]) -> Shape:
    """The machine that these settings make of this shape. What is impossible falls back to NPS1, as boards do it."""
    if unknown := settings.keys() - set(KNOBS):
        raise VepycError(f"there is no BIOS setting {min(unknown)!r}; the settings are {', '.join(KNOBS)}")
    asked = {**bios_settings_of_shape(shape), **settings}
    domains = min(asked.get("l3_domains") or shape.l3_domains, shape.l3_domains)
    cores = asked.get("cores_per_l3") or shape.cores_per_l3
    if total := asked.get("cores_per_socket"):
        cores = total // domains
    cores = max(1, min(cores, shape.cores_per_l3))
    nps = asked["nps"] if asked["nps"] in (1, 2, 4) and domains % asked["nps"] == 0 else 1
    dimms, slots = asked.get("dimms", shape.dimms), shape.channels * shape.sockets
    if dimms is not None and not 1 <= dimms <= slots:
        raise VepycError(f"this machine has slots for 1 to {slots} memory modules, and not for {dimms}")
    per_socket = domains if asked["l3_as_numa"] else nps
    return replace(
        shape,
        l3_domains=domains,
        cores_per_l3=cores,
        threads=2 if asked["smt"] else 1,
        nodes=per_socket * shape.sockets,
        l3_as_numa=asked["l3_as_numa"],
        boost=asked["boost"],
        dimms=dimms,
    )
