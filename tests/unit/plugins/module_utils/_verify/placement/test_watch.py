# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What may be asked about a service, and when there is no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.tests.unit.fakes.services import (
    UNIT,
    Service,
    one_waits_two_compute,
)


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return one_waits_two_compute(tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cpus": "draft"}, "The plan gives the role draft no CPU"),
        ({"busy_cpus": "99"}, "CPU 99 is not on this host"),
        ({"nodes": "7"}, "there is no node 7 with memory"),
        ({"interleaved": True}, "interleaved needs nodes: say over which nodes"),
        ({"percent": 0}, "percent: 0 is no share"),
        ({"percent": "many"}, "percent: 'many' is no whole number"),
        ({"hugepages": {"thp": "much"}}, "hugepages.thp: 'much' is no amount of memory"),
        ({"hugepages": {"big": "1GiB"}}, "there is no kind 'big'; say one of hugetlb, thp"),
        ({"window": -1}, "window: -1 is no length of time"),
        ({"service": "gone.service"}, "The unit gone.service has no control group"),
        ({"service": "4711"}, "There is no process 4711"),
    ],
)
def test_questions_that_make_no_sense_are_refused(service: Service, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        service.prove(**options)


def test_a_service_that_ends_is_no_service_without_fault(service: Service) -> None:
    service.in_window = [lambda: service.tree.put(f"{UNIT}/cgroup.procs", "")]
    with pytest.raises(BadRequest, match=r"llama\.service has no threads"):
        service.prove(window=2, cpus="all")


def test_nothing_asked_is_nothing_wrong(service: Service) -> None:
    result = service.prove(hugepages={"thp": None})
    assert result["verdicts"] == [] and result["clean"]
