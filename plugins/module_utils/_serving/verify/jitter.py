# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judges whether the CPUs that compute are free of interrupts and other tasks, where the host isolates them.

Where nothing isolates these CPUs, the counts are reported and not judged. The limits are about ten times the counts of
an isolated virtual EPYC while it computed: 4 ticks and 2 switches a second (tests/lab/test_llama.py). Its threads
waited up to 3 percent of the time, because its CPUs are emulated.
"""

from __future__ import annotations

from ..._kernel import partitions
from ..._notation.cpulist import parse_cpulist
from ..._verify.checklist_items import NOT_CONFIGURED, OK, UNKNOWN, WRONG, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..._io.kernelfs import KernelFS

#: The limits for the worst CPU or thread: ticks, device interrupts and involuntary switches a second, and the share of
#: time that a thread waited for its CPU.
MAX_TICKS, MAX_DEVICE_INTERRUPTS, MAX_SWITCHES, MAX_WAITED = 40.0, 20.0, 20.0, 0.05
ISOLATED, TICKLESS = "/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"


def build_jitter_item(fs: KernelFS, name: str, busy_cpus: str, proof: Mapping[str, Any] | str) -> Item:
    """Return the item on an instance that computes on these CPUs; a ``proof`` of text says why there is none."""
    key, title = f"jitter/{name}", f"jitter of {name}"
    cpus = set(parse_cpulist(busy_cpus))
    isolated, tickless, partition = (
        _read_cpu_list(fs, ISOLATED),
        _read_cpu_list(fs, TICKLESS),
        partitions.read_active_partition(fs)[1],
    )
    is_isolated = cpus <= isolated | tickless | partition
    noise = None if isinstance(proof, str) else proof["noise"]
    if noise is None:
        reason = proof if isinstance(proof, str) else "no thread computed, or /proc/interrupts cannot be read."
        return Item(key, title, UNKNOWN if is_isolated else NOT_CONFIGURED, f"Not known: {reason}")
    # Each count is judged only where a setting should keep it low: boot parameters for ticks and device interrupts,
    # isolcpus or a partition for tasks of other programs.
    wrong = []
    has_other_tasks = noise["involuntary"] > MAX_SWITCHES or noise["waited"] > MAX_WAITED
    if cpus <= tickless and noise["ticks"] > MAX_TICKS and not has_other_tasks:
        wrong.append("The tick goes on though nohz_full names these CPUs, and no other task wants them.")
    if cpus <= tickless | isolated and noise["devices"] > MAX_DEVICE_INTERRUPTS:
        wrong.append("Interrupts of devices come there: the role epyc_irq keeps them away.")
    if cpus <= isolated | partition and has_other_tasks:
        wrong.append("Other tasks run there: 'ps -eLo psr,comm' shows which were on these CPUs.")
    sentence = (
        f"On CPUs {noise['cpus']} at most {noise['ticks']:g} ticks, {noise['devices']:g} interrupts of devices, "
        f"{noise['sent']:g} from other CPUs and {noise['involuntary']:g} involuntary switches a second; a thread "
        f"waited for {noise['waited']:.1%} of the time."
    )
    if wrong:
        return Item(key, title, WRONG, " ".join([sentence, *wrong]))
    if is_isolated:
        return Item(key, title, OK, sentence)
    return Item(
        key,
        title,
        NOT_CONFIGURED,
        f"{sentence} Nothing keeps other programs off these CPUs, so these counts are not judged.",
    )


def _read_cpu_list(fs: KernelFS, path: str) -> set[int]:
    """Return the CPUs of a list of the kernel, which writes "(null)" for an empty list."""
    text = (fs.read_if_present(path) or "").strip()
    return set() if "null" in text else set(parse_cpulist(text))
