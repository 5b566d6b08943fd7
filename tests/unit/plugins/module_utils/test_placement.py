# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The proof about a service, on trees laid out as the kernel does; what a kernel really says is in tests/lab."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _placement_memory
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._placement import prove
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils import hosts

MIB = 1 << 20
UNIT = "/sys/fs/cgroup/system.slice/llama.service"
RESCTRL = "/sys/fs/resctrl"
NUMA_MAPS = """\
55d0c0000000 bind:0-1 file=/usr/bin/llama-server mapped=30 mapmax=2 N0=10 N3=20 kernelpagesize_kB=4
55d0c2000000 bind:0-1 heap anon=256 dirty=256 N0=128 N1=128 kernelpagesize_kB=4
7f0000000000 bind:0-1 file=/srv/my\\040models/model.gguf mapped=1024 N0=512 N1=512 kernelpagesize_kB=4
7f1000000000 bind:0-1 file=/anon_hugepage\\040(deleted) huge anon=3 dirty=3 N1=3 kernelpagesize_kB=2048
7f2000000000 bind:0-1
7f3000000000 prefer (many):0 stack anon=1 dirty=1 N0=1 kernelpagesize_kB=4
7f4000000000 default file=/dev/zero\\040(deleted) dirty=1 N0=1 kernelpagesize_kB=4
"""
ROLLUP = """\
55d0c0000000-7fffffffffff ---p 00000000 00:00 0                          [rollup]
Rss:                8192 kB
AnonHugePages:      4096 kB
ShmemPmdMapped:        0 kB
FilePmdMapped:      2048 kB
Shared_Hugetlb:     2048 kB
Private_Hugetlb:    4096 kB
Swap:                 12 kB
Locked:                0 kB
"""


