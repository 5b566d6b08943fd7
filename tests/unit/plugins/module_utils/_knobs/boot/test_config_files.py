# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of providers, packages and administrators in /etc/default/grub.d, in a real shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import config_files, drop_in, grub
from ansible_collections.sovereign.epyc.tests.unit.fakes.boots import Boot, files, knob, line, run, undo

#: As the installer of Hetzner leaves it, and as images of OpenNebula have it: both set the whole variable anew.
OF_PROVIDERS = {
    "hetzner.cfg": "GRUB_HIDDEN_TIMEOUT_QUIET=false\nGRUB_CMDLINE_LINUX_DEFAULT='consoleblank=0'\n",
    "99-opennebula.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="net.ifnames=0 biosdevname=0"\nGRUB_TIMEOUT=0\n',
    "kdump-tools.cfg": 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT crashkernel=512M-:192M"\n',
}


def put_file(boot: Boot, name: str, text: str) -> None:
    boot.tree.put(f"{drop_in.FOLDER}/{name}", text)


def own_files(boot: Boot) -> list[str]:
    folder = boot.tree.root / drop_in.FOLDER[1:]
    return sorted(path.name for path in folder.glob("*sovereign*")) if folder.is_dir() else []


# Which file is read last


@pytest.mark.parametrize("name", OF_PROVIDERS)
def test_a_provider_s_file_keeps_its_parameters_and_ours_are_there(boot: Boot, name: str) -> None:
    put_file(boot, name, OF_PROVIDERS[name])
    boot([grub.UPDATE])
    before = files(boot)
    words = line(boot)
    assert run(boot, knob(boot, "nohz_full=9")).changes
    assert line(boot) == f"{words} nohz_full=9"
    assert run(boot, knob(boot, "nohz_full=9")).changes == []
    assert undo(boot).to_diff()["after"] == {"cmdline:nohz_full": None}
    assert files(boot) == before


def test_a_file_that_is_still_read_later_and_sets_the_variable_anew_is_named(boot: Boot) -> None:
    """The file does not mention the parameter that it takes away."""
    put_file(boot, "zzzz-provider.cfg", "GRUB_CMDLINE_LINUX_DEFAULT='consoleblank=0'")
    boot([grub.UPDATE])
    before = files(boot)
    with pytest.raises(NotApplied, match=r"wanted '9', and /etc/default/grub.d/zzzz-provider.cfg, which is read after"):
        run(boot, knob(boot, "nohz_full=9"))
    assert files(boot) == before


