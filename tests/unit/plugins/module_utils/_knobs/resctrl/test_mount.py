# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.resctrl.mount import MOUNT, ResctrlMount
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts


def mounted(tree: hosts.Host, options: str = "") -> hosts.Host:
    tree.put("/proc/self/mounts", f"resctrl /sys/fs/resctrl resctrl rw,relatime{options} 0 0")
    return tree


def knob(tree: hosts.Host, mount: bool = False, options: Any = None) -> ResctrlMount:
    return ResctrlMount(Host(tree.fs), mount, options)


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return hosts.small(tmp_path)


@pytest.mark.parametrize(("options", "value"), [("", "no options"), (",mba_MBps,cdp", "cdp,mba_MBps")])
def test_a_mount_reads_as_its_options(tree: hosts.Host, options: str, value: str) -> None:
    assert knob(mounted(tree, options)).read_settings([MOUNT]) == {MOUNT: value}


def test_no_mount_reads_as_nothing(tree: hosts.Host) -> None:
    assert knob(tree).read_settings([MOUNT]) == {MOUNT: None}


@pytest.mark.parametrize(
    ("options", "value"), [(None, "no options"), ([], "no options"), (["debug", "cdp"], "cdp,debug")]
)
def test_where_nothing_is_mounted_the_mount_is_as_asked(tree: hosts.Host, options: Any, value: str) -> None:
    assert knob(tree, mount=True, options=options).wanted_settings() == {MOUNT: value}


@pytest.mark.parametrize("mount", [True, False])
@pytest.mark.parametrize("options", [None, ["debug", "cdp"]])
def test_a_mount_by_somebody_else_is_used_as_it_is(tree: hosts.Host, mount: bool, options: Any) -> None:
    one = knob(mounted(tree, ",cdp,debug"), mount, options)
    assert one.wanted_settings() == one.read_settings([MOUNT])


@pytest.mark.parametrize(
    ("have", "options", "words"),
    [
        (",cdp", [], "already mounted with cdp, and no options was asked for"),
        ("", ["cdp"], "already mounted with no options, and cdp was asked for.* resets every group"),
    ],
)
def test_a_mount_is_never_made_anew(tree: hosts.Host, have: str, options: list[str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        knob(mounted(tree, have), True, options).wanted_settings()


def test_nothing_is_mounted_unasked(tree: hosts.Host) -> None:
    with pytest.raises(BadRequest, match=r"resctrl is not mounted\. Set mount to true"):
        knob(tree).wanted_settings()


def test_linear_bandwidth_is_refused_on_amd(tree: hosts.Host) -> None:
    with pytest.raises(BadRequest, match="mba_mbps needs a linear bandwidth scale"):
        knob(tree, True, ["mba_MBps"]).wanted_settings()


def test_linear_bandwidth_is_left_to_the_kernel_elsewhere(tree: hosts.Host) -> None:
    tree.put("/proc/cpuinfo", tree.fs.read("/proc/cpuinfo").replace("AuthenticAMD", "GenuineIntel"))
    assert knob(tree, True, ["mba_MBps"]).wanted_settings() == {MOUNT: "mba_MBps"}


def test_cdp_is_refused_where_the_cpu_lacks_it(tree: hosts.Host) -> None:
    tree.put("/proc/cpuinfo", tree.fs.read("/proc/cpuinfo").replace("cdp_l3", ""))
    with pytest.raises(BadRequest, match="no cdp_l3 in /proc/cpuinfo"):
        knob(tree, True, ["cdp"]).wanted_settings()


def test_the_absence_of_resctrl_is_told_before_all_else(tree: hosts.Host) -> None:
    """A host without L3 ids has another remark that speaks of resctrl."""
    tree.put("/proc/filesystems", "nodev\tsysfs")
    tree.drop("/sys/devices/system/cpu/cpu*/cache/index3/id")
    with pytest.raises(BadRequest, match=r"^resctrl is absent: "):
        knob(tree, True).wanted_settings()


def test_only_the_mount_is_its_own(tree: hosts.Host) -> None:
    one = knob(tree)
    assert one.owns_address(MOUNT)
    assert not one.owns_address("resctrl:draft")


@pytest.mark.parametrize(
    ("contexts", "option"),
    [
        ({}, None),
        ({"/sys/fs/cgroup": "u:r:cgroup_t:s0", "/sys/fs/resctrl": "u:r:unlabeled_t:s0"}, 'context="u:r:cgroup_t:s0"'),
        ({"/sys/fs/cgroup": "u:r:cgroup_t:s0", "/sys/fs/resctrl": "u:r:sysfs_t:s0"}, None),
    ],
    ids=["without SELinux", "a policy that does not know resctrl", "a policy that knows it"],
)
def test_selinux_gets_a_context_where_its_policy_has_none(
    tree: hosts.Host, monkeypatch: pytest.MonkeyPatch, contexts: dict[str, str], option: str | None
) -> None:
    mounts: list[str] = []
    monkeypatch.setattr(tree.fs, "read_selinux_context", contexts.get)
    monkeypatch.setattr(tree.fs, "mount_filesystem", lambda dummy, target, options="": mounts.append(options))
    monkeypatch.setattr(tree.fs, "unmount_filesystem", lambda target: mounts.pop())
    knob(tree, mount=True).write_changes([Change(MOUNT, None, "cdp")])
    assert mounts == ["cdp" if option is None else f"cdp,{option}"]
