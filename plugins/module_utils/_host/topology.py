# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The topology of a host: CPUs, L3 domains, CCDs, nodes and sockets, as its kernel shows them.

Everything is read from sysfs and /proc; nothing is computed from the name of the CPU model. A fact that could not be
read is None or empty, and ``missing`` has the reason. Ids of CPUs, nodes, sockets and L3 domains have gaps and change
between boots, so the largest id is no count.
Source: Documentation/ABI/testing/sysfs-devices-system-cpu and Documentation/admin-guide/cputopology.rst.
"""

from __future__ import annotations

from .._generations import GENERATIONS, find_row
from .._io.paths import NODES
from .._kernel import cpuid, lockdown, resctrl
from .._notation.cpulist import format_cpulist, parse_cpulist
from .._notation.sizes import UNITS, format_bytes
from . import ccds, firmware
from .ccds import L3Domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .._io.kernelfs import KernelFS

CPUS = "/sys/devices/system/cpu"


class Node:
    """A NUMA node, with its online CPUs; ``hugepages`` maps a page size in kB to (pages, free pages)."""

    def __init__(self, node_id: int, cpus: tuple[int, ...], size: int, hugepages: dict[int, tuple[int, int]]) -> None:
        self.id = node_id
        self.cpus = cpus
        self.bytes = size
        self.hugepages = hugepages


class Topology:
    """The facts about a host for the planner and the knobs.

    ``cores``, ``sockets``, ``nodes`` and ``l3`` have online CPUs only. ``present_cores``, ``domains`` and ``ccds`` have
    offline CPUs too, so that a CCD keeps its number when CPUs go offline.
    """

    def __init__(self) -> None:
        self.vendor = ""
        self.model = ""
        self.sku = ""
        self.family = 0
        self.model_number = 0
        self.stepping = 0
        self.flags: frozenset[str] = frozenset()
        self.kernel = ""
        self.online: tuple[int, ...] = ()
        self.offline: tuple[int, ...] = ()
        self.smt = ""
        self.cores: tuple[tuple[int, ...], ...] = ()
        self.present_cores: tuple[tuple[int, ...], ...] = ()
        self.sockets: dict[int, tuple[int, ...]] = {}
        self.nodes: list[Node] = []
        self.l3: list[L3Domain] = []
        self.domains: list[L3Domain] = []
        self.ccds: list[list[L3Domain]] = []
        self.ccd_source = ""
        self.cpufreq_driver: str | None = None
        #: Sentences on frequencies of the firmware that cannot be true, "" where all can be.
        self.frequency_fault = ""
        self.resctrl: resctrl.ResctrlFeatures | None = None
        self.prefetch_control: bool | None = None
        #: The reason why root cannot write registers, "" where root can write registers.
        self.registers_read_only = ""
        #: Capability that this host lacks, or that could not be read -> the reason.
        self.missing: dict[str, str] = {}

    @property
    def is_amd(self) -> bool:
        """Return whether the CPU is made by AMD, so that AMD's units and rules apply."""
        return self.vendor == "AuthenticAMD"

    def to_dict(self) -> dict[str, object]:
        """Return plain data for facts: sizes in bytes, CPUs in the kernel's list notation."""
        return {
            "vendor": self.vendor,
            "model": self.model,
            "sku": self.sku,
            "family": self.family,
            "model_number": self.model_number,
            "stepping": self.stepping,
            "kernel": self.kernel,
            "cpus": {"online": format_cpulist(self.online), "offline": format_cpulist(self.offline)},
            "smt": self.smt,
            "cores": len(self.cores),
            "sockets": {str(number): format_cpulist(cpus) for number, cpus in self.sockets.items()},
            "nodes": [
                {
                    "id": node.id,
                    "cpus": format_cpulist(node.cpus),
                    "bytes": node.bytes,
                    "hugepages": {
                        f"{size}kB": {"total": total, "free": free} for size, (total, free) in node.hugepages.items()
                    },
                }
                for node in self.nodes
            ],
            "l3": [
                {
                    "id": domain.id,
                    "bytes": domain.bytes,
                    "cpus": format_cpulist(domain.cpus),
                    "ccd": domain.ccd,
                    "node": domain.node,
                    "socket": domain.socket,
                }
                for domain in self.l3
            ],
            "ccds": [[domain.id for domain in ccd if domain.cpus] for ccd in self.ccds],
            "ccd_source": self.ccd_source,
            "cpufreq_driver": self.cpufreq_driver,
            "resctrl": self.resctrl.to_dict() if self.resctrl else None,
            "prefetch_control": self.prefetch_control,
            "missing": list(self.missing.values()),
        }


