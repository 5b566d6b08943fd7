# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the kernel does to the mask of its work queues; the rest of sysfs_settings is in test_sysfs_conformance."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

MASK = "/sys/devices/virtual/workqueue/cpumask"


def test_isolated_cpus_are_told(bare_guest):
    """The kernel takes the CPUs of an isolated partition out of the mask, and gives them back with the partition."""
    cgroup = "/sys/fs/cgroup"
    bare_guest.run(
        f"echo +cpuset >{cgroup}/cgroup.subtree_control && mkdir {cgroup}/island && cd {cgroup}/island &&"
        " echo 8-9 >cpuset.cpus && echo isolated >cpuset.cpus.partition && grep -x isolated cpuset.cpus.partition"
    )
    try:
        assert bare_guest.run(f"cat {MASK}") == "fcff\n"
        result = bare_guest.module("sysfs_settings", workqueue_cpus="0-3")
        assert result["diff"]["changes"]["before"] == {"sysfs:workqueue/cpumask": "0-7,10-15"}
        assert result["remarks"][0].startswith("CPUs 8-9 are isolated by a cpuset partition")
        bare_guest.module("sysfs_settings", state="original")
        assert bare_guest.run(f"cat {MASK}") == "fcff\n"
    finally:
        bare_guest.run(f"rmdir {cgroup}/island; echo -cpuset >{cgroup}/cgroup.subtree_control", check=False)
        bare_guest.run(f"echo ffff >{MASK}")
