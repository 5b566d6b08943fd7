# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet of several kinds in one run: who can be tuned is tuned, who fails is named, and nothing is left half done."""

from __future__ import annotations

import contextlib
import json
import socket

import pytest

from .conftest import guest_of
from .test_site import everything

OK = ("-e", "epyc_reboot_ok=true")
GUARD = "Refuse a host that is not of the SKU that its variables are for"
STOP = "Stop at a host that did not come back clean"


class Fleet:
    """Two shapes, a host in the group of another SKU, and one that nobody answers for."""

    def __init__(self, stack, folders):
        self.small = stack.enter_context(guest_of("small", "fleet-small", folders("small")))
        self.other = stack.enter_context(guest_of("epyc9354", "fleet-9354", folders("other")))
        self.wrong = stack.enter_context(guest_of("small", "fleet-wrong", folders("wrong")))
        with socket.create_server(("127.0.0.1", 0)) as server:
            nobody = server.getsockname()[1]
        hosts = {
            "small": {
                "small-1": {"ansible_port": self.small.machine.port},
                # What the plan asks for would fit; only the name of the CPU tells.
                "wrong-1": {"ansible_port": self.wrong.machine.port, "plan_sku": "9654"},
            },
            "epyc9354": {"other-1": {"ansible_port": self.other.machine.port}},
            "epyc9654": {"gone-1": {"ansible_port": nobody}},
        }
        children = {group: {"hosts": members} for group, members in hosts.items()}
        (self.small.folder / "hosts.json").write_text(json.dumps({"all": {"children": children}}))

    def play(self, playbook, *arguments):
        """Run a playbook on all of them. Some host always fails, so the run has to."""
        for guest in (self.small, self.other, self.wrong):
            guest.machine.disconnect()
        play = self.small.play(playbook, *arguments, succeeds=False)
        assert play.returncode != 0, play.output
        assert {result["host"] for result in play.results if result["status"] == "unreachable"} == {"gone-1"}
        return play

    def boot_ids(self):
        return {
            name: guest.run("cat /proc/sys/kernel/random/boot_id")
            for name, guest in (("small-1", self.small), ("other-1", self.other), ("wrong-1", self.wrong))
        }


def failed(play):
    return {result["host"]: result for result in play.results if result["status"] == "failed"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with contextlib.ExitStack() as stack:
        yield Fleet(stack, lambda name: tmp_path_factory.mktemp(name))


def hooks(folder, **hosts):
    """A file of tasks that fails on some hosts."""
    path = folder / f"{'-'.join(hosts) or 'none'}.yml"
    tasks = [
        {
            "name": "Ask the model",
            "ansible.builtin.assert": {"that": f"inventory_hostname not in {sorted(hosts.values())}"},
        }
    ]
    path.write_text(json.dumps(tasks))
    return str(path)


def test_site_tunes_those_who_can_be_and_names_the_others(fleet):
    before = everything(fleet.wrong)
    play = fleet.play("playbooks/site.yml")
    assert failed(play).keys() == {"wrong-1"}, failed(play)
    refusal = failed(play)["wrong-1"]
    assert refusal["task"] == GUARD
    assert refusal["msg"].startswith(
        "wrong-1 calls its CPU 'AMD EPYC 9754 128-Core Processor', but its variables are for an EPYC"
    )
    assert everything(fleet.wrong) == before
    for guest in (fleet.small, fleet.other):
        checked = guest.run("sovereign-epyc check", check=False)
        assert not checked.endswith(" 0 not as configured\n"), "boot parameters wait"
        assert guest.masks("draft")


def test_a_drain_that_fails_in_the_first_batch_keeps_the_later_ones_from_being_touched(fleet, tmp_path):
    before = fleet.boot_ids()
    drain = hooks(tmp_path, drain="small-1")
    batches = ("-e", '{"epyc_reboot_batches": [1, 1]}', "-e", f"reboot_drain_tasks={drain}")
    play = fleet.play("playbooks/reboot.yml", *OK, *batches, "-l", "small-1,other-1,gone-1")
    assert play[STOP]["host"] == "small-1"
    assert "small-1 did not come back clean, at 'Ask the model'" in play[STOP]["msg"]
    assert "Ask the model" not in {result["task"] for result in play.results if result["host"] == "other-1"}
    assert fleet.boot_ids() == before


def test_one_that_is_not_healthy_after_its_reboot_is_named_and_the_others_of_its_batch_are_finished(fleet, tmp_path):
    before = fleet.boot_ids()
    health = hooks(tmp_path, health="other-1")
    batches = ("-e", '{"epyc_reboot_batches": [2]}', "-e", f"reboot_health_tasks={health}")
    play = fleet.play("playbooks/reboot.yml", *OK, *batches, "-l", "small-1,other-1,gone-1")
    stops = {
        result["host"]: result["msg"]
        for result in play.results
        if result["task"] == STOP and result["status"] == "failed"
    }
    assert stops.keys() == {"other-1"}, failed(play)
    assert stops["other-1"].startswith("other-1 did not come back clean, at 'Ask the model'")
    after = fleet.boot_ids()
    assert {name for name in before if before[name] != after[name]} == {"small-1", "other-1"}
    for guest in (fleet.small, fleet.other):  # the proof came before the health check, for both
        assert guest.run("sovereign-epyc check").endswith(" 0 not as configured\n")
    healthy = [r["host"] for r in play.results if r["task"] == "Ask the model" and r["status"] == "ok"]
    assert healthy == ["small-1"]


def test_verify_tells_of_each_host_what_it_is(fleet):
    play = fleet.play("playbooks/verify.yml", "-e", '{"verify_layers": ["resctrl", "cmdline"]}')
    assert failed(play).keys() == {"wrong-1"}, failed(play)
    assert "Nothing is stored for it on this host, but it is required." in failed(play)["wrong-1"]["msg"]
