# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An ablation on a real kernel, of a server whose speed follows its knobs: what it finds, and that all comes back."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import blank
from ansible_collections.sovereign.epyc.tests.replay import install
from vepyc.bring import put

#: At how many random moments the run is killed and the power is cut, in `make test` and in `make test-all`.
KILLS, CUTS = (int(os.environ.get(name, "1")) for name in ("ABLATION_KILLS", "ABLATION_CUTS"))
UNIT, JOURNAL = "llama-chat.service", "/var/lib/sovereign-epyc/trial.json"
THP, BOOST = "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/cpufreq/policy1/boost"
TRUTH = {
    # So slow that Python has the time to send a token in an emulated machine.
    "base_ms": 40.0,
    "prompt_ms": 0.5,
    "busy": 0.9,
    "noise": 0.002,
    "effects": [{"file": "/proc/sys/kernel/numa_balancing", "equals": "0", "factor": 0.9}],
}
PROMPTS = "".join(f"{json.dumps({'text': text, 'output_length': 8})}\n" for text in ("Once upon a time", "In the end"))
ASKED = {"prompts": "/srv/prompts.jsonl", "rounds": 4, "seed": 1, "minutes": 60}
WORDS = f"tr '\\0' ' ' </proc/$(systemctl show --property=MainPID --value {UNIT})/cmdline"


@pytest.fixture(scope="module")
def host(tuned_small):
    """A tuned machine on which the replay server serves."""
    place = partial(put, tuned_small.machine)
    install.on_guest(place, TRUTH)
    place("/srv/model.gguf", blank.contents())
    place("/srv/prompts.jsonl", PROMPTS.encode())
    tuned_small.play(Path(__file__).with_name("ablation.yml"))
    return tuned_small


def tuned(host):
    """What must be the same before and after: every setting, and what the server was started with."""
    return host.everything(), host.run(WORDS)


def test_a_check_lists_what_it_would_leave_out_and_writes_nothing(host):
    before = host.untouched()
    result = host.module("llama_ablation", **ASKED, _ansible_check_mode=True)
    print(result["text"])
    assert host.touched_since(before) == set()
    for name in ("NUMA balancing", "boost", "threads", "KV cache types"):
        assert name in result["text"]
