# Copyright (c) 2026, the sovereign.epyc authors
# SPDX-License-Identifier: GPL-3.0-or-later

"""Values that a plan chose itself: their remarks, and their places in the plan of an instance."""

from __future__ import annotations

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.default_choices import DefaultChoice
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import (
    InstancePlan,
    MemoryNeed,
    Placement,
)


def test_a_remark_has_the_value_the_reason_the_gain_and_the_way_back() -> None:
    choice = DefaultChoice("threads", 48, "the links are full then", "about 1.2 times, predicted", "threads: 96")
    assert choice.to_remark() == (
        "threads is 48 by default, because the links are full then. Expected gain: about 1.2 times, predicted. To undo "
        "it, set 'threads: 96'."
    )


def test_a_remark_is_silent_about_an_unknown_gain_and_a_choice_without_a_way_back() -> None:
    assert DefaultChoice("nodes", "0", "it has room").to_remark() == "nodes is 0 by default, because it has room."


def test_a_plan_has_each_choice_as_data_and_once_as_a_remark() -> None:
    options = Options.parse({"name": "chat", "port": 8080, "model": "/m.gguf", "binary": "/bin/llama-server"})
    choice = DefaultChoice("threads", 48, "the links are full then", undo="threads: 96")
    placement = Placement([0], [0], [0], "local", "strict")
    remarks = ["another remark", choice.to_remark()]
    plan = InstancePlan(options, placement, MemoryNeed(1, 2, 3), {}, None, [], [], {}, remarks, [choice])
    assert plan.remarks == remarks
    assert plan.to_dict()["default_choices"] == [
        {
            "option": "threads",
            "value": 48,
            "reason": "the links are full then",
            "expected_gain": "",
            "undo": "threads: 96",
        }
    ]
