# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compares the time of a step with the time for reading the bytes of the step from memory, which limits its speed.

The rest of the step is computing and waiting of threads, and grows with the number of threads. A step that is faster
than reading its bytes is an error: the bytes or the bandwidth are wrong, or the model is in a cache.
"""

from __future__ import annotations

from ..._errors import BadRequest
from ..._notation.sizes import format_bytes_short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .bandwidth import Bandwidth


class Ceiling:
    """The time of a step compared with its memory time, in milliseconds; ``memory_time_share`` is memory time over step
    time.

    ``memory_ms`` and ``memory_time_share`` are None for an unknown bandwidth. ``problem`` is a sentence where the
    figures cannot be right, and ``remarks`` are sentences on how to read the figures.
    """

    def __init__(self, step_bytes: float, bandwidth: Bandwidth, step_ms: float) -> None:
        self.bytes = step_bytes
        self.gbps = bandwidth.gbps
        self.measured = bandwidth.measured
        self.step_ms = step_ms
        self.memory_ms = None if self.gbps is None else self.bytes / self.gbps / 1e6
        self.problem = ""
        self.remarks: list[str] = []

    @property
    def memory_time_share(self) -> float | None:
        """Memory time over step time."""
        return None if self.memory_ms is None else self.memory_ms / self.step_ms


def compare_step_with_memory_time(step_bytes: float, bandwidth: Bandwidth, step_ms: float, cache: int) -> Ceiling:
    """Compare a step of ``step_ms`` milliseconds with its memory time; BadRequest for a step that took no time.

    ``step_bytes`` are the bytes that the step reads, and ``cache`` is the size of the L3 caches of the instance's CPUs.
    """
    if step_ms <= 0:
        raise BadRequest(f"A step of {step_ms} ms cannot be compared with the memory; measure it again.")
    ceiling = Ceiling(step_bytes, bandwidth, step_ms)
    ratio, size, caches = ceiling.memory_time_share, format_bytes_short(round(ceiling.bytes)), format_bytes_short(cache)
    fits = ceiling.bytes <= cache
    if ratio is None:
        ceiling.remarks.append("The bandwidth of this memory was not measured and is not known: there is no ceiling.")
    elif not ceiling.measured:
        ceiling.remarks.append(f"The bandwidth was not measured: {ceiling.gbps:.0f} GB/s is the paper figure.")
    if fits:
        ceiling.remarks.append(
            f"The {size} that a step reads fit into the {caches} of L3 cache of these CPUs: memory is not the limit."
        )
    if ratio is not None and ratio > 1:
        ceiling.problem = _faster_than_memory_message(ceiling, size, caches, fits)
    return ceiling


def _faster_than_memory_message(ceiling: Ceiling, size: str, caches: str, fits: bool) -> str:
    above = f"A step took {ceiling.step_ms:.2f} ms, and reading its {size} at {ceiling.gbps:.1f} GB/s takes"
    above = f"{above} {ceiling.memory_ms:.2f} ms, which is longer"
    if fits:
        return f"{above}: the model lies in the {caches} of L3 cache. Measure a model that is larger."
    which = "measure the bandwidth again on an idle host" if ceiling.measured else "measure the bandwidth"
    return (
        f"{above}: the bytes or the bandwidth are wrong, and the {caches} of L3 cache do not hold the model. "
        f"Compare the bytes with what gguf_info says of the file that is served, and {which}."
    )
