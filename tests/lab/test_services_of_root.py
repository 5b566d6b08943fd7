# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The services of root do behind their restrictions what their commands do in a shell: on each layer of a tuned host.

tests/unit/plugins/module_utils/_setup/test_exposure.py has how exposed each unit is.
"""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow
TEXTFILE = "/var/lib/node-exporter/epyc.prom"
#: Changes settings of several layers by hand: files of /proc and /sys, a register, an interrupt, groups and the mount.
DRIFT = """
echo 1 >/proc/sys/kernel/numa_balancing
echo always >/sys/kernel/mm/transparent_hugepage/enabled
echo 0 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
for file in /proc/irq/*/smp_affinity; do echo ffffffff >$file; done 2>/dev/null
umount /sys/fs/resctrl
"""


@pytest.fixture(scope="module")
def tuned(tuned_guest):
    """A tuned machine without the boot parameters, which would wait for a reboot."""
    assert tuned_guest.module("kernel_cmdline", state="original")["reboot_required"] is False
    return tuned_guest


def unwanted(host):
    """The addresses of settings that are not as stored, but boot parameters."""
    rows = json.loads(host.run("sovereign-epyc check --json", check=False))["settings"]
    return sorted(row["address"] for row in rows if row["live"] != "ok" and row["address"] != "cmdline:")


def test_the_boot_service_applies_each_layer(tuned):
    assert unwanted(tuned) == []
    tuned.run(DRIFT, check=False)
    drifted = unwanted(tuned)
    assert {address.partition(":")[0] for address in drifted} >= {"sysfs", "resctrl"}, drifted
    tuned.run("systemctl restart sovereign-epyc.service")
    assert unwanted(tuned) == []
    assert " /sys/fs/resctrl resctrl " in tuned.run("cat /proc/mounts"), (
        "the mount is the host's, not the service's alone"
    )


def test_the_check_finds_what_the_command_finds(tuned):
    """The registers, processes, units and files that it reads are those of the host."""
    tuned.module("epyc_host_tool", textfile=TEXTFILE, interval="1h")
    tuned.run("echo 1 >/proc/sys/kernel/numa_balancing")
    tuned.run("systemctl start sovereign-epyc-check.service")
    by_service = tuned.run(f"cat {TEXTFILE}")
    tuned.run(f"sovereign-epyc check --textfile {TEXTFILE}", check=False)
    by_command = tuned.run(f"cat {TEXTFILE}")
    tuned.run("sovereign-epyc apply")
    assert "sovereign_epyc_check_success 1" in by_service and 'sovereign_epyc_drift{layer="' in by_service
    settings = [[line for line in text.splitlines() if "sovereign_epyc_" in line] for text in (by_service, by_command)]
    assert settings[0] == settings[1]


def test_no_service_of_root_reaches_a_network(tuned):
    """What systemd itself says of the running units."""
    for unit, families in (("sovereign-epyc", "AF_NETLINK AF_UNIX"), ("sovereign-epyc-watch", "AF_NETLINK AF_UNIX")):
        said = tuned.run(f"systemctl show -P RestrictAddressFamilies {unit}.service").split()
        assert sorted(said) == families.split()
        assert tuned.run(f"systemctl show -P IPAddressDeny {unit}.service").split() == ["::/0", "0.0.0.0/0"]
