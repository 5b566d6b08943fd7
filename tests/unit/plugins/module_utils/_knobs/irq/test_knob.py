# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupts are moved: which are meant, where to, and what is said of those that stay."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.irq import knob as irq_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import RestoringKnob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import ledger, with_interrupts


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return with_interrupts(tmp_path)


def refuse_to_move(tree: hosts.Host, number: int, code: int) -> None:
    tree.fs.refusals[f"/proc/irq/{number}/smp_affinity_list"] = code  # type: ignore[attr-defined]


def build(tree: hosts.Host, **options: Any) -> Sequence[Knob]:
    return irq_knob.build_knobs(Host(tree.fs), options)


def wanted(tree: hosts.Host, **options: Any) -> dict[int, str | None]:
    found = build(tree, **options)[1].wanted_settings()
    return {int(name[4:].split("/")[0]): value for name, value in found.items() if name != "irq:default"}


# Which


@pytest.mark.parametrize(
    ("which", "numbers"),
    [
        (["all"], [9, 40, 50, 51, 52, 60]),
        (["51", "9"], [9, 51]),
        (["41"], []),
        (["3"], []),
        (["0000:61:00.0"], [50, 51]),
        (["0000:02:00.0"], [60]),
        (["driver:ice"], [50, 51, 52]),
        (["driver:nvme"], [40]),
        (["eth0-*"], [51, 52]),
        (["ehci"], [60]),
        (["eth0"], [50]),
        (["nvme0q?"], [40]),
    ],
)
def test_which(tree: hosts.Host, which: list[str], numbers: list[int]) -> None:
    assert wanted(tree, cpus="0-3", which=which) == dict.fromkeys(numbers, "0-3")


def test_what_names_nothing_is_told(tree: hosts.Host) -> None:
    dummy, knob = build(tree, cpus="0-3", which=["eth7-*", "driver:none", "9"])
    knob.wanted_settings()
    assert [remark.split(" names ")[0] for remark in knob.list_remarks()] == ["'eth7-*'", "'driver:none'"]


def test_only_managed_ones_named_is_told(tree: hosts.Host) -> None:
    dummy, knob = build(tree, cpus="0-3", which=["nvme0q1"])
    assert knob.wanted_settings() == {}
    assert [("41 (nvme0q1)" in remark, "managed_irq" in remark) for remark in knob.list_remarks()] == [(True, True)]
    assert knob.module_facts()["managed"] == [{"irq": 41, "actions": ["nvme0q1"], "cpus": "0-15"}]


