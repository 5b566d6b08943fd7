# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build all that the tests keep from one run to the next: `python -m vepyc.caches`, before they begin.

A test builds what it misses, too. Built before, it costs the tests no time, and what both cost can be told apart.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial

from .errors import VepycError
from .guest import get_release
from .image import ensure_image
from .llama import CONTAINER, GUEST, ensure_llama, ensure_model
from .machine import Machine
from .paths import locked
from .shapes import get_shape
from .snapshot import snapshot_dir
from .start import up
from .venvs import DASHBOARDS, OLDEST_CORE, REDFISH, collections, ends, node_modules, pythons, unit_venv, venv

#: The machines that the tests start. Neighbours are of the same image as seldom as may be: one would wait for it.
_MACHINES = (
    ("small", "6.12"),
    ("small", "6.1"),
    ("epyc9754", "6.12"),
    ("smt", "6.12"),
    ("epyc9354", "6.12"),
    ("epyc7543x2", "6.12"),
)


def fill() -> None:
    """Build what is missing, as many things at a time as there are CPUs, and print the seconds of each."""
    start = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(_seconds, build): what for what, build in _builds().items()}
        for job in as_completed(jobs):
            # What was there already took no time worth a line.
            if (seconds := job.result()) >= 2:
                print(f"caches: {jobs[job]}: {seconds:.0f} s", flush=True)
    print(f"caches: complete after {time.monotonic() - start:.1f} s")


def _seconds(build: Callable[[], object]) -> float:
    start = time.monotonic()
    build()
    return time.monotonic() - start


def _builds() -> dict[str, Callable[[], object]]:
    """What the tests keep, the longest builds first; the second llama.cpp has most of its objects from the first."""
    there = pythons()
    return {
        "llama.cpp for guests": partial(ensure_llama, GUEST),
        **{f"{shape} with kernel {kernel}": partial(_ensure_snapshot, shape, kernel) for shape, kernel in _MACHINES},
        "llama.cpp for containers": partial(ensure_llama, CONTAINER),
        "the model": ensure_model,
        "clients of BMCs": partial(venv, *REDFISH),
        "the types of Grafana": partial(node_modules, *DASHBOARDS),
        "community.general": partial(collections, "community.general"),
        "the oldest ansible-core": partial(venv, OLDEST_CORE),
        "the oldest ansible-core, for unit tests": partial(unit_venv, OLDEST_CORE),
        **{f"Python {version}": partial(unit_venv, python=there[version]) for version in ends(there)},
    }


def _ensure_snapshot(shape: str, kernel: str) -> None:
    release = get_release(kernel)
    ensure_image(release)
    name = f"first-{shape}-{kernel.replace('.', '-')}"
    with locked(f"cache-{name}"):
        if not snapshot_dir(get_shape(shape), release).exists():
            # Whoever held the lock before and was killed may have left one, and nothing is known of it.
            with suppress(VepycError):
                Machine.find(name).down()
            up(shape, name, kernel).down()


if __name__ == "__main__":
    try:
        fill()
    except VepycError as error:
        sys.exit(f"caches: {error}")