def read_topology(fs: KernelFS) -> Topology:
    """Return the topology of a host, from a few files for each L3 domain and node, not for each CPU."""
    top = Topology()
    _read_model_into_topology(fs, top)
    _read_cpus_into_topology(fs, top)
    _read_sockets_into_topology(fs, top)
    _read_nodes_into_topology(fs, top)
    _read_l3_domains_into_topology(fs, top)
    _add_offline_cpus_to_cores_and_domains(fs, top)
    _group_l3_domains_into_ccds(fs, top)
    _read_features_into_topology(fs, top)
    return top


def _read_model_into_topology(fs: KernelFS, top: Topology) -> None:
    # Only the first CPU's block is read, because on some kernels the whole file interrupts every CPU.
    block = fs.read("/proc/cpuinfo", limit=4096).split("\n\n")[0]
    fields = {}
    for line in block.splitlines():
        key, dummy, value = line.partition(":")
        fields[key.strip()] = value.strip()
    top.vendor = fields.get("vendor_id", "")
    top.model = fields.get("model name", "")
    top.sku = _parse_sku(top.model)
    top.family = int(fields.get("cpu family", 0))
    top.model_number = int(fields.get("model", 0))
    stepping = fields.get("stepping", "0")
    top.stepping = int(stepping) if stepping.isdecimal() else 0
    top.flags = frozenset(fields.get("flags", "").split())
    top.kernel = fs.read_if_present("/proc/sys/kernel/osrelease") or ""
    _add_missing_identity(top)
    if fs.read_if_present("/run/systemd/container") is not None:
        top.missing["kernel"] = "a kernel of its own: this is a container, and kernel settings belong to its host"


def _add_missing_identity(top: Topology) -> None:
    """Add to ``missing`` that the CPU is no EPYC, or an EPYC whose name has no SKU.

    Engineering samples are named "AMD Eng Sample: 100-000001045-02", and the CPUs of virtual machines "EPYC-Genoa
    Processor" or "AMD EPYC Processor".
    """
    is_sample = "Eng Sample" in top.model
    if not top.is_amd:
        top.missing["amd"] = f"an AMD CPU: this one is {top.vendor or 'unknown'} {top.model}".rstrip()
    elif "EPYC" not in top.model and not is_sample:
        top.missing["epyc"] = f"an EPYC: the CPU calls itself '{top.model}'"
    elif not top.sku:
        kind = "an engineering sample" if is_sample else "a virtual machine"
        generation = find_row(GENERATIONS, top.family, top.model_number)
        top.missing["sku"] = (
            f"the SKU: the CPU calls itself '{top.model}', as {kind} does. By CPUID family {top.family} model "
            f"{top.model_number} it is {generation[-1] if generation else 'of a generation that is not in our table'}"
        )


def _parse_sku(model_name: str) -> str:
    """Return the SKU in a model name, such as 9655P; empty for a name without a number, as QEMU's "EPYC Processor"."""
    words = model_name.partition("EPYC ")[2].split()
    return next((word for word in words if any(letter.isdigit() for letter in word) and "-" not in word), "")


def _read_cpus_into_topology(fs: KernelFS, top: Topology) -> None:
    top.online = parse_cpulist(fs.read(f"{CPUS}/online"))
    present = parse_cpulist(fs.read_if_present(f"{CPUS}/present") or fs.read(f"{CPUS}/online"))
    top.offline = tuple(sorted(set(present) - set(top.online)))
    if top.offline:
        top.missing["cpus"] = f"CPUs {format_cpulist(top.offline)}: they are offline"
    top.smt = fs.read_if_present(f"{CPUS}/smt/control") or "unknown"
    if fs.read_if_present(f"{CPUS}/smt/active") == "0":
        top.cores = tuple((cpu,) for cpu in top.online)
    else:
        top.cores = _group_cpus_by_sysfs_list(fs, top.online, "topology/thread_siblings_list")


