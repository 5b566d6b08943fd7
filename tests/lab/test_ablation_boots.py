# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ablation of a boot parameter, with real boots, of a server whose speed follows it. Twenty minutes and more."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.verdicts.setting_verdicts import Judgement
from ansible_collections.sovereign.epyc.plugins.module_utils._models import zero_model
from ansible_collections.sovereign.epyc.tests.replay import install
from tests.fixtures.virtual_epyc import STORE
from vepyc.llama.delivery import write_guest_file
from vepyc.playbook_runs import run_playbook

pytestmark = pytest.mark.slow

#: How many boots each arm has.
BOOTS = 8
ISOLATED = "/sys/devices/system/cpu/isolated"
TRUTH = {
    # So slow that Python has the time to send a token in an emulated machine.
    "base_ms": 30.0,
    "prompt_ms": 0.5,
    "busy": 0.9,
    "noise": 0.002,
    "effects": [{"file": ISOLATED, "equals": "12-15", "factor": 0.8}],
}
PROMPTS = "".join(f"{json.dumps({'text': text, 'output_length': 6})}\n" for text in ("Once upon a time", "The end"))


def test_a_boot_parameter_is_left_out_in_boots_of_its_own(tuned_guest, tmp_path):
    host = tuned_guest
    host.module("kernel_cmdline", state="original")
    host.module("kernel_cmdline", parameters=["isolcpus=managed_irq,domain,12-15"], persistent=True)
    host.play("playbooks/reboot.yml", "-e", "epyc_reboot_ok=true")
    host.machine.disconnect()
    place = partial(write_guest_file, host.machine)
    install.on_guest(place, TRUTH)
    place("/srv/model.gguf", zero_model.build_zero_model_file())
    place("/srv/prompts.jsonl", PROMPTS.encode())
    host.play(Path(__file__).with_name("ablation.yml"))
    asked = {
        "epyc_ablation_knobs": ["isolcpus"],
        "epyc_ablation_reboots": True,
        "epyc_ablation_boots": BOOTS,
        "epyc_ablation_prompts": "/srv/prompts.jsonl",
        "epyc_ablation_seed": 1,
        "epyc_ablation_folder": str(tmp_path),
        "epyc_reboot_ok": True,
    }
    play = run_playbook(host.folder, "playbooks/ablation.yml", "-e", json.dumps(asked), timeout=600 * BOOTS)
    host.machine.disconnect()
    assert play.returncode == 0, play.output
    (copy,) = tmp_path.iterdir()
    document = json.loads(copy.read_text())
    assert document["restored"] is True and document["ended"]
    rows = [one for one in document["plan"]["order"] if one["class"] == schedule.REBOOT]
    boots = {one["witness"]["boot_id"] for one in document["samples"]}
    assert len(boots) == sum(len(one["arms"]) for one in rows) >= 5 * 4
    (verdict,) = Judgement(document).verdicts
    assert verdict.word in ("pays", "undecided"), play.output
    assert verdict.deciding_comparison is not None and (
        verdict.deciding_comparison.interval is None or verdict.deciding_comparison.interval.mean > 0.1
    )
    # The kernel that runs is the tuned one, and the next one will be.
    assert host.run(f"cat {ISOLATED}").strip() == "12-15"
    assert host.run("sovereign-epyc check").endswith(" 0 not as configured\n")
    assert not host.run(f"ls {STORE}/trial.json", check=False)
