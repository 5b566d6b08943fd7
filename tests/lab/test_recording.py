# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container that shows the recording of a tuned machine answers checks as the machine does."""

from __future__ import annotations

import json

import pytest

from vepyc.container import running_container
from vepyc.machine.recording import record_guest, show_recording
from vepyc.playbook_runs import write_inventory

pytestmark = pytest.mark.slow

PREFETCH = {"cpus": "1-3,5-7", "prefetch_control": {"l1_stride": "disabled"}}
#: Without the boot parameters, which are taken back.
ASKED = ("-e", json.dumps({"epyc_steps": ["base", "numa", "irq", "cat", "cpufreq"]}))
TASK, LOOK = "Check the host", "Look at the last run"


def test_the_answer_is_the_same(tuned_guest, tmp_path):
    small = tuned_guest
    # The history says what was asked for.
    small.play("playbooks/site.yml", *ASKED)
    # What no variable of the lab asks for; and no boot parameters, which would wait for a reboot.
    small.module("msr_bits", settings=[PREFETCH], persistent=True)
    small.module("hugepages", pools=[{"pages": 8}], persistent=True)
    small.module("cpuidle_states", settings=[{"cpus": "1-3,5-7", "deepest": "C1"}], persistent=True)
    small.module("kernel_cmdline", state="original")
    there = small.play("playbooks/drift.yml", *ASKED)[TASK]
    assert there["clean"] is True
    small.module("epyc_last_run", inputs="these", remember=True)
    record_guest(small.machine, tmp_path / "recording")
    with running_container("recording", {tmp_path / "recording": "/recording"}) as box:
        hosts = {"box": {**show_recording(box), "ansible_become": False}}
        write_inventory(small.folder, hosts, small=hosts)
        here = small.play("playbooks/drift.yml", *ASKED)[TASK]
        assert (here["coverage"], here["findings"]) == (there["coverage"], [])
        # What the firmware shows is a part of this, which a drift check does not read.
        task = {"name": LOOK, "sovereign.epyc.epyc_last_run": {"inputs": "these"}}
        playbook = tmp_path / "look.yml"
        playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
        assert small.play(playbook)[LOOK]["reason"] == ""
        # It is the recording that is looked at, and no copy of the answer.
        mask = tmp_path / "recording/sys/fs/resctrl/draft/schemata"
        mask.write_text(mask.read_text().replace("fff0", "ffff", 1))
        drift = small.play("playbooks/drift.yml", *ASKED, succeeds=False)[TASK]
        assert [one["what"] for one in drift["findings"]] == ["L3 share of group draft"]
