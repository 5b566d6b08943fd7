# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What resctrl_schemata refuses on a real kernel: one clear sentence, and not a byte of any group different."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

# (what is asked, words that the sentence must have)
REFUSED = {
    "mask 0": ({"groups": [{"name": "new", "l3": {"all": "0"}}]}, ["mask '0'", "at least 1 way"]),
    "mask too wide": ({"groups": [{"name": "new", "l3": {"2": "1ffff"}}]}, ["L3 domain 2", "1ffff", "16 ways", "ffff"]),
    "more than all": ({"groups": [{"name": "new", "l3": {"all": "17 ways"}}]}, ["L3 domain 0", "new 17", "16 ways"]),
    "a sum too large": (
        {"groups": [{"name": "new", "l3": {"all": "12MiB"}}], "default": {"l3": {"all": "5 ways"}}},
        ["new 12 + default 5 = 17 ways", "16 ways"],
    ),
    "unknown domain": ({"groups": [{"name": "new", "l3": {"4": "f"}}]}, ["no L3 domain 4", "0-3"]),
    "unknown domain of mb": ({"groups": [{"name": "new", "mb": {"9": 20}}]}, ["no L3 domain 9", "0-3"]),
    "duplicate domain": ({"groups": [{"name": "new", "l3": {"1": "f", "0-2": "ff"}}]}, ["domain 1 is named twice"]),
    "duplicate group": ({"groups": [{"name": "new"}, {"name": "new"}]}, ["new is named twice"]),
    "too many groups": (
        {"groups": [{"name": f"g{number}"} for number in range(15)]},
        ["17 groups", "16 classes of service (CLOSIDs)", "foreign", "purge"],
    ),
    "slash": ({"groups": [{"name": "a/b"}]}, ["'a/b' is no name", "slash"]),
    "info": ({"groups": [{"name": "info"}]}, ["'info' is no name", "info"]),
    "parent": ({"groups": [{"name": ".."}]}, ["'..' is no name"]),
    "CPU offline": ({"groups": [{"name": "new", "cpus": "4-6"}]}, ["CPU 5 is offline", "online"]),
    "CPU that is not there": ({"groups": [{"name": "new", "cpus": "16"}]}, ["no CPU 16", "0-4,6-15"]),
    "CPU in two groups": (
        {"groups": [{"name": "new", "cpus": "1-3"}, {"name": "more", "cpus": "3-4"}]},
        ["CPU 3", "groups new and more", "only one"],
    ),
    "CPU of a foreign group": ({"groups": [{"name": "new", "cpus": "12-15"}]}, ["CPU 15", "group foreign"]),
    "mba_mbps": ({"mount_options": ["mba_mbps"]}, ["mba_mbps", "AMD", "GB/s"]),
    "other options than mounted": ({"mount_options": ["cdp"]}, ["already mounted with no options", "cdp", "resets"]),
    "code without cdp": ({"groups": [{"name": "new", "l3_code": {"all": "f"}}]}, ["l3_code", "option cdp"]),
    "a number for a mask": ({"groups": [{"name": "new", "l3": {"all": 8}}]}, ["text", "8", "quotes"]),
    "no bandwidth": ({"groups": [{"name": "new", "mb": {"all": "fast"}}]}, ["'fast' is no bandwidth", "GB/s", "max"]),
    "too much bandwidth": ({"groups": [{"name": "new", "mb": {"all": 300}}]}, ["300 GB/s", "256 GB/s", "'max'"]),
    "unit that does not run": (
        {"groups": [{"name": "new", "tasks_of": ["nosuch.service"]}]},
        ["nosuch.service", "does not run"],
    ),
    "process that is not there": ({"groups": [{"name": "new", "tasks_of": ["999999"]}]}, ["no process 999999"]),
    "what the kernel refuses": (  # Only found out after the group was made and its masks were written.
        {"groups": [{"name": "new", "cpus": "1-3", "l3": {"all": "4 ways"}, "mode": "exclusive"}]},
        ["new/mode", "The kernel says: Schemata overlaps", "put back"],
    ),
}


@pytest.fixture
def busy(bare_guest):
    """A host where somebody else has mounted resctrl, made a group and took CPU 5 offline."""
    bare_guest.run(
        "mount -t resctrl resctrl /sys/fs/resctrl && cd /sys/fs/resctrl && mkdir foreign &&"
        " echo 15 >foreign/cpus_list && echo 'L3:0=ff;1=f0' >foreign/schemata &&"
        " echo 0 >/sys/devices/system/cpu/cpu5/online"
    )
    return bare_guest


@pytest.mark.parametrize(("asked", "words"), REFUSED.values(), ids=REFUSED)
def test_refused(busy, asked, words):
    before = busy.state()
    result = busy.module("resctrl_schemata", **asked)
    assert busy.state() == before
    assert result.get("failed"), result
    assert [word for word in words if word not in result["msg"]] == [], result["msg"]
    assert "\n" not in result["msg"]


def test_refused_mount_is_undone(bare_guest):
    """A run that mounts and then fails leaves no mount behind."""
    result = bare_guest.module("resctrl_schemata", mount=True, **REFUSED["what the kernel refuses"][0])
    assert "put back" in result["msg"]
    assert bare_guest.state() == ""


def test_no_options_asked_where_cdp_is_mounted(bare_guest):
    bare_guest.run("mount -t resctrl -o cdp resctrl /sys/fs/resctrl")
    before = bare_guest.state()
    result = bare_guest.module("resctrl_schemata", mount=True, mount_options=[])
    assert "already mounted with cdp, and no options was asked for" in result["msg"]
    assert bare_guest.state() == before


def test_not_mounted(bare_guest):
    assert "not mounted" in bare_guest.module("resctrl_schemata")["msg"]


def test_mask_that_yaml_took_for_a_number(bare_guest, tmp_path):
    playbook = tmp_path / "play.yml"
    playbook.write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Ask\n      sovereign.epyc.resctrl_schemata:\n"
        "        mount: true\n        groups: [{name: new, l3: {all: 0010}}]\n"
    )
    play = bare_guest.play(playbook, succeeds=False)
    assert play["Ask"]["status"] == "failed"
    assert "not the number 8" in play["Ask"]["msg"] and "quotes" in play["Ask"]["msg"]
    assert bare_guest.state() == ""
