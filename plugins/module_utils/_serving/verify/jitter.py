# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the CPUs that compute are left alone, where the host isolates them; elsewhere it is told and not judged.

The limits of what is counted are some ten times what an isolated virtual EPYC showed while it computed, 4 ticks and 2
switches a second (tests/lab/test_llama.py). There a thread waited for up to 3 percent, because its CPUs are emulated.
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

#: What the worst CPU or thread may have: interrupts and switches a second, and the share of time that it waited.
TICKS, DEVICES, SWITCHES, WAITED = 40.0, 20.0, 20.0, 0.05
ISOLATED, TICKLESS = "/sys/devices/system/cpu/isolated", "/sys/devices/system/cpu/nohz_full"


def build_jitter_item(fs: KernelFS, name: str, busy_cpus: str, proof: Mapping[str, Any] | str) -> Item:
    """Return the item on an instance that computes on these CPUs; a text is why nothing was seen of its place."""
    key, title = f"jitter/{name}", f"jitter of {name}"
    cpus = set(parse_cpulist(busy_cpus))
    isolated, tickless, partition = (
        _read_cpus(fs, ISOLATED),
        _read_cpus(fs, TICKLESS),
        partitions.read_partition_in_force(fs)[1],
    )
    alone = cpus <= isolated | tickless | partition
    seen = None if isinstance(proof, str) else proof["noise"]
    if seen is None:
        why = proof if isinstance(proof, str) else "no thread computed, or /proc/interrupts cannot be read."
        return Item(key, title, UNKNOWN if alone else NOT_CONFIGURED, f"Not known: {why}")
    # Each is judged only where something keeps it away: boot parameters the tick and the interrupts of devices, and
    # isolcpus or a partition the tasks of others.
    wrong = []
    crowded = seen["involuntary"] > SWITCHES or seen["waited"] > WAITED
    if cpus <= tickless and seen["ticks"] > TICKS and not crowded:
        wrong.append("The tick goes on though nohz_full names these CPUs, and no other task wants them.")
    if cpus <= tickless | isolated and seen["devices"] > DEVICES:
        wrong.append("Interrupts of devices come there: the role epyc_irq keeps them away.")
    if cpus <= isolated | partition and crowded:
        wrong.append("Other tasks run there: 'ps -eLo psr,comm' shows which were on these CPUs.")
    sentence = (
        f"On CPUs {seen['cpus']} at most {seen['ticks']:g} ticks, {seen['devices']:g} interrupts of devices, "
        f"{seen['sent']:g} from other CPUs and {seen['involuntary']:g} involuntary switches a second; a thread waited "
        f"for {seen['waited']:.1%} of the time."
    )
    if wrong:
        return Item(key, title, WRONG, " ".join([sentence, *wrong]))
    if alone:
        return Item(key, title, OK, sentence)
    return Item(
        key, title, NOT_CONFIGURED, f"{sentence} Nothing keeps others off these CPUs, so that this is no fault."
    )


def _read_cpus(fs: KernelFS, path: str) -> set[int]:
    """Return the CPUs of a list of the kernel, which writes "(null)" for none."""
    text = (fs.read_if_present(path) or "").strip()
    return set() if "null" in text else set(parse_cpulist(text))
