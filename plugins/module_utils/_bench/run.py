# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run and its file: what all kinds of runs write down first and last."""

from __future__ import annotations

import os
import time

from .._errors import BadRequest, TuningError
from .._io.store import HOME
from .documents import run_document as documents
from .memory import instance_memory
from .memory.bandwidth import cache
from .sampling.meter import step_aside
from .target import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._host.host import Host
    from .load.request import Asked
    from .target.measured_instance import Target

FOLDER = f"{HOME}/benchmarks"


class Run:
    """A run that has begun: its ``path`` and ``document``, and ``settings``, which the host had then."""

    def __init__(
        self, host: Host, target: Target, asked: Asked, arms: list[dict[str, Any]], seed: int = 0, **plan: Any
    ) -> None:
        """Begin; nothing is written before the first ``save``. BadRequest where its file is there already."""
        self.host = host
        self.target = target
        #: Whether another program goes on with the document, and ends it.
        self.goes_on = False
        started = now()
        stamp = started.replace(":", "").replace("-", "")
        self.path = asked.output or f"{FOLDER}/{target.name}-{stamp}.json"
        if os.path.lexists(self.path):
            raise BadRequest(f"{self.path} is there already, and is left as it is: give this run a file of its own.")
        if asked.output is None:
            os.makedirs(FOLDER, 0o700, exist_ok=True)
        shown = fingerprint.of(host, target, asked.all)
        self.settings = shown["settings"]
        identity, caches = f"{target.name[:20]}-{stamp}", cache(host.topology, target.cpus)
        self.document = documents.new(identity, target.name, started, seed, shown, arms, caches, **plan)

    def prepare(self, tell: Callable[[str], None]) -> None:
        """Leave the instance its CPUs, and measure the bandwidth of its memory while it is idle."""
        self.document["remarks"] += [*self.target.remarks, *step_aside(self.host, self.target.cpus)]
        tell("it measures the bandwidth of the memory")
        found = instance_memory.measure(self.host, self.target)
        self.document["bandwidth"].append(instance_memory.record(found))
        if not found.measured:
            self.document["remarks"] += found.reasons

    def save(self) -> None:
        """Write down what is known so far."""
        documents.save(self.path, self.document)

    def end(self, restored: bool = True) -> None:
        """Write down the end. ``restored`` says whether all but the settings is as it was, which are looked at here.

        The end stays open where the run goes on.
        """
        try:
            samples = [one for one in self.document["samples"] if one["arm"] in instance_memory.AS_PLANNED]
            self.document["steps"] = instance_memory.steps(self.target, samples)
        except TuningError as error:
            self.document["remarks"].append(instance_memory.unread(error))
        restored = restored and fingerprint.settings(self.host) == self.settings
        if not (self.goes_on and restored):
            self.document.update(restored=restored, ended=now())
        self.save()


def now() -> str:
    """Return the time as documents have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
