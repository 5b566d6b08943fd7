# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Chooses how many threads decode a token: as many as keep the memory busy, in a number that divides the rows.

A token reads all weights once. Beyond the number of cores that fills the memory links, another thread only lengthens
the barriers. Batches, as of prompts and of verified drafts, compute more for each byte, and take all cores.
"""

from __future__ import annotations

from ..._host.memory_channels import numbers_of_ccds
from ..._host.memory_speed import MEASURED
from ..._models.token_cost import EMBEDDING, LOOKUP_TABLES, OUTPUT
from ..options.options import NUMA_MODES
from ..prediction.step_floor import barrier_us, count_barriers, find_core_speed
from . import cpu_assignment
from .default_choices import DefaultChoice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..._host.host import Host
    from ..._models.gguf import Tensor
    from ..._models.model import Model
    from ..._models.model_shape import ModelShape
    from ..options.options import Options
    from .speculation_plan import SpeculationPlan

#: GB of weights that one core multiplies in a second, by tensor type. Source: decode rates of Llama 3.1 8B with two
#: threads of a Ryzen 7950X, a Zen 4 at about 5.3 GHz, times the size of the file (ik_llama.cpp, discussion 164).
DESKTOP_CORE_RATES = {
    **dict.fromkeys(("F32", "F16", "BF16"), 32.5),
    **dict.fromkeys(("Q4_0", "Q4_1"), 26.2),
    **dict.fromkeys(("Q5_0", "Q5_1"), 14.9),
    "Q8_0": 21.1,
    "Q2_K": 16.9,
    "Q3_K": 16.1,
    "Q4_K": 22.4,
    "Q5_K": 21.0,
    "Q6_K": 25.1,
    **dict.fromkeys(("IQ4_NL", "MXFP4", "NVFP4"), 13.9),
    "IQ4_XS": 18.1,
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ3_XXS", "IQ3_S"), 6.7),
    **dict.fromkeys(("IQ2_XS", "IQ2_S"), 7.6),
}
OTHER_DESKTOP_CORE_RATE = 13.9
#: The rate of a Zen 4 core of an EPYC as a share of that desktop core's: all cores of the EPYC run at 3.7 GHz.
ZEN4_SHARE = 0.7
#: How many times the cores are chosen that would fill the memory at their rate when alone. A core waits longer for
#: memory when others do too: a 9654 needs 25 such cores, and gained until about 60 threads (llama.cpp issue 6434).
CORES_FOR_BUSY_MEMORY = 2
#: The server gives threads blocks of this many rows.
ROWS_OF_BLOCK = 8
#: The number of threads is a multiple of this number.
THREADS_STEP = 8
#: With fewer cores, all of them decode. One core cannot fill the link of its CCD, so each CCD has at least two.
LEAST_CORES = 16
LEAST_ON_A_CCD = 2
#: Of the numbers of threads that are about equally fast, the smallest is chosen.
NEARLY_BEST = 1.02
#: A smaller gain is not worth a word.
LEAST_GAIN = 1.02
#: Fewer threads than cores are only chosen where they are at most this share of the cores.
MOST_OF_CORES = 0.9


class DecodeWork:
    """The work of one token: bytes of weights, the seconds that DESKTOP_CORE_RATES gives one core, and barriers."""

    __slots__ = ("barriers", "bytes", "core_seconds", "matrices", "type_bytes")

    def __init__(self, model: Model, shape: ModelShape, experts_per_token: int | None = None) -> None:
        self.bytes = 0.0
        self.core_seconds = 0.0
        self.type_bytes: dict[str, float] = {}
        #: Bytes that a token reads of the matrices with a number of rows.
        self.matrices: dict[int, float] = {}
        experts = model.expert_count
        used = experts_per_token or model.header_number_of_architecture("expert_used_count") or experts
        has_output = any(tensor.name == OUTPUT for tensor in model.tensors)
        for tensor in model.tensors:
            if tensor.name in LOOKUP_TABLES or (tensor.name == EMBEDDING and has_output):
                continue
            share = used / experts if experts and "_exps." in tensor.name else 1
            self._add_tensor(tensor, share * tensor.bytes)
        self.barriers = count_barriers(shape)

    def _add_tensor(self, tensor: Tensor, size: float) -> None:
        kind = tensor.type.partition("_R")[0]
        self.bytes += size
        self.type_bytes[kind] = self.type_bytes.get(kind, 0.0) + size
        self.core_seconds += size / DESKTOP_CORE_RATES.get(kind, OTHER_DESKTOP_CORE_RATE) / 1e9
        self.matrices[tensor.rows] = self.matrices.get(tensor.rows, 0.0) + size

    @property
    def tensor_type_of_most_bytes(self) -> str:
        """The tensor type of most bytes."""
        return max(self.type_bytes, key=lambda kind: self.type_bytes[kind], default="")

    def imbalance(self, threads: int) -> float:
        """Return the work of the busiest thread as a multiple of the average, because rows are given out in blocks."""
        total = 0.0
        for rows, size in self.matrices.items():
            blocks = -(-rows // ROWS_OF_BLOCK)
            total += size * -(-blocks // threads) * threads / blocks
        return total / self.bytes if self.bytes else 1.0


class DecodeMachine:
    """The machine of an instance: its cores, the GB/s that they read together, and the share of a core's rate."""

    __slots__ = ("ccds", "core_share", "cores", "gbps")

    def __init__(self, cores: int, ccds: int, gbps: float, core_share: float) -> None:
        self.cores = cores
        self.ccds = ccds
        self.gbps = gbps
        self.core_share = core_share

    def cores_that_keep_memory_busy(self, work: DecodeWork) -> float:
        """Return how many cores keep the memory busy."""
        core_gbps = work.bytes / work.core_seconds / 1e9 * self.core_share
        return CORES_FOR_BUSY_MEMORY * self.gbps / core_gbps

    def token_seconds(self, work: DecodeWork, threads: int) -> float:
        """Return the estimated seconds of a token. Only their ratio for different numbers of threads is of use."""
        reading = work.bytes / self.gbps / 1e9 * max(1.0, self.cores_that_keep_memory_busy(work) / threads)
        return reading * work.imbalance(threads) + work.barriers * barrier_us(threads) / 1e6


