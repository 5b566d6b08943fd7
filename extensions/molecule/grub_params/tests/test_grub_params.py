# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the host will boot with, by its own boot menu."""

from __future__ import annotations

WORKERS = "1-3,5-7,9-11,13-15"


def test_boot_menu(host):
    entries = host.check_output(r"sed -n 's/^\t*linux\t*[^ ]* //p' /boot/grub/grub.cfg").splitlines()
    assert entries
    for entry in entries:
        words = entry.split()
        assert f"nohz_full={WORKERS}" in words
        assert f"rcu_nocbs={WORKERS}" in words
        assert f"isolcpus=managed_irq,{WORKERS}" in words
        assert "irqaffinity=0,4,8,12" in words
        assert "processor.max_cstate=2" in words
        assert words.index("hugepagesz=2M") + 1 == words.index("hugepages=8")
        assert "quiet" not in words
        assert "nokaslr" in words  # what was there before us


def test_nobody_has_rebooted_it(host):
    assert "nohz_full" not in host.check_output("cat /proc/cmdline")
