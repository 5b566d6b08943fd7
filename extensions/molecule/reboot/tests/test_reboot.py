# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That the host has rebooted, once, into what its boot menu says."""

from __future__ import annotations

WORKERS = "1-3,5-7,9-11,13-15"


def test_parameters_are_in_force(host):
    assert host.check_output("cat /sys/devices/system/cpu/nohz_full") == WORKERS
    assert f"rcu_nocbs={WORKERS}" in host.check_output("cat /proc/cmdline").split()


def test_rebooted_once(host):
    # The first boot of all is the one that the image was saved in.
    assert host.check_output("journalctl --list-boots --no-pager | wc -l") == "2"


def test_boot_service_has_run(host):
    assert host.service("sovereign-epyc").is_running
