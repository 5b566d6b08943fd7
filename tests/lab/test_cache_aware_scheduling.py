# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the newest kernel lets the threads of a process run: cache-aware scheduling draws some to one L3 domain."""

from __future__ import annotations

import contextlib
import time

import pytest

pytestmark = pytest.mark.slow

#: Each thread begins in an L3 domain of its own. Then it may run in all of them, unless it is pinned. The hash lets
#: other threads of Python run meanwhile.
SPREAD_THREADS = """
import hashlib, os, sys, threading

def compute(cpu, pinned):
    os.sched_setaffinity(0, {cpu})
    started.wait()
    if not pinned:
        os.sched_setaffinity(0, range(16))
    hashlib.pbkdf2_hmac("sha256", b"key", b"salt", 10**9)

number, pinned = int(sys.argv[1]), sys.argv[2] == "pinned"
started = threading.Barrier(number)
for place in range(number):
    threading.Thread(target=compute, args=(4 * place, pinned)).start()
"""
#: Seconds in which the kernel has drawn threads together, if it does; seconds for which threads are watched that it
#: leaves alone; and the seconds of one look.
PATIENCE, WATCH, LOOK = 120, 20, 2


@pytest.fixture(scope="module")
def host(own_newest_guest):
    """The small machine with the newest kernel, without NUMA balancing, as a tuned host."""
    own_newest_guest.run(f"cat >/run/spread.py <<'END'\n{SPREAD_THREADS}\nEND\nsysctl -qw kernel.numa_balancing=0")
    return own_newest_guest


@contextlib.contextmanager
def computing_threads(host, number, kind):
    """Have a service compute with so many threads on the machine, pinned or free."""
    host.run(f"systemd-run --quiet --unit spread python3 /run/spread.py {number} {kind}")
    try:
        yield
    finally:
        host.run("systemctl stop spread")


def l3_domains_of_computing_threads(host, number):
    """The L3 domain of each computing thread, by what the product sees of the service."""
    for dummy in range(PATIENCE // LOOK):
        proof = host.module("service_placement_info", service="spread.service", window=LOOK)
        domains = [thread["l3"] for thread in proof["threads"] if (thread["busy"] or 0) > 0.5]
        if len(domains) == number:
            return domains
    raise AssertionError(f"{number} threads should compute: {proof}")


def is_drawn_together(host, number, seconds):
    """Whether all threads come to run in one domain within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if len(set(l3_domains_of_computing_threads(host, number))) == 1:
            return True
    return False


@pytest.mark.parametrize(
    ("aware", "kind", "number", "drawn"),
    [
        (True, "free", 3, True),
        (False, "free", 3, False),
        (True, "pinned", 3, False),
    ],
    ids=["free threads", "switched off", "pinned threads"],
)
def test_which_threads_the_kernel_draws_together(host, aware, kind, number, drawn):
    host.module("sysfs_settings", cache_aware_scheduling=aware)
    with computing_threads(host, number, kind):
        assert is_drawn_together(host, number, PATIENCE if drawn else WATCH) == drawn
    host.module("sysfs_settings", state="original")
