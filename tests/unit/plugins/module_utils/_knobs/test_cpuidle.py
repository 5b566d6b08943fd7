# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The knob of idle states on trees: CPUs whose states differ, kernels that have none, and other owners of limits."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Refused, Unsupported
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import cpuidle
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.cpuidle import CPUS, DMA_LATENCY, CpuIdle
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.idle_states import EPYC, QOS, give_states


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    """Sixteen CPUs with the states of an EPYC, where nobody holds a limit."""
    machine = hosts.small(tmp_path)
    give_states(machine, range(16))
    machine.put(f"{CPUS}/cpuidle/current_driver", "acpi_idle")
    machine.put(f"{CPUS}/cpuidle/current_governor_ro", "menu")
    machine.put("/proc/cmdline", "BOOT_IMAGE=/vmlinuz quiet")
    return machine


def knob(tree: hosts.Host, *settings: dict[str, Any], **intent: Any) -> CpuIdle:
    made = cpuidle.build_knobs(Host(tree.fs, intent), {"settings": list(settings)})[0]
    assert isinstance(made, CpuIdle)
    return made


def refusal(tree: hosts.Host, *settings: dict[str, Any]) -> str:
    with pytest.raises(BadRequest) as caught:
        knob(tree, *settings).wanted_settings()
    return str(caught.value)


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ({"deepest": "POLL"}, "POLL"),
        ({"deepest": "C1"}, "POLL C1"),
        ({"deepest": "C2"}, "POLL C1 C2"),
        ({"max_latency": 0}, "POLL"),
        ({"max_latency": 1}, "POLL C1"),
        ({"max_latency": 799}, "POLL C1"),
        ({"max_latency": 800}, "POLL C1 C2"),
    ],
)
def test_what_is_deeper_is_forbidden_and_the_rest_allowed(
    tree: hosts.Host, asked: dict[str, Any], allowed: str
) -> None:
    wanted = knob(tree, {"cpus": "3", **asked}).wanted_settings()
    assert wanted == {f"cpuidle:cpu3/{name}": str(int(name not in allowed.split())) for name, dummy in EPYC}


def test_each_role_has_its_own_limit(tree: hosts.Host) -> None:
    made = knob(
        tree,
        {"cpus": "housekeeping", "deepest": "C2"},
        {"cpus": "verify", "deepest": "C1"},
        housekeeping={"cores": 1, "per": "node"},
    )
    wanted = made.wanted_settings()
    assert [cpu for cpu in range(16) if wanted[f"cpuidle:cpu{cpu}/C2"] == "0"] == [0, 4, 8, 12]
    assert (made.module_facts(), made.list_remarks()) == ({"driver": "acpi_idle", "governor": "menu"}, [])


def test_the_states_of_each_cpu_count(tree: hosts.Host) -> None:
    """Firmware may give CPUs different lists, and two states one name."""
    give_states(tree, range(2, 3), (("POLL", 0), ("C1", 1), ("C1", 18), ("C3", 400)))
    wanted = knob(tree, {"cpus": "1-2", "max_latency": 20}).wanted_settings()
    assert {name: value for name, value in wanted.items() if "cpu2/" in name} == {
        "cpuidle:cpu2/POLL": "0",
        "cpuidle:cpu2/C1": "0",
        "cpuidle:cpu2/state2": "0",
        "cpuidle:cpu2/C3": "1",
    }
    assert wanted["cpuidle:cpu1/C2"] == "1"
    said = refusal(tree, {"cpus": "1-2", "deepest": "C2"})
    assert "CPU 2 has no idle state C2, only POLL (0 µs), C1 (1 µs), state2 (18 µs), C3 (400 µs)" in said


def test_states_are_ordered_by_their_number(tree: hosts.Host) -> None:
    give_states(tree, range(1), tuple((f"S{number}", number) for number in range(11)))
    wanted = knob(tree, {"cpus": "0", "deepest": "S9"}).wanted_settings()
    assert [name for name, value in wanted.items() if value == "1"] == ["cpuidle:cpu0/S10"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ([{"cpus": "0", "deepest": "C6"}], "CPU 0 has no idle state C6, only POLL (0 µs), C1 (1 µs), C2 (800 µs)"),
        ([{"cpus": "0", "deepest": "C1"}, {"cpus": "all", "deepest": "C2"}], "two limits: deepest=C1, and deepest=C2"),
        ([{"cpus": "0", "max_latency": -1}], "must stay: say max_latency=0 at least, or deepest=POLL"),
        ([{"cpus": "0"}], "The entry for cpus '0' must say either deepest or max_latency"),
        ([{"cpus": "0", "deepest": "C1", "max_latency": 1}], "either deepest or max_latency"),
    ],
)
def test_refused(tree: hosts.Host, settings: list[dict[str, Any]], words: str) -> None:
    assert words in refusal(tree, *settings)


