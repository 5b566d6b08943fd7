# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupts that come and go with their driver.

What is asked, refused, moved and put back is in test_irq_conformance, on two kernels.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

AFFINITY = "grep -H '' /proc/irq/*/smp_affinity_list /proc/irq/default_smp_affinity"
RNG = "/sys/bus/virtio/drivers/virtio_rng"


def irqs(guest, pattern="virtio2-"):
    """Numbers of the interrupts with such a name."""
    return [int(line.split("/")[4]) for line in guest.run(f"grep -l {pattern} /sys/kernel/irq/*/actions").split()]


def affinity(guest, *numbers):
    return [guest.run(f"cat /proc/irq/{number}/smp_affinity_list").strip() for number in numbers]


@pytest.fixture
def host(bare_guest):
    before = bare_guest.run(AFFINITY)
    yield bare_guest
    assert bare_guest.run(AFFINITY) == before


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
