# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters on a machine with the firmware of a server: Debian's systemd-boot, kernel-install and ukify.

GRUB is installed on it, too. The tests follow one another on one machine: entries of type 1 first, then a unified
kernel image that has a parameter.
"""

from __future__ import annotations

import pytest

from .test_killed import STAND, UNFLUSHED, cut_power_amid

pytestmark = pytest.mark.slow

ENTRY = "/boot/efi/loader/entries/*.conf"
IMAGE = "/boot/efi/EFI/Linux/*.efi"
#: All files that the boot loader reads. Whatever boots writes a new seed for random numbers.
PARTITION = "cd /boot/efi && find . -type f ! -name random-seed -exec sha256sum {} + | sort -k 2"
#: What systemd-boot and systemd-stub tell, and what looks at the host load; update-grub is not run.
DRIVERS = {"driver cpuid", "driver msr"}
#: Has the next boot be that of an image with the same command line, for which kernel-install needs a file.
MAKE_IMAGE = f"""
set -e
echo layout=uki >/etc/kernel/install.conf
sed -n 's/^options *//p' {ENTRY} >/etc/kernel/cmdline
kernel-install add $(uname -r) /boot/vmlinuz-$(uname -r)
ls {IMAGE}
rm {ENTRY} /etc/kernel/cmdline /etc/kernel/install.conf
sync
"""
#: Stands before the first change that has this in its path.
STAND_AT = """
import os, time
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
def write_file(path, *more, real=textfile.write_file):
    return {stand} if "{part}" in path else real(path, *more)
textfile.write_file = write_file
def replace(source, target, real=os.replace):
    return {stand} if "{part}" in target else real(source, target)
os.replace = replace
"""


#: What depends on the memory that the firmware keeps, which is some pages more or less at each boot.
MEMORY = {"mount /run", "mount /etc/machine-id", "/proc/sys/kernel/threads-max"}

#: The tests write this file, so that kernel-install makes images.
LAYOUT = {"/etc/kernel/install.conf"}


@pytest.fixture(scope="module")
def host(systemd_boot_guest):
    systemd_boot_guest.first = systemd_boot_guest.everything()
    systemd_boot_guest.partition = systemd_boot_guest.run(PARTITION)
    systemd_boot_guest.kernel_files = systemd_boot_guest.run("ls -A /etc/kernel")
    return systemd_boot_guest


def without_initrd(words):
    """Parameters without that which systemd-boot adds to those of an entry, and not to those of an image."""
    return [word for word in words if not word.startswith("initrd=")]


def read_command_line(host):
    host.machine.disconnect()
    return host.run("cat /proc/cmdline").split()


def require_first_state(host):
    assert host.changed_since(host.first).keys() - DRIVERS - MEMORY - LAYOUT - {"/proc/cmdline"} == set()
    assert without_initrd(read_command_line(host)) == without_initrd(host.first["/proc/cmdline"].split())
    assert host.run("ls -A /etc/kernel") == host.kernel_files


def test_it_was_started_by_systemd_boot_and_a_check_changes_nothing(host):
    assert "systemd-boot" in host.run("bootctl status 2>&1")
    before = host.untouched()
    made = host.module("kernel_cmdline", parameters=["sovereign.test=1"], _ansible_check_mode=True)
    assert made["diff"]["changes"]["after"] == {"cmdline:sovereign.test": "1"}
    assert host.touched_since(before) == set()
    assert host.run(PARTITION) == host.partition


def test_an_entry_gets_them_and_the_reboot_proves_them(host):
    made = host.module("kernel_cmdline", parameters=["sovereign.test=1"], absent=["quiet"])
    assert made["pending"] == ["sovereign.test", "quiet"], made
    assert [remark for remark in made["remarks"] if remark.startswith("GRUB is installed on this host, too. systemd-b")]
    assert host.module("kernel_cmdline", parameters=["sovereign.test=1"], absent=["quiet"])["changed"] is False
    host.machine.reboot()
    words = read_command_line(host)
    assert "sovereign.test=1" in words and "quiet" not in words


def test_an_entry_that_lost_one_is_changed_again(host):
    host.carry_modules()
    host.run(f"sed -i 's/ sovereign.test=1//' {ENTRY}")
    assert host.module("kernel_cmdline", parameters=["sovereign.test=1"])["changed"] is True
    assert "sovereign.test=1" in host.run(f"cat {ENTRY}")


def test_a_power_cut_before_the_entry_is_written_leaves_a_host_that_boots(host):
    host.run(UNFLUSHED)
    asked = {"parameters": ["sovereign.test=2"]}
    cut_power_amid(host, host.run_module, "kernel_cmdline", STAND_AT.format(stand=STAND, part="/entries/"), **asked)
    assert "sovereign.test=1" in read_command_line(host)
    host.carry_modules()
    assert "sovereign.test=2" in host.run("cat /etc/kernel/cmdline"), "the file was written before"
    assert host.module("kernel_cmdline", **asked)["changed"] is True
    assert "sovereign.test=2" in host.run(f"cat {ENTRY}")


def test_the_undo_gives_the_first_bytes_back(host):
    assert host.module("epyc_restore")["changed"] is True
    assert host.run(PARTITION) == host.partition
    host.run(MAKE_IMAGE)
    host.machine.reboot()
    require_first_state(host)
    assert "systemd-stub" in host.run("bootctl status 2>&1")


def test_an_image_is_built_anew_and_started(host):
    host.carry_modules()
    host.run("echo layout=uki >/etc/kernel/install.conf")
    host.kernel_files = host.run("ls -A /etc/kernel")
    made = host.module("kernel_cmdline", parameters=["sovereign.test=1"], absent=["quiet"])
    assert made["pending"] == ["sovereign.test", "quiet"], made
    assert "sovereign-epyc-new" not in host.run("ls /boot/efi")
    host.machine.reboot()
    words = read_command_line(host)
    assert "sovereign.test=1" in words and "quiet" not in words


def test_the_undo_builds_the_first_image_again(host):
    host.carry_modules()
    assert host.module("epyc_restore")["changed"] is True
    host.machine.reboot()
    require_first_state(host)


def test_the_playbooks_tune_prove_and_undo_a_host_that_boots_an_image(host):
    """The whole recipe, as on a host with GRUB."""
    host.play("playbooks/site.yml")
    assert host.play("playbooks/site.yml").changed_results == {}
    host.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true")
    host.machine.disconnect()
    assert "isolcpus=managed_irq,1-3,5-7,9-11,13-15" in read_command_line(host)
    assert "systemd-stub" in host.run("bootctl status 2>&1")
    assert host.run("sovereign-epyc check").endswith(" settings checked, 0 not as configured\n")
    assert host.play("playbooks/verify.yml")["Go through the checklist"]["complaints"] == []
    assert host.play("playbooks/drift.yml").returncode == 0
    host.play("playbooks/restore.yml")
    host.machine.reboot()
    require_first_state(host)
