# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupts without a kernel: which are meant, who sits where, and what irqbalance is told.

tests/lab/test_irq_affinity.py has a real kernel and the real irqbalance.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils import _irqbalance, _irqs, _knob_irq
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, BadRequest, Refused
from ansible_collections.sovereign.epyc.plugins.module_utils._host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knob import Knob, Original, converge
from ansible_collections.sovereign.epyc.plugins.module_utils._ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._store import Store
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils import hosts

#: number -> actions, and whether it may be moved
IRQS = {
    0: ("timer", False),
    3: ("", True),
    9: ("acpi", True),
    40: ("nvme0q0", True),
    41: ("nvme0q1", False),
    50: ("eth0", True),
    51: ("eth0-TxRx-0", True),
    52: ("eth0-TxRx-1", True),
    60: ("ahci,ehci", True),
}


class IrqFS(hosts.TreeFS):
    """A tree in which the kernel's own interrupts refuse, as they do; ``surprises`` refuse only when written to."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.fixed = {number for number, (dummy, movable) in IRQS.items() if not movable}
        self.surprises: dict[int, int] = {}

    def refusal(self, path: str, nonsense: str) -> int:
        self.read(path)
        return errno.EPERM if int(path.split("/")[3]) in self.fixed else errno.EINVAL

    def write(self, path: str, text: str) -> None:
        number = path.split("/")[3]
        code = self.surprises.get(int(number), 0) if number.isdecimal() else 0
        if code == errno.ENOENT:
            raise Absent("gone")
        if code:
            raise Refused("no", code, path)
        super().write(path, text.ljust(30))


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    host = hosts.small(tmp_path)
    host.fs = IrqFS(str(tmp_path))
    host.put("/sys/devices/system/cpu/possible", "0-15")
    host.put("/proc/irq/default_smp_affinity", "ffff".ljust(30))
    host.put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555")
    for number, (actions, dummy) in IRQS.items():
        host.put(f"/sys/kernel/irq/{number}/actions", actions)
        host.put(f"/proc/irq/{number}/smp_affinity_list", "0-15".ljust(30))
        host.put(f"/proc/irq/{number}/effective_affinity_list", "8")
    for address, driver, numbers in (
        ("0000:41:00.0", "nvme", (40, 41)),
        ("0000:61:00.0", "ice", (50, 51)),
        ("0000:61:00.1", "ice", (52,)),
        ("0000:02:00.0", "ahci", ()),
    ):
        host.put(f"/sys/bus/pci/devices/{address}/irq", 60)
        host.put(f"/sys/bus/pci/drivers/{driver}/{address}/x", "")
        for number in numbers:
            host.put(f"/sys/bus/pci/devices/{address}/msi_irqs/{number}", "msix")
    return host


def build(tree: hosts.Host, **options: Any) -> Sequence[Knob]:
    return _knob_irq.build(Host(tree.fs), options)


def wanted(tree: hosts.Host, **options: Any) -> dict[int, str | None]:
    found = build(tree, **options)[1].wanted()
    return {int(name[4:].split("/")[0]): value for name, value in found.items() if name != "irq:default"}


def ledger(tree: hosts.Host) -> Ledger:
    return Ledger(Store(str(tree.root)), tree.fs)


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
    knob.wanted()
    assert [remark.split(" names ")[0] for remark in knob.remarks()] == ["'eth7-*'", "'driver:none'"]


def test_only_managed_ones_named_is_told(tree: hosts.Host) -> None:
    dummy, knob = build(tree, cpus="0-3", which=["nvme0q1"])
    assert knob.wanted() == {}
    assert [("41 (nvme0q1)" in remark, "managed_irq" in remark) for remark in knob.remarks()] == [(True, True)]
    assert knob.facts()["managed"] == [{"irq": 41, "actions": ["nvme0q1"], "cpus": "0-15"}]


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
        build(tree, **options)[1].wanted()


def test_the_default_is_a_mask_of_the_hosts_width(tree: hosts.Host) -> None:
    assert build(tree, cpus="0,8", default=True, which=[])[1].wanted() == {"irq:default": "0101"}
    tree.put("/sys/devices/system/cpu/possible", "0-63")
    knob = build(tree, cpus="0,8", default=True, which=[])[1]
    assert knob.wanted() == {"irq:default": "00000000,00000101"}
    assert knob.same("irq:default", "00000000,00000101", "101")


FOUND = st.dictionaries(st.integers(0, 99), st.lists(st.integers(0, 9), max_size=2, unique=True), max_size=30)


@given(FOUND, st.lists(st.integers(0, 9), min_size=1, max_size=10, unique=True))
def test_spreading_is_even_and_stays_as_it_is(found: dict[int, list[int]], cpus: list[int]) -> None:
    placed = _irqs.spread(found, cpus)
    assert list(placed) == sorted(found)
    loads = [list(placed.values()).count(cpu) for cpu in cpus]
    assert sum(loads) == len(found)
    assert max(loads) <= -(-len(found) // len(cpus))
    assert _irqs.spread({number: [cpu] for number, cpu in placed.items()}, cpus) == placed
    # A new one moves nobody, as long as there is room for it.
    more = _irqs.spread({**{number: [cpu] for number, cpu in placed.items()}, 100: []}, cpus)
    assert {number: more[number] for number in placed} == placed


def test_a_kernel_whose_file_modes_tell_is_not_asked_by_a_write(tree: hosts.Host, monkeypatch: Any) -> None:
    for number in (0, 41):
        (Path(tree.fs.root) / f"proc/irq/{number}/smp_affinity_list").chmod(0o444)
    monkeypatch.setattr(IrqFS, "refusal", lambda *asked: pytest.fail("it was asked"))
    assert [_irqs.movable(tree.fs, number) for number in (0, 41, 50, 99)] == [False, False, True, None]


def test_spread_gives_each_a_cpu(tree: hosts.Host) -> None:
    tree.put("/proc/irq/50/smp_affinity_list", "2")
    assert wanted(tree, cpus="0-3", which=["eth0*", "40"], spread=True) == {40: "0", 50: "2", 51: "1", 52: "3"}


# Writing


def test_settings_are_made_and_put_back(tree: hosts.Host) -> None:
    outcome = converge(build(tree, cpus="0-3", default=True, which=["eth0*"]), ledger(tree))
    assert outcome.diff()["after"] == {"irq:default": "000f", **{f"irq:{n}/affinity": "0-3" for n in (50, 51, 52)}}
    assert ["50 (eth0)" in remark for remark in outcome.remarks] == [True]
    again = build(tree, cpus="0-3", default=True, which=["eth0*"])
    assert converge(again, ledger(tree)).changes == []
    assert again[1].facts()["pending"] == [50, 51, 52]
    # Not told again when nothing was written.
    assert again[1].remarks() == []
    tree.drop("/proc/irq/52/smp_affinity_list")
    outcome = converge([Original(build(tree)[1], ledger(tree))], ledger(tree))
    assert outcome.remarks == []
    assert ledger(tree).originals() == {}
    assert tree.fs.read("/proc/irq/default_smp_affinity").strip() == "ffff"
    assert tree.fs.read("/proc/irq/50/smp_affinity_list").strip() == "0-15"


@pytest.mark.parametrize("code", [errno.EIO, errno.EPERM, errno.ENOENT])
def test_one_that_turns_out_to_be_gone_or_managed_stops_nobody(tree: hosts.Host, code: int) -> None:
    tree.fs.surprises[51] = code  # type: ignore[attr-defined]
    knobs = build(tree, cpus="0-3", which=["eth0*"])
    converge(knobs, ledger(tree))
    assert tree.fs.read("/proc/irq/52/smp_affinity_list").strip() == "0-3"
    managed = knobs[1].facts()["managed"]
    assert managed == ([] if code == errno.ENOENT else [{"irq": 51, "actions": ["eth0-TxRx-0"], "cpus": "0-15"}])


def test_a_full_vector_space_is_said_and_undone(tree: hosts.Host) -> None:
    tree.fs.surprises[52] = errno.ENOSPC  # type: ignore[attr-defined]
    with pytest.raises(Refused, match=r"Interrupt 52 does not fit on CPU 0-3.*vectors.*put back"):
        converge(build(tree, cpus="0-3", which=["eth0*"]), ledger(tree))
    assert tree.fs.read("/proc/irq/50/smp_affinity_list").strip() == "0-15"


def test_another_refusal_is_a_failure(tree: hosts.Host) -> None:
    tree.fs.surprises[52] = errno.EBUSY  # type: ignore[attr-defined]
    with pytest.raises(Refused, match="no"):
        converge(build(tree, cpus="0-3", which=["eth0*"]), ledger(tree))


# irqbalance

FILE = "/etc/default/irqbalance"
SHIPPED = "# The environment file\n#IRQBALANCE_BANNED_CPULIST=\n#\nIRQBALANCE_ARGS=--journal"  # no newline at its end


class Systemd:
    """Plays systemctl for one unit, and starts it with its file's variables."""

    def __init__(self, tree: hosts.Host, active: bool = True, enabled: str = "enabled") -> None:
        self.tree = tree
        self.active = active
        self.enabled = enabled
        self.calls: list[str] = []
        tree.put(_irqbalance.PROGRAM, "")
        self._start()

    def _start(self) -> None:
        path = self.tree.root / FILE.lstrip("/")
        rows = [row for row in (path.read_text() if path.exists() else "").split("\n") if "=" in row and row[0] != "#"]
        self.tree.put("/proc/77/comm", "irqbalance")
        self.tree.put("/proc/77/environ", "\0".join(["LANG=C", *rows]))

    def __call__(self, command: Sequence[str]) -> str:
        words = [word for word in command[1:] if not word.startswith("--") and word != _irqbalance.UNIT]
        assert words, command
        if words != ["show"]:
            self.calls += words
        if words in (["enable"], ["disable"], ["mask"]):
            self.enabled = {"mask": "masked"}.get(words[0], f"{words[0]}d")
        if words in (["start"], ["stop"]):
            self.active = words == ["start"]
        if self.active and words in (["start"], ["try-restart"]):
            self._start()
        return (
            f"MainPID={77 if self.active else 0}\n"
            "EnvironmentFiles=/usr/lib/irqbalance/defaults.env (ignore_errors=yes)\n"
            f"EnvironmentFiles={FILE} (ignore_errors=yes)\nLoadState=loaded\nUnitFileState={self.enabled}\n"
            f"ActiveState={'active' if self.active else 'inactive'}\n"
        )


