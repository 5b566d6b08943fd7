# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The recommended variables of a host except for its instances, each with its reason and its cost."""

from __future__ import annotations

from ..._errors import BadRequest
from ..._host.host import Host
from ..._host.housekeeping import FEWEST_CORES, default_housekeeping_share
from ..._host.node_memory import list_odd_node_remarks
from ..._host.topology import format_domain_counts_by_l3_size
from ..._knobs.boot import bootloader
from ..._notation.cache_masks import count_ways
from ..._notation.sizes import format_bytes, format_bytes_short
from .variables_file import Variable, format_count_with_noun

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
#: The percentage of each L3 domain that is reserved for the cores that compute.
L3_PERCENT = 75
FULL_SPEED = {"governor": "performance", "boost": True}


def make_recommended_host(fs: KernelFS) -> Host:
    """Return the host with the recommended intent, which reserves shares of L3 only where the host can."""
    with_share = Host(fs, build_recommended_intent(Host(fs), True))
    return Host(fs, build_recommended_intent(with_share, False)) if "cat" in with_share.plan.cannot else with_share


def build_recommended_intent(host: Host, reserve_l3_shares: bool) -> dict[str, dict[str, Any]]:
    """Return the recommended intent: some cores for housekeeping, all others for models, with or without L3 shares."""
    return {
        "housekeeping": default_housekeeping_share(host.topology).to_option(),
        "draft": {},
        "verify": {"l3": f"{L3_PERCENT}%"} if reserve_l3_shares else {},
        "default": {},
    }


def describe_host(host: Host, available_bytes: int) -> str:
    """Return a line that describes the CPUs, the L3 caches and the memory of a host, and its odd nodes."""
    top = host.topology
    places = ((top.sockets, "socket"), (top.nodes, "node"), (top.cores, "core"), (top.ccds, "CCD"))
    parts = [format_count_with_noun(len(members), name) for members, name in places]
    memory = sum(node.bytes for node in top.nodes)
    return (
        f"Host: {top.model}, {', '.join(parts)}, L3 {format_domain_counts_by_l3_size(top.l3) or 'unknown'}, "
        f"{format_bytes_short(memory)} of memory, {format_bytes_short(available_bytes)} of it available."
        f"{''.join(f' {remark}' for remark in list_odd_node_remarks(top))}"
    )


def recommend_host_variables(host: Host, uses_huge_pages: bool) -> list[Variable]:
    """Return the recommended variables; ``uses_huge_pages`` is True where the instances use transparent huge pages."""
    top, intent = host.topology, host.intent
    cannot = _impossible_layer_reasons(host)
    sku = [
        Variable("epyc_plan_sku", top.sku, "Refuses a host of another SKU before anything is changed. Costs nothing.")
    ]
    return [
        *(sku if top.sku else []),
        *([_build_epyc_steps_variable(cannot)] if cannot else []),
        Variable(
            "epyc_plan_housekeeping",
            intent["housekeeping"],
            _housekeeping_reason(host),
        ),
        Variable(
            "epyc_plan_draft",
            {},
            "No CPUs for a draft only: draft and verification take turns, and each uses all cores. Costs nothing.",
        ),
        Variable("epyc_plan_verify", intent["verify"], _reason_for_role_verify(host)),
        Variable("epyc_plan_default", {}, "All other programs have the L3 ways that are left over. Costs nothing."),
        Variable(
            "epyc_numa_balancing",
            False,
            "The kernel does not move memory after threads, because instances bind both. Costs nothing.",
        ),
        Variable(
            "epyc_numa_thp",
            "madvise",
            "Huge pages for programs that ask for them"
            f"{', as the instances below do' if uses_huge_pages else ''}. "
            "Costs the kernel some time when such a program starts.",
        ),
        Variable(
            "epyc_numa_hugepages",
            [],
            "No pool: it would cost its whole size, used or not, and the weights need none. Costs nothing.",
        ),
        *([] if "grub_params" in cannot else [ISOLATION_VARIABLE]),
        *_frequency_variables(host),
        *(
            Variable(
                f"epyc_prefetch_{role}",
                {},
                "Nothing is known to be gained by other prefetchers, and to switch them taints the kernel. "
                "Costs nothing.",
            )
            for role in ("draft", "verify")
        ),
    ]


ISOLATION_VARIABLE = Variable(
    "epyc_grub_params_isolation",
    "safe",
    "Keeps timer ticks, RCU work and device interrupts off the cores that compute. Costs a reboot, unless these boot "
    "parameters are in force, and dearer system calls on these cores.",
)


def _housekeeping_reason(host: Host) -> str:
    cores = host.topology.cores
    if not host.plan.housekeeping:
        return (
            "No core is kept for the operating system, because a core is a large part of this host. Costs threads that "
            "compute some interruptions."
        )
    count = sum(1 for core in cores if set(core).intersection(host.plan.housekeeping))
    per = host.intent["housekeeping"]["per"]
    place = f"on each {per}" if per != "host" else "once"
    return (
        f"For the operating system, interrupts and HTTP threads, {place}, so that they disturb no thread that "
        f"computes. Costs {count} of {len(cores)} cores."
    )


def _impossible_layer_reasons(host: Host) -> dict[str, str]:
    """Return the reason for each layer of site.yml that is impossible or without effect on this host, by layer."""
    cannot: dict[str, str] = {}
    if not host.plan.housekeeping:
        reason = f"a host with fewer than {FEWEST_CORES} cores keeps none for the operating system."
        cannot.update(grub_params=reason, irq=reason)
    if not host.intent["verify"]:
        cannot["cat"] = Host(host.fs, build_recommended_intent(host, True)).plan.cannot["cat"]
    try:
        bootloader.find_boot_loader(host.fs)
    except BadRequest as error:
        cannot["grub_params"] = str(error)
    return cannot


def _build_epyc_steps_variable(cannot: Mapping[str, str]) -> Variable:
    reasons = " ".join(f"Without {layer}: {reason}" for layer, reason in cannot.items())
    steps: list[object] = [layer for layer in LAYERS if layer not in cannot]
    return Variable("epyc_steps", steps, f"{reasons} Costs what these layers would gain.")


def _reason_for_role_verify(host: Host) -> str:
    top = host.topology
    if not host.intent["verify"]:
        return "All other cores compute. They have no share of L3, which this host cannot reserve. Costs nothing."
    smallest = min(domain.bytes for domain in top.l3)
    mask = top.resctrl.cbm_mask if top.resctrl else None
    ways = (
        f"{-(-count_ways(mask) * L3_PERCENT // 100)} of {count_ways(mask)} ways"
        if mask
        else f"{L3_PERCENT} percent of the ways"
    )
    size = f", {format_bytes(smallest * L3_PERCENT // 100)} of {format_bytes(smallest)}," if mask and smallest else ""
    return (
        f"All other cores compute, and they alone fill {ways}{size} of each L3 domain, so that nothing else drives "
        "weights out of it. Costs other programs these ways."
    )


def _frequency_variables(host: Host) -> list[Variable]:
    driver = host.topology.cpufreq_driver
    reason = "Full speed. Costs the power for full speed."
    if not driver:
        reason = "No setting, because no cpufreq driver is bound here. Costs nothing."
    return [
        Variable(f"epyc_cpufreq_{role}", dict(FULL_SPEED) if driver else {}, reason)
        for role in ("draft", "verify", "housekeeping")
    ]