def test_each_file_that_sets_a_parameter_is_named_when_ours_takes_it_over(boot: Boot) -> None:
    put_file(boot, "10-a.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=1"')
    put_file(boot, "20-mentions.cfg", "# nohz_full is set elsewhere\nGRUB_TIMEOUT=5")
    put_file(boot, "30-b.cfg", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX nohz_full=2"')
    (remark,) = run(boot, knob(boot, "nohz_full=9")).remarks
    assert remark.startswith(
        "nohz_full is also set by /etc/default/grub.d/10-a.cfg and /etc/default/grub.d/30-b.cfg, to "
        f"'nohz_full=1 nohz_full=2'. {drop_in.DROP_IN} takes that out"
    )


# The name that the drop-in had in earlier versions


def with_earlier_drop_in(boot: Boot) -> None:
    """Leave the host as an earlier version did after it had set two parameters."""
    run(boot, knob(boot, "nohz_full=9", "foo=1"))
    own = boot.tree.root / drop_in.DROP_IN[1:]
    own.rename(boot.tree.root / drop_in.EARLIER_DROP_IN[1:])
    boot([grub.UPDATE])


def test_a_drop_in_of_an_earlier_version_becomes_the_present_one(boot: Boot) -> None:
    before = files(boot)
    with_earlier_drop_in(boot)
    words = line(boot)
    # The same request moves all settings, also those that it does not name.
    changes = run(boot, knob(boot, "nohz_full=9")).changes
    assert [(change.address, change.before, change.after) for change in changes] == [("cmdline:nohz_full", "9", "9")]
    assert own_files(boot) == ["zzz-sovereign-epyc.cfg"]
    assert sorted(line(boot).split()) == sorted(words.split())
    assert run(boot, knob(boot, "nohz_full=9", "foo=1")).changes == []
    assert set(undo(boot).to_diff()["after"]) == {"cmdline:nohz_full", "cmdline:foo"}
    assert files(boot) == before


def test_an_undo_takes_a_drop_in_of_an_earlier_version_away(boot: Boot) -> None:
    before = files(boot)
    with_earlier_drop_in(boot)
    assert set(undo(boot).to_diff()["after"]) == {"cmdline:nohz_full", "cmdline:foo"}
    assert files(boot) == before


def test_a_drop_in_of_an_earlier_version_stays_where_update_grub_fails(boot: Boot) -> None:
    with_earlier_drop_in(boot)
    before = files(boot)
    boot.fails = True
    with pytest.raises(TuningError, match="no space left"):
        run(boot, knob(boot, "nohz_full=8"))
    assert files(boot) == before


# A file that ends update-grub

FAILING = {
    "a test as the last command": (
        "GRUB_TIMEOUT=5\n[ -f /nowhere/at/all ] && GRUB_TIMEOUT=1\n\n# The end.\n",
        2,
        "[ -f /nowhere/at/all ] && GRUB_TIMEOUT=1",
        "put the line 'true' below it",
    ),
    "a program in the middle": ("\ncat /nowhere/at/all\nGRUB_TIMEOUT=1\n", 2, "cat /nowhere/at/all", "Mend this line."),
    "an if that is not closed": (
        "GRUB_TIMEOUT=1\nif true; then\nGRUB_TIMEOUT=2\n",
        2,
        "if true; then",
        "The shell says",
    ),
    "an exit": ("# Head.\nGRUB_TIMEOUT=1\nexit 0\n", 3, "exit 0", "Mend this line."),
}


@pytest.mark.parametrize("case", FAILING)
def test_the_line_that_ends_update_grub_is_named(boot: Boot, case: str) -> None:
    text, number, row, hint = FAILING[case]
    put_file(boot, "10-good.cfg", "GRUB_TIMEOUT=3")
    put_file(boot, "20-bad.cfg", text)
    put_file(boot, "30-good.cfg", "GRUB_TIMEOUT=3")
    before = files(boot)
    with pytest.raises(TuningError) as error:
        run(boot, knob(boot, "nohz_full=9"))
    assert str(error.value).startswith(f"Line {number} of /etc/default/grub.d/20-bad.cfg ends update-grub")
    assert f"'{row}'" in str(error.value)
    assert hint in str(error.value)
    assert "printf" not in str(error.value) and "\n" not in str(error.value)
    assert files(boot) == before


def test_an_appending_assignment_is_named_where_the_shell_has_none(boot: Boot) -> None:
    """The shell of Debian and Ubuntu has none. Where sh is another shell, update-grub takes the line, and so do we."""
    put_file(boot, "20-bad.cfg", '# More.\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\nGRUB_CMDLINE_LINUX_DEFAULT+=" foo"\n')
    if Path("/bin/sh").resolve().name != "dash":
        assert config_files.run_config_files(str(boot.tree.root))[-1].settings()["foo"] == ""
        return
    with pytest.raises(TuningError, match=r"^Line 3 of .*/20-bad.cfg ends .*Write NAME=\"\$NAME more\" in place of"):
        run(boot, knob(boot, "nohz_full=9"))


def test_an_undo_goes_on_where_a_file_ends_update_grub(boot: Boot) -> None:
    """The parameters stay, and the line is named: an undo of a whole host does not end there."""
    run(boot, knob(boot, "nohz_full=9"))
    put_file(boot, "20-bad.cfg", "[ -f /nowhere/at/all ] && GRUB_TIMEOUT=1")
    outcome = undo(boot)
    assert outcome.changes == []
    (remark,) = outcome.remarks
    assert remark.startswith("cmdline:nohz_full was not put back: Line 1 of /etc/default/grub.d/20-bad.cfg ends")
    boot.tree.drop(f"{drop_in.FOLDER}/20-bad.cfg")
    assert undo(boot).to_diff()["after"] == {"cmdline:nohz_full": None}