def balance(tree: hosts.Host, systemd: Any, mode: str, spread: bool = False) -> _irqbalance.Irqbalance:
    return _irqbalance.Irqbalance(Host(tree.fs), mode, lambda: (0, 1), spread, systemd)


@pytest.fixture
def shipped(tree: hosts.Host) -> Path:
    tree.put(FILE, "")
    path = tree.root / FILE.lstrip("/")
    path.write_text(SHIPPED)
    return path


@pytest.mark.parametrize("active", [True, False])
def test_ban_and_back(tree: hosts.Host, shipped: Path, active: bool) -> None:
    systemd = Systemd(tree, active)
    assert converge([balance(tree, systemd, "ban")], ledger(tree)).diff() == {
        "before": {"irq:irqbalance/banned_cpus": None},
        "after": {"irq:irqbalance/banned_cpus": "2-15"},
    }
    assert shipped.read_text() == f"IRQBALANCE_BANNED_CPULIST=2-15\n{SHIPPED}"
    assert systemd.calls == ["try-restart"]
    again = balance(tree, systemd, "ban")
    assert converge([again], ledger(tree)).changes == []
    assert again.live([_irqbalance.BANNED]) == {_irqbalance.BANNED: "2-15"}
    converge([Original(balance(tree, systemd, "ignore"), ledger(tree))], ledger(tree))
    assert shipped.read_text() == SHIPPED


