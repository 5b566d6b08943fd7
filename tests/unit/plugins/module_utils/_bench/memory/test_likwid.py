# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""likwid-bench: its output is that of likwid 5.2.2 of Debian 12, recorded on a host with two busy CPUs."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory import likwid
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError

DOMAINS = """\
Number of Domains 5
Domain 0:
\tTag N: 0 1
Domain 1:
\tTag S0: 0 1
Domain 2:
\tTag D0: 0 1
Domain 3:
\tTag C0: 0 1
Domain 4:
\tTag M0: 0 1
"""
RUN = """\
Allocate: Process running on hwthread 0 (Domain M0) - Vector length 32000000/256000000 Offset 0 Alignment 512
Initialization: First thread in domain initializes the whole stream
--------------------------------------------------------------------------------
LIKWID MICRO BENCHMARK
Test: load_avx
--------------------------------------------------------------------------------
Using 1 work groups
Using 2 threads
--------------------------------------------------------------------------------
--------------------------------------------------------------------------------
Group: 0 Thread 0 Global Thread 0 running on hwthread 0 - Vector length 16000000 Offset 0
Group: 0 Thread 1 Global Thread 1 running on hwthread 1 - Vector length 16000000 Offset 16000000
--------------------------------------------------------------------------------
Cycles:\t\t\t17806366360
CPU Clock:\t\t1996224649
Cycle Clock:\t\t1996224649
Time:\t\t\t8.920021e+00 sec
Iterations:\t\t20
Iterations per thread:\t10
Inner loop executions:\t1000000
Size (Byte):\t\t256000000
Size per thread:\t128000000
Number of Flops:\t0
MFlops/s:\t\t0.00
Data volume (Byte):\t2560000000
MByte/s:\t\t286.99
Cycles per update:\t55.644895
Cycles per cacheline:\t445.159159
Loads per update:\t1
Stores per update:\t0
Load bytes per element:\t8
Store bytes per elem.:\t0
Instructions:\t\t140000016
UOPs:\t\t\t120000000
--------------------------------------------------------------------------------
"""
#: Two nodes of four cores, in the order of likwid: all cores, then their SMT siblings.
TWO = {"N": (0, 1, 2, 3, 4, 5, 6, 7), "M0": (0, 1, 2, 3, 8, 9, 10, 11), "M1": (4, 5, 6, 7, 12, 13, 14, 15)}


def test_the_domains_that_it_lists() -> None:
    assert likwid.parse_thread_domains(DOMAINS) == {tag: (0, 1) for tag in ("N", "S0", "D0", "C0", "M0")}
    assert likwid.parse_thread_domains("Cannot read topology\n") == {}


def test_the_rate_of_a_run() -> None:
    """2,560,000,000 bytes in 8.920021 s."""
    assert likwid.parse_gigabytes_per_second(RUN) == pytest.approx(2.56 / 8.920021, rel=1e-4)


@pytest.mark.parametrize("text", ["", "Test: load_avx", RUN.replace("286.99", "0.00"), RUN + RUN])
def test_a_run_that_says_no_rate(text: str) -> None:
    with pytest.raises(TuningError, match=r"likwid-bench ended without a line MByte/s\. It says: "):
        likwid.parse_gigabytes_per_second(text)


@pytest.mark.parametrize(
    ("cpus", "nodes", "groups"),
    [
        (range(4), [0], ["M0:2000MB:4"]),
        ([1, 0], [0], ["M0:2000MB:2"]),
        (range(8), [1, 0], ["M0:2000MB:4", "M1:2000MB:4"]),
        (range(16), [0, 1], ["M0:2000MB:8", "M1:2000MB:8"]),
        # Not the first ones; memory of a node without one of these CPUs; CPUs of another node; no such node; no CPU.
        ([1, 2, 3], [0], None),
        (range(4), [0, 1], None),
        (range(5), [0], None),
        (range(4), [2], None),
        ([], [0], None),
        ([], [], None),
    ],
)
def test_likwid_measures_only_whole_prefixes_of_its_domains(
    cpus: list[int], nodes: list[int], groups: list[str] | None
) -> None:
    words = likwid.read_bandwidth_command(TWO, cpus, nodes, 2_000_000_000, {"avx2"})
    told = [word for group in groups or [] for word in ("-W", group)]
    assert words == (None if groups is None else ["likwid-bench", "-s", "1", "-t", "load_avx", *told])


def test_the_widest_loads_and_whole_megabytes() -> None:
    words = likwid.read_bandwidth_command(TWO, range(4), [0], 1 << 30, {"avx2", "avx512f"})
    assert words == ["likwid-bench", "-s", "1", "-t", "load_avx512", "-W", "M0:1074MB:4"]
