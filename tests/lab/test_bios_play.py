# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The BIOS from the inventory to the kernel: set at the BMC, booted by reboot.yml and proven; and a BMC that lies."""

from __future__ import annotations

import os

import pytest

from tests.fixtures.virtual_epyc import Guest
from vepyc import start_machine

pytestmark = pytest.mark.slow

SITE, REBOOT = "playbooks/site.yml", "playbooks/reboot.yml"
ASK = "Ask the BMC"


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The small machine, which has four nodes, with a BMC in front of it."""
    machine = start_machine("small", name=f"test-bios-{os.getpid()}", bmc="dell")
    try:
        guest = Guest(machine, tmp_path_factory.mktemp("bios"))
        bmc = machine.bmc_access
        names = {"bmc": "url", "username": "user", "password": "password", "ca_path": "ca"}
        guest.access = [word for name, key in names.items() for word in ("-e", f"epyc_bios_{name}={bmc[key]}")]
        yield guest
    finally:
        machine.discard()


#: A boot from cold: the system shuts down, and the BMC switches the machine on again.
COLD = ("-e", "epyc_reboot_by=bmc", "-e", "epyc_reboot_reset=cold", "-e", "epyc_reboot_ok=true")


def count_nodes(host):
    host.machine.disconnect()
    return len(host.run("ls -d /sys/devices/system/node/node*").split())


def test_two_nodes_from_the_inventory_to_the_kernel(host):
    """On a board that applies settings only at a boot from cold, which its BMC makes."""
    host.machine.set_bmc_faults(cold_only=True)
    wish = [*host.access, "-e", "epyc_bios_nps=2"]
    play = host.play(SITE, "--tags", "base,bios", *wish)
    assert play[ASK]["changed"] is True
    assert play[ASK]["reboot_required"] is True
    assert (count_nodes(host), host.run("cat /var/lib/sovereign-epyc/bios-originals.json").count('"sent"')) == (4, 1)
    # Meanwhile somebody takes a memory module out.
    host.machine.set_bios(dimms=11)
    boot_id = "cat /proc/sys/kernel/random/boot_id"
    first = host.run(boot_id)
    play = host.play(REBOOT, *wish, *COLD)
    assert "becomes 2 at the next boot" in play["Say whether the host waits"]["msg"]
    sent = [result["sent"] for result in play.results if result["task"] == "Have the BMC reset the server"]
    assert sent == [["PowerCycle"], ["On"]], "asked whether it can, then switched on what had shut itself down"
    assert count_nodes(host) == 2
    assert host.run(boot_id) != first
    rows = {row["name"]: row for row in play["Hold what the BMC says against the kernel"]["settings"]}
    shown = rows["memory_channels"]
    assert shown["found"] == "11 of 12"
    assert "each of which is a twelfth of the bandwidth of its socket" in shown["sentence"]
    assert host.machine.bmc_access["password"] not in play.output


def test_a_bmc_that_says_what_the_kernel_does_not_show(host):
    """What a Dell R7425 did: the job is done, the BMC says the new value, and the machine has the old one."""
    host.machine.set_bmc_faults(cold_only=False, os_unchanged=True)
    host.machine.set_bios(dimms=12)
    wish = [*host.access, "-e", "epyc_bios_nps=1"]
    host.play(SITE, "--tags", "bios", *wish)
    play = host.play(REBOOT, *wish, "-e", "epyc_reboot_ok=true", succeeds=False)
    assert play.returncode == 2
    message = play["Stop at a host that did not come back clean"]["msg"]
    assert "and the kernel shows otherwise" in message
    assert "It is NPS2" in message
    assert "should be NPS1" in message
    rows = {row["name"]: row for row in play["Hold what the BMC says against the kernel"]["settings"]}
    assert rows["memory_channels"]["found"] == "all"
    assert "12 modules on 12 channels: 460.8 GB/s at 4800 MT/s" in rows["memory_channels"]["sentence"]
