# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host tells beside its drift, and that what it cannot count is left out, not zero."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.sovereign.epyc.plugins.module_utils._drift import metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._verify import host_metrics
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

RESCTRL = "/sys/fs/resctrl"
POOL = "/sys/devices/system/node/node1/hugepages/hugepages-2048kB"


def test_groups_and_pools(tmp_path: Path) -> None:
    tree = hosts.build(tmp_path, l3_per_socket=2, cores_per_l3=2, nodes=2)
    tree.put("/proc/self/mounts", "resctrl /sys/fs/resctrl resctrl rw,relatime 0 0")
    for group in ("", "/verify"):
        tree.put(f"{RESCTRL}{group}/cpus_list", "0-1" if group else "2-3")
        for file, text in (("llc_occupancy", "4096"), ("mbm_total_bytes", "900"), ("mbm_local_bytes", "Unavailable")):
            tree.put(f"{RESCTRL}{group}/mon_data/mon_L3_01/{file}", text)
    tree.put("/sys/devices/system/node/has_memory", "0-1")
    tree.put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "10")
    for name, number in (("nr", 10), ("free", 4), ("surplus", 0)):
        tree.put(f"{POOL}/{name}_hugepages", str(number))
    found = host_metrics.read_host_samples_by_metric(tree.fs)
    assert found[host_metrics.OCCUPANCY] == [
        ({"group": "/", "domain": "1"}, 4096),
        ({"group": "verify", "domain": "1"}, 4096),
    ]
    assert [labels["of"] for labels, dummy in found[host_metrics.BANDWIDTH]] == ["all", "all"]
    of_node = [sample for sample in found[host_metrics.HUGEPAGES] if sample[0]["node"] == "1"]
    assert ({"node": "1", "size": "2MiB", "state": "used"}, 6) in of_node
    text = metrics.render_host_metrics([], {}, found, host_metrics.HELP)
    assert "# TYPE sovereign_epyc_memory_bytes_total counter\n" in text
    assert 'sovereign_epyc_l3_occupancy_bytes{group="verify",domain="1"} 4096\n' in text


def test_a_host_without_resctrl_tells_nothing_of_it(tmp_path: Path) -> None:
    tree = hosts.build(tmp_path, l3_per_socket=2, cores_per_l3=2, nodes=2)
    assert set(host_metrics.read_host_samples_by_metric(tree.fs)) <= {host_metrics.INFO, host_metrics.HUGEPAGES}


def test_a_host_tells_its_version(tmp_path: Path) -> None:
    tree = hosts.build(tmp_path, l3_per_socket=2, cores_per_l3=2, nodes=2)
    text = metrics.render_host_metrics([], {}, host_metrics.read_host_samples_by_metric(tree.fs), host_metrics.HELP)
    assert f'\nsovereign_epyc_info{{version="{VERSION}"}} 1\n' in text
