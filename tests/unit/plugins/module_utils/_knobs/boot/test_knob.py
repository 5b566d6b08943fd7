# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters from the request to the menu of GRUB and back."""

from __future__ import annotations

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._host.host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import bootloader, drop_in, grub
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import knob as boot_knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import Ledger, RestoringKnob
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cmdline
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.cpulist import parse_cpulist
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import (
    INTENT,
    Boot,
    bootable,
    files,
    knob,
    line,
    run,
    undo,
)


def test_nothing_asked_is_refused(boot: Boot) -> None:
    with pytest.raises(BadRequest, match="Nothing is requested"):
        knob(boot).wanted_settings()


def test_a_line_that_the_kernel_would_cut_is_refused(boot: Boot) -> None:
    before = files(boot)
    with pytest.raises(BadRequest, match="cut off the rest"):
        run(boot, knob(boot, *(f"name{number}={'x' * 90}" for number in range(20))))
    assert files(boot) == before


ISOLATION = ("nohz_full={draft,verify}", "rcu_nocbs={draft,verify}", "isolcpus=managed_irq,{draft,verify}")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> hosts.Host:
    """Two sockets of Zen 6 with 1024 CPUs, on which each L3 domain is a node with a housekeeping core of its own."""
    return bootable(tmp_path_factory.mktemp("large"), **{**hosts.ZEN6_SHAPES["two 9996"], "nodes": 16})


def test_the_isolation_of_1024_cpus_fits_into_a_command_line(large: hosts.Host) -> None:
    boot = Boot(large)
    run(boot, knob(boot, *ISOLATION, "irqaffinity={housekeeping}"))
    words = dict(cmdline.split_kernel_parameter(word) for word in boot.grub.list_parameters_by_entry()[0])
    workers = Host(large.fs, INTENT).parse_cpus("draft,verify")
    assert len(workers) == 1024 - 2 * 16 and max(workers) == 1023
    for name in ("nohz_full", "rcu_nocbs"):
        assert parse_cpulist(words[name] or "") == tuple(workers)
    assert len(line(boot)) < boot_knob.LONGEST
    undo(boot)


def test_the_isolation_of_cpus_with_gaps_is_refused_before_the_kernel_cuts_it(large: hosts.Host) -> None:
    """One of two CPUs, as by hand on a host where the threads of a core are neighbours: 511 numbers in each list."""
    boot = Boot(large)
    before = files(boot)
    odd = ",".join(map(str, range(1, 1024, 2)))
    with pytest.raises(BadRequest, match=r"about [0-9]{4} characters, and the kernel takes 2047.* Nothing was changed"):
        run(boot, knob(boot, f"nohz_full={odd}"))
    assert files(boot) == before


def test_parameters_are_merged_and_put_back(boot: Boot) -> None:
    before = files(boot)
    outcome = run(boot, knob(boot, "nohz_full={ccd1}", "console=tty0", "console=ttyS1", absent=["quiet"]))
    assert outcome.to_diff()["after"] == {
        "cmdline:nohz_full": "8-15",
        "cmdline:console": "console=tty0 console=ttyS1",
        "cmdline:quiet": None,
    }
    assert line(boot).split() == ["root=/dev/vda1", "ro", "nohz_full=8-15", "console=tty0", "console=ttyS1"]
    assert outcome.remarks == [
        f"console is also set by /etc/default/grub, to 'ttyS0'. {drop_in.DROP_IN} takes that out for as long as it is "
        "there, also of the entry for recovery."
    ]
    assert run(boot, knob(boot, "nohz_full=8-15")).changes == []
    # One owner for each name: what another request asks joins what is there.
    run(boot, knob(boot, "nohz-full=9", "new=1"))
    assert line(boot).split() == ["root=/dev/vda1", "ro", "nohz-full=9", "console=tty0", "console=ttyS1", "new=1"]

    facts = knob(boot, "nohz_full=9").module_facts()
    assert facts["reboot_required"] is False  # nothing was read yet
    one = knob(boot, "nohz_full=9", absent=["root2"])
    run(boot, one)
    assert one.module_facts() == {
        "running": {"nohz_full": None, "root2": None},
        "configured": {"nohz_full": "9", "root2": None},
        "pending": ["nohz_full"],
        "reboot_required": True,
    }

    originals = {"console": "ttyS0", "quiet": "", "nohz_full": None, "new": None}
    boot.grub.apply_settings(originals)
    assert files(boot) == before


