# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the caches that tests use, before the tests begin: `python -m vepyc.caches everyday` or `all`.

A test would build a missing cache itself. Built before, the cache costs the test no time, and the seconds of tests and
of builds are measured apart.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial

from .epyc.shapes import get_shape
from .errors import VepycError
from .images.guest_image import ensure_image
from .images.guest_system import get_release
from .llama.debian_build import ensure_debian_build
from .llama.llama_cpp import CONTAINER, GUEST, NATIVE, ensure_ik_llama, ensure_llama, ensure_model
from .machine.running import Machine
from .machine.saved_states import snapshot_dir
from .machine.start import start_machine
from .paths import hold_lock
from .venvs import (
    DASHBOARD_PACKAGES,
    OLDEST_CORE,
    OLDEST_PROMISED_CORE,
    REDFISH_CLIENTS,
    RUNNER,
    ensure_collections,
    ensure_node_modules,
    ensure_unit_test_programs,
    ensure_venv,
    find_pythons,
    oldest_and_newest,
)

#: Shape and kernel of the machines that `make test` starts, and of those that only `make test-all` starts. Machines of
#: the same image are far apart in the list, because the second one would wait until the first has built the image.
_EVERYDAY_MACHINES = (("small", "6.12"),)
_OTHER_MACHINES = (
    ("small", "6.1"),
    ("epyc9754", "6.12"),
    ("small", "backports"),
    ("smt", "6.12"),
    ("epyc9354", "6.12"),
    ("epyc7543x2", "6.12"),
)


def run_builds(builds: dict[str, Callable[[], object]]) -> None:
    """Run builds, as many at a time as there are CPUs, and print the seconds of each that took at least two."""
    start = time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(_measure_seconds, build): name for name, build in builds.items()}
        for job in as_completed(jobs):
            # Builds that were already cached get no line.
            if (seconds := job.result()) >= 2:
                print(f"caches: {jobs[job]}: {seconds:.0f} s", flush=True)
    print(f"caches: complete after {time.monotonic() - start:.1f} s")


def _measure_seconds(build: Callable[[], object]) -> float:
    start = time.monotonic()
    build()
    return time.monotonic() - start


def everyday_builds() -> dict[str, Callable[[], object]]:
    """Return the builds of `make test` by the name of what they build, the longest builds first."""
    return {
        "llama.cpp for containers": partial(ensure_llama, CONTAINER),
        **_snapshot_builds(_EVERYDAY_MACHINES),
        "llama-server of Debian for guests": ensure_debian_build,
        "the model": ensure_model,
    }


def all_builds() -> dict[str, Callable[[], object]]:
    """Return the builds of `make test-all`."""
    pythons = find_pythons()
    return {
        **everyday_builds(),
        # It comes after the build for containers, because ccache then has most of its objects.
        "llama.cpp for guests": partial(ensure_llama, GUEST),
        "llama.cpp for this machine": partial(ensure_llama, NATIVE),
        "ik_llama.cpp for this machine": ensure_ik_llama,
        **_snapshot_builds(_OTHER_MACHINES),
        "the types of Grafana": partial(ensure_node_modules, *DASHBOARD_PACKAGES),
        "clients of BMCs": partial(ensure_venv, *REDFISH_CLIENTS),
        "community.general": partial(ensure_collections, "community.general"),
        "the oldest ansible-core": partial(ensure_venv, OLDEST_CORE),
        "the oldest promised ansible-core": partial(ensure_venv, OLDEST_PROMISED_CORE),
        "ansible-runner": partial(ensure_venv, OLDEST_CORE, RUNNER),
        "the oldest ansible-core, for unit tests": partial(ensure_unit_test_programs, OLDEST_CORE),
        **{
            f"Python {version}": partial(ensure_unit_test_programs, python=pythons[version])
            for version in oldest_and_newest(pythons)
        },
    }


def _snapshot_builds(machines: Iterable[tuple[str, str]]) -> dict[str, Callable[[], object]]:
    return {f"{shape} with kernel {kernel}": partial(_ensure_snapshot, shape, kernel) for shape, kernel in machines}


def _ensure_snapshot(shape: str, kernel: str) -> None:
    release = get_release(kernel)
    ensure_image(release)
    name = f"first-{shape}-{kernel.replace('.', '-')}"
    with hold_lock(f"cache-{name}"):
        if not snapshot_dir(get_shape(shape), release).exists():
            # A process that was killed while it held the lock may have left its machine, in an unknown state.
            with suppress(VepycError):
                Machine.find_running(name).discard()
            start_machine(shape, name, kernel).discard()


if __name__ == "__main__":
    try:
        run_builds({"everyday": everyday_builds, "all": all_builds}[sys.argv[1]]())
    except VepycError as error:
        sys.exit(f"caches: {error}")
