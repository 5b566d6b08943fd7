# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._host.memory_speed import (
    load_memory_speed,
    save_measured_speed,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.modules import epyc_memory_speed
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts


@pytest.mark.parametrize(("gbps", "clean"), [(38.0, False), (100.0, True)])
def test_the_result_of_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gbps: float, clean: bool) -> None:
    tree = hosts.small(tmp_path)

    def measure(host: Host, wait_seconds: float) -> Any:
        assert wait_seconds == 7
        save_measured_speed(Host(tree.fs), Store(str(tmp_path)), dict.fromkeys(range(4), gbps / 4), gbps)
        return load_memory_speed(Host(tree.fs))

    monkeypatch.setattr(epyc_memory_speed, "measure_host_memory", measure)
    result = epyc_memory_speed.measure_or_describe_memory({"wait": 7}, Store(str(tmp_path)), check=False)
    assert (result["changed"], result["clean"], result["memory"]["measured_gbps"]) == (True, clean, gbps)
    assert f"{gbps:.0f} of 115 GB/s were read" in result["text"]


def test_check_mode_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = hosts.small(tmp_path)
    monkeypatch.setattr(epyc_memory_speed, "measure_host_memory", None)
    monkeypatch.setattr(epyc_memory_speed, "KernelFS", lambda read_only: tree.fs)
    result = epyc_memory_speed.measure_or_describe_memory({"wait": 7}, Store(str(tmp_path)), check=True)
    assert (result["clean"], result["memory"]["measured_gbps"]) == (True, None)
    assert "would be measured" in result["text"]