def test_a_daemon_older_than_its_file_is_restarted(tree: hosts.Host, shipped: Path) -> None:
    systemd = Systemd(tree)
    shipped.write_text(f"{SHIPPED}\nIRQBALANCE_BANNED_CPULIST='2-14,15'\n")
    knob = balance(tree, systemd, "ban")
    assert knob.live([_irqbalance.BANNED]) == {_irqbalance.BANNED: None}
    assert [change.address for change in converge([knob], ledger(tree)).changes] == [_irqbalance.BANNED]
    assert converge([balance(tree, systemd, "ban")], ledger(tree)).changes == []


def test_a_file_that_only_we_made_goes_again(tree: hosts.Host) -> None:
    systemd = Systemd(tree)
    converge([balance(tree, systemd, "ban")], ledger(tree))
    converge([Original(balance(tree, systemd, "ignore"), ledger(tree))], ledger(tree))
    assert not (tree.root / FILE.lstrip("/")).exists()


@pytest.mark.parametrize(("active", "enabled"), [(True, "enabled"), (True, "disabled"), (False, "enabled")])
def test_stop_and_back(tree: hosts.Host, active: bool, enabled: str) -> None:
    systemd = Systemd(tree, active, enabled)
    assert len(converge([balance(tree, systemd, "stop")], ledger(tree)).changes) == 1
    assert (systemd.active, systemd.enabled) == (False, "disabled")
    assert converge([balance(tree, systemd, "stop")], ledger(tree)).changes == []
    converge([Original(balance(tree, systemd, "ignore"), ledger(tree))], ledger(tree))
    assert (systemd.active, systemd.enabled) == (active, enabled)