def _group_cpus_by_sysfs_list(fs: KernelFS, cpus: Iterable[int], name: str) -> tuple[tuple[int, ...], ...]:
    """Return CPUs in groups; a file in the sysfs folder of a CPU lists its group, and is read once for each group."""
    remaining = set(cpus)
    groups = []
    while remaining:
        first = min(remaining)
        text = fs.read_if_present(f"{CPUS}/cpu{first}/{name}")
        group = tuple(cpu for cpu in parse_cpulist(text or str(first)) if cpu in remaining) or (first,)
        groups.append(group)
        remaining.difference_update(group)
    return tuple(groups)


def _read_number_of_cpu(fs: KernelFS, cpu: int, name: str) -> int | None:
    """Return a number from a file in a CPU's sysfs folder; None where the file is missing or holds -1 (unknown)."""
    text = fs.read_if_present(f"{CPUS}/cpu{cpu}/{name}")
    return int(text) if text is not None and text.isdecimal() else None


def _read_sockets_into_topology(fs: KernelFS, top: Topology) -> None:
    for cpus in _group_cpus_by_sysfs_list(fs, top.online, "topology/package_cpus_list"):
        number = _read_number_of_cpu(fs, cpus[0], "topology/physical_package_id") or 0
        top.sockets[number] = tuple(sorted((*top.sockets.get(number, ()), *cpus)))


def _read_nodes_into_topology(fs: KernelFS, top: Topology) -> None:
    names = [name for name in fs.list_names(NODES) if name.startswith("node") and name[4:].isdecimal()]
    for number in sorted(int(name[4:]) for name in names):
        folder = f"{NODES}/node{number}"
        pages = {}
        for pool in fs.list_names(f"{folder}/hugepages"):
            size = pool[len("hugepages-") : -len("kB")]
            total = fs.read_if_present(f"{folder}/hugepages/{pool}/nr_hugepages")
            free = fs.read_if_present(f"{folder}/hugepages/{pool}/free_hugepages")
            if size.isdecimal() and total and free:
                pages[int(size)] = (int(total), int(free))
        words = (fs.read_if_present(f"{folder}/meminfo") or "").split()
        memory = int(words[words.index("MemTotal:") + 1]) * UNITS["KiB"] if "MemTotal:" in words else 0
        top.nodes.append(Node(number, parse_cpulist(fs.read_if_present(f"{folder}/cpulist") or ""), memory, pages))
    if not top.nodes:
        top.missing["nodes"] = f"NUMA nodes: the kernel shows none in {NODES}; all memory counts as one node"
        top.nodes.append(Node(0, top.online, 0, {}))


def _read_l3_domains_into_topology(fs: KernelFS, top: Topology) -> None:
    index = _find_sysfs_index_of_l3(fs, top.online[0])
    if index is None:
        top.missing["l3"] = f"L3 domains: {CPUS}/cpu{top.online[0]}/cache shows no cache of level 3"
        return
    for cpus in _group_cpus_by_sysfs_list(fs, top.online, f"cache/{index}/shared_cpu_list"):
        size = fs.read_if_present(f"{CPUS}/cpu{cpus[0]}/cache/{index}/size") or "0K"
        domain = L3Domain(
            _read_number_of_cpu(fs, cpus[0], f"cache/{index}/id"), int(size.rstrip("K")) * UNITS["KiB"], cpus
        )
        domain.socket = next((n for n, members in top.sockets.items() if cpus[0] in members), None)
        domain.node = next((node.id for node in top.nodes if cpus[0] in node.cpus), None)
        top.l3.append(domain)
    reason = _unusable_l3_ids_reason(top.l3)
    if reason:
        top.missing["l3_ids"] = f"L3 domain ids: the kernel gives {reason}, so resctrl domains cannot be distinguished"
        for domain in top.l3:
            domain.id = None
    else:
        top.l3.sort(key=lambda domain: domain.id or 0)


def _unusable_l3_ids_reason(domains: Sequence[L3Domain]) -> str:
    """Return why the kernel's ids do not tell these domains apart, as in some virtual machines; "" where they do."""
    cpus_by_id: dict[int | None, list[str]] = {}
    for domain in domains:
        cpus_by_id.setdefault(domain.id, []).append(f"CPUs {format_cpulist(domain.cpus)}")
    if None in cpus_by_id:
        return "none"
    for number, cpus in cpus_by_id.items():
        if len(cpus) > 1:
            return f"the id {number} to {' and to '.join(cpus)}"
    return ""