# Where


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Say which CPUs"),
        ({"cpus": "99"}, "not on this host"),
        ({"cpus": ","}, "names no CPU"),
        ({"cpus": "moon"}, "'moon' names no CPUs"),
    ],
)
def test_refusals(tree: hosts.Host, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        build(tree, **options)[1].wanted_settings()


def test_the_default_is_a_mask_of_the_hosts_width(tree: hosts.Host) -> None:
    assert build(tree, cpus="0,8", default=True, which=[])[1].wanted_settings() == {"irq:default": "0101"}
    tree.put("/sys/devices/system/cpu/possible", "0-63")
    knob = build(tree, cpus="0,8", default=True, which=[])[1]
    assert knob.wanted_settings() == {"irq:default": "00000000,00000101"}
    assert knob.values_equal("irq:default", "00000000,00000101", "101")


def test_spread_gives_each_a_cpu(tree: hosts.Host) -> None:
    tree.put("/proc/irq/50/smp_affinity_list", "2")
    assert wanted(tree, cpus="0-3", which=["eth0*", "40"], spread=True) == {40: "0", 50: "2", 51: "1", 52: "3"}


# Writing


def test_settings_are_made_and_put_back(tree: hosts.Host) -> None:
    outcome = converge_knobs(build(tree, cpus="0-3", default=True, which=["eth0*"]), ledger(tree))
    assert outcome.to_diff()["after"] == {"irq:default": "000f", **{f"irq:{n}/affinity": "0-3" for n in (50, 51, 52)}}
    assert ["50 (eth0)" in remark for remark in outcome.remarks] == [True]
    again = build(tree, cpus="0-3", default=True, which=["eth0*"])
    assert converge_knobs(again, ledger(tree)).changes == []
    assert again[1].module_facts()["pending"] == [50, 51, 52]
    # Not told again when nothing was written.
    assert again[1].list_remarks() == []
    tree.drop("/proc/irq/52/smp_affinity_list")
    outcome = converge_knobs([RestoringKnob(build(tree)[1], ledger(tree))], ledger(tree))
    assert outcome.remarks == []
    assert ledger(tree).load_originals() == {}
    assert tree.fs.read("/proc/irq/default_smp_affinity").strip() == "ffff"
    assert tree.fs.read("/proc/irq/50/smp_affinity_list").strip() == "0-15"


@pytest.mark.parametrize("code", [errno.EIO, errno.EPERM, errno.ENOENT])
def test_one_that_turns_out_to_be_gone_or_managed_stops_nobody(tree: hosts.Host, code: int) -> None:
    refuse_to_move(tree, 51, code)
    knobs = build(tree, cpus="0-3", which=["eth0*"])
    converge_knobs(knobs, ledger(tree))
    assert tree.fs.read("/proc/irq/52/smp_affinity_list").strip() == "0-3"
    managed = knobs[1].module_facts()["managed"]
    assert managed == ([] if code == errno.ENOENT else [{"irq": 51, "actions": ["eth0-TxRx-0"], "cpus": "0-15"}])


def test_a_full_vector_space_is_said_and_undone(tree: hosts.Host) -> None:
    refuse_to_move(tree, 52, errno.ENOSPC)
    with pytest.raises(Refused, match=r"Interrupt 52 does not fit on CPU 0-3.*vectors.*put back"):
        converge_knobs(build(tree, cpus="0-3", which=["eth0*"]), ledger(tree))
    assert tree.fs.read("/proc/irq/50/smp_affinity_list").strip() == "0-15"


def test_another_refusal_is_a_failure(tree: hosts.Host) -> None:
    refuse_to_move(tree, 52, errno.EBUSY)
    with pytest.raises(Refused, match="no"):
        converge_knobs(build(tree, cpus="0-3", which=["eth0*"]), ledger(tree))


# What a look costs


def test_a_look_with_nothing_to_do_opens_two_files_for_each_interrupt(tree: hosts.Host) -> None:
    """Hosts have thousands, and the watch service looks again and again: the name of the driver, and the CPUs."""
    for number in (0, 41):  # as Linux 6.12 and later tell what may not be moved
        (tree.root / f"proc/irq/{number}/smp_affinity_list").chmod(0o444)
    for number in range(100, 400):
        tree.put(f"/sys/kernel/irq/{number}/actions", f"mlx5_comp{number}")
        tree.put(f"/proc/irq/{number}/smp_affinity_list", "0-3".ljust(30))
    converge_knobs(build(tree, cpus="0-3"), ledger(tree))
    opened: list[str] = []
    looked: list[str] = []

    class Counting(type(tree.fs)):  # type: ignore[misc]
        def read(self, path: str, limit: int = 1 << 20) -> str:
            opened.append(path)
            return str(super().read(path, limit))

        def read_status(self, path: str) -> os.stat_result | None:
            looked.append(path)
            found: os.stat_result | None = super().read_status(path)
            return found

    tree.fs.__class__ = Counting
    assert converge_knobs(build(tree, cpus="0-3"), ledger(tree)).changes == []
    assert [path for path in opened if "/250/" in path] == [
        "/sys/kernel/irq/250/actions",
        "/proc/irq/250/smp_affinity_list",
    ]
    assert [path for path in looked if "/250/" in path] == ["/proc/irq/250/smp_affinity_list"]
    assert len(looked) < 2 * 300