def test_one_that_is_masked_is_stopped(tree: hosts.Host) -> None:
    assert converge([balance(tree, Systemd(tree, False, "masked"), "stop")], ledger(tree)).changes == []


def test_ignored_ones_are_told_of_when_they_run(tree: hosts.Host) -> None:
    for active, count in ((True, 1), (False, 0)):
        knob = balance(tree, Systemd(tree, active), "ignore")
        assert knob.wanted() == {}
        assert len(knob.remarks()) == count


@pytest.mark.parametrize("mode", ["ban", "stop", "ignore"])
def test_none_is_none(tree: hosts.Host, mode: str) -> None:
    knob = balance(tree, None, mode)
    assert (knob.wanted(), knob.remarks(), knob.facts()) == ({}, [], {"irqbalance": "not installed"})


def test_what_irqbalance_would_not_heed_is_refused(tree: hosts.Host, shipped: Path) -> None:
    shipped.write_text("IRQBALANCE_BANNED_CPUS=ff\n")
    with pytest.raises(BadRequest, match="does not look at"):
        balance(tree, Systemd(tree), "ban").wanted()
    with pytest.raises(BadRequest, match="spread"):
        balance(tree, Systemd(tree), "ban", spread=True).wanted()
    shipped.write_text("IRQBALANCE_BANNED_CPUS=\n")
    assert balance(tree, Systemd(tree), "ban").wanted() == {_irqbalance.BANNED: "2-15"}


def test_a_banned_irqbalance_may_choose_among_the_cpus(tree: hosts.Host) -> None:
    host = Host(tree.fs)
    for active, fits in ((True, True), (False, False)):
        knob = _knob_irq.IrqAffinity(host, {}, balance(tree, Systemd(tree, active), "ban"))
        assert knob.same("irq:9/affinity", "0-3", "2") is fits
        assert knob.same("irq:9/affinity", "0-3", "2,8") is False
        assert knob.same("irq:9/affinity", "0-3", "") is False


ROWS = st.lists(st.sampled_from(["", "# A=1", "B=2", " A=3", 'A="4"', "AA=5"]), max_size=6)


@given(ROWS, st.sampled_from(["\n", ""]))
def test_a_variable_is_set_and_taken_out_without_a_trace(rows: list[str], end: str) -> None:
    text = "\n".join(rows) + end
    before = _irqbalance.variable(text, "A")
    changed = _irqbalance.with_variable(text, "A", "9")
    assert _irqbalance.variable(changed, "A") == "9"
    back = _irqbalance.with_variable(changed, "A", before)
    assert back.replace(" A=", "A=") == text.replace(" A=", "A=")
