# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters from the request to the menu of GRUB and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import grub
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob as boot_knob
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import (
    Boot,
    bootable,
    files,
    knob,
    line,
    run,
)


@pytest.fixture
def tree(tmp_path: Path) -> hosts.Host:
    return bootable(tmp_path)


@pytest.fixture
def boot(tree: hosts.Host) -> Boot:
    return Boot(tree)


def test_nothing_asked_is_refused(boot: Boot) -> None:
    with pytest.raises(BadRequest, match="Nothing is requested"):
        knob(boot).wanted()


def test_a_line_that_the_kernel_would_cut_is_refused(boot: Boot) -> None:
    before = files(boot)
    with pytest.raises(BadRequest, match="cut off the rest"):
        run(boot, knob(boot, *(f"name{number}={'x' * 90}" for number in range(20))))
    assert files(boot) == before


def test_parameters_are_merged_and_put_back(boot: Boot) -> None:
    before = files(boot)
    outcome = run(boot, knob(boot, "nohz_full={ccd1}", "console=tty0", "console=ttyS1", absent=["quiet"]))
    assert outcome.diff()["after"] == {
        "cmdline:nohz_full": "8-15",
        "cmdline:console": "console=tty0 console=ttyS1",
        "cmdline:quiet": None,
    }
    assert line(boot).split() == ["root=/dev/vda1", "ro", "nohz_full=8-15", "console=tty0", "console=ttyS1"]
    assert outcome.remarks == [
        f"console is also set by /etc/default/grub, to 'ttyS0'. {grub.DROP_IN} takes that out for as long as it is "
        "there."
    ]
    assert run(boot, knob(boot, "nohz_full=8-15")).changes == []
    # One owner for each name: what another request asks joins what is there.
    run(boot, knob(boot, "nohz-full=9", "new=1"))
    assert line(boot).split() == ["root=/dev/vda1", "ro", "nohz-full=9", "console=tty0", "console=ttyS1", "new=1"]

    facts = knob(boot, "nohz_full=9").facts()
    assert facts["reboot_required"] is False  # nothing was read yet
    one = knob(boot, "nohz_full=9", absent=["root2"])
    run(boot, one)
    assert one.facts() == {
        "running": {"nohz_full": None, "root2": None},
        "configured": {"nohz_full": "9", "root2": None},
        "pending": ["nohz_full"],
        "reboot_required": True,
    }

    originals = {"console": "ttyS0", "quiet": "", "nohz_full": None, "new": None}
    boot.grub.change(originals)
    assert files(boot) == before


def test_an_undo_of_nothing_needs_no_boot_loader(tree: hosts.Host) -> None:
    (only,) = boot_knob.build(Host(tree.fs), {})
    assert only.read([]) == {}
    assert only.facts()["reboot_required"] is False