def test_an_undo_of_nothing_needs_no_boot_loader(tree: hosts.Host) -> None:
    (only,) = boot_knob.build_knobs(Host(tree.fs), {})
    assert only.read_settings([]) == {}
    assert only.module_facts()["reboot_required"] is False


# The way back


OTHER = "/etc/default/grub.d/50-other.cfg"


def others_say(boot: Boot, *parameters: str) -> None:
    boot.tree.put(OTHER, f'GRUB_CMDLINE_LINUX="{" ".join(parameters)}"')


def test_what_was_taken_over_is_given_back_to_what_others_say_now(boot: Boot) -> None:
    """An administrator changed a parameter after ours took it over, and set another that ours had set alone."""
    others_say(boot, "hugepages=4")
    run(boot, knob(boot, "hugepages=8", "nohz_full=9", absent=["quiet"]))
    others_say(boot, "hugepages=6", "nohz_full=1")
    back = undo(boot)
    assert back.to_diff()["after"] == {
        "cmdline:hugepages": "hugepages=6",
        "cmdline:nohz_full": "1",
        "cmdline:quiet": "",
    }
    assert line(boot).split()[2:] == ["hugepages=6", "nohz_full=1", "quiet"]
    assert boot.tree.fs.read_status(drop_in.DROP_IN) is None
    assert undo(boot).changes == []


def test_an_undo_names_the_lines_of_others_that_go_with_our_file(boot: Boot) -> None:
    run(boot, knob(boot, "nohz_full=9"))
    boot.tree.put(drop_in.DROP_IN, f"{boot.tree.fs.read(drop_in.DROP_IN)}\nGRUB_TIMEOUT=30")
    boot.unsettled = "Device or resource busy"
    lost, waits = undo(boot).remarks
    assert "'GRUB_TIMEOUT=30'" in lost
    assert "Device or resource busy" in waits


def test_our_file_goes_without_a_ledger_too(boot: Boot) -> None:
    before = files(boot)
    run(boot, knob(boot, "nohz_full=9"))
    boot.tree.drop("/var/lib/sovereign-epyc/ledger.json")
    assert undo(boot).to_diff()["after"] == {"cmdline:nohz_full": None}
    assert files(boot) == before


def test_a_grub_cfg_that_was_moved_away_is_made_anew(boot: Boot) -> None:
    run(boot, knob(boot, "nohz_full=9"))
    boot.tree.drop(grub.RESULT)
    assert isinstance(bootloader.find_boot_loader(boot.tree.fs), grub.Grub)
    (change,) = undo(boot).changes
    assert (change.before, change.after) == ("9", None)
    assert "nohz_full" not in line(boot)
    assert boot.tree.fs.read_status(drop_in.DROP_IN) is None


@pytest.mark.parametrize("damage", ["another boot loader", "a file that cannot be read"])
def test_what_cannot_be_reached_is_told_and_kept(boot: Boot, damage: str) -> None:
    """So that an undo of a whole host goes on with the rest."""
    run(boot, knob(boot, "nohz_full=9"))
    if damage == "another boot loader":
        boot.tree.drop(grub.UPDATE)
        ledger = Ledger(Store(str(boot.tree.root)), boot.tree.fs)
        (knob_here,) = boot_knob.build_knobs(Host(boot.tree.fs), {})
        outcome = converge_knobs([RestoringKnob(knob_here, ledger)], ledger)
        words = "so sovereign.epyc does not know how it boots"
    else:
        boot.tree.put(drop_in.DROP_IN, "# owns: nonsense")
        outcome = undo(boot)
        words = "Remove it, run update-grub and try again."
    assert outcome.changes == []
    (remark,) = outcome.remarks
    assert remark.startswith("cmdline:nohz_full was not put back: ")
    assert words in remark
    assert Ledger(Store(str(boot.tree.root)), boot.tree.fs).load_originals() == {"cmdline:nohz_full": None}
