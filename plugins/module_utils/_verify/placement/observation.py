# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Observed threads, memory and resctrl groups of a running service, without a verdict."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..._kernel.numa_maps import ProcessMemory
    from ..._kernel.threads import Thread
    from ..._models.weight_locality import Locality
    from .resctrl_groups import ResctrlGroups


class Observation:
    """Threads, memory and resctrl groups of a service; ``seconds`` is the length of the window, None without one."""

    def __init__(self, service: str, threads: Iterable[Thread], groups: ResctrlGroups) -> None:
        self.service = service
        self.threads = sorted(threads, key=lambda thread: (thread.process, thread.tid))
        self.groups = groups
        self.places = {thread.tid: groups.find_thread_groups(thread) for thread in self.threads}
        self.seconds: float | None = None
        self.monitored: list[dict[str, object]] = []
        #: Interrupts and other tasks on the CPUs of the busy threads, None where the noise is unknown.
        self.noise: dict[str, object] | None = None
        self.memory: list[ProcessMemory] = []
        #: Path of a model -> the locality of its rows, or the reason why the locality is unknown.
        self.rows: dict[str, Locality | str] = {}

    @property
    def unreadable_value_messages(self) -> list[str]:
        """Sentences on values that could not be read."""
        return [*self.groups.missing, *(reason for memory in self.memory for reason in memory.missing.values())]
