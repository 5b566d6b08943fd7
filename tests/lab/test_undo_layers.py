# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An undo of single layers on a machine that site.yml has tuned: what comes back in the kernel, and what stays.

The tests follow one another.
"""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

RESTORE, SITE = "playbooks/restore.yml", "playbooks/site.yml"
BACK, SAY = "Put the settings back", "Say what was put back"
CAT = ("-e", '{"epyc_restore_layers": ["cat"]}')
STORE = "/var/lib/sovereign-epyc"
#: How the addresses of what each layer has on this machine begin, in the state of tests/fixtures/host_state.py.
RESCTRL = "/sys/fs/resctrl"
GOVERNORS = "cat /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
MASKS = "cat /proc/irq/default_smp_affinity /sys/devices/virtual/workqueue/cpumask"


def stored_requests(guest):
    return sorted(json.loads(guest.run(f"cat {STORE}/desired.json"))["requests"])


def layers_of_originals(guest):
    """The knobs whose originals the ledger has."""
    shown = json.loads(guest.run("sovereign-epyc show --json"))
    return {address.partition(":")[0] for address in shown["originals"]}


@pytest.fixture(scope="module")
def host(tuned_guest):
    assert "resctrl/resctrl" in stored_requests(tuned_guest)
    return tuned_guest


def test_a_check_lists_what_would_come_back_and_changes_nothing(host):
    before = host.untouched()
    play = host.play(RESTORE, *CAT, "--check")
    assert host.touched_since(before) == set()
    assert list(play.changed_results) == [BACK]
    assert play[SAY]["msg"].startswith("Would be put back: ")
    host.planned = play[BACK]["diff"]
    assert host.planned["changes"]["after"]["resctrl:mount"] is None
    assert {address.partition(":")[0] for address in host.planned["changes"]["after"]} == {"resctrl", "desired"}


def test_one_layer_comes_back_and_all_else_stays(host):
    tuned, asked = host.everything(), stored_requests(host)
    play = host.play(RESTORE, *CAT)
    assert (list(play.changed_results), play[BACK]["diff"]) == ([BACK], host.planned)
    assert host.run("grep resctrl /proc/self/mounts", check=False) == ""
    changed = {path for path in host.changed_since(tuned) if not path.startswith((RESCTRL, STORE))}
    assert not [path for path in changed if "resctrl" not in path], changed
    assert stored_requests(host) == [name for name in asked if name != "resctrl/resctrl"]
    assert "resctrl" not in layers_of_originals(host)
    assert host.run("systemctl is-active sovereign-epyc-watch").strip() == "active"
    again = host.play(RESTORE, *CAT)
    assert again.changed_results == {}
    assert again[SAY]["msg"].startswith(
        "Nothing of cat was ever changed on this host, or all of it was put back before."
    )


def test_the_command_undoes_layers_without_a_controller(host):
    governors, masks = host.run(GOVERNORS), host.run(MASKS)
    page = host.run("sovereign-epyc restore irq")
    assert host.run(GOVERNORS) == governors
    assert host.run(MASKS) != masks
    assert "Take irq out of epyc_steps too" in page
    assert {"sysfs/numa", "cmdline/cmdline"} <= set(stored_requests(host))
    assert not {"sysfs/irq", "irq/irq"} & set(stored_requests(host))
    refused = host.run("sovereign-epyc restore catt 2>&1; echo $?")
    assert "did you mean cat?" in refused and refused.endswith("\n1\n")


def test_the_next_run_sets_the_layers_again(host):
    """What the last run left does not hold any more."""
    play = host.play(SITE)
    assert "Partition the L3 caches" in play.changed_results
    assert "resctrl/resctrl" in stored_requests(host) and "irq" in layers_of_originals(host)


def test_layer_after_layer_leaves_nothing(host):
    layers = ["numa", "grub_params", "irq", "cat", "cpufreq", "cpuidle", "prefetch"]
    for layer in layers:
        done = host.module("epyc_restore", layers=[layer])
        assert not done.get("failed"), done
    assert set(host.run(f"ls -A {STORE}").split()) - {"lock", ".lock"} <= {"history.jsonl"}
    assert host.module("epyc_restore")["changed"] is False
    assert "isolcpus" not in host.run("cat /boot/grub/grub.cfg")
