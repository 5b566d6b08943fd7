# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resctrl file system: its features on this host, addresses of its groups, and its schemata.

Source: Documentation/filesystems/resctrl.rst of the Linux kernel; CPUID leaves 0x10 and 0x80000020 of the AMD64
Architecture Programmer's Manual, volume 3.
"""

from __future__ import annotations

from .._notation.cache_masks import parse_cache_mask
from . import cpuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._io.kernelfs import KernelFS

HOME = "/sys/fs/resctrl"
#: The type that SELinux gives to what its policy has no context for.
UNKNOWN_TO_POLICY = "unlabeled_t"
#: Names under the root that are not groups.
FIXED = ("info", "mon_data", "mon_groups")
#: Steps of MB and SMBA in a GB/s on AMD; the highest value means no limit.
STEPS_PER_GBPS = 8
RESOURCES = ("L3", "L3CODE", "L3DATA", "MB", "SMBA")


def format_address(group: str, *more: str) -> str:
    """Return the address of a group, or of a setting in it: resctrl:GROUP/MORE."""
    return "/".join((f"resctrl:{group}", *more))


def split_address(address: str) -> tuple[str, str, str]:
    """Split an address into the group, the kind of setting (empty for the group itself) and the rest."""
    group, dummy, rest = address[len("resctrl:") :].partition("/")
    kind, dummy, key = rest.partition("/")
    return group, kind, key


class ResctrlFeatures:
    """The allocation features of the host and their sizes; None for a size that could not be read."""

    def __init__(self) -> None:
        self.mount_point: str | None = None
        self.mount_options: tuple[str, ...] = ()
        self.features: tuple[str, ...] = ()
        self.cbm_mask: int | None = None
        self.closids: int | None = None
        self.min_cbm_bits: int | None = None
        self.sparse_masks: bool | None = None
        self.throttle_max: dict[str, int] = {}
        #: Whether I/O has a share of L3 of its own, for which the kernel uses the highest class of service; None where
        #: the kernel or the CPU cannot give it one.
        self.io_alloc: bool | None = None
        #: The ways that I/O may fill then, by L3 domain, and the ways that other hardware may fill in each domain.
        self.io_ways: dict[int, int] = {}
        self.shareable_ways = 0
        self.source = ""

    def assume_mount_options(self, mount_options: tuple[str, ...]) -> None:
        """Set the options of a future mount, so that check mode reports what a run would do."""
        self.mount_options = mount_options
        if "cdp" in mount_options and self.closids is not None:
            self.closids //= 2  # A group needs one class of service for code and one for data.

    def to_dict(self) -> dict[str, object]:
        """Return plain data for facts, with the mask in the kernel's notation."""
        mask = None if self.cbm_mask is None else f"{self.cbm_mask:x}"
        lists = {"mount_options": list(self.mount_options), "features": list(self.features)}
        io_ways = {str(domain): f"{ways:x}" for domain, ways in self.io_ways.items()}
        ways = {"cbm_mask": mask, "io_ways": io_ways, "shareable_ways": f"{self.shareable_ways:x}"}
        return {**vars(self), **lists, **ways}


