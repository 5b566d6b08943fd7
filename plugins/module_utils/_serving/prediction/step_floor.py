# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of a decoding step that no memory bandwidth shortens: operations with their barriers, and computing.

A step is a graph of operations, and after each of them all threads wait for the slowest. So a model with few active
parameters is as fast as its operations are. Each constant has a reason or a public measurement of its own; none is
fitted to the decode rates that ``make bench-prediction`` compares with predictions.
"""

from __future__ import annotations

from ..._generations import find_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..._models.model_shape import ModelShape

#: Barriers of one layer, counted in the graphs of llama.cpp (src/models and src/llama-graph.cpp, build 11434). A matrix
#: product has two barriers, because its input is quantized first. A dense layer has 7 matrix products (14), 2 norms
#: with scale (4), 2 rotations, 2 writes of the cache, attention (2), the gate of its feed-forward part (1), and 2 sums.
DENSE_LAYER = 27
#: Adds norms of queries and keys (4), and the router: its product (2), softmax, sorting, weights (5), the product with
#: the weights (1), and the sum of 8 experts (8). Its three expert products take the place of those of a dense layer.
MIXTURE_LAYER = 48
#: Compressed keys (MLA) add 9 barriers to the attention; such models also have a shared expert (8) and choose groups.
COMPRESSED_KEYS = 22
#: A layer with a state (Qwen3-Next and later) has 23 barriers in place of the 18 of attention: 3 products (6), the
#: convolution with the copy of its state (4), norms and gates (8), and the rule of the state with its copies (5). Such
#: mixtures also have a shared expert (10).
RECURRENT_LAYER = 15
#: A profile of Qwen3.8-Flash-Next on a 9655 counted 5,410 barriers in each token of 48 layers, which four streams join
#: (epyc-root, cpu-decode-roofline-program, September 2026).
HYPER_LAYER = 112
#: Microseconds of a barrier: 1.9 with 48 threads and 3.2 with 96 were measured on a 9655 (epyc-root, September 2026).
#: Threads pass one cache line on, so the time grows with their number.
BARRIER_US, BARRIER_US_PER_THREAD = 0.6, 0.027
#: Microseconds of an operation beside its barrier: the vector of a token, 8 KiB or 128 cache lines, comes from the
#: caches of other CCDs at about 100 ns for each 8 lines in flight (1.6), and each thread finds its part of it (0.4).
OPERATION_US = 2.0
#: The same for models with a state, whose operations are loops over all heads. In the same profile, 3,468 operations
#: without weights took 33.4 ms. Without 9.3 ms for a table that others do not have, and the barriers, this is 5.
RECURRENT_OPERATION_US = 5.0
#: The same for models with hyper-connections: 70 of the 97 ms of the same profile are above the time for memory.
HYPER_OPERATION_US = 11.0
#: A cache line from the other socket takes 2.2 times as long as from another CCD (anandtech.com 16529, two 7763). Half
#: of the lines come from there.
OVER_SOCKETS = (1 + 2.2) / 2
#: The number of tokens in a batch, and the milliseconds in which one Zen 4 core computes the batch with a model of
#: MEASURED_PARAMETERS. The slower of the times with and without repacked weights; a model has tensors of both kinds.
BATCH_COST = ((1, 14.5), (2, 27.6), (4, 45.0), (6, 63.0), (8, 79.0), (13, 102.0), (16, 102.0), (32, 163.0))
MEASURED_PARAMETERS = 0.361e9
#: CPU family, first and last model, and the speed of a core as a multiple of a Zen 4 core. Zen 3 and older have no
#: AVX-512 and no VNNI; Zen 4c and Zen 5c have a lower clock (3.1 and 3.7 GHz) than Zen 4 and Zen 5 (3.7 and 4.1);
#: Zen 5 has vector units of full width. Of Zen 6 nobody has published a measurement that could be converted.
CORE_SPEEDS = (
    (23, 0x00, 0xFF, 0.55),
    (25, 0x00, 0x0F, 0.6),
    (25, 0xA0, 0xAF, 0.83),
    (25, 0x10, 0xFF, 1.0),
    (26, 0x10, 0x1F, 1.15),
    (26, 0x00, 0x4F, 1.3),
    (26, 0x50, 0x57, None),
)
#: Weights of 16 bits are converted and multiplied, 16 at a time, without unpacking blocks and scales.
SPEED_OF_16_BITS = 3.0
#: Types whose weights are looked up in tables, a few at a time.
TABLE_TYPES, SPEED_OF_TABLES = ("IQ1", "IQ2", "IQ3"), 0.5


class Processor:
    """The threads that decode: their number, the cores that compute, the sockets of these, and the speed of one core.

    ``core_speed`` is a multiple of the speed of a Zen 4 core; an unknown CPU, None, counts as one. ``reads_far_memory``
    is True where threads read weights that are on another socket.
    """

    __slots__ = ("core_speed", "cores", "reads_far_memory", "sockets", "threads")

    def __init__(
        self,
        threads: int,
        cores: int | None = None,
        sockets: int = 1,
        core_speed: float | None = None,
        reads_far_memory: bool | None = None,
    ) -> None:
        self.threads = max(1, threads)
        self.cores = max(1, cores or threads)
        self.sockets = sockets
        self.core_speed = core_speed or 1.0
        self.reads_far_memory = sockets > 1 if reads_far_memory is None else reads_far_memory


def find_core_speed(family: int, model_number: int) -> float | None:
    """Return the computing speed of a core as a multiple of a Zen 4 core, None where it is not known."""
    row = find_row(CORE_SPEEDS, family, model_number)
    return row[3] if row else None


def count_barriers(shape: ModelShape) -> int:
    """Return the number of barriers in the step of a model."""
    if shape.has_hyper_connections:
        return shape.layers * HYPER_LAYER
    layer = MIXTURE_LAYER if shape.is_mixture else DENSE_LAYER
    layer += COMPRESSED_KEYS if shape.has_compressed_keys else 0
    return shape.layers * (layer + (RECURRENT_LAYER if shape.is_recurrent else 0))


def barrier_us(threads: int) -> float:
    """Return the microseconds in which more than one thread passes a barrier."""
    return BARRIER_US + BARRIER_US_PER_THREAD * threads


def estimate_operations_ms(shape: ModelShape, processor: Processor) -> float:
    """Return the milliseconds of all operations and barriers of a step, without multiplying weights."""
    barrier = barrier_us(processor.threads) if processor.threads > 1 else 0.0
    if shape.has_hyper_connections:
        operation = HYPER_OPERATION_US
    else:
        operation = RECURRENT_OPERATION_US if shape.is_recurrent else OPERATION_US
    far = OVER_SOCKETS if processor.sockets > 1 else 1.0
    return count_barriers(shape) * (barrier + operation) * far / 1000


def estimate_computing_ms(shape: ModelShape, processor: Processor, streams: int = 1) -> float:
    """Return the milliseconds in which the cores multiply the weights of a step with one token of each stream."""
    speed = processor.cores * processor.core_speed
    if shape.quantization.upper().startswith(("F16", "BF16", "F32")):
        speed *= SPEED_OF_16_BITS
    elif shape.quantization.upper().startswith(TABLE_TYPES):
        speed *= SPEED_OF_TABLES
    return one_core_batch_milliseconds(streams) * shape.active_parameters / MEASURED_PARAMETERS / speed


def one_core_batch_milliseconds(tokens: int) -> float:
    """Return the milliseconds in which one core computes a batch of tokens, interpolated between measured sizes."""
    if tokens >= BATCH_COST[-1][0]:
        return BATCH_COST[-1][1] * tokens / BATCH_COST[-1][0]
    for (low, first), (high, second) in zip(BATCH_COST, BATCH_COST[1:]):
        if low <= tokens <= high:
            return first + (second - first) * (tokens - low) / (high - low)
    return BATCH_COST[0][1]
