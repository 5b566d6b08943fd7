# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which program measures the bandwidth of which CPUs, and what is said where none does. Programs here are scripts."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.memory import bandwidth, memory_reader
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

#: The first CPUs of two nodes of the small host, each with 4 CPUs and 16 MiB of L3.
DOMAINS = "\\tTag M0: 0 1 2 3\\n\\tTag M1: 4 5 6 7\\n"


class Programs:
    """Scripts that stand where programs are looked for, and what was asked of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"

    def put(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> {self.log}\n{text}\n')
        path.chmod(0o755)

    def likwid(self, run: str) -> None:
        """Put a likwid-bench; in ``run``, $n is the number of the run."""
        count = f"n=0; while read -r line; do n=$((n + 1)); done <{self.log}"
        self.put("likwid-bench", f"test $1 = -p && printf '{DOMAINS}' && exit\n{count}\n{run}")

    def compiler(self, program: str) -> None:
        """Put a compiler whose program is this script. The path that it is to write to stands behind -o."""
        self.put("cc", f"while test $1 != -o; do shift; done\nprintf '#!/bin/sh\\n{program}\\n' >$2\n/bin/chmod 755 $2")

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setattr(command, "PATH", str(folder))
    return Programs(folder)


SMALL = hosts.standing("small").topology()


def test_likwid_measures_where_it_has_these_cpus(programs: Programs) -> None:
    """The best of five runs; the list of domains is the first line of the log."""
    programs.likwid("echo MByte/s: $((100000 + 1000 * (n % 4)))")
    found = bandwidth.measure_bandwidth(SMALL, range(8), [0, 1])
    assert (found.gbps, found.source, found.measured, found.reasons) == (103.0, "likwid-bench", True, [])
    assert programs.asked == ["likwid-bench -p", *["likwid-bench -s 1 -t load_avx -W M0:537MB:4 -W M1:537MB:4"] * 5]
    assert found.to_dict() == {
        "cpus": "0-7",
        "nodes": "0-1",
        "gbps": 103.0,
        "source": "likwid-bench",
        "measured": True,
        "reasons": [],
    }


def test_our_reader_measures_what_likwid_cannot(programs: Programs) -> None:
    programs.likwid("echo MByte/s: 1")
    programs.compiler("echo 20.5 21.25 20 19 18")
    found = bandwidth.measure_bandwidth(SMALL, [1, 2], [0])
    assert (found.gbps, found.source, found.measured) == (21.25, "reader", True)
    assert found.reasons == ["likwid-bench has no thread domains that are CPUs 1-2 with memory on node 0."]


def test_our_reader_runs_under_the_policy_of_the_caller(programs: Programs) -> None:
    programs.likwid("echo MByte/s: 1")
    programs.compiler("echo 1 2 3 4 5")
    programs.put("numactl", 'shift; exec "$@"')
    found = bandwidth.measure_bandwidth(SMALL, [0, 1], [2], ["numactl", "--membind=2"])
    assert (found.gbps, found.source, found.nodes) == (5.0, "reader", (2,))
    (asked,) = [line for line in programs.asked if line.startswith("numactl")]
    assert asked.startswith("numactl --membind=2 /") and asked.endswith(f"/reader 5 300 {1 << 29} 0 1")


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("echo no access >&2; exit 3", "likwid-bench failed with exit code 3. It says: no access"),
        ("echo Test: load_avx", "likwid-bench ended without a line MByte/s. It says: Test: load_avx"),
    ],
)
def test_a_failed_source_is_reported_and_the_next_is_tried(programs: Programs, run: str, words: str) -> None:
    programs.likwid(run)
    programs.compiler("echo 1 2 3 4 5")
    found = bandwidth.measure_bandwidth(SMALL, range(4), [0])
    assert (found.source, found.reasons) == ("reader", [words])


def test_without_programs_there_is_the_paper_figure_alone(programs: Programs) -> None:
    """A 9754 has 460.8 GB/s; a node of the small host is a quarter of it."""
    found = bandwidth.measure_bandwidth(SMALL, range(4), [0])
    assert (found.gbps, found.source, found.measured) == (115.2, "paper", False)
    assert [reason.split(" in ")[0] for reason in found.reasons] == [
        "There is no likwid-bench",
        "There is no C compiler",
    ]


def test_nothing_is_known_of_an_unknown_family(programs: Programs, tmp_path: Path) -> None:
    top = hosts.small(tmp_path / "host", family=99).topology()
    found = bandwidth.measure_bandwidth(top, range(4), [0])
    assert (found.gbps, found.source, found.measured, found.to_dict()["gbps"]) == (None, "nothing", False, None)


def test_two_sockets_have_twice_the_paper_figure() -> None:
    top = hosts.standing("two 7543").topology()
    assert bandwidth.data_sheet_bandwidth(top, top.online, [0, 1]).gbps == pytest.approx(2 * 204.8)


def test_what_is_read_is_four_times_what_caches_hold() -> None:
    top = hosts.standing("9654").topology()
    assert bandwidth.l3_cache_bytes(top, range(9)) == 2 * 32 << 20
    assert bandwidth.l3_cache_bytes(top, top.online) == 12 * 32 << 20


def test_requests_that_cannot_be_measured(programs: Programs) -> None:
    with pytest.raises(BadRequest, match="No CPUs were given"):
        bandwidth.measure_bandwidth(SMALL, [], [0])
    with pytest.raises(BadRequest, match=r"CPUs 0-1 are on node 0, and memory of node 2 .* numactl --membind=2\."):
        bandwidth.measure_bandwidth(SMALL, [0, 1], [2])


# The reader


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo cannot run on CPU 7 >\\&2; exit 1", "failed with exit code 1. It says: cannot run on CPU 7"),
        ("echo 1 2", "failed with exit code 0. It says: 1 2"),
        ("echo 1 2 3 4 x", "failed with exit code 0. It says: 1 2 3 4 x"),
        ("exit 2", "failed with exit code 2. It says: nothing"),
    ],
)
def test_a_reader_that_fails(programs: Programs, program: str, words: str) -> None:
    programs.compiler(program.replace("\\&", "&"))
    with pytest.raises(TuningError, match=words):
        memory_reader.measure_fastest_read_gbps([0], 1 << 20)


def test_no_compiler(programs: Programs) -> None:
    with pytest.raises(Absent, match=r"There is no C compiler in .*, 'apt install gcc' brings one"):
        memory_reader.measure_fastest_read_gbps([0], 1 << 20)


def test_the_reader_is_not_put_where_programs_must_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    noexec = {tempfile.gettempdir(), "/var/tmp"}
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC if path in noexec else 0))
    assert memory_reader.find_folder_of_programs() == "/var/lib"
    noexec |= {"/var/lib", "/root"}
    with pytest.raises(TuningError, match="/var/tmp, /var/lib, /root are all mounted with noexec"):
        memory_reader.find_folder_of_programs()


def test_the_real_reader() -> None:
    """It reads for a moment on a CPU that this process may use, and says what is wrong with one that there is not."""
    cpu = min(os.sched_getaffinity(0))
    assert 0.001 < memory_reader.measure_fastest_read_gbps([cpu], 32 << 20, milliseconds=20) < 1000
    with pytest.raises(TuningError, match="cannot run on CPU 9999: Invalid argument"):
        memory_reader.measure_fastest_read_gbps([9999], 32 << 20, milliseconds=20)
