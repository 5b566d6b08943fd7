# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""irq_affinity on a host where the real irqbalance runs."""

from __future__ import annotations

import time

import pytest

from vepyc.images import debian_packages

pytestmark = pytest.mark.slow

FILE = "/etc/default/irqbalance"
#: What the guest lacks for it.
PACKAGES = ("irqbalance", "libatomic1", "libglib2.0-0t64")
STATE = f"sha256sum {FILE}; stat -c '%a %U' {FILE}; systemctl is-active irqbalance; systemctl is-enabled irqbalance"
TOLD = r"tr '\0' '\n' </proc/$(pidof irqbalance)/environ | sed -n 's/^IRQBALANCE_BANNED_CPULIST=//p'"


@pytest.fixture(scope="module")
def installed(own_bare_guest):
    """The small machine with irqbalance, which begins to run when it is installed."""
    debian_packages.install_packages(own_bare_guest.machine, *PACKAGES)
    # Every test restarts it several times, more often than systemd allows by default. And it looks at all interrupts
    # every two seconds, not every ten.
    lines = r"[Unit]\nStartLimitIntervalSec=0\n[Service]\nEnvironment=IRQBALANCE_ARGS=--interval=2\n"
    own_bare_guest.run(
        "mkdir -p /run/systemd/system/irqbalance.service.d;"
        f" printf '{lines}' >/run/systemd/system/irqbalance.service.d/lab.conf;"
        " systemctl daemon-reload"
    )
    return own_bare_guest


@pytest.fixture
def host(installed, cleaned_own_guest):
    guest = cleaned_own_guest
    before = guest.run(STATE)
    assert before.split()[-2:] == ["active", "enabled"]
    yield guest
    assert guest.run(STATE, check=False) == before


def places(guest):
    """Where the movable interrupts of devices are."""
    text = guest.run(
        "grep -H '' $(grep -l 'virtio[12]-' /sys/kernel/irq/*/actions | sed 's,/sys/kernel,/proc,;"
        " s,actions,smp_affinity_list,')"
    )
    return [line.split(":")[1] for line in text.split()]


def expand(text):
    return {cpu for item in text.split(",") for cpu in range(int(item.split("-")[0]), int(item.split("-")[-1]) + 1)}


def told(guest):
    """What the running daemon was started with; a moment passes before systemd has started it."""
    for dummy in range(50):
        if guest.run("cat /proc/$(systemctl show -P MainPID irqbalance)/comm", check=False).strip() == "irqbalance":
            return guest.run(TOLD).strip()
        time.sleep(0.2)
    raise AssertionError("irqbalance does not run")


def test_ban_keeps_it_to_the_same_cpus(host):
    asked = {"cpus": "4-7", "irqbalance": "ban"}
    made = host.module("irq_affinity", **asked)
    assert made["diff"]["changes"]["after"]["irq:irqbalance/banned_cpus"] == "0-3,8-15"
    assert made["irqbalance"] == "running"
    assert told(host) == "0-3,8-15"
    assert host.run(f"head -n 1 {FILE}").strip() == "IRQBALANCE_BANNED_CPULIST=0-3,8-15"

    # When it has moved one, it has chosen among the CPUs that are not banned; and it looks again.
    moved = "cat /proc/irq/3[01]/smp_affinity_list | grep -qvx 4-7"
    host.run(f"timeout 60 sh -c 'until {moved}; do sleep 0.5; done' && sleep 5")
    assert all(expand(place) <= {4, 5, 6, 7} for place in places(host)), places(host)
    again = host.module("irq_affinity", **asked)
    assert (again["changed"], again["remarks"]) == (False, [])

    host.module("irq_affinity", state="original")
    assert told(host) == ""


def test_stop_and_back(host):
    asked = {"cpus": "4-7", "irqbalance": "stop", "spread": True}
    check = host.module("irq_affinity", _ansible_check_mode=True, **asked)
    assert check["diff"]["changes"]["after"]["irq:irqbalance/service"] == "disabled inactive"
    assert host.run(STATE).split()[-2:] == ["active", "enabled"]
    made = host.module("irq_affinity", **asked)
    # It moves interrupts until it is stopped, so the diffs of the check and of the run differ in those.
    assert made["diff"]["changes"]["after"]["irq:irqbalance/service"] == "disabled inactive"
    assert made["irqbalance"] == "stopped"
    assert host.run("systemctl is-active irqbalance; systemctl is-enabled irqbalance", check=False).split() == [
        "inactive",
        "disabled",
    ]
    assert [len(expand(place)) for place in places(host)] == [1] * 5
    assert host.module("irq_affinity", **asked)["changed"] is False
    host.module("irq_affinity", state="original")
    assert told(host) == ""


def test_a_running_one_that_is_ignored_is_told_of(host):
    result = host.module("irq_affinity", cpus="4-7", which=["0000:00:03.0"], _ansible_check_mode=True)
    assert any("irqbalance runs here" in remark for remark in result["remarks"])


@pytest.mark.parametrize(
    ("line", "asked", "words"),
    [
        ("IRQBALANCE_BANNED_CPUS=ff00", {}, ["IRQBALANCE_BANNED_CPUS", "Remove that old line"]),
        ("", {"spread": True}, ["spread", "set irqbalance to stop"]),
        ("", {"cpus": "99"}, ["CPU 99 is not on this host"]),
    ],
)
def test_refusals_change_nothing(host, line, asked, words):
    host.run(f"cp -a {FILE} /run/kept; echo {line} >>{FILE}")
    try:
        before = host.run(f"{STATE}; pidof irqbalance")
        result = host.module("irq_affinity", **{"cpus": "4-7", "irqbalance": "ban", **asked})
        assert result["failed"]
        assert [word for word in words if word not in result["msg"]] == [], result["msg"]
        assert host.run(f"{STATE}; pidof irqbalance") == before
    finally:
        host.run(f"cp -a /run/kept {FILE}")


def test_a_file_without_its_last_newline_comes_back_byte_for_byte(host):
    host.run(f"cp -a {FILE} /run/kept; printf '# no end' >>{FILE}; chmod 640 {FILE}")
    try:
        before = host.run(STATE)
        host.module("irq_affinity", cpus="4-7", which=["virtio2-*"], irqbalance="ban")
        assert host.run(f"stat -c '%a' {FILE}").strip() == "640"
        host.module("irq_affinity", state="original")
        assert host.run(STATE) == before
    finally:
        host.run(f"cp -a /run/kept {FILE}")
