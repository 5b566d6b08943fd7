# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A container that shows the recording of a tuned machine answers a drift check as the machine does."""

from __future__ import annotations

import json

from vepyc.container import container
from vepyc.record import record, show

ASKED = {
    "epyc_steps": ["prerequisites", "base", "numa", "irq", "cat", "cpufreq", "prefetch"],
    "prefetch_draft": {"l1_stride": "disabled"},
    "numa_hugepages": [{"pages": 8}],
}
TASK = "Check the host"


def test_the_answer_is_the_same(small, tmp_path):
    small.play("playbooks/site.yml", "-e", json.dumps(ASKED))
    there = small.play("playbooks/drift.yml")[TASK]
    assert there["clean"] is True
    record(small.machine, tmp_path / "recording")
    with container("recording", {tmp_path / "recording": "/recording"}) as box:
        hosts = {"all": {"children": {"small": {"hosts": {"box": {**show(box), "ansible_become": False}}}}}}
        (small.folder / "hosts.json").write_text(json.dumps(hosts))
        here = small.play("playbooks/drift.yml")[TASK]
        assert (here["coverage"], here["findings"]) == (there["coverage"], [])
        # It is the recording that is looked at, and no copy of the answer.
        mask = tmp_path / "recording/sys/fs/resctrl/draft/schemata"
        mask.write_text(mask.read_text().replace("fff0", "ffff", 1))
        drift = small.play("playbooks/drift.yml", succeeds=False)[TASK]
        assert [one["what"] for one in drift["findings"]] == ["L3 share of group draft"]
