# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command lines of QEMU."""

from __future__ import annotations

import itertools
import os
import subprocess
from functools import cache
from pathlib import Path

from ..epyc import smbios
from ..epyc.shapes import Shape
from ..errors import VepycError
from . import uefi

QEMU = "qemu-system-x86_64"
# CPU flags of an EPYC that only cost time here: smap and pku make QEMU drop its TLB, la57 lengthens each page walk, and
# with erms and fsrm the kernel and libc copy byte by byte, which is slow in emulation.
_WITHOUT = ("smap", "pku", "la57", "erms", "fsrm")
# With more than one queue, the disk has managed interrupts, which users cannot move and tests need.
_DISK_QUEUES = 4


@cache
def _run_qemu(*arguments: str) -> str:
    try:
        return subprocess.run([QEMU, *arguments], check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise VepycError(f"{QEMU} is not installed; lab/README.md lists the packages the lab needs") from None


def qemu_version() -> str:
    """The first line of QEMU's own version text."""
    return _run_qemu("--version").splitlines()[0]


def accelerator_option() -> str:
    """Return the value of QEMU's -accel: TCG on one thread, for which the lab's figures hold (see lab/README.md)."""
    return os.environ.get("VEPYC_ACCEL", "tcg,thread=single")


def _cpu_type() -> str:
    return "EPYC-Genoa" if "EPYC-Genoa" in _run_qemu("-cpu", "help") else "EPYC-Milan"


def build_machine_args(shape: Shape, ssdt: str) -> list[str]:
    """Return the arguments for everything that the guest sees of the machine.

    Two runs with equal arguments, and equal files named by them, can exchange snapshots.
    """
    cpu = (
        f"{_cpu_type()},level=16,xlevel=0x80000021,family={shape.family},model={shape.model},"
        f"stepping={shape.stepping},model-id={shape.model_name},{','.join(f'{flag}=off' for flag in _WITHOUT)}"
    )
    per_socket = shape.l3_domains * shape.cores_per_l3 * shape.threads
    # CPUs of sockets with empty dies are plugged one by one; all others are present at the start.
    initial = per_socket if shape.empty_dies else shape.cpus
    args = ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    args += [
        "-machine",
        "q35,usb=off,sata=off,smm=off,vmport=off,graphics=off",
        "-accel",
        accelerator_option(),
        "-cpu",
        cpu,
    ]
    args += ["-m", f"{shape.memory_mib}M"]
    args += [
        "-smp",
        f"{initial},maxcpus={shape.possible_cpus},sockets={shape.sockets},dies={shape.dies},"
        f"cores={shape.cores_per_l3},threads={shape.threads}",
    ]
    args += _build_numa_args(shape)
    if shape.empty_dies:
        args += _build_hotplug_args(shape)
    args += ["-acpitable", f"file={ssdt}"]
    for name in smbios.structure_file_names(shape):
        args += ["-smbios", f"file={name}"]
    args += ["-device", f"virtio-blk-pci,drive=disk,num-queues={_DISK_QUEUES}"]
    args += ["-device", "virtio-net-pci,netdev=net,romfile="]
    args += ["-device", "virtio-rng-pci"]
    return args + uefi.build_arguments(shape)


def _build_numa_args(shape: Shape) -> list[str]:
    """Return arguments for nodes of equal size, numbered along the sockets, with the distances of an EPYC board."""
    args = []
    per_socket, memory = shape.nodes // shape.sockets, shape.memory_mib // shape.nodes
    per_die = shape.cores_per_l3 * shape.threads
    for node in range(shape.nodes):
        socket, place = divmod(node, per_socket)
        first = socket * shape.dies + place * shape.l3_domains // per_socket
        # Dies that are never populated belong to the last node of their socket.
        last = place == per_socket - 1
        end = (socket + 1) * shape.dies if last else socket * shape.dies + (place + 1) * shape.l3_domains // per_socket
        size = shape.memory_mib - memory * (shape.nodes - 1) if node == shape.nodes - 1 else memory
        args += ["-object", f"memory-backend-ram,id=mem{node},size={size}M"]
        args += ["-numa", f"node,nodeid={node},cpus={first * per_die}-{end * per_die - 1},memdev=mem{node}"]
    for source in range(shape.nodes):
        for target in range(shape.nodes):
            if source != target:
                distance = 12 if source // per_socket == target // per_socket else 32
                args += ["-numa", f"dist,src={source},dst={target},val={distance}"]
    return args


def _build_hotplug_args(shape: Shape) -> list[str]:
    """Return arguments that plug the CPUs of every socket after the first."""
    args = []
    for socket in range(1, shape.sockets):
        for die in range(shape.l3_domains):
            for core, thread in itertools.product(range(shape.cores_per_l3), range(shape.threads)):
                place = f"socket-id={socket},die-id={die},core-id={core},thread-id={thread}"
                args += ["-device", f"{_cpu_type()}-x86_64-cpu,{place}"]
    return args


def build_run_args(disk: Path, port: int) -> list[str]:
    """Return arguments that differ between machines of a shape. Sockets and logs are relative to the run directory."""
    return [
        "-drive",
        f"file={disk},if=none,id=disk,format=qcow2,discard=unmap",
        "-netdev",
        f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-chardev",
        "file,id=console,path=console.log,append=on",
        "-serial",
        "chardev:console",
        "-qmp",
        "unix:qmp.sock,server=on,wait=off",
        "-S",
    ]


def build_gdb_args() -> list[str]:
    """Return arguments for a gdb stub, through which a booting kernel is patched."""
    return ["-chardev", "socket,path=gdb.sock,server=on,wait=off,id=gdb", "-gdb", "chardev:gdb"]


def build_incoming_args(state: Path) -> list[str]:
    """Return arguments to start from a saved state."""
    return ["-incoming", f"exec:cat '{state}'"]
