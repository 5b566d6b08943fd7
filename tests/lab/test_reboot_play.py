# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/reboot.yml with real reboots: who waits, who is rebooted, what stops it, and what a full isolation does."""

from __future__ import annotations

import json
import re

import pytest

REBOOT = "playbooks/reboot.yml"
SAY = "Say whether the host waits"
STOP = "Stop at a host that did not come back clean"
OK = ("-e", "epyc_reboot_ok=true")
WAITS = "cmdline:isolcpus is nothing and should be domain,12-15, which waits for a reboot"
# What waits for a reboot: the parameters of an isolation in which threads are not balanced.
ISOLATION = ["isolcpus=domain,12-15", "nohz_full=12-15"]
TASKS = """
- name: NAME
  ansible.builtin.command: COMMAND
  changed_when: false
"""
FOUR_THREADS = "import threading\nfor n in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()"


@pytest.fixture(scope="module")
def host(tuned_small, tmp_path_factory):
    """A tuned machine that waits for a reboot; ``hook`` makes a file of tasks."""
    asked = tuned_small.module("kernel_cmdline", parameters=ISOLATION, persistent=True)
    assert asked["reboot_required"] is True, asked
    tuned_small.hooks = tmp_path_factory.mktemp("plays")
    return tuned_small


def hook(host, name, command):
    path = host.hooks / f"{name.replace(' ', '-')}.yml"
    path.write_text(TASKS.replace("NAME", name).replace("COMMAND", json.dumps(command)))
    return str(path)


def boot_id(host):
    host.machine.disconnect()
    return host.run("cat /proc/sys/kernel/random/boot_id")


@pytest.mark.parametrize("how", [[], ["--check", *OK]], ids=["not allowed", "check"])
def test_nothing_is_rebooted_unless_allowed(host, how):
    before = boot_id(host)
    play = host.play(REBOOT, *how)
    assert boot_id(host) == before
    assert host.machine.name in play[SAY]["msg"]
    assert WAITS in play[SAY]["msg"]
    assert play[SAY]["msg"].endswith("Nothing is rebooted without epyc_reboot_ok=true.") is not bool(how)
    assert not [result for result in play.results if result["task"] == "Reboot the host"]


def test_a_host_that_cannot_be_drained_is_not_rebooted(host):
    before = boot_id(host)
    drain = hook(host, "Tell the balancer", "false")
    play = host.play(REBOOT, *OK, "-e", f"reboot_drain_tasks={drain}", succeeds=False)
    assert play.returncode == 2, play.output
    assert play[STOP]["msg"].startswith(f"{host.machine.name} did not come back clean, at 'Tell the balancer': ")
    assert boot_id(host) == before


def test_a_host_that_is_not_healthy_afterwards_is_named(host):
    """The reboot itself goes well, in the order drain, reboot, proof, health."""
    before = boot_id(host)
    drain = hook(host, "Leave", "true")
    health = hook(host, "Ask for a token", "sh -c 'echo no model is loaded >&2; exit 3'")
    hooks = ["-e", f"reboot_drain_tasks={drain}", "-e", f"reboot_health_tasks={health}"]
    play = host.play(REBOOT, *OK, *hooks, succeeds=False)
    assert play.returncode == 2, play.output
    assert boot_id(host) != before
    message = play[STOP]["msg"]
    assert message.startswith(f"{host.machine.name} did not come back clean, at 'Ask for a token': ")
    assert message.endswith(" It says: no model is loaded. Later batches were not touched.")
    tasks = [result["task"] for result in play.results]
    order = ["Leave", "Reboot the host", "Prove that the host came back tuned", "Ask for a token", STOP]
    assert [task for task in tasks if task in order] == order
    assert host.run("cat /sys/devices/system/cpu/isolated /sys/devices/system/cpu/nohz_full").split() == ["12-15"] * 2
    assert host.run("systemctl is-active sovereign-epyc.service").strip() == "active"
    assert host.run("sovereign-epyc check").endswith("settings checked, 0 not as configured\n")


def test_a_host_that_waits_for_nothing_is_left_alone(host):
    before = boot_id(host)
    play = host.play(REBOOT, *OK)
    assert boot_id(host) == before
    assert play[SAY]["msg"] == f"{host.machine.name} does not wait for a reboot."


def test_verify_sees_that_isolation_holds_and_what_it_does_to_threads(host):
    """With isolcpus=domain all threads that are free to choose among the isolated CPUs are on one of them."""
    run = f"systemd-run --quiet --collect --unit pile -p CPUAffinity=12-15 python3 -c '{FOUR_THREADS}'"
    host.run(run)
    host.run("sleep 3")
    try:
        play = host.play("playbooks/verify.yml", "-e", '{"verify_units": {"pile.service": "12-15"}}', succeeds=False)
    finally:
        host.run("systemctl kill -s KILL pile", check=False)
    checked = play["Go through the checklist"]
    items = {item["name"]: item for item in checked["checklist"]}
    assert items["isolation"]["sentence"] == (
        "/sys/devices/system/cpu/isolated holds 12-15. /sys/devices/system/cpu/nohz_full holds 12-15."
    )
    (complaint,) = checked["complaints"]
    assert re.match("threads of pile.service: 5 threads are piled on CPU 1[2-5]: 12-15 are isolated, ", complaint)
    assert play.returncode == 2


def test_a_forced_reboot_that_ends_untuned_is_named(host):
    """The proof is the checklist: a boot service that cannot do its work is not a clean return."""
    before = boot_id(host)
    host.run("sed -i 's/12MiB/99MiB/' /var/lib/sovereign-epyc/desired.json")
    play = host.play(REBOOT, *OK, "-e", "epyc_reboot_force=true", succeeds=False)
    assert play.returncode == 2, play.output
    assert boot_id(host) != before
    message = play[STOP]["msg"]
    assert message.startswith(
        f"{host.machine.name} did not come back clean, at 'Prove that the host came back tuned': "
    )
    assert "boot service: Enabled, and its last run failed (exit-code, exit code 1)." in message
