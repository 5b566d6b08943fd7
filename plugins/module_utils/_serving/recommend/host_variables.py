# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of a host beside its instances, each with its reason and its cost, and the intent of them."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.host import Host
from ..._host.plan import MOST_NODES
from ..._host.topology import format_l3_sizes
from ..._knobs.boot import bootloader
from ..._notation.cache_masks import count_ways
from ..._notation.sizes import format_bytes, format_bytes_short
from .variables_file import Line, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._io.kernelfs import KernelFS

#: The layers of site.yml in their order.
LAYERS = (
    *("prerequisites", "base", "bios", "bios_check", "numa", "grub_params"),
    *("irq", "cat", "cpufreq", "cpuidle", "prefetch", "llama"),
)
#: How much of each L3 domain the cores that compute have for themselves.
SHARE = 75
FULL_SPEED = {"governor": "performance", "boost": True}


def intended(fs: KernelFS) -> Host:
    """Return the host under the recommended intent; where L3 shares cannot be had, without them."""
    with_share = Host(fs, intent_of(Host(fs), True))
    return Host(fs, intent_of(with_share, False)) if "cat" in with_share.plan.cannot else with_share


def intent_of(host: Host, share: bool) -> dict[str, dict[str, Any]]:
    """Return the intent: cores for the operating system, and all others for the models."""
    top = host.topology
    nodes = [node for node in top.nodes if node.cpus]
    # Where the BIOS makes each L3 domain a node, a core of each node would be a large part of the host.
    many = len(nodes) > MOST_NODES * len(top.sockets)
    return {
        "housekeeping": {"cores": MOST_NODES, "per": "socket"} if many else {"cores": 1, "per": "node"},
        "draft": {},
        "verify": {"l3": f"{SHARE}%"} if share else {},
        "default": {},
    }


def describe(host: Host, available: int) -> str:
    """Return what the host is, in one line."""
    top = host.topology
    places = ((top.sockets, "socket"), (top.nodes, "node"), (top.cores, "core"), (top.ccds, "CCD"))
    parts = [counted(len(members), name) for members, name in places]
    memory = sum(node.bytes for node in top.nodes)
    return (
        f"Host: {top.model}, {', '.join(parts)}, L3 {format_l3_sizes(top.l3) or 'unknown'}, "
        f"{format_bytes_short(memory)} of memory, {format_bytes_short(available)} of it available."
    )


def lines(host: Host, huge: bool) -> list[Line]:
    """Return the variables; ``huge`` is whether instances ask for transparent huge pages."""
    top, intent = host.topology, host.intent
    kept = sum(1 for core in top.cores if set(core).intersection(host.plan.housekeeping))
    per = intent["housekeeping"]["per"]
    cannot = _impossible(host)
    sku = [Line("plan_sku", top.sku, "Refuses a host of another SKU before anything is changed. Costs nothing.")]
    return [
        *(sku if top.sku else []),
        *([_steps(cannot)] if cannot else []),
        Line(
            "plan_housekeeping",
            intent["housekeeping"],
            f"For the operating system, interrupts and HTTP threads, on each {per}, so that they disturb no thread "
            f"that computes. Costs {kept} of {len(top.cores)} cores.",
        ),
        Line(
            "plan_draft",
            {},
            "No CPUs for a draft alone: draft and verification take turns, and each uses all cores. Costs nothing.",
        ),
        Line("plan_verify", intent["verify"], _verify(host)),
        Line("plan_default", {}, "All other programs have the L3 ways that are left over. Costs nothing."),
        Line(
            "numa_balancing",
            False,
            "The kernel does not move memory after threads, because instances bind both. Costs nothing.",
        ),
        Line(
            "numa_thp",
            "madvise",
            "Huge pages for programs that ask for them"
            f"{', as the instances below do' if huge else ''}. Costs the kernel some time when such a program starts.",
        ),
        Line(
            "numa_hugepages",
            [],
            "No pool: it would cost its whole size, used or not, and the weights need none. Costs nothing.",
        ),
        *([] if "grub_params" in cannot else [_ISOLATION]),
        *_frequencies(host),
        *(
            Line(
                f"prefetch_{role}",
                {},
                "Nothing is known to be gained by other prefetchers, and to switch them taints the kernel. "
                "Costs nothing.",
            )
            for role in ("draft", "verify")
        ),
    ]


_ISOLATION = Line(
    "grub_params_isolation",
    "safe",
    "Keeps timer ticks, RCU work and device interrupts off the cores that compute. Costs a reboot, unless these boot "
    "parameters are in force, and dearer system calls on these cores.",
)


def _impossible(host: Host) -> dict[str, str]:
    """Return the layers that would refuse this host whatever is asked of them, with the reasons."""
    cannot = {}
    if not host.intent["verify"]:
        cannot["cat"] = Host(host.fs, intent_of(host, True)).plan.cannot["cat"]
    try:
        bootloader.find_boot_loader(host.fs)
    except BadRequest as error:
        cannot["grub_params"] = str(error)
    return cannot


def _steps(cannot: Mapping[str, str]) -> Line:
    reasons = " ".join(f"Without {layer}: {reason}" for layer, reason in cannot.items())
    steps: list[object] = [layer for layer in LAYERS if layer not in cannot]
    return Line("epyc_steps", steps, f"{reasons} Costs what these layers would gain.")


def _verify(host: Host) -> str:
    top = host.topology
    if not host.intent["verify"]:
        return "All other cores compute. They have no share of L3, which this host cannot reserve. Costs nothing."
    smallest = min(domain.bytes for domain in top.l3)
    mask = top.resctrl.cbm_mask if top.resctrl else None
    ways = (
        f"{-(-count_ways(mask) * SHARE // 100)} of {count_ways(mask)} ways" if mask else f"{SHARE} percent of the ways"
    )
    size = f", {format_bytes(smallest * SHARE // 100)} of {format_bytes(smallest)}," if mask and smallest else ""
    return (
        f"All other cores compute, and they alone fill {ways}{size} of each L3 domain, so that nothing else drives "
        "weights out of it. Costs other programs these ways."
    )


def _frequencies(host: Host) -> list[Line]:
    driver = host.topology.cpufreq_driver
    why = "Full speed. Costs the power of it."
    if not driver:
        why = "Left alone, because no cpufreq driver is bound here. Costs nothing."
    return [
        Line(f"cpufreq_{role}", dict(FULL_SPEED) if driver else {}, why) for role in ("draft", "verify", "housekeeping")
    ]
