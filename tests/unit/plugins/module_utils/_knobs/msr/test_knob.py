# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be said of register bits without a kernel; tests/lab/test_msr_bits.py asks a real one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr import knob as msr_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr import registers
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.registers import give_registers

PREFETCH, DC_CFG = "0xc0000108", "0xc0011022"


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    host = hosts.small(tmp_path)
    host.put("/proc/cpuinfo", host.fs.read("/proc/cpuinfo").replace(hosts.FLAGS, f"{hosts.FLAGS} cpb"))
    give_registers(host, range(16))
    return host


def knob(tree: hosts.Host, settings: list[dict[str, Any]], **options: Any) -> msr_knob.Msr:
    intent = options.pop("intent", None)
    made = msr_knob.build_knobs(Host(tree.fs, intent), {"settings": settings, **options})[1]
    assert isinstance(made, msr_knob.Msr)
    return made


def refusal(tree: hosts.Host, settings: list[dict[str, Any]], **options: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        knob(tree, settings, **options).wanted_settings()
    return str(caught.value)


def raw(register: object, bits: str = "13", value: object = 1, cpus: str = "0") -> dict[str, Any]:
    return {"cpus": cpus, "register": register, "bits": bits, "value": value}


def off(*names: str, cpus: str = "0") -> dict[str, Any]:
    return {"cpus": cpus, "prefetch_control": dict.fromkeys(names, "disabled")}


# What is asked


def test_draft_and_verify_can_differ(tree: hosts.Host) -> None:
    settings: list[dict[str, Any]] = [
        {"cpus": "draft", "prefetch_control": {"l1_stream": "disabled", "up_down": "disabled"}},
        {"cpus": "verify", "prefetch_control": {"l1_stream": "enabled", "up_down": None}, "hwcr": None},
    ]
    wanted = knob(tree, settings, intent={"draft": {"ccds": 1}}).wanted_settings()
    on_draft = {n: v for n, v in wanted.items() if v == "1"}
    assert {msr_knob.split_address(name)[1] for name in on_draft} == {0, 5}
    assert {msr_knob.split_address(name)[2] for name in on_draft}.isdisjoint(
        msr_knob.split_address(name)[2] for name, value in wanted.items() if value == "0"
    )


def test_a_field_is_asked_for_bit_by_bit(tree: hosts.Host) -> None:
    wanted = knob(tree, [raw(0xC0011020, "15:13", "0b101")], allow_undocumented=True).wanted_settings()
    assert wanted == {
        "msr:0xc0011020[13]/cpu0": "1",
        "msr:0xc0011020[14]/cpu0": "0",
        "msr:0xc0011020[15]/cpu0": "1",
    }


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 63), st.integers(0, 8191))
def test_an_address_splits_into_what_it_was_made_of(register: int, bit: int, cpu: int) -> None:
    assert msr_knob.split_address(registers.format_address(register, bit, cpu)) == (register, bit, cpu)


def test_two_values_for_one_bit_are_refused_however_they_are_said(tree: hosts.Host) -> None:
    named = {"cpus": "all", "prefetch_control": {"l1_stream": "enabled"}}
    sentence = refusal(tree, [named, raw(PREFETCH, "3:0", "1", "l3:2")])
    assert "CPU 8 is asked for two values of bit 0 in register 0xc0000108" in sentence
    assert "l1_stream=enabled for all" in sentence and "value=1 for l3:2" in sentence


def test_the_same_value_twice_is_no_conflict(tree: hosts.Host) -> None:
    assert len(knob(tree, [off("l1_stream", cpus="all"), off("l1_stream", cpus="ccd0")]).wanted_settings()) == 16


@pytest.mark.parametrize(
    ("register", "bits", "words"),
    [
        ("0xc0011029", "9", "DE_CFG"),
        ("0xc0000080", "0", "EFER"),
        ("0x277", "0", "PAT"),
        ("0x1b", "11", "APIC_BASE"),
        ("0x200", "0", "MTRR"),
        ("0xc0000082", "0", "system call"),
        ("0xc0010062", "0", "cpufreq_per_ccd"),
        ("0xc90", "0", "resctrl_schemata"),
        ("0xc0010015", "0", "not CpbDis"),
    ],
)
def test_what_the_kernel_depends_on_is_never_written(tree: hosts.Host, register: str, bits: str, words: str) -> None:
    sentence = refusal(tree, [raw(register, bits)], allow_undocumented=True)
    assert words in sentence and "never writes" in sentence and "whatever is allowed" in sentence