def find_mount(fs: KernelFS) -> tuple[str, tuple[str, ...]] | None:
    """Return mount point and options of the mounted resctrl file system, None where it is not mounted."""
    for line in (fs.read_if_present("/proc/self/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[2] == "resctrl":
            options = tuple(o for o in fields[3].split(",") if o in ("cdp", "cdpl2", "mba_MBps", "debug"))
            return fields[1], options
    return None


def is_unknown_to_selinux(fs: KernelFS) -> bool:
    """Return whether the policy of SELinux has no context for resctrl, so that it forbids all programs to make groups.

    The policy of Debian 13 is such a policy. A mount with the option context= gets a context that the policy knows.
    """
    return f":{UNKNOWN_TO_POLICY}:" in (fs.read_selinux_context(HOME) or "")


def resctrl_unavailable_reason(fs: KernelFS, cpu_flags: frozenset[str]) -> str | None:
    """Return why resctrl cannot be used on this host, with what to do; None where it can."""
    if "resctrl" in (fs.read_if_present("/proc/filesystems") or "").split():
        return None
    if not cpu_flags & {"cat_l3", "mba", "cqm_llc"}:
        return (
            "resctrl is absent: the CPU shows no cache allocation (no cat_l3, mba or cqm_llc in /proc/cpuinfo). "
            "Zen 2 and later have it; inside a guest the hypervisor must pass it on, and the boot parameters rdt= and "
            "clearcpuid= can hide it."
        )
    return (
        "resctrl is absent: the CPU has cache allocation but this kernel does not offer the file system (it is not in "
        "/proc/filesystems). It needs CONFIG_X86_CPU_RESCTRL, and no rdt=!l3cat among the boot parameters."
    )


def read_features(fs: KernelFS, cpu_flags: frozenset[str]) -> ResctrlFeatures:
    """Read the features from the mounted file system, else from CPUID."""
    able = ResctrlFeatures()
    able.features = tuple(sorted(cpu_flags & {"cat_l3", "cdp_l3", "mba", "cqm_llc", "cqm_mbm_local", "cqm_mbm_total"}))
    _fill_from_cpuid(fs, able)
    mount = find_mount(fs)
    if mount:
        able.mount_point, able.mount_options = mount
        _fill_from_info_folder(fs, able)
    return able


def _fill_from_cpuid(fs: KernelFS, features: ResctrlFeatures) -> None:
    l3 = cpuid.read_cpuid(fs, 0x10, 1) if "cat_l3" in features.features else None
    if l3:
        features.cbm_mask = (1 << (l3[0] & 0x1F) + 1) - 1
        features.closids = (l3[3] & 0xFFFF) + 1
        features.source = "CPUID"
    extended = cpuid.read_cpuid(fs, 0x80000020, 0)
    if extended:
        for bit, name in ((1, "MB"), (2, "SMBA")):
            width = cpuid.read_cpuid(fs, 0x80000020, bit) if extended[1] >> bit & 1 else None
            if width:
                features.throttle_max[name] = 1 << width[0]


def _fill_from_info_folder(fs: KernelFS, features: ResctrlFeatures) -> None:
    info = f"{features.mount_point}/info"
    folders = [name for name in fs.list_names(info) if name in ("L3", "L3CODE", "MB", "SMBA")]
    closids = []
    for name in folders:
        text = fs.read_if_present(f"{info}/{name}/num_closids")
        if text:
            closids.append(int(text))
        if name.startswith("L3"):
            mask = fs.read_if_present(f"{info}/{name}/cbm_mask")
            features.cbm_mask = parse_cache_mask(mask) if mask else features.cbm_mask
            low = fs.read_if_present(f"{info}/{name}/min_cbm_bits")
            features.min_cbm_bits = int(low) if low else None
            sparse = fs.read_if_present(f"{info}/{name}/sparse_masks")
            features.sparse_masks = None if sparse is None else sparse == "1"
            _fill_ways_of_io(fs, f"{info}/{name}", features)
    if closids:
        features.closids = min(closids)
        features.source = info


def _fill_ways_of_io(fs: KernelFS, folder: str, features: ResctrlFeatures) -> None:
    """Read which ways hardware other than CPUs may fill: ``shareable_bits``, and ``io_alloc_cbm`` if io_alloc is on."""
    word = (fs.read_if_present(f"{folder}/io_alloc") or "").strip()
    features.io_alloc = {"enabled": True, "disabled": False}.get(word)
    if features.io_alloc:
        rows = parse_schemata(f"L3:{fs.read_if_present(f'{folder}/io_alloc_cbm') or ''}")
        features.io_ways = {domain: parse_cache_mask(mask) for domain, mask in rows["L3"].items()}
    features.shareable_ways = parse_cache_mask(fs.read_if_present(f"{folder}/shareable_bits") or "0")


def parse_schemata(text: str) -> dict[str, dict[int, str]]:
    """Return resource -> domain id -> value; values have no leading zeros, so that equal masks compare equal."""
    table: dict[str, dict[int, str]] = {}
    for line in text.splitlines():
        resource, colon, rest = line.strip().partition(":")
        if not colon:
            continue
        row = table.setdefault(resource, {})
        for item in rest.split(";"):
            domain, equals, value = item.partition("=")
            if equals:
                row[int(domain)] = value.strip().lstrip("0") or "0"
    return table


def format_schemata(table: dict[str, dict[int, str]]) -> str:
    """Return the text for a schemata file: one line per resource, each with the newline that the kernel requires."""
    return "".join(
        f"{resource}:{';'.join(f'{domain}={row[domain]}' for domain in sorted(row))}\n"
        for resource, row in sorted(table.items())
        if row
    )
