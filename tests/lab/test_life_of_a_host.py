# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host from its first check to its undo, with a real llama-server: what a break of the product most likely shows in.

The tests follow one another on one machine. What each playbook does beyond that is in the test files of their names.
"""

from __future__ import annotations

import json

import pytest

from tests.fixtures.virtual_epyc import STORE, guest_of

from .small_instance import ASK_FEW, BINARY, MODEL, SMALL, with_server

pytestmark = [pytest.mark.slow, pytest.mark.everyday]

SITE = "playbooks/site.yml"
INSTANCE = {**SMALL, "name": "chat", "model": MODEL, "port": 8080}
ASKED = {
    "epyc_llama_install": "binary",
    "epyc_llama_binary": BINARY,
    "epyc_llama_instances": [INSTANCE],
    "epyc_verify_services": False,
}
#: The inventory's variables and an instance, for every playbook.
TOLD = ("-e", json.dumps(ASKED))
CAT = "Partition the L3 caches"
#: How many lines the record of the run that is killed has at its end; a whole run has more than 60.
KILLED_AT = 40
#: What a look at the host and update-grub may load.
DRIVERS = {"driver dm_mod", "driver cpuid", "driver msr"}


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    """A machine that nobody has tuned, with a llama-server and a model, and every address that could be written."""
    with guest_of("small", "life", tmp_path_factory.mktemp("life"), prepared=with_server()) as guest:
        guest.carry_modules()
        guest.first = guest.everything()
        yield guest


def ask_tokens(host):
    """Ask the server for eight tokens, which the weights and the temperature make the same each time."""
    text = host.machine.run("python3 - 8080", input=ASK_FEW).stdout
    return json.loads(text)["tokens"]


def test_a_check_of_a_bare_host_changes_nothing(host):
    before = host.untouched()
    play = host.play(SITE, "--check", "--diff")
    assert host.touched_since(before) == set()
    # It did look, and saw all there is to do.
    assert play[CAT]["diff"]["changes"]["after"]["resctrl:mount"] == "no options"


def test_a_run_after_one_that_was_killed_tunes_the_host_and_serves(host):
    assert host.kill_play(SITE, after=KILLED_AT), "the run is to be killed before its end"
    host.play(SITE, *TOLD)
    assert host.masks("draft") == {0: "f", 1: "f", 2: "fff0", 3: "fff0"}
    assert host.read("verify", "cpus_list") == "1-3,5-7"
    assert set(host.run("cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor").split()) == {"performance"}
    assert "isolcpus=managed_irq,1-3,5-7,9-11,13-15 " in host.run("cat /boot/grub/grub.cfg")
    # All is in force but the boot parameters, which wait for a reboot.
    checked = host.run("sovereign-epyc check", check=False).splitlines()[:-1]
    assert checked and all(line.startswith("boot parameter, ") for line in checked)
    assert len(ask_tokens(host)) == 8


def test_a_second_run_changes_nothing(host):
    before = host.everything()
    assert host.play(SITE, *TOLD).changed_results == {}
    assert host.changed_since(before) == {}


def test_drift_is_reported_and_only_that_is_repaired(host):
    good = host.state()
    host.run("echo L3:0=ff >/sys/fs/resctrl/draft/schemata")
    drift = host.play("playbooks/drift.yml", *TOLD, succeeds=False)
    assert drift.returncode != 0 and "L3 share of group draft, L3 domain 0" in drift.output, drift.output
    assert host.state() != good, "a report repairs nothing"
    assert host.play(SITE, "--tags", "cat", *TOLD).changed_results.keys() == {CAT}
    assert host.state() == good


def test_what_cannot_be_remembered_is_not_changed(host):
    """The disk is full when a module is to write its ledger."""
    before = host.everything()
    host.run(f"cp -a {STORE} /run/store && mount -t tmpfs -o size=256k none {STORE} && cp -a /run/store/. {STORE}")
    host.run(f"cat /dev/zero >{STORE}/other", check=False)
    try:
        refused = host.module("hugepages", pools=[{"node": "1", "pages": 3}])
        assert refused.get("failed") and "No space left on device" in refused["msg"], refused
    finally:
        host.run(f"umount {STORE}")
    assert host.changed_since(before) == {}


def test_after_a_reboot_the_host_is_tuned_and_serves(host):
    tokens = ask_tokens(host)
    host.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true", *TOLD)
    host.machine.disconnect()
    # The playbook does not wait for instances, and until an instance has answered the check says "check again".
    host.run("systemctl is-system-running --wait", check=False)
    assert host.run("sovereign-epyc check").endswith(" settings checked, 0 not as configured\n")
    assert "isolcpus=managed_irq,1-3,5-7,9-11,13-15" in host.run("cat /proc/cmdline")
    assert ask_tokens(host) == tokens
    assert host.play("playbooks/drift.yml", *TOLD).returncode == 0
    assert host.play("playbooks/verify.yml", *TOLD)["Go through the checklist"]["complaints"] == []


def test_the_undo_leaves_what_was_there_before_the_first_run(host):
    host.play("playbooks/restore.yml", "-e", "epyc_restore_instances=true")
    host.machine.reboot()
    assert host.changed_since(host.first).keys() - DRIVERS == set()
