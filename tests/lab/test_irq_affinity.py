# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupts on two kernels. To move one that the kernel manages itself, one answers EPERM and the older one EIO.

The disk of the guest has four queues, whose interrupts are managed; those of its network card and random source move.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

AFFINITY = "grep -H '' /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity"
MANAGED = ["timer", "virtio0-req.0", "virtio0-req.1", "virtio0-req.2", "virtio0-req.3"]
MOVABLE = ["i8042", "ttyS0", "rtc0", "acpi", "i8042", "virtio0-config", "virtio1-config", "virtio1-input.0"]
MOVABLE += ["virtio1-output.0", "virtio2-config", "virtio2-input"]
RNG = "/sys/bus/virtio/drivers/virtio_rng"


def irqs(guest, pattern="virtio2-"):
    """Numbers of the interrupts with such a name."""
    return [int(line.split("/")[4]) for line in guest.run(f"grep -l {pattern} /sys/kernel/irq/*/actions").split()]


def affinity(guest, *numbers):
    return [guest.run(f"cat /proc/irq/{number}/smp_affinity_list").strip() for number in numbers]


def actions(rows):
    return [row["actions"][0] for row in rows]


@pytest.fixture
def host(bare_guest):
    before = bare_guest.run(AFFINITY)
    yield bare_guest
    assert bare_guest.run(AFFINITY) == before


@pytest.mark.parametrize("kernel", ["6.12", "6.1"])
def test_interrupts_move_and_go_back(kernel, boot_guest):
    guest = boot_guest("small", f"irq-{kernel.replace('.', '-')}", kernel)
    guest.carry_modules()
    before = guest.run(AFFINITY)
    asked = {"cpus": "8-9", "default": True}

    check = guest.module("irq_affinity", _ansible_check_mode=True, **asked)
    assert (check["changed"], actions(check["managed"]), actions(check["movable"])) == (True, MANAGED, MOVABLE)
    assert check["irqbalance"] == "not installed"
    assert guest.run(AFFINITY) == before
    assert guest.run("ls /var/lib/sovereign-epyc", check=False) == ""

    made = guest.module("irq_affinity", **asked)
    assert (made["changed"], made["diff"]) == (True, check["diff"])
    assert [affinity(guest, row["irq"]) for row in made["movable"]] == [["8-9"]] * len(MOVABLE)
    assert affinity(guest, *(row["irq"] for row in made["managed"][1:])) == ["0-3", "4-7", "8-11", "12-15"]
    assert guest.run("cat /proc/irq/default_smp_affinity").strip() == "0300"
    # An interrupt moves when it fires the next time. The keyboard's has not fired yet, the network card's has.
    keyboard, card = irqs(guest, "i8042")[0], irqs(guest, "virtio1-input")[0]
    assert keyboard in made["pending"]
    assert any(f"{keyboard} (i8042)" in remark for remark in made["remarks"])

    again = guest.module("irq_affinity", **asked)
    assert (again["changed"], again["remarks"]) == (False, [])
    assert keyboard in again["pending"]
    assert card not in again["pending"]
    assert guest.run(f"cat /proc/irq/{card}/effective_affinity_list").strip() in ("8", "9")
    assert guest.module("irq_affinity", _ansible_check_mode=True, **asked)["changed"] is False

    assert guest.module("irq_affinity", state="original")["changed"] is True
    assert guest.run(AFFINITY) == before
    assert guest.module("irq_affinity", state="original")["changed"] is False


@pytest.mark.parametrize(
    ("which", "names"),
    [
        ("virtio1-*put*", ["virtio1-input.0", "virtio1-output.0"]),
        ("0000:00:03.0", ["virtio2-config", "virtio2-input"]),
        ("driver:virtio-pci", MOVABLE[5:]),
        ("9", ["acpi"]),
    ],
)
def test_which(host, which, names):
    result = host.module("irq_affinity", cpus="0-1", which=[which], _ansible_check_mode=True)
    assert actions(result["movable"]) == names


def test_each_gets_a_cpu_of_its_own(host):
    asked = {"cpus": "node2", "which": ["virtio1-*"], "spread": True}
    numbers = irqs(host, "virtio1-")
    host.module("irq_affinity", **asked)
    assert affinity(host, *numbers) == ["8", "9", "10"]
    assert host.module("irq_affinity", **asked)["changed"] is False
    # Another one joins without moving the first three.
    host.module("irq_affinity", **{**asked, "which": ["virtio1-*", "virtio2-input"]})
    assert affinity(host, *numbers, *irqs(host, "virtio2-input")) == ["8", "9", "10", "11"]
    host.module("irq_affinity", state="original")


def test_interrupts_of_a_driver_that_is_loaded_again_are_pinned_again(host):
    before = affinity(host, *irqs(host))
    asked = {"cpus": "4-5", "which": ["virtio2-*", "virtio1-*"], "default": True, "persistent": True}
    host.module("irq_affinity", **asked)

    host.run(f"echo virtio2 >{RNG}/unbind")
    assert irqs_or_none(host) == []
    gone = host.module("irq_affinity", **asked)
    assert (gone["changed"], gone["remarks"][0][:30]) == (False, "'virtio2-*' names no interrupt"), gone

    # The default applies to new interrupts at once.
    host.run(f"echo virtio2 >{RNG}/bind")
    assert affinity(host, *irqs(host)) == ["4-5", "4-5"]
    assert host.module("irq_affinity", **asked)["changed"] is False

    # The boot service finds new interrupts by their name, and moves them whatever CPUs they are on.
    host.run("".join(f"echo 0-7 >/proc/irq/{number}/smp_affinity_list;" for number in irqs(host)))
    apply = "from ansible_collections.sovereign.epyc.plugins.module_utils._cli import main; main(['apply'])"
    assert "2 settings changed, 0 requests failed" in host.python(apply)
    assert affinity(host, *irqs(host)) == ["4-5", "4-5"]

    host.module("irq_affinity", state="original")
    assert affinity(host, *irqs(host)) == before


def irqs_or_none(guest):
    return guest.run("grep -l virtio2- /sys/kernel/irq/*/actions", check=False).split()


def test_what_has_vanished_has_nothing_to_be_put_back(host):
    host.module("irq_affinity", cpus="4", which=["virtio2-*"])
    host.run(f"echo virtio2 >{RNG}/unbind")
    result = host.module("irq_affinity", state="original")
    assert (result.get("failed"), result["changed"], result["remarks"]) == (None, False, []), result
    host.run(f"echo virtio2 >{RNG}/bind")
    assert not host.module("irq_affinity", state="original")["changed"]
    assert affinity(host, *irqs(host)) == ["0-15", "0-15"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "Say which CPUs may be interrupted"),
        ({"cpus": "0-99"}, "CPU 16-99 is not on this host"),
        ({"cpus": "draft"}, "gives the role draft no CPU"),
        ({"cpus": "moon"}, "'moon' names no CPUs"),
    ],
)
def test_refusals_change_nothing(host, asked, words):
    result = host.module("irq_affinity", **asked)
    assert result["failed"]
    assert words in result["msg"]
    assert "\n" not in result["msg"]


def test_a_cpu_that_is_offline_is_refused(host):
    host.run("echo 0 >/sys/devices/system/cpu/cpu15/online")
    try:
        result = host.module("irq_affinity", cpus="14-15", which=["virtio2-*"])
        assert "CPU 15 is offline" in result["msg"]
    finally:
        host.run("echo 1 >/sys/devices/system/cpu/cpu15/online")
