# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""grubby, by what it printed on other people's hosts."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NotApplied
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import grubby
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cmdline

RECORDED = """index=0
kernel="/boot/vmlinuz-5.14.0-162.6.1.el9_1.x86_64"
args="ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M resume=/dev/mapper/rhel-swap rhgb quiet"
root="/dev/mapper/rhel-root"
initrd="/boot/initramfs-5.14.0-162.6.1.el9_1.x86_64.img"
title="Red Hat Enterprise Linux (5.14.0-162.6.1.el9_1.x86_64) 9.1 (Plow)"
id="4d684a4a6166439a867e701ded4f7e10-5.14.0-162.6.1.el9_1.x86_64"
index=1
kernel="/boot/vmlinuz-0-rescue-4d684a4a6166439a867e701ded4f7e10"
args="ro crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M resume=/dev/mapper/rhel-swap rhgb quiet $tuned_params"
root="/dev/mapper/rhel-root"
"""


def test_entries_that_grubby_shows() -> None:
    first, second = grubby.parse_grubby_info(RECORDED)
    assert first[1:2] == ["crashkernel=1G-4G:192M,4G-64G:256M,64G-:512M"]
    assert second == [*first, "$tuned_params"]


@pytest.mark.parametrize(
    ("wanted", "calls"),
    [
        ({"nohz_full": "1-3"}, ["--args=nohz_full=1-3"]),
        ({"quiet": None}, ["--remove-args=quiet"]),
        ({"quiet": None, "nosmt": ""}, ["--remove-args=quiet nosmt", "--args=nosmt"]),
        (
            {"hugepages": "hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8", "crashkernel": "1G"},
            [
                "--remove-args=default_hugepagesz hugepagesz hugepages crashkernel",
                "--args=hugepagesz=1G hugepages=4 hugepagesz=2M hugepages=8 crashkernel=1G",
            ],
        ),
        ({"gone": None}, []),
    ],
)
def test_calls_of_grubby(wanted: dict[str, str | None], calls: list[str]) -> None:
    found = cmdline.parameters_to_settings(grubby.parse_grubby_info(RECORDED)[0])
    assert grubby.build_grubby_commands(wanted, found) == [["grubby", "--update-kernel=ALL", call] for call in calls]


def test_grubby_cannot_set_spaces() -> None:
    with pytest.raises(BadRequest, match="spaces"):
        grubby.build_grubby_commands({"a": '"b c"'}, {})


def test_what_grubby_changes_beside_ours_is_told() -> None:
    """As some versions do: to remove smt, they take the end out of nosmt."""
    answers = iter([RECORDED.replace("quiet", "quiet nosmt"), RECORDED, RECORDED.replace("quiet", "quiet no")])
    play = lambda command: next(answers) if command[1].startswith("--info") else ""  # noqa: E731
    with pytest.raises(NotApplied, match=r"Give them back by hand.*: nosmt\.$"):
        grubby.Grubby(play, lambda paths: None).apply_settings({"smt": None})


def test_an_entry_that_grubby_left_out_is_a_failure() -> None:
    with pytest.raises(NotApplied, match="not every boot entry"):
        grubby.Grubby(lambda command: RECORDED).apply_settings({"nohz_full": "1-3"})