# Threads of a core


def test_threads_of_a_core_cannot_differ(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path, smt=True)
    give_registers(tree, range(32))
    sentence = refusal(tree, [off("l1_stream", cpus="3"), raw(PREFETCH, "0", 0, "19")])
    assert "CPUs 3 and 19 are threads of one core" in sentence


def test_a_thread_that_changes_along_is_told(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path, smt=True)
    give_registers(tree, range(32))
    made = knob(tree, [off("l1_stream", cpus="0-3")])
    assert len(made.wanted_settings()) == 4
    assert any("CPUs 16-19 were not asked for" in remark for remark in made.list_remarks())
    both = knob(tree, [off("l1_stream", cpus="0-3,16-19")])
    assert len(both.wanted_settings()) == 8
    assert not any("asked for" in remark for remark in both.list_remarks())


def test_of_a_register_we_do_not_know_threads_may_differ(tmp_path: Path) -> None:
    tree = hosts.small(tmp_path, smt=True)
    give_registers(tree, range(32))
    settings = [raw("0xc0011020", value=1, cpus="3"), raw("0xc0011020", value=0, cpus="19")]
    assert len(knob(tree, settings, allow_undocumented=True).wanted_settings()) == 2


# Reading and writing


def word(tree: hosts.Host, cpu: int, register: int) -> int:
    return tree.fs.read_words(f"/dev/cpu/{cpu}/msr", [register])[0]


def test_only_the_bits_asked_for_change(tree: hosts.Host) -> None:
    tree.fs.patch_words("/dev/cpu/0/msr", [(registers.HWCR, ~0, 0x9000011)])
    settings = [off("l1_stream", "up_down"), {"cpus": "0", "hwcr": {"boost": "disabled"}}]
    made = knob(tree, settings)
    wanted = made.wanted_settings()
    made.write_changes([Change(name, "0", value) for name, value in wanted.items()])
    assert made.read_settings(wanted) == wanted
    assert word(tree, 0, registers.HWCR) == 0x9000011 | 1 << 25
    assert word(tree, 0, registers.PREFETCH_CONTROL) == 0b100001
    assert word(tree, 1, registers.PREFETCH_CONTROL) == 0


def test_each_cpu_is_opened_once_to_write_and_once_to_read(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    made = knob(tree, [off("l1_stream", "l1_stride", cpus="all"), {"cpus": "all", "hwcr": {"boost": "disabled"}}])
    wanted = made.wanted_settings()
    opened: list[str] = []
    really = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: opened.append(path) or really(path, *rest))  # type: ignore[func-returns-value]
    made.write_changes([Change(name, "0", value) for name, value in wanted.items()])
    assert len(opened) == 16
    assert made.read_settings(wanted) == wanted
    assert len(opened) == 32


