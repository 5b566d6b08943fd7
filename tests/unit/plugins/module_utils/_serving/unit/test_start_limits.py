# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""That systemd gives up on a server that fails late, whatever the size of its model."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp import units as unit_texts
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.instance_plan import InstancePlan
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import start_limits
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import (
    lines,
    service,
)

GB = 10**9


def sized(size: int, **options: Any) -> InstancePlan:
    one = service(**options)
    one.files = {"/srv/m-00001-of-00002.gguf": [size // 2, 1], "/srv/m-00002-of-00002.gguf": [size // 2, 1]}
    return one


def seconds(text: str, key: str) -> int:
    return int(lines(text, key)[0])


def gives_up(text: str, cycle: int) -> bool:
    """Whether systemd gives up when starts begin every so many seconds; see ratelimit_below() of systemd."""
    began, count, at = 0, 0, 0
    for start in range(100):
        at = start * cycle
        if at - began > seconds(text, "StartLimitIntervalSec"):
            began, count = at, 0
        count += 1
        if count > seconds(text, "StartLimitBurst"):
            return True
    return False


@pytest.mark.parametrize("size", [10**8, 8 * GB, 70 * GB, 670 * GB])
@pytest.mark.parametrize(
    "options",
    [{}, {"hugepages": "hugetlbfs"}, {"start_timeout": 7200}, {"restart_limit": 2, "restart_seconds": 60}],
)
def test_a_start_that_fails_late_is_counted(size: int, options: dict[str, Any]) -> None:
    """At the end of the time that it has, or as soon as it begins."""
    text = unit_texts.render_llama_units(sized(size, **options), [])["/etc/systemd/system/llama-chat.service"]
    start, stop, pause = (seconds(text, key) for key in ("TimeoutStartSec", "TimeoutStopSec", "RestartSec"))
    late = start * (2 if "hugepages" in options else 1) + stop + pause
    assert gives_up(text, late) and gives_up(text, start) and gives_up(text, pause + 1)
    assert not gives_up(text, 2 * late), "one that serves for as long as that is started again"


def test_a_start_that_fails_at_once_is_repeated_for_more_than_a_minute() -> None:
    """As long as an ended connection can block a port."""
    text = unit_texts.render_llama_units(sized(GB), [])["/etc/systemd/system/llama-chat.service"]
    assert (seconds(text, "StartLimitBurst") - 1) * seconds(text, "RestartSec") >= 75


def test_the_wait_for_a_port_counts() -> None:
    one = sized(GB)
    before = start_limits.compute_longest_failing_start_cycle(one)
    one.port_reuse = "port"
    assert start_limits.compute_longest_failing_start_cycle(one) == before + start_limits.LONGEST_PORT_WAIT


@pytest.mark.parametrize(("size", "expected"), [(10**8, 302), (8 * GB, 460), (70 * GB, 1700), (670 * GB, 13700)])
def test_a_large_model_has_more_time(size: int, expected: int) -> None:
    assert start_limits.compute_start_timeout(sized(size)) == expected
    assert start_limits.compute_start_timeout(sized(size, start_timeout=90)) == 90
    text = unit_texts.render_llama_units(sized(size), [])["/etc/systemd/system/llama-chat.service"]
    assert f" --timeout {expected}" in lines(text, "ExecStartPost")[0]
    assert seconds(text, "TimeoutStartSec") == expected + 30


def test_an_interval_that_is_too_short_is_told() -> None:
    assert start_limits.list_slow_start_remarks(sized(GB)) == []
    (remark,) = start_limits.list_slow_start_remarks(sized(670 * GB, restart_limit_seconds=300))
    assert remark.startswith(
        "restart_limit_seconds 300: 16 starts that fail late take up to 222240 s, so a server that"
    )
    assert start_limits.list_slow_start_remarks(sized(670 * GB, restart_limit_seconds=222240)) == []


@pytest.mark.parametrize(
    ("speed", "rate"), [(None, 50), (3000e6, 50), (100e6, 50), (99e6, 20), (31e6, 10), (2.5e6, 1), (1.0, 1)]
)
def test_a_slow_disk_has_more_time(speed: float | None, rate: int) -> None:
    """At least twice as much as it takes, down to what no model is on."""
    one = sized(40 * GB)
    one.rate = start_limits.choose_read_rate_for_speed(speed)
    assert one.rate == rate * 10**6
    assert start_limits.compute_start_timeout(one) == 300 + 40_000 // rate
    slow = "The files of chat come at less than 100 MB/s, so that a start may take"
    assert [text[: len(slow)] for text in start_limits.list_slow_start_remarks(one)] == ([slow] if rate < 50 else [])
    text = unit_texts.render_llama_units(one, [])["/etc/systemd/system/llama-chat.service"]
    assert start_limits.parse_read_rate_of_unit(text) == one.rate
    assert start_limits.parse_read_rate_of_unit(None) == start_limits.choose_read_rate_for_speed(None)