class Service:
    """A service on the small machine, and the clock that the proof watches it with."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.tree = hosts.small(root, **changes)
        self.tree.put("/sys/devices/system/node/has_memory", "0-3")
        self.tree.put(f"{UNIT}/cgroup.procs", "100")
        self.tree.put("/proc/100/numa_maps", NUMA_MAPS.rstrip())
        self.tree.put("/proc/100/smaps_rollup", ROLLUP.rstrip())
        self.in_window: list[Callable[[], None]] = []
        self.now = 0.0

    def thread(self, tid: int, allowed: str, cpu: int, worked: float = 0, waited: float = 0, **more: Any) -> None:
        folder = f"/proc/100/task/{tid}"
        voluntary, involuntary = more.get("switches", (0, 0))
        self.tree.put(
            f"{folder}/status",
            f"Name:\tllama-server\nState:\tR (running)\nCpus_allowed:\tffff\nCpus_allowed_list:\t{allowed}\n"
            f"voluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{involuntary}",
        )
        fields = ["0"] * 50
        fields[11] = str(int(worked * 60))  # the one of two clocks that stands still on a CPU without a tick
        fields[19] = str(more.get("started", 7))
        fields[36] = str(cpu)
        self.tree.put(f"{folder}/stat", f"{tid} (a ) strange) S {' '.join(fields[1:])}")
        self.tree.put(f"{folder}/schedstat", f"{int(worked * 1e9)} {int(waited * 1e9)} 5")
        self.tree.put(f"{folder}/cpu_resctrl_groups", f"res:{more.get('group', '/')}\nmon:{more.get('monitor', '')}")

    def resctrl(self, **cpus_of: str) -> None:
        self.tree.put("/proc/self/mounts", f"resctrl {RESCTRL} resctrl rw 0 0")
        for group in ("", *(f"/{name}" for name in cpus_of)):
            for domain in range(4):
                self.counters(f"{RESCTRL}{group}/mon_data/mon_L3_{domain:02d}", 1000 * domain, 0, 0)
        for name, cpus in cpus_of.items():
            self.tree.put(f"{RESCTRL}/{name}/cpus_list", cpus)

    def counters(self, folder: str, occupancy: object, local: object, total: object) -> None:
        self.tree.put(f"{folder}/llc_occupancy", occupancy)
        self.tree.put(f"{folder}/mbm_local_bytes", local)
        self.tree.put(f"{folder}/mbm_total_bytes", total)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for event in self.in_window:
            event()

    def monotonic(self) -> float:
        return self.now

    def prove(self, **options: Any) -> dict[str, Any]:
        return dict(prove(Host(self.tree.fs), {"service": "llama.service", **options}, clock=self))

    def judge(self, **options: Any) -> tuple[str, str]:
        """The only verdict, and its sentence."""
        (verdict,) = self.prove(**options)["verdicts"]
        return verdict["verdict"], verdict["sentence"]


@pytest.fixture
def service(tmp_path: Path) -> Service:
    """One thread on CPUs 0 to 3 that waits, and two on CPUs 4 and 5 of their own that compute for two seconds."""
    service = Service(tmp_path)
    service.thread(100, "0-3", 0, switches=(10, 10))
    service.thread(101, "4", 4)
    service.thread(102, "5", 5)
    service.in_window = [
        lambda: service.thread(100, "0-3", 1, worked=0.1, switches=(30, 11)),
        lambda: service.thread(101, "4", 4, worked=2, switches=(0, 3)),
        lambda: service.thread(102, "5", 5, worked=1.5, waited=0.4),
    ]
    return service


# Threads


def test_threads_with_a_window(service: Service) -> None:
    waiting, first, second = service.prove(window=2)["threads"]
    assert waiting == {
        "process": 100,
        "thread": 100,
        "name": "llama-server",
        "allowed": "0-3",
        "cpu": 1,
        "l3": 0,
        "node": 0,
        "groups": None,
        "busy": 0.05,
        "worked": 0.1,
        "waited": 0,
        "voluntary": 20,
        "involuntary": 1,
    }
    assert (first["busy"], first["l3"], first["node"], first["involuntary"]) == (1, 1, 1, 3)
    assert second["busy"] == pytest.approx(0.95) and second["waited"] == pytest.approx(0.4)


def test_threads_without_a_window_are_not_measured(service: Service) -> None:
    result = service.prove()
    assert result["seconds"] is None and service.now == 0
    for row in result["threads"]:
        assert {row[key] for key in ("busy", "worked", "waited", "voluntary", "involuntary")} == {None}


def test_a_thread_that_came_in_the_window_is_not_measured(service: Service) -> None:
    """Nor is one with the number of another that has ended: its counts are from its own start."""
    service.in_window += [
        lambda: service.thread(103, "6", 6, worked=1),
        lambda: service.thread(100, "7", 7, worked=1, started=8),
    ]
    rows = {row["thread"]: row for row in service.prove(window=2)["threads"]}
    assert rows[103]["busy"] is rows[100]["busy"] is rows[100]["voluntary"] is None
    assert rows[100]["allowed"] == "7"


def test_a_thread_that_ends_while_it_is_read_is_left_out(service: Service) -> None:
    service.tree.drop("/proc/100/task/101/stat")
    assert [row["thread"] for row in service.prove()["threads"]] == [100, 102]


@pytest.mark.parametrize(
    ("option", "cpus", "verdict", "words"),
    [
        ("cpus", "0-5", "ok", "3 threads may run on 0-5 and nowhere else."),
        ("cpus", "node0,ccd0,5", "ok", "3 threads may run on 0-7"),
        ("cpus", "1-5", "drift", "1 of 3 threads may run outside 1-5: thread 100 (llama-server) on 0-3."),
        ("busy_cpus", "l3:1", "ok", "2 busy threads may run on 4-7"),
        ("busy_cpus", "4", "drift", "1 of 2 busy threads may run outside 4: thread 102 (llama-server) on 5."),
    ],
)
def test_where_threads_may_run(service: Service, option: str, cpus: str, verdict: str, words: str) -> None:
    found, sentence = service.judge(window=2, **{option: cpus})
    assert found == verdict and sentence.startswith(words)


@pytest.mark.parametrize(
    ("least", "verdict", "words"),
    [
        (1, "ok", "2 of 3 threads busy, asked for are 1 at least."),
        (2, "ok", "2 of 3 threads busy, asked for are 2 at least."),
        (3, "drift", "Only 2 of 3 threads busy, asked for are 3 at least, each for half of the 2.0 s."),
    ],
)
def test_how_many_threads_are_busy(service: Service, least: int, verdict: str, words: str) -> None:
    assert service.judge(window=2, busy_threads=least) == (verdict, words)


def test_no_busy_thread_is_too_few(service: Service) -> None:
    service.in_window = []
    verdict, sentence = service.judge(window=2, busy_threads=1)
    assert verdict == "drift"
    assert sentence.startswith("Only 0 of 3 threads busy") and sentence.endswith(
        "; give the service work while it is looked at."
    )


def test_how_many_are_busy_is_not_known_without_a_window(service: Service) -> None:
    verdict, sentence = service.judge(busy_threads=2)
    assert verdict == "unknown" and "without a window" in sentence


@pytest.mark.parametrize("least", [-1, "some"])
def test_a_number_of_busy_threads_that_is_none(service: Service, least: object) -> None:
    with pytest.raises(BadRequest, match=r"busy_threads: '.*' is no whole number from 0 up\."):
        service.prove(window=2, busy_threads=least)


def test_many_threads_astray_are_told_by_the_first_three(service: Service) -> None:
    for tid in range(103, 110):
        service.thread(tid, "8-9", 8)
    sentence = service.judge(cpus="0-7")[1]
    assert sentence.startswith("7 of 10 threads") and sentence.endswith("thread 105 (llama-server) on 8-9, and 4 more.")


def test_spread(service: Service) -> None:
    assert service.judge(window=2, spread="cpu") == ("ok", "2 busy threads, each on a CPU of its own.")


@pytest.mark.parametrize(
    ("allowed", "earlier", "later"),
    [("4", 4, 4), ("4-5", 5, 4), ("4-5", 4, 5), ("4", 5, 5)],
    ids=["always", "at the end", "at the begin", "bound to it and not there yet"],
)
def test_busy_threads_that_share_a_cpu(service: Service, allowed: str, earlier: int, later: int) -> None:
    """A crowd on one CPU is busy although each runs but a little: it waits for the CPU."""
    service.tree.drop("/proc/100/task/102/*")
    service.thread(103, allowed, earlier)
    service.in_window = [
        lambda: service.thread(101, "4", 4, worked=0.02, waited=1.9),
        lambda: service.thread(103, allowed, later, worked=0.02, waited=1.9),
    ]
    assert service.judge(window=2, spread="cpu") == (
        "drift",
        "Busy threads share a CPU. CPU 4: thread 101 (llama-server), thread 103 (llama-server).",
    )


def test_threads_that_are_not_bound_are_said_to_float(service: Service) -> None:
    service.in_window[2] = lambda: service.thread(102, "5-7", 5, worked=2)
    verdict, sentence = service.judge(window=2, spread="cpu")
    assert verdict == "ok" and sentence.endswith("; 1 of them may move to other CPUs and come together later.")


def test_siblings_share_a_core(tmp_path: Path) -> None:
    service = Service(tmp_path, smt=True)
    service.thread(101, "4", 4)
    service.thread(102, "20", 20)
    service.in_window = [
        lambda: service.thread(101, "4", 4, worked=2),
        lambda: service.thread(102, "20", 20, worked=2),
    ]
    assert service.judge(window=2, spread="cpu")[0] == "ok"
    for tid, cpu in ((101, 4), (102, 20)):
        service.thread(tid, str(cpu), cpu)
    verdict, sentence = service.judge(window=2, spread="core")
    assert verdict == "drift" and sentence.startswith("Busy threads share a core. core 4: thread 101")


@pytest.mark.parametrize(
    ("window", "drop", "words"),
    [
        (0, "", "set window"),
        (2, "/proc/100/task/*/schedstat", "no time that threads waited"),
        (2, "idle", "no thread was"),
    ],
)
def test_who_is_busy_is_unknown(service: Service, window: float, drop: str, words: str) -> None:
    if drop.startswith("/"):
        service.in_window = [lambda: service.tree.drop(drop)]
    elif drop:
        service.in_window = []
    for option in ({"spread": "cpu"}, {"busy_cpus": "4-5"}):
        verdict, sentence = service.judge(window=window, **option)
        assert verdict == "unknown" and words in sentence
        if drop.startswith("/"):
            service.thread(101, "4", 4)


# Memory


def test_memory_by_kind(service: Service) -> None:
    (memory,) = service.prove()["memory"]
    assert memory["weights"] == {
        "bytes": 4 * MIB,
        "nodes": {"0": 2 * MIB, "1": 2 * MIB},
        "page_sizes": {"4kB": 4 * MIB},
        "files": ["/srv/my models/model.gguf"],
        "policies": ["bind:0-1"],
    }
    assert memory["anonymous"]["nodes"] == {"0": MIB // 2 + 8192, "1": MIB // 2 + 6 * MIB}
    assert memory["anonymous"]["page_sizes"] == {"4kB": MIB + 8192, "2048kB": 6 * MIB}
    assert memory["other"]["nodes"] == {"0": 40 << 10, "3": 80 << 10}
    assert memory["hugepages"] == {"hugetlb": 6 * MIB, "thp": 4 * MIB, "thp_shmem": 0, "thp_file": 2 * MIB}
    assert (memory["resident"], memory["swapped"], memory["locked"]) == (8 * MIB, 12 << 10, 0)


@pytest.mark.parametrize(
    ("options", "weights", "anonymous"),
    [
        ({"nodes": "0-1"}, "ok", "ok"),
        ({"nodes": "all"}, "ok", "ok"),
        ({"nodes": "1"}, "drift", "drift"),
        ({"nodes": "1", "percent": 50}, "ok", "ok"),
        ({"nodes": "1", "percent": 92}, "drift", "ok"),
        ({"nodes": "0-1", "interleaved": True}, "ok", "ok"),
        ({"nodes": "0-2", "interleaved": True}, "drift", "ok"),
        ({"nodes": "0-1", "model": ["/srv/other.gguf"]}, "unknown", "ok"),
        ({"nodes": "0-1", "model": ["/srv/other.gguf"], "interleaved": True}, "unknown", "drift"),
    ],
)
def test_nodes(service: Service, options: dict[str, Any], weights: str, anonymous: str) -> None:
    result = service.prove(**options)
    assert [(row["name"], row["verdict"]) for row in result["verdicts"]] == [
        ("nodes/weights", weights),
        ("nodes/anonymous", anonymous),
    ], result["verdicts"]
    assert result["clean"] == (weights == anonymous == "ok")


def test_the_share_of_each_node_is_said(service: Service) -> None:
    first, second = (row["sentence"] for row in service.prove(nodes="1-2")["verdicts"])
    assert first == (
        "Only 50.0 % of the mapped weights (4 MiB) lies on nodes 1-2, asked for is 99 %: "
        "node 0 50.0 %, node 1 50.0 %, node 2 0.0 %."
    )
    assert second.startswith("Only 92.8 % of anonymous memory")


def test_a_model_that_nobody_has_read_yet(service: Service) -> None:
    service.tree.put("/proc/100/numa_maps", "7f0000000000 default file=/srv/model.gguf")
    verdicts = service.prove(nodes="0")["verdicts"]
    assert [row["verdict"] for row in verdicts] == ["unknown", "unknown"]
    assert "no page of it was read yet" in verdicts[0]["sentence"]


def test_a_model_that_was_replaced_on_disk_is_still_the_model(service: Service) -> None:
    line = "7f0000000000 default file=/srv/model.gguf\\040(deleted) mapped=2 N0=2 kernelpagesize_kB=4"
    service.tree.put("/proc/100/numa_maps", line)
    (memory,) = service.prove(model=["/srv/model.gguf"])["memory"]
    assert memory["weights"]["files"] == ["/srv/model.gguf (deleted)"] and memory["weights"]["bytes"] == 8192


@pytest.mark.parametrize(
    ("kind", "amount", "verdict"),
    [
        ("hugetlb", "6MiB", "ok"),
        ("hugetlb", "8MiB", "drift"),
        ("thp", "4MiB", "ok"),
        ("thp_file", "2MiB", "ok"),
        ("thp_shmem", "2MiB", "drift"),
    ],
)
def test_huge_pages(service: Service, kind: str, amount: str, verdict: str) -> None:
    found, sentence = service.judge(hugepages={kind: amount})
    assert found == verdict and sentence.startswith("Only ") == (verdict == "drift")


def test_what_two_processes_share_counts_once(service: Service) -> None:
    service.tree.put(f"{UNIT}/cgroup.procs", "100\n200")
    service.tree.put("/proc/200/numa_maps", NUMA_MAPS.rstrip())
    service.tree.put("/proc/200/smaps_rollup", ROLLUP.rstrip())
    assert service.judge(hugepages={"hugetlb": "12MiB"})[0] == "drift"
    assert [row["process"] for row in service.prove()["memory"]] == [100, 200]


def test_memory_that_cannot_be_read_is_unknown(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, limit: int = 0) -> str:
        if path.startswith("/proc/100/") and "/task/" not in path:
            raise Refused(f"Cannot read {path}: Permission denied.", 13, path)
        return read(path)

    read = service.tree.fs.read
    monkeypatch.setattr(service.tree.fs, "read", refuse)
    result = service.prove(nodes="0", hugepages={"thp": "1GiB"})
    assert {row["verdict"] for row in result["verdicts"]} == {"unknown"} and not result["clean"]
    assert all("Only root may read it." in row["sentence"] for row in result["verdicts"])
    assert len(result["missing"]) == 3, "resctrl is not mounted either"
    assert result["memory"][0]["weights"] is result["memory"][0]["hugepages"] is None


def test_a_kernel_without_the_files_is_no_kernel_without_huge_pages(service: Service) -> None:
    service.tree.drop("/proc/100/numa_maps")
    service.tree.put("/proc/100/smaps_rollup", ROLLUP.replace("FilePmdMapped", "Nothing").rstrip())
    rows = service.prove(nodes="0", hugepages={"hugetlb": "1GiB"})["verdicts"]
    assert {row["verdict"] for row in rows} == {"unknown"}
    assert "does not have the file" in rows[0]["sentence"] and "counts no FilePmdMapped" in rows[2]["sentence"]


@pytest.mark.parametrize(
    ("escaped", "path"),
    [
        ("/a\\040b", "/a b"),
        ("/a\\134040", "/a\\040"),
        ("/\\303\\244", "/ä"),
        ("/a\\9", "/a\\9"),
        ("/a\\", "/a\\"),
        ("", ""),
    ],
)
def test_paths_as_the_kernel_writes_them(escaped: str, path: str) -> None:
    assert _placement_memory.unescape(escaped) == path


# Cache


def test_the_group_of_a_thread(service: Service) -> None:
    """A thread's own group wins; one in none has the groups of its CPUs, which may be several."""
    service.resctrl(verify="4-7", draft="0-1")
    service.thread(102, "5", 5, group="draft", monitor="m")
    result = service.prove()
    assert [row["groups"] for row in result["threads"]] == [["/", "draft"], ["verify"], ["draft"]]
    assert [(row["group"], row["monitor"]) for row in result["groups"]] == [
        ("/", ""),
        ("draft", ""),
        ("draft", "m"),
        ("verify", ""),
    ]


