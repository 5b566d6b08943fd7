# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drop-in for GRUB, in a real shell with a real sed, and update-grub that fails, ignores or contradicts it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import NotApplied, TuningError, Unrestored
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import config_files, drop_in, grub
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import cmdline
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import (
    Boot,
    files,
    knob,
    line,
    rescue,
    run,
)

# What update-grub makes of it


def test_a_file_changed_without_update_grub_is_no_peace(boot: Boot) -> None:
    run(boot, knob(boot, "nohz_full=9"))
    boot.tree.drop(drop_in.DROP_IN)
    assert [change.address for change in run(boot, knob(boot, "nohz_full=9")).changes] == ["cmdline:nohz_full"]
    text = boot.tree.fs.read(grub.RESULT)
    boot.tree.put(grub.RESULT, text.replace("nohz_full=9", ""))
    assert [change.address for change in run(boot, knob(boot, "nohz_full=9")).changes] == ["cmdline:nohz_full"]
    assert "nohz_full=9" in line(boot)


def test_a_grub_cfg_that_does_not_carry_it_is_a_failure_that_changes_nothing(boot: Boot) -> None:
    before = files(boot)
    boot.ignores = "nohz_full"
    with pytest.raises(NotApplied, match=r"/boot/grub/grub.cfg does not have it: wanted '9', found nothing.*put back"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_a_later_file_that_says_otherwise_is_named(boot: Boot) -> None:
    boot.tree.put(f"{drop_in.FOLDER}/zzzz-later.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=1"')
    boot([grub.UPDATE])
    before = files(boot)
    with pytest.raises(NotApplied, match=r"grub.d/zzzz-later.cfg, which is read after.*'nohz_full=1 nohz_full=9'"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_a_failed_update_grub_leaves_nothing_behind(boot: Boot) -> None:
    before = files(boot)
    boot.fails = True
    with pytest.raises(TuningError, match=r"no space left.*put back"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_a_grub_cfg_without_a_kernel_is_told_as_that(boot: Boot) -> None:
    """As where /boot is not mounted. No undo can mend that, and our file does not wait for a kernel to come."""
    boot.kernels = 0
    with pytest.raises(Unrestored, match=r"has no entry of a Linux kernel\. See that /boot is mounted"):
        run(boot, knob(boot, "nohz_full=9"))
    assert boot.tree.fs.read_status(drop_in.DROP_IN) is None


# The entry for recovery


def test_the_entry_for_recovery_stays_the_way_out(boot: Boot) -> None:
    run(boot, knob(boot, "hugepages=999", "nohz_full=9"))
    assert line(boot) == "root=/dev/vda1 ro console=ttyS0 quiet hugepages=999 nohz_full=9"
    assert rescue(boot) == "root=/dev/vda1 ro single console=ttyS0"


def test_an_entry_for_recovery_that_has_it_all_the_same_is_told(boot: Boot) -> None:
    boot.same_for_recovery = True
    (remark,) = run(boot, knob(boot, "nohz_full=9")).remarks
    assert remark.startswith(f"The entry for recovery in {grub.RESULT} has nohz_full too, so it is no way out of it.")


def test_a_drop_in_of_before_that_reached_the_entry_for_recovery_is_written_anew(boot: Boot) -> None:
    run(boot, knob(boot, "nohz_full=9"))
    text = boot.tree.fs.read(drop_in.DROP_IN)
    own = '"${GRUB_CMDLINE_LINUX_DEFAULT:+$GRUB_CMDLINE_LINUX_DEFAULT }"'
    old = text.replace(
        f"GRUB_CMDLINE_LINUX_DEFAULT={own}", 'GRUB_CMDLINE_LINUX="${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }"'
    )
    assert old != text
    boot.tree.put(drop_in.DROP_IN, old)
    boot([grub.UPDATE])
    assert "nohz_full=9" in rescue(boot)
    assert run(boot, knob(boot, "nohz_full=9")).changes
    assert "nohz_full=9" in line(boot)
    assert "nohz_full=9" not in rescue(boot)
    assert run(boot, knob(boot, "nohz_full=9")).changes == []


# On the disk for good


def test_what_grub_reads_is_settled_after_update_grub(boot: Boot) -> None:
    boot.calls.clear()
    assert run(boot, knob(boot, "nohz_full=9")).remarks == []
    assert boot.calls == ["update-grub", f"settle {grub.RESULT}"]


def test_what_may_not_survive_a_power_cut_is_told(boot: Boot) -> None:
    boot.unsettled = "Device or resource busy"
    (remark,) = run(boot, knob(boot, "nohz_full=9")).remarks
    assert remark.startswith(f"{grub.RESULT} is written, but lies partly in the journal")
    assert "(Device or resource busy)" in remark
    assert "if the power fails within the next minute" in remark


# The drop-in


def test_an_edit_by_hand_is_drift_and_its_lines_are_named_when_they_go(boot: Boot) -> None:
    run(boot, knob(boot, "nohz_full=9"))
    text = boot.tree.fs.read(drop_in.DROP_IN)
    boot.tree.put(drop_in.DROP_IN, f"{text}\nGRUB_TIMEOUT=30")
    boot([grub.UPDATE])
    one = knob(boot, "nohz_full=9")
    wanted = one.wanted_settings()
    found = one.read_settings(wanted)
    assert found == wanted
    assert [one.values_equal(address, text, found[address]) for address, text in wanted.items()] == [False]
    assert "changed by hand" in one.rewrite_reason("cmdline:nohz_full", "9")
    (remark,) = run(boot, one).remarks
    assert remark == (
        f"{drop_in.DROP_IN} held lines that are not ours, and are gone now: ['GRUB_TIMEOUT=30']. Put yours into "
        f"another file of {drop_in.FOLDER}."
    )
    assert boot.tree.fs.read(drop_in.DROP_IN) == text


def test_a_drop_in_changed_by_hand_is_not_guessed_at(boot: Boot) -> None:
    for nonsense in ("{nonsense", "[]", '{"a": 5}'):
        boot.tree.put(drop_in.DROP_IN, f"# owns: {nonsense}")
        with pytest.raises(TuningError, match="changed by hand"):
            boot.grub.apply_settings({"a": "1"})


def test_what_files_print_is_no_parameter(boot: Boot) -> None:
    boot.tree.put(f"{drop_in.FOLDER}/10-talks.cfg", "echo hello=1")
    assert boot.grub.read_configured_settings() == {"console": "ttyS0", "quiet": ""}


WORDS = st.sampled_from(
    [
        "quiet",
        "a",
        "a=1",
        "a-b=2",
        "a_b",
        "b=3",
        'foo="a b"',
        '"a=1 2"',
        '"foo=a b"',
        'foo="x a=1 y"',
        "c.d=*",
        "cxd",
        "ab=1",
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    foreign=st.lists(WORDS, max_size=6),
    default=st.lists(WORDS, max_size=3),
    gap=st.sampled_from([" ", "  ", "\t"]),
    owned=st.dictionaries(st.sampled_from(["a", "a_b", "c.d", "quiet"]), st.sampled_from([None, "", "9", '"x y"'])),
)
def test_ours_are_there_once_and_all_others_in_their_order(
    tree: hosts.Host, foreign: list[str], default: list[str], gap: str, owned: dict[str, str | None]
) -> None:
    tree.put(
        "/etc/default/grub",
        f"GRUB_CMDLINE_LINUX='{gap.join(foreign)}'\nGRUB_CMDLINE_LINUX_DEFAULT='{gap.join(default)}'",
    )
    tree.put(drop_in.DROP_IN, drop_in.render_drop_in(owned))
    last = config_files.run_config_files(str(tree.root))[-1]

    def others(some: list[str]) -> list[str]:
        return [
            word
            for word in some
            if cmdline.canonical_parameter_name(cmdline.split_kernel_parameter(word)[0]) not in owned
        ]

    ours = [
        word for name, text in owned.items() if text is not None for word in cmdline.setting_to_parameters(name, text)
    ]
    assert cmdline.split_kernel_command_line(last.in_all_entries) == others(foreign)
    assert cmdline.split_kernel_command_line(last.in_ordinary_entries) == [*others(default), *ours]
    assert drop_in.parse_owned_settings(drop_in.render_drop_in(owned)) == owned
