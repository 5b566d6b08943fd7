# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/reboot.yml with a real reboot: who waits, who is rebooted, what stops it, and what a full isolation does.

The tests follow one another, on a machine that was rebooted into its isolation. That a health check comes after the
reboot and its proof, and who is named when it fails, is in test_fleet.
"""

from __future__ import annotations

import json
import re

import pytest

pytestmark = pytest.mark.slow

REBOOT = "playbooks/reboot.yml"
SAY = "Say whether the host waits"
STOP = "Stop at a host that did not come back clean"
OK = ("-e", "epyc_reboot_ok=true")
ADDED = "sovereign.test"
WAITS = f"cmdline:{ADDED} is nothing and should be 1, which waits for a reboot"
ISOLATED = "1-3,5-7,9-11,13-15"
#: Has the kernel hide all that resctrl is about.
NO_RESCTRL = "rdt=!cmt,!mbmtotal,!mbmlocal,!l3cat,!l3cdp,!mba,!smba,!bmec"
STORED = "/var/lib/sovereign-epyc/desired.json"
TASKS = """
- name: NAME
  ansible.builtin.command: COMMAND
  changed_when: false
"""
FOUR_THREADS = "import threading\nfor n in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()"


@pytest.fixture(scope="module")
def host(rebooted_guest, tmp_path_factory):
    """A tuned machine that waits for a reboot, for one more boot parameter; ``ask`` asks for such."""
    stored = json.loads(rebooted_guest.run(f"cat {STORED}"))
    wanted = stored["requests"]["cmdline/cmdline"]["parameters"]

    def ask(*more):
        asked = {"parameters": [*wanted, *more], "intent": stored["intent"], "persistent": True}
        return rebooted_guest.module("kernel_cmdline", **asked)

    asked = ask(f"{ADDED}=1")
    assert asked["pending"] == [ADDED], asked
    rebooted_guest.ask = ask
    rebooted_guest.hooks = tmp_path_factory.mktemp("plays")
    return rebooted_guest


def write_hook(host, name, command):
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
    drain = write_hook(host, "Tell the balancer", "false")
    play = host.play(REBOOT, *OK, "-e", f"epyc_reboot_drain_tasks={drain}", succeeds=False)
    assert play.returncode == 2, play.output
    assert play[STOP]["msg"].startswith(f"{host.machine.name} did not come back clean, at 'Tell the balancer': ")
    assert boot_id(host) == before


def test_a_host_that_waits_for_nothing_is_left_alone(host):
    assert host.ask()["reboot_required"] is False
    assert host.run("systemctl is-active sovereign-epyc.service").strip() == "active"
    assert host.run("sovereign-epyc check").endswith("settings checked, 0 not as configured\n")
    before = boot_id(host)
    play = host.play(REBOOT, *OK)
    assert boot_id(host) == before
    assert play[SAY]["msg"] == f"{host.machine.name} does not wait for a reboot."


def test_verify_sees_that_isolation_holds_and_what_it_does_to_threads(host):
    """With isolcpus=domain all threads that are free to choose among the isolated CPUs are on one of them."""
    run = f"systemd-run --quiet --collect --unit pile -p CPUAffinity=13-15 python3 -c '{FOUR_THREADS}'"
    host.run(run)
    host.run("sleep 3")
    try:
        play = host.play(
            "playbooks/verify.yml", "-e", '{"epyc_verify_units": {"pile.service": "13-15"}}', succeeds=False
        )
    finally:
        host.run("systemctl kill -s KILL pile", check=False)
    checked = play["Go through the checklist"]
    items = {item["name"]: item for item in checked["checklist"]}
    assert items["isolation"]["sentence"] == (
        f"/sys/devices/system/cpu/isolated holds {ISOLATED}. /sys/devices/system/cpu/nohz_full holds {ISOLATED}."
    )
    (complaint,) = checked["complaints"]
    assert re.match("threads of pile.service: 5 threads are piled on CPU 1[3-5]: 13-15 are isolated, ", complaint)
    assert play.returncode == 2


def test_a_forced_reboot_that_ends_untuned_is_named(host):
    """The proof is the checklist: a boot service that cannot do its work is not a clean return.

    Somebody has asked for a governor that there is not, and has told GRUB to boot without resctrl, of which the modules
    say so, too, and change nothing.
    """
    before = boot_id(host)
    host.run(f"sed -i 's/performance/nonesuch/' {STORED}")
    line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {NO_RESCTRL}"'
    host.machine.run("cat >/etc/default/grub.d/50-other.cfg && update-grub 2>&1", input=f"{line}\n")
    play = host.play(REBOOT, *OK, "-e", "epyc_reboot_force=true", succeeds=False)
    assert play.returncode == 2, play.output
    assert boot_id(host) != before
    message = play[STOP]["msg"]
    assert message.startswith(
        f"{host.machine.name} did not come back clean, at 'Prove that the host came back as configured': "
    )
    assert "boot service: Enabled, and its last run failed (exit-code, exit code 1)." in message
    assert "L3 partition: not supported here: " in message
    host.carry_modules()
    refused = host.module("resctrl_schemata", mount=True, groups=[{"name": "new"}])
    assert refused.get("failed") and "resctrl is absent" in refused["msg"] and "rdt=" in refused["msg"]
    assert host.state() == ""
    plan = host.module("epyc_plan", draft={"ccds": 1, "l3": "12MiB"})
    assert "rdt=" in plan["ansible_facts"]["epyc"]["plan"]["cannot"]["cat"]