@pytest.mark.parametrize(
    ("cpus", "verdict", "words"),
    [
        ("0-7", "ok", "3 threads with the limits of the resctrl group verify."),
        (
            "1-7",
            "drift",
            "1 of 3 threads do not have the limits of the resctrl group verify: thread 100 (llama-server) in",
        ),
    ],
)
def test_the_group_asked_for(service: Service, cpus: str, verdict: str, words: str) -> None:
    service.resctrl(verify=cpus)
    found, sentence = service.judge(group="verify")
    assert found == verdict and sentence.startswith(words)


def test_groups_that_cannot_be_told(service: Service) -> None:
    verdict, sentence = service.judge(group="verify")
    assert verdict == "unknown" and sentence == "Not known: resctrl is not mounted."
    service.resctrl(verify="0-15")
    service.tree.drop("/proc/100/task/101/cpu_resctrl_groups")
    verdict, sentence = service.judge(group="verify")
    assert verdict == "unknown" and "CONFIG_PROC_CPU_RESCTRL" in sentence


def test_occupancy_and_bandwidth(service: Service) -> None:
    service.resctrl(verify="0-7")
    folder = f"{RESCTRL}/verify/mon_data/mon_L3_0"
    service.in_window += [
        lambda: service.counters(f"{folder}1", 4096, 2000, 8000),
        lambda: service.counters(f"{folder}2", "Unavailable", 2000, "Unassigned"),
    ]
    result = service.prove(window=2)
    (verify,) = result["groups"]
    assert verify["l3"]["0"] == {"occupancy": 0, "local_bandwidth": 0, "total_bandwidth": 0}
    assert verify["l3"]["1"] == {"occupancy": 4096, "local_bandwidth": 1000, "total_bandwidth": 4000}
    assert verify["l3"]["2"] == {"occupancy": None, "local_bandwidth": 1000, "total_bandwidth": None}
    assert any("says 'Unavailable'" in reason for reason in result["missing"])
    (verify,) = service.prove()["groups"]
    assert verify["l3"]["1"] == {"occupancy": 4096, "local_bandwidth": None, "total_bandwidth": None}


