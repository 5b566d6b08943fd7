# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Interrupts that come after the run: the service on the host sends them to their CPUs, without Ansible."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.slow

SERVICE = "sovereign-epyc-watch.service"
RNG = "/sys/bus/virtio/drivers/virtio_rng"
#: The CPUs that each interrupt of the random source may go to.
FILES = "grep -l virtio2- /sys/kernel/irq/*/actions | sed 's,/sys/kernel,/proc,; s,actions,smp_affinity_list,'"
ANYWHERE, WANTED = ["0-15", "0-15"], ["4-5", "4-5"]


def read_affinities(guest):
    return guest.run(f"{FILES} | xargs -r cat").split()


def wait_for(ask, wanted):
    """Events take a moment, and on an emulated machine several seconds."""
    until = time.monotonic() + 60
    while (found := ask()) != wanted and time.monotonic() < until:
        time.sleep(0.5)
    assert found == wanted


def read_journal(guest):
    return guest.run(f"journalctl -o cat -u {SERVICE}").splitlines()


@pytest.fixture(scope="module")
def host(own_bare_guest):
    """The small machine with the role epyc_base, and a stored request for the interrupts of its random source."""
    own_bare_guest.play("playbooks/site.yml", "--tags", "base")
    made = own_bare_guest.module("irq_affinity", cpus="4-5", which=["virtio2-*"], persistent=True)
    assert made["changed"], made
    return own_bare_guest


def test_a_driver_that_is_bound_again(host):
    said = len(read_journal(host))
    host.run(f"echo virtio2 >{RNG}/unbind")
    assert read_affinities(host) == []
    host.run(f"echo virtio2 >{RNG}/bind")
    wait_for(lambda: read_affinities(host), WANTED)
    wait_for(
        lambda: [line.split("/")[1] for line in read_journal(host)[said:] if line.startswith("irq:")],
        ["affinity: 0-15 -> 4-5"] * 2,
    )
    assert read_journal(host)[-1] == "2 settings changed, 0 requests failed"


def test_a_link_that_is_switched_on(host):
    host.run("ip link add link0 type dummy")
    try:
        time.sleep(3)  # a link that is only made leads to no look
        host.run(f"for file in $({FILES}); do echo 0-15 >$file; done")
        assert read_affinities(host) == ANYWHERE
        host.run("ip link set link0 up")
        wait_for(lambda: read_affinities(host), WANTED)
    finally:
        host.run("ip link delete link0")


def test_a_second_run_leaves_it_alone(host):
    before = host.run(f"systemctl show -P MainPID {SERVICE}")
    assert host.play("playbooks/site.yml", "--tags", "base").changed_results == {}
    assert host.run(f"systemctl show -P MainPID {SERVICE}") == before


def test_threads_of_a_unit_that_starts_later(host):
    """At boot every service comes after the partition; its threads are moved when it has come."""
    unit, group = "later.service", "/sys/fs/resctrl/later"
    asked = {"mount": True, "groups": [{"name": "later", "tasks_of": [unit]}], "persistent": True}
    made = host.module("resctrl_schemata", **asked)
    assert "later.service does not run now" in made["remarks"][0]
    assert host.run(f"cat {group}/tasks") == ""
    # The service looks for these only when it knows that some are stored, at its next event or start.
    host.run(f"systemctl restart {SERVICE} && systemd-run --unit={unit} sleep 600")
    thread = host.run(f"systemctl show -P MainPID {unit}")
    try:
        wait_for(lambda: host.run(f"cat {group}/tasks"), thread)
    finally:
        host.run(f"systemctl stop {unit}")
    host.module("resctrl_schemata", state="original")


def test_restore_takes_it_away(host):
    host.play("playbooks/restore.yml")
    assert read_affinities(host) == ANYWHERE
    assert host.run(f"systemctl is-active {SERVICE}", check=False).strip() == "inactive"
    left = "find / -xdev -name '*sovereign-epyc*' -not -path '/var/lib/*' -not -path '/root/*'"
    assert host.run(f"{left}; pgrep -fa '[s]overeign-epyc watch'", check=False) == ""