def test_a_register_that_is_right_is_not_written(tree: hosts.Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pwrite", lambda *call: pytest.fail("a write would taint the kernel"))
    tree.fs.patch_words("/dev/cpu/0/msr", [(registers.HWCR, 1 << 25, 0)])


def test_a_check_cannot_write_registers_or_load_modules(tree: hosts.Host) -> None:
    tree.fs.read_only = True
    with pytest.raises(Exception, match="A check tried to write"):
        tree.fs.patch_words("/dev/cpu/0/msr", [(registers.HWCR, 1 << 25, 0)])
    with pytest.raises(Exception, match="A check tried to write"):
        tree.fs.load_module("msr")


def test_a_cpu_that_is_away_reads_as_nothing_and_is_named_on_writing(tree: hosts.Host) -> None:
    made = knob(tree, [])
    tree.drop("/dev/cpu/5/msr")
    tree.put("/sys/devices/system/cpu/online", "0-4,6-15")
    name = "msr:0xc0000108[0]/cpu5"
    assert made.read_settings([name]) == {name: None}
    assert made.unreachable_reason(name) == "CPU 5 is offline"
    with pytest.raises(Absent, match="CPU 5 is offline"):
        made.write_changes([Change(name, "0", "1")])


def test_without_the_kernel_module_the_way_out_is_named(tree: hosts.Host) -> None:
    tree.drop("/dev/cpu/*/msr")
    assert "module msr is not loaded, so no registers can be reached. Set load_module" in refusal(
        tree, [off("l1_stream")]
    )
    assert (
        knob(tree, []).unreachable_reason("msr:0xc0000108[0]/cpu5")
        == "the kernel module msr is not loaded (modprobe msr)"
    )


def test_without_cpuid_the_guard_cannot_be_asked(tree: hosts.Host) -> None:
    tree.drop("/dev/cpu/*/cpuid")
    sentence = refusal(tree, [off("l1_stream")])
    assert "module cpuid is not loaded, so it is unknown which registers" in sentence
    assert knob(tree, [{"cpus": "0", "hwcr": {"boost": "disabled"}}]).wanted_settings()


def test_a_check_that_would_load_the_modules_says_what_it_cannot_know(tree: hosts.Host) -> None:
    tree.drop("/dev/cpu/*/*")
    tree.fs.read_only = True
    made = knob(tree, [off("l1_stream")], load_module=True)
    assert made.read_settings(made.wanted_settings()) == {"msr:0xc0000108[0]/cpu0": None}
    assert made.list_remarks() == [
        "The kernel modules msr and cpuid are not loaded: what the registers hold is not known yet."
    ]


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([off("l1_stream")], ["msr:module/cpuid", "msr:module/msr"]),
        ([raw(PREFETCH, "1")], ["msr:module/cpuid", "msr:module/msr"]),
        ([{"cpus": "0", "hwcr": {"boost": "disabled"}}], ["msr:module/msr"]),
    ],
)
def test_only_the_modules_that_are_needed_are_loaded(
    tree: hosts.Host, settings: list[dict[str, Any]], names: list[str]
) -> None:
    modules = msr_knob.build_knobs(Host(tree.fs), {"settings": settings, "load_module": True})[0]
    assert modules.wanted_settings() == dict.fromkeys(names, "loaded")
    assert modules.read_settings(names) == dict.fromkeys(names, "loaded")
    assert msr_knob.build_knobs(Host(tree.fs), {"settings": settings})[0].wanted_settings() == {}


def test_the_two_knobs_share_no_address(tree: hosts.Host) -> None:
    modules, bits = msr_knob.build_knobs(Host(tree.fs), {})
    for name in ("msr:module/msr", "msr:0xc0000108[0]/cpu5"):
        assert modules.owns_address(name) != bits.owns_address(name)


# Locks and taint


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("/sys/kernel/security/lockdown", "none [integrity] confidentiality", "Secure Boot"),
        ("/sys/kernel/security/lockdown", "none integrity [confidentiality]", "BIOS"),
        ("/sys/module/msr/parameters/allow_writes", "off", "msr.allow_writes=off"),
    ],
)
def test_a_lock_is_told_before_the_first_write_and_only_when_one_is_due(
    tree: hosts.Host, file: str, text: str, words: str
) -> None:
    tree.put(file, text)
    assert words in refusal(tree, [off("l1_stream")])
    assert knob(tree, [{"cpus": "0", "prefetch_control": {"l1_stream": "enabled"}}]).wanted_settings()


def test_no_lock_is_seen_where_there_is_none(tree: hosts.Host) -> None:
    tree.put("/sys/kernel/security/lockdown", "[none] integrity confidentiality")
    tree.put("/sys/module/msr/parameters/allow_writes", "default")
    assert knob(tree, [off("l1_stream")]).wanted_settings()


def test_the_taint_is_a_fact_and_told_before_it_happens(tree: hosts.Host) -> None:
    tree.put("/proc/sys/kernel/tainted", 1 << 12)
    made = knob(tree, [off("l1_stream")])
    made.wanted_settings()
    assert any("taint" in remark for remark in made.list_remarks())
    tree.put("/proc/sys/kernel/tainted", 1 << 12 | 4)
    assert made.module_facts() == {"tainted_before": False, "tainted": True}
    again = knob(tree, [off("l1_stream")])
    again.wanted_settings()
    assert again.list_remarks() == []