def _find_sysfs_index_of_l3(fs: KernelFS, cpu: int) -> str | None:
    folder = f"{CPUS}/cpu{cpu}/cache"
    for name in fs.list_names(folder):
        if name.startswith("index") and fs.read_if_present(f"{folder}/{name}/level") == "3":
            return name
    return None


def _add_offline_cpus_to_cores_and_domains(fs: KernelFS, top: Topology) -> None:
    """Add offline CPUs to cores and L3 domains, so that numbers do not change when a CPU goes offline."""
    top.domains, top.present_cores = list(top.l3), top.cores
    if not top.offline:
        return
    # Imported here because most hosts have no offline CPU.
    from . import cpu_layout

    threads = 2 if top.smt in ("on", "off", "forceoff") else max(len(core) for core in top.cores)
    here = cpu_layout.infer_layout_of_present_cpus(
        tuple(sorted({*top.online, *top.offline})),
        [(domain.id, domain.cpus) for domain in top.l3],
        top.cores,
        threads,
        smt_is_off=top.smt in ("off", "forceoff"),
    )
    if here is None:
        return
    top.present_cores = tuple(here.cores)
    top.domains = cpu_layout.complete_domains_with_offline_cpus(top.l3, here.domains, len(top.sockets))
    for domain in top.domains:
        if domain.node is None:
            nodes = (_read_node_of_cpu(fs, cpu) for cpu in domain.present)
            domain.node = next((number for number in nodes if number is not None), None)


def _read_node_of_cpu(fs: KernelFS, cpu: int) -> int | None:
    """Return the node of a CPU, online or offline, from a link in its sysfs folder."""
    names = [name for name in fs.list_names(f"{CPUS}/cpu{cpu}") if name.startswith("node") and name[4:].isdecimal()]
    return int(names[0][4:]) if names else None


def _group_l3_domains_into_ccds(fs: KernelFS, top: Topology) -> None:
    """Group the L3 domains by CCD: by the kernel's die_id, else by the table of families, else each domain alone."""
    dies = {domain: (domain.socket, _read_number_of_cpu(fs, domain.cpus[0], "topology/die_id")) for domain in top.l3}
    # Kernels that do not know CCDs show the same die id for the whole socket.
    if len(set(dies.values())) > len(top.sockets):
        top.ccd_source = "the kernel's die_id"
        top.ccds = ccds.group_domains_by_die_id(top.domains, dies)
    else:
        family = top.family if top.is_amd else None
        top.ccds, top.ccd_source = ccds.group_domains_by_cpu_family(top.domains, family, top.model_number)
    for number, ccd in enumerate(top.ccds):
        for domain in ccd:
            domain.ccd = number


def _read_features_into_topology(fs: KernelFS, top: Topology) -> None:
    top.cpufreq_driver = fs.read_if_present(f"{CPUS}/cpufreq/policy{top.online[0]}/scaling_driver")
    if top.cpufreq_driver is None:
        top.missing["cpufreq"] = "cpufreq: no driver is bound (BIOS without P-states, or a guest)"
    one_of_each_domain = [domain.cpus[0] for domain in top.l3] or [top.online[0]]
    top.frequency_fault = firmware.implausible_frequency_message(fs, one_of_each_domain, top.cpufreq_driver)
    reason = resctrl.resctrl_unavailable_reason(fs, top.flags)
    if reason:
        top.missing["resctrl"] = reason
    else:
        top.resctrl = resctrl.read_features(fs, top.flags)
        if "cat_l3" in top.flags and top.resctrl.cbm_mask is None:
            top.missing["l3_mask_width"] = (
                "the L3 mask's width: resctrl is not mounted and the cpuid driver is not loaded (modprobe cpuid)"
            )
    prefetch = cpuid.read_cpuid(fs, 0x80000021)
    if prefetch is None:
        top.missing["prefetch"] = "PrefetchCtl: /dev/cpu/0/cpuid cannot be read (as root, after modprobe cpuid, it can)"
    else:
        top.prefetch_control = bool(prefetch[0] >> 13 & 1)
    top.registers_read_only = lockdown.registers_read_only_reason(fs)


def format_domain_counts_by_l3_size(domains: Sequence[L3Domain]) -> str:
    """Return the number of L3 domains of each size, as "16 x 16 MiB"."""
    sizes: dict[int, int] = {}
    for domain in domains:
        sizes[domain.bytes] = sizes.get(domain.bytes, 0) + 1
    return ", ".join(f"{count} x {format_bytes(size)}" for size, count in sizes.items())