def test_an_offline_cpu_is_refused(tree: hosts.Host) -> None:
    tree.offline("3")
    assert "CPU 3 is offline" in refusal(tree, {"cpus": "0-3", "deepest": "C1"})


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("quiet", "no cpuidle driver is bound. Enable global C-state control in the BIOS"),
        ("quiet idle=poll", "the kernel was started with idle=poll. Remove that by kernel_cmdline"),
        ("cpuidle.off=1", "the kernel was started with cpuidle.off=1"),
    ],
)
def test_a_kernel_without_states_is_unsupported(tmp_path: Path, parameters: str, words: str) -> None:
    bare = hosts.small(tmp_path)
    bare.put("/proc/cmdline", parameters)
    with pytest.raises(Unsupported, match="no idle states of CPUs 0-15") as caught:
        knob(bare, {"cpus": "all", "deepest": "C1"}).wanted_settings()
    assert words in str(caught.value)


def test_a_boot_parameter_that_leaves_out_states_is_named(tree: hosts.Host) -> None:
    give_states(tree, range(1), EPYC[:2])
    tree.drop(f"{CPUS}/cpu0/cpuidle/state2/*")
    (tree.root / f"{CPUS[1:]}/cpu0/cpuidle/state2").rmdir()
    assert "started with" not in refusal(tree, {"cpus": "0", "deepest": "C2"})
    tree.put("/proc/cmdline", "quiet processor.max_cstate=1")
    assert "started with processor.max_cstate=1, which leaves out" in refusal(tree, {"cpus": "0", "deepest": "C2"})


def test_polling_is_told_with_its_cost(tree: hosts.Host) -> None:
    made = knob(tree, {"cpus": "4-7", "deepest": "POLL"}, {"cpus": "0", "deepest": "C1"})
    made.wanted_settings()
    (told,) = made.list_remarks()
    assert told.startswith("Instead of sleeping, CPUs 4-7 will poll") and "boost of other CPUs" in told


@pytest.mark.parametrize(
    ("limit", "deepest", "told"),
    [
        ("0", "C2", []),
        ("800", "C2", []),
        ("799", "C2", ["799"]),
        ("799", "C1", []),
        ("n/a", "C1", ["0"]),
    ],
)
def test_pm_qos_of_a_cpu_is_told(tree: hosts.Host, limit: str, deepest: str, told: list[str]) -> None:
    for cpu in (5, 6):
        tree.put(f"{CPUS}/cpu{cpu}/{QOS}", limit)
    made = knob(tree, {"cpus": "4-7", "deepest": deepest})
    made.wanted_settings()
    begins = [f"PM QoS lets CPUs 5-6 enter no idle state of more than {text} µs" for text in told]
    remarks = made.list_remarks()
    assert len(remarks) == len(begins)
    assert all(remark.startswith(begin) for remark, begin in zip(remarks, begins))


@pytest.mark.parametrize(("limit", "told"), [(2000000000, 0), (800, 0), (10, 1)])
def test_pm_qos_of_all_cpus_is_told(tree: hosts.Host, limit: int, told: int) -> None:
    tree.put(DMA_LATENCY, "")
    (tree.root / DMA_LATENCY[1:]).write_bytes(struct.pack("<i", limit))
    made = knob(tree, {"cpus": "all", "deepest": "C2"})
    made.wanted_settings()
    assert len(made.list_remarks()) == told
    assert all(
        f"more than {limit} µs" in remark and f"fuser -v {DMA_LATENCY}" in remark for remark in made.list_remarks()
    )


def test_a_limit_that_may_not_be_read_stops_nothing(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_at(path: str, offset: int, size: int) -> bytes:
        raise Refused("no", 13, path)

    monkeypatch.setattr(tree.fs, "read_at", read_at)
    made = knob(tree, {"cpus": "all", "deepest": "C2"})
    assert (len(made.wanted_settings()), made.list_remarks()) == (48, [])


def test_written_and_read(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allowed is written first, so that no CPU is without a state for a moment."""
    written = []
    write = tree.fs.write
    monkeypatch.setattr(tree.fs, "write", lambda path, text: (written.append((path, text)), write(path, text)))
    made = knob(tree)
    made.write_changes([Change("cpuidle:cpu3/C1", "0", "1"), Change("cpuidle:cpu3/C2", "1", "0")])
    home = f"{CPUS}/cpu3/cpuidle"
    assert written == [(f"{home}/state2/disable", "0"), (f"{home}/state1/disable", "1")]
    assert made.read_settings(["cpuidle:cpu3/C1", "cpuidle:cpu3/C2", "cpuidle:cpu3/C9", "cpuidle:cpu99/C1"]) == {
        "cpuidle:cpu3/C1": "1",
        "cpuidle:cpu3/C2": "0",
        "cpuidle:cpu3/C9": None,
        "cpuidle:cpu99/C1": None,
    }
    assert (made.unreachable_reason("cpuidle:cpu3/C2"), made.unreachable_reason("cpuidle:cpu3/C9")) == (
        None,
        "CPU 3 has no idle state C9 now; the cpuidle driver is acpi_idle",
    )
