# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

INTENT = {"housekeeping": {"cores": 1, "per": "node"}, "draft": {"ccds": 1}}


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("all", tuple(range(16))),
        ("0-2,8", (0, 1, 2, 8)),
        ("housekeeping", (0, 4, 8, 12)),
        ("draft", (9, 10, 11, 13, 14, 15)),
        ("ccd1", tuple(range(8, 16))),
        ("l3:2", (8, 9, 10, 11)),
        ("node3", (12, 13, 14, 15)),
        ("socket0", tuple(range(16))),
        ("housekeeping, l3:0", (0, 1, 2, 3, 4, 8, 12)),
    ],
)
def test_numbers_roles_and_places_name_cpus(tmp_path: Path, text: str, cpus: tuple[int, ...]) -> None:
    assert Host(hosts.small(tmp_path).fs, INTENT).parse_cpus(text) == cpus


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("idle", "gives the role idle no CPU"),
        ("ccd7", "There is no ccd7 on this host, only 0-1"),
        ("99", "CPU 99 is not on this host"),
        ("drafts", "'drafts' names no CPUs; say"),
        ("", "names no CPUs"),
    ],
)
def test_what_names_no_cpus_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Host(hosts.small(tmp_path).fs, INTENT).parse_cpus(text)


def test_a_place_that_is_offline_as_a_whole_is_refused_as_that(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.offline("8-15")
    with pytest.raises(BadRequest, match=r"All CPUs of ccd1 are offline\."):
        Host(host.fs).parse_cpus("ccd1")
    assert Host(host.fs).parse_cpus("ccd0") == tuple(range(8))


def test_an_offline_cpu_is_refused(tmp_path: Path) -> None:
    host = hosts.small(tmp_path)
    host.put("/sys/devices/system/cpu/online", "0-4,6-15")
    with pytest.raises(BadRequest, match="CPU 5 is offline"):
        Host(host.fs).parse_cpus("4-6")


def test_a_place_by_an_l3_id_that_two_domains_have_is_refused(tmp_path: Path) -> None:
    host = Host(hosts.build(tmp_path, sockets=2, l3_per_socket=1, nodes=2, ids=[0, 0]).fs)
    with pytest.raises(BadRequest, match=r"^l3:0 cannot be told from other L3 domains: .* id 0 to CPUs 0-7 and to"):
        host.parse_cpus("l3:0")
    assert host.parse_cpus("ccd1") == host.parse_cpus("node1") == tuple(range(8, 16))
