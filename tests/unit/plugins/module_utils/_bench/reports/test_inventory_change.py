# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.reports.inventory_change import (
    INSTANCE_OPTIONS,
    removal_arms,
    render_options_diff,
    render_removal_diff,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._bench.rounds import schedule
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import FIELDS


def arms(*settings: dict[str, Any]) -> list[dict[str, Any]]:
    nothing: dict[str, Any] = {"class": "restart", "settings": {}, "arguments": []}
    return schedule.build_ablation_arms([{**nothing, **one} for one in settings])


def test_settings_are_removed_by_their_variables_and_options_by_their_names() -> None:
    plan = arms(
        {"name": "transparent huge pages", "settings": {"sysfs:thp/enabled": "always", "sysfs:thp/defrag": "madvise"}},
        {"name": "speculation", "arguments": ["--spec-type"]},
        {"name": "batch threads", "arguments": ["--threads-batch"]},
        {"name": "OpenMP environment", "arguments": ["OMP_PROC_BIND="]},
    )
    named = ["transparent huge pages", "speculation", "batch threads", "OpenMP environment", "no such setting"]
    assert render_removal_diff("chat", removal_arms(plan, named)) == [
        "-epyc_numa_thp: ...",
        "-epyc_numa_thp_defrag: ...",
        " epyc_llama_instances:",
        "   - name: chat",
        "-    speculation: ...",
        "+    speculation: none",
        "-    threads_batch: ...",
        "-    # OpenMP environment: OMP_PROC_BIND=",
    ]


def test_a_setting_without_a_variable_is_named_by_its_address() -> None:
    plan = arms({"name": "idle states", "settings": {"cpuidle:cpu3/state2": "0"}})
    assert render_removal_diff("chat", removal_arms(plan, ["idle states"])) == ["-# cpuidle:cpu3/state2"]


def test_options_of_a_candidate_replace_those_of_the_default() -> None:
    assert render_options_diff("chat", {"threads": 96, "hugepages": "pool"}, {"threads": 124, "hugepages": None}) == [
        " epyc_llama_instances:",
        "   - name: chat",
        "-    threads: 124",
        "+    threads: 96",
        "+    hugepages: pool",
    ]


def test_each_option_that_is_named_exists() -> None:
    assert {option for options in INSTANCE_OPTIONS.values() for option in options} <= set(FIELDS)
