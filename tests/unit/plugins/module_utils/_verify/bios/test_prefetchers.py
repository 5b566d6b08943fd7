# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.knob import build_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.msr.registers import NAMED, PREFETCH_CONTROL
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import FILES
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts, registers
from ansible_collections.sovereign.epyc.tests.unit.fakes.firmware import judged, ledger_of


@pytest.fixture
def host(tmp_path: Path) -> hosts.Host:
    host = hosts.build(tmp_path)
    host.put("/proc/cmdline", "root=/dev/sda1 ro")
    host.put("/proc/sys/kernel/random/boot_id", "one")
    return host


@pytest.fixture
def registers_of(host: hosts.Host) -> hosts.Host:
    registers.give_registers(host, range(128))
    return host


def put(host: hosts.Host, cpus: range, value: int) -> None:
    for cpu in cpus:
        with (host.root / f"dev/cpu/{cpu}/msr").open("r+b") as file:
            file.seek(PREFETCH_CONTROL)
            file.write(value.to_bytes(8, "little"))


@pytest.mark.parametrize(
    ("value", "found"),
    [(0, "on"), (0b101111, "off"), (0b001001, "l1_stream, l2_stream off"), (0b010000, "on")],
)
def test_the_register_tells_what_the_bios_switched_off(registers_of: hosts.Host, value: int, found: str) -> None:
    put(registers_of, range(128), value)
    item = judged(registers_of, prefetchers="on")["prefetchers"]
    assert (item.found, item.verdict) == (found, "ok" if found == "on" else "wrong")


def test_l3_domains_may_differ(registers_of: hosts.Host) -> None:
    put(registers_of, range(8, 16), 0b101111)
    assert judged(registers_of)["prefetchers"].found == "mixed"


def test_what_was_written_since_does_not_count(registers_of: hosts.Host) -> None:
    """The knob itself writes, so that this breaks where its addresses change."""
    setting = {"cpus": "0-63", "prefetch_control": dict.fromkeys(NAMED["prefetch_control"][1], "disabled")}
    knobs = build_knobs(Host(registers_of.fs), {"settings": [setting]})
    converge_knobs(knobs, ledger_of(registers_of), check=False)
    assert registers_of.fs.read_words("/dev/cpu/0/msr", [PREFETCH_CONTROL]) == [0b101111]
    item = judged(registers_of, prefetchers="on")["prefetchers"]
    assert item.verdict == "ok"
    assert "with its values from before this collection wrote it" in item.sentence
    for path in map(ledger_of(registers_of).store.file_path, FILES):
        Path(path).write_text("{")
    assert "the original value of the register is lost" in judged(registers_of)["prefetchers"].sentence


def test_a_register_that_cannot_be_read_is_unknown(host: hosts.Host) -> None:
    assert "load the driver with modprobe msr" in judged(host, prefetchers="on")["prefetchers"].sentence
    cpuinfo = host.fs.read("/proc/cpuinfo")
    host.put("/proc/cpuinfo", cpuinfo.replace("cpu family\t: 25\nmodel\t\t: 160", "cpu family\t: 26\nmodel\t\t: 80"))
    assert "is not published for this CPU" in judged(host, prefetchers="on")["prefetchers"].sentence
    host.cpuid(0x80000021, 0, 0)
    assert "this CPU has no register for them" in judged(host, prefetchers="on")["prefetchers"].sentence
    host.drop("/dev/cpu/0/cpuid")
    assert "the driver cpuid is needed" in judged(host, prefetchers="on")["prefetchers"].sentence