def test_hardware_that_counts_nothing_has_no_domains(service: Service) -> None:
    service.tree.put("/proc/self/mounts", f"resctrl {RESCTRL} resctrl rw 0 0")
    assert service.prove()["groups"] == [{"group": "/", "monitor": "", "l3": {}}]


# Questions


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cpus": "draft"}, "The plan gives the role draft no CPU"),
        ({"busy_cpus": "99"}, "CPU 99 is not on this host"),
        ({"nodes": "7"}, "there is no node 7 with memory"),
        ({"interleaved": True}, "interleaved: say with nodes"),
        ({"percent": 0}, "percent: 0 is no share"),
        ({"percent": "many"}, "percent: 'many' is no whole number"),
        ({"hugepages": {"thp": "much"}}, "hugepages.thp: 'much' is no amount of memory"),
        ({"hugepages": {"big": "1GiB"}}, "there is no kind 'big'; say one of hugetlb, thp"),
        ({"window": -1}, "window: -1 is no length of time"),
        ({"service": "gone.service"}, "The unit gone.service has no control group"),
        ({"service": "4711"}, "There is no process 4711"),
    ],
)
def test_questions_that_make_no_sense_are_refused(service: Service, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        service.prove(**options)


def test_a_service_that_ends_is_no_service_without_fault(service: Service) -> None:
    service.in_window = [lambda: service.tree.put(f"{UNIT}/cgroup.procs", "")]
    with pytest.raises(BadRequest, match=r"llama\.service has no threads"):
        service.prove(window=2, cpus="all")


def test_nothing_asked_is_nothing_wrong(service: Service) -> None:
    result = service.prove(hugepages={"thp": None})
    assert result["verdicts"] == [] and result["clean"]
