# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that can be emulated, as data."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import VepycError


@dataclass(frozen=True)
class Shape:
    """A virtual EPYC: what its kernel reports, and what the arguments of QEMU are made of."""

    name: str
    model_name: str
    family: int
    model: int
    stepping: int
    l3_domains: int  # of one socket
    cores_per_l3: int
    l3_mib: int  # of one domain
    nodes: int  # of the whole machine
    memory_mib: int
    pstates_mhz: tuple[int, int, int]  # P0 is the base frequency, as on every EPYC
    port: int  # default ssh port on the loopback address; fixed, because an inventory names it
    sockets: int = 1
    threads: int = 1  # of a core
    empty_dies: int = 0  # per socket, never populated; they shift the L3 ids of the next socket
    smba: bool = True  # slow-memory bandwidth allocation and configurable bandwidth events, Zen 4 and later
    mba_bits: int = 11  # the largest MB value is two to the power of this
    l3_as_numa: bool = False  # each L3 domain is a NUMA node, and `nodes` is ignored
    boost: bool = True
    channels: int = 12  # for memory, of one socket
    memory_mts: int = 4800
    dimms: int | None = None  # memory modules in the whole machine; None is one, as QEMU describes it by itself
    boot_partition: bool = False  # a second disk with an EFI system partition, which is empty at first
    uefi: bool = False  # starts from the second disk, by the firmware of a real server; otherwise the first one's GRUB

    @property
    def cpus(self) -> int:
        """How many CPUs are present."""
        return self.sockets * self.l3_domains * self.cores_per_l3 * self.threads

    @property
    def dies(self) -> int:
        """How many dies of QEMU a socket has; each die is an L3 domain."""
        return self.l3_domains + self.empty_dies

    @property
    def possible_cpus(self) -> int:
        """How many CPUs QEMU reserves ids for."""
        return self.sockets * self.dies * self.cores_per_l3 * self.threads

    @property
    def l3_ids(self) -> tuple[int, ...]:
        """The ids that the kernel gives to the L3 domains: an APIC id without the bits that number cores."""
        stride = 1 << (self.dies - 1).bit_length()
        return tuple(s * stride + d for s in range(self.sockets) for d in range(self.l3_domains))


_ALL = (
    Shape(
        name="small",
        model_name="AMD EPYC 9754 128-Core Processor",
        family=25,
        model=160,
        stepping=2,
        l3_domains=4,
        cores_per_l3=4,
        l3_mib=16,
        nodes=4,
        memory_mib=2560,
        pstates_mhz=(2250, 1900, 1500),
        port=29700,
    ),
    Shape(
        name="smt",  # as small, with half the cores and two threads on each
        model_name="AMD EPYC 9754 128-Core Processor",
        family=25,
        model=160,
        stepping=2,
        l3_domains=4,
        cores_per_l3=2,
        l3_mib=16,
        nodes=4,
        memory_mib=2560,
        pstates_mhz=(2250, 1900, 1500),
        port=29701,
        threads=2,
    ),
    Shape(
        name="epyc9754",
        model_name="AMD EPYC 9754 128-Core Processor",
        family=25,
        model=160,
        stepping=2,
        l3_domains=16,
        cores_per_l3=8,
        l3_mib=16,
        nodes=4,
        memory_mib=6144,
        pstates_mhz=(2250, 1900, 1500),
        port=29754,
    ),
    Shape(
        name="epyc9654",
        model_name="AMD EPYC 9654 96-Core Processor",
        family=25,
        model=17,
        stepping=1,
        l3_domains=12,
        cores_per_l3=8,
        l3_mib=32,
        nodes=4,
        memory_mib=5120,
        pstates_mhz=(2400, 1900, 1500),
        port=29654,
    ),
    Shape(
        name="epyc9354",
        model_name="AMD EPYC 9354 32-Core Processor",
        family=25,
        model=17,
        stepping=1,
        l3_domains=8,
        cores_per_l3=4,
        l3_mib=32,
        nodes=4,
        memory_mib=3072,
        pstates_mhz=(3250, 2500, 1500),
        port=29354,
    ),
    Shape(
        name="epyc7543x2",
        model_name="AMD EPYC 7543 32-Core Processor",
        family=25,
        model=1,
        stepping=1,
        l3_domains=8,
        cores_per_l3=4,
        l3_mib=32,
        nodes=2,
        memory_mib=4096,
        pstates_mhz=(2800, 2400, 1500),
        port=27543,
        sockets=2,
        empty_dies=1,
        smba=False,
        channels=8,
        memory_mts=3200,
    ),
    Shape(
        name="epyc9655",
        model_name="AMD EPYC 9655 96-Core Processor",
        family=26,
        model=2,
        stepping=1,
        l3_domains=12,
        cores_per_l3=8,
        l3_mib=32,
        nodes=4,
        memory_mib=5120,
        pstates_mhz=(2600, 1900, 1500),
        port=29655,
        mba_bits=12,
        memory_mts=6000,
    ),
    Shape(  # the only one of its generation that a kernel was seen on; never booted here
        name="epyc9006",
        model_name="AMD Eng Sample: 100-000001045-02",
        family=26,
        model=80,
        stepping=0,
        l3_domains=6,
        cores_per_l3=24,
        l3_mib=64,
        nodes=1,
        memory_mib=6144,
        pstates_mhz=(2000, 1750, 1500),
        port=29006,
        mba_bits=12,
        channels=16,
        memory_mts=12800,
    ),
)

SHAPES: dict[str, Shape] = {shape.name: shape for shape in _ALL}


def get_shape(name: str) -> Shape:
    """Return the shape of that name; an unknown name is an error that lists the shapes."""
    try:
        return SHAPES[name]
    except KeyError:
        raise VepycError(f"there is no shape {name!r}; the shapes are {', '.join(SHAPES)}") from None
