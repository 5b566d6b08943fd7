# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host with SELinux in enforcing mode, with Debian's policy: tuned, served, rebooted, verified and undone.

The policy is that of Debian's package selinux-policy-default. The tests follow one another on one machine.
"""

from __future__ import annotations

import json

import pytest

from tests.fixtures.virtual_epyc import guest_of
from vepyc import Machine, Preparation
from vepyc.images.debian_packages import install_packages
from vepyc.paths import compute_digest

from .small_instance import ASK_FEW, BINARY, MODEL, SMALL, with_server

pytestmark = pytest.mark.slow

PACKAGES = ("selinux-policy-default", "policycoreutils", "selinux-utils")
#: Labels each file of the disk, and has the next boot enforce the policy and log every denial.
ENFORCE = """
set -e
echo kernel.printk_ratelimit=0 >/etc/sysctl.d/denials.conf
sed -i 's/^SELINUX=.*/SELINUX=enforcing/' /etc/selinux/config
sed -i 's/lsm=lockdown/&,selinux/' /etc/default/grub
update-grub
setfiles -F -e /dev -e /proc -e /run -e /sys /etc/selinux/default/contexts/files/file_contexts /
sync
"""
#: What was denied since the boot: permission, program, the contexts of both, and the class.
#: What sshd is denied for each login is left out.
DENIALS = r"""
dmesg | grep -v '"sshd-session"' |
    sed -nE 's/.*denied  (.*) for .* (comm="[^"]*").* (scontext=[^ ]*) (tcontext=.*) permissive.*/\1 \2 \3 \4/p' |
    sort -u
"""
INSTANCE = {**SMALL, "name": "chat", "model": MODEL, "port": 8080}
ASKED = {
    "epyc_llama_install": "binary",
    "epyc_llama_binary": BINARY,
    "epyc_llama_instances": [INSTANCE],
    "epyc_verify_services": False,
}
TOLD = ("-e", json.dumps(ASKED))
#: Where the collection writes.
PLACES = "/boot/grub /etc/default /etc/modules-load.d /etc/systemd/system"
PLACES += " /usr/lib/sovereign-epyc /usr/sbin/sovereign-epyc /var/lib/sovereign-epyc"
SITE = "playbooks/site.yml"
DRIVERS = {"driver dm_mod", "driver cpuid", "driver msr"}


def with_selinux() -> Preparation:
    """A machine with a llama-server and a model that was booted with SELinux in enforcing mode."""
    server = with_server()

    def bring(machine: Machine) -> None:
        server.apply(machine)
        install_packages(machine, *PACKAGES)
        machine.run(ENFORCE, timeout=900)
        machine.reboot()

    return Preparation("selinux", compute_digest([server.source_digest, ENFORCE, *PACKAGES]), bring)


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """The machine, and what Debian's own boot and update-grub are denied."""
    with guest_of("small", "selinux", tmp_path_factory.mktemp("selinux"), prepared=with_selinux()) as guest:
        guest.carry_modules()
        guest.first = guest.everything()
        guest.run("update-grub")
        guest.of_debian = read_denials(guest)
        yield guest


def read_denials(host):
    return set(host.run(DENIALS, check=False).splitlines())


def require_no_denial(host):
    assert read_denials(host) - host.of_debian == set()


def test_a_mount_of_resctrl_without_a_context_is_explained_and_the_denial_shows(host):
    assert host.run("getenforce") == "Enforcing\n"
    assert host.run("id --context").startswith("unconfined_u:")
    host.run("mount -t resctrl resctrl /sys/fs/resctrl")
    refused = host.module("resctrl_schemata", groups=[{"name": "draft"}])
    host.run("umount /sys/fs/resctrl")
    assert "its policy has no context for resctrl. Run 'umount /sys/fs/resctrl'" in refused["msg"]
    shown = read_denials(host) - host.of_debian
    assert [line.split()[:4] for line in shown] == [["{", "associate", "}", 'comm="python3"']]
    host.of_debian |= shown


def test_site_tunes_and_serves_without_a_denial(host):
    host.play(SITE, *TOLD)
    assert len(json.loads(host.machine.run("python3 - 8080", input=ASK_FEW).stdout)["tokens"]) == 8
    assert host.play(SITE, *TOLD).changed_results == {}
    require_no_denial(host)


def test_the_reboot_proves_it_without_a_denial(host):
    host.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true", *TOLD)
    host.machine.disconnect()
    host.run("systemctl is-system-running --wait", check=False)
    assert host.run("getenforce") == "Enforcing\n"
    assert host.run("sovereign-epyc check").endswith(" settings checked, 0 not as configured\n")
    assert host.play("playbooks/drift.yml", *TOLD).returncode == 0
    assert host.play("playbooks/verify.yml", *TOLD)["Go through the checklist"]["complaints"] == []
    require_no_denial(host)


def test_files_have_the_labels_that_the_policy_wants(host):
    assert host.run(f"restorecon -n -v -R {PLACES}") == ""


def test_the_undo_leaves_what_was_there_before_the_first_run(host):
    host.play("playbooks/restore.yml", "-e", "epyc_restore_instances=true")
    host.machine.reboot()
    assert host.changed_since(host.first).keys() - DRIVERS == set()
    require_no_denial(host)
