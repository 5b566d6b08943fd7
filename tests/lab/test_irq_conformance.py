# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fake interrupts answer irq_affinity as those of two kernels do, and what is moved really goes elsewhere.

To move one that the kernel manages itself, one kernel answers EPERM and the older one EIO. The disk of
the guest has four queues, whose interrupts are managed; those of its network card and random source move.
"""

from __future__ import annotations

import errno

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.interrupts import Interrupts
from ansible_collections.sovereign.epyc.tests.unit.fakes.kernels import CPUS, Kernel
from ansible_collections.sovereign.epyc.tests.unit.fakes.module_requests import ask, check, put_back, write

from .conformance import compare_with_kernel, left_changed, run_program

pytestmark = pytest.mark.slow

MODULE = "irq_affinity"
PROC, SYS, PCI = "/proc/irq", "/sys/kernel/irq", "/sys/bus/pci"
DEFAULT = f"{PROC}/default_smp_affinity"
SHOWN = [f"{PROC}/*/smp_affinity_list", DEFAULT, f"{CPUS}/online"]
RECORDED = [
    *SHOWN,
    f"{PROC}/*/effective_affinity_list",
    f"{SYS}/*/actions",
    f"{PCI}/devices/*/irq",
    f"{PCI}/devices/*/msi_irqs/*",
    f"{PCI}/drivers/*/0000*/irq",
]
MANAGED = ["timer", "virtio0-req.0", "virtio0-req.1", "virtio0-req.2", "virtio0-req.3"]
MOVABLE = ["i8042", "ttyS0", "rtc0", "acpi", "i8042", "virtio0-config", "virtio1-config", "virtio1-input.0"]
MOVABLE += ["virtio1-output.0", "virtio2-config", "virtio2-input"]
#: Its driver gives these all CPUs again whenever a CPU comes or goes.
CARD = ["virtio1-input.0", "virtio1-output.0"]
#: These do not fire meanwhile, and so stay where they are.
QUIET = ["i8042", "acpi", "virtio0-config", "virtio1-config", "virtio2-config"]
ASKED = {"cpus": "8-9", "default": True, "which": QUIET}
SPREAD = {"cpus": "node2", "which": ["i8042", "acpi"], "spread": True}


def steps(managed, movable):
    """The requests, and writes of others to an interrupt that is managed and to one that may be moved."""
    return [
        check(**ASKED),
        ask(**ASKED),
        ask(**ASKED),
        check(**ASKED),
        put_back(),
        put_back(),
        check(cpus="8-9", default=True),
        *(
            check(cpus="0-1", which=[which])
            for which in ("virtio1-*put*", "0000:00:03.0", "driver:virtio-pci", "9", "nobody-*", "virtio0-req*")
        ),
        ask(**SPREAD),
        ask(**SPREAD),
        # Another one joins without moving the first ones.
        ask(**{**SPREAD, "which": [*SPREAD["which"], "virtio2-config"]}),
        put_back(),
        *(ask(**refused) for refused in ({}, {"cpus": "0-99"}, {"cpus": "draft"}, {"cpus": "moon"})),
        write(f"{CPUS}/cpu15/online", 0),
        ask(cpus="14-15", which=["virtio2-config"]),
        write(f"{PROC}/{movable}/smp_affinity_list", "15"),
        write(f"{CPUS}/cpu15/online", 1),
        *(write(f"{PROC}/{movable}/smp_affinity_list", text) for text in ("99", "x", "4-5,15", "0-15")),
        *(write(DEFAULT, text) for text in ("0", "x", "10000", "f", "ffff")),
        write(f"{PROC}/{managed}/smp_affinity_list", "0-1"),
    ]


def number_of(guest, action):
    """The number of the first interrupt with this name."""
    return int(guest.run(f"grep -lx {action} {SYS}/*/actions | head -n1").split("/")[4])


def make_fake_machine(folder, guest):
    """The small machine with the interrupts of the guest, some of whose files newer kernels let nobody write."""
    fake = Kernel(folder)
    paths = f"glob.glob('{PROC}/*/smp_affinity_list')"
    read_only = run_program(guest, f"[path for path in {paths} if not os.stat(path).st_mode & 0o222]", MODULE)
    fake.record(run_program(guest, f"read_files(KernelFS(), {RECORDED!r})", MODULE), read_only)
    fixed, card = ({number_of(guest, action) for action in actions} for actions in (MANAGED, CARD))
    Interrupts(fake, fixed, errno.EPERM if read_only else errno.EIO, card)
    return fake


def test_the_fake_answers_as_the_kernel_and_interrupts_really_move(guest_of_each_kernel, tmp_path_factory):
    guest = guest_of_each_kernel
    fake = make_fake_machine(tmp_path_factory.mktemp("fake"), guest)
    taken = steps(number_of(guest, "virtio0-req.0"), number_of(guest, "virtio2-config"))
    answers = compare_with_kernel(guest, fake, MODULE, taken, SHOWN)
    assert left_changed(answers) == set()

    made = guest.module(MODULE, cpus="8-9")
    names = [[row["actions"][0] for row in made[kind]] for kind in ("managed", "movable")]
    assert names == [MANAGED, MOVABLE]
    places = {row["irq"]: guest.run(f"cat {PROC}/{row['irq']}/smp_affinity_list").strip() for row in made["managed"]}
    assert list(places.values())[1:] == ["0-3", "4-7", "8-11", "12-15"]
    # An interrupt moves when it fires the next time. The keyboard's has not fired yet, the network card's has.
    keyboard, card = number_of(guest, "i8042"), number_of(guest, "virtio1-input.0")
    assert keyboard in made["pending"]
    assert any(f"{keyboard} (i8042)" in remark for remark in made["remarks"])
    again = guest.module(MODULE, cpus="8-9")
    assert (again["changed"], again["remarks"]) == (False, [])
    assert keyboard in again["pending"]
    assert card not in again["pending"]
    assert guest.run(f"cat {PROC}/{card}/effective_affinity_list").strip() in ("8", "9")
    assert guest.module(MODULE, state="original")["changed"] is True