def build_decode_machine(
    options: Options, host: Host, cpus: Sequence[int], nodes: Sequence[int], cores: int
) -> DecodeMachine | None:
    """Return the machine that these CPUs are, with memory on these nodes; None where its bandwidth is not known."""
    top = host.topology
    speed = find_core_speed(top.family, top.model_number) if top.is_amd else None
    ccds = numbers_of_ccds(top, cpus)
    if speed is None or not ccds:
        return None
    gbps, source = host.memory_speed.gbps_for(nodes, ccds)
    if options.bandwidth:
        gbps, source = float(options.bandwidth), MEASURED
    # The memory channels of a virtual machine are those that its hypervisor makes up.
    is_unknown = host.memory_speed.theoretical_gbps is None or "hypervisor" in top.flags
    return None if is_unknown and source != MEASURED else DecodeMachine(cores, len(ccds), gbps, ZEN4_SHARE * speed)


def plan_decode_threads(
    options: Options,
    host: Host,
    has_openmp: bool,
    models: Sequence[tuple[Model, ModelShape]],
    speculation: SpeculationPlan,
    nodes: Sequence[int],
    policy: str,
    remarks: list[str],
) -> DefaultChoice | None:
    """Return the number of threads that decode as a choice, None for as many as there are cores.

    Without OpenMP, threads take CPUs in ascending order, so that fewer threads would leave some CCDs idle.
    """
    if options.threads or options.rpc_workers or not options.generates_text:
        return None
    if policy in NUMA_MODES or speculation.drafts_on_first_threads:
        return None
    cores = len(cpu_assignment.first_cpu_of_each_core(host.topology, speculation.busy))
    machine = build_decode_machine(options, host, speculation.busy, nodes, cores)
    top = host.topology
    if top.is_amd and cores >= LEAST_CORES and find_core_speed(top.family, top.model_number) is None:
        remarks.append(
            f"All {cores} cores decode, because nobody has published how fast a core of this CPU (family {top.family} "
            f"model {top.model_number}) computes. Fewer may be faster: playbooks/tune.yml measures that."
        )
    works = [DecodeWork(model, shape, options.experts) for model, shape in models]
    number = choose_decode_threads(works, machine) if machine else cores
    if machine is None or number == cores:
        return None
    if not has_openmp:
        remarks.append(
            f"All {cores} cores decode. About {number} would do, but this build has no OpenMP, without which fewer "
            "threads cannot be spread over all CCDs."
        )
        return None
    work = max(works, key=lambda each: _choose_thread_count_for_work(each, machine))
    return _build_thread_count_choice(work, machine, number)


def _build_thread_count_choice(work: DecodeWork, machine: DecodeMachine, number: int) -> DefaultChoice:
    ratio = machine.token_seconds(work, machine.cores) / machine.token_seconds(work, number)
    gain = f"about {ratio:.2f} times the decode rate of one stream, predicted" if ratio >= LEAST_GAIN else ""
    return DefaultChoice(
        "threads",
        number,
        f"{number / machine.ccds:.3g} cores on each of {machine.ccds} CCDs keep a memory of {machine.gbps:.0f} GB/s "
        f"busy with weights in {work.tensor_type_of_most_bytes}, and more threads only wait for each other (llama.cpp "
        f"issue 6434, pull request 27986); prompts and several streams still use all {machine.cores} cores",
        gain,
        f"threads: {machine.cores}",
    )


def choose_decode_threads(works: Sequence[DecodeWork], machine: DecodeMachine) -> int:
    """Return how many threads decode: the smallest number that is nearly the fastest, for the slowest of the models.

    The number is a multiple of THREADS_STEP, or the number of all cores.
    """
    if machine.cores < LEAST_CORES:
        return machine.cores
    number = max(_choose_thread_count_for_work(work, machine) for work in works)
    return number if number <= MOST_OF_CORES * machine.cores else machine.cores


def _choose_thread_count_for_work(work: DecodeWork, machine: DecodeMachine) -> int:
    if not work.core_seconds:
        return machine.cores
    counts = [
        count for count in range(THREADS_STEP, machine.cores, THREADS_STEP) if count >= LEAST_ON_A_CCD * machine.ccds
    ]
    counts.append(machine.cores)
    seconds = {count: machine.token_seconds(work, count) for count in counts}
    fastest = min(seconds.values())
    return next(count for count in counts if seconds[count] <= NEARLY_BEST * fastest)
