# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boot parameters in entries of systemd-boot and in unified kernel images, and the way back to the first bytes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import (
    BadRequest,
    NotApplied,
    TuningError,
    Unrestored,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.boot import first_texts, uki
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol import converge
from ansible_collections.sovereign.epyc.tests.unit.fakes.cmdline_boots import (
    BASE,
    CMDLINE,
    MACHINE,
    NEW,
    OLD,
    EntryBoot,
    build_image,
    efi_host,
    files,
    knob,
    run,
    undo,
)

KINDS = pytest.mark.parametrize("images", [False, True], ids=["entries", "images"])
#: Absent, in one row, and as people write it: with comments, in several rows, without a newline at the end.
FIRST = pytest.mark.parametrize(
    "cmdline",
    [None, BASE, f"# nohz_full=7 later\n{BASE.replace(' quiet', '')}\n  quiet  loglevel=3"],
    ids=["absent", "row", "rows"],
)


@KINDS
@FIRST
def test_parameters_are_set_and_the_first_bytes_come_back(tmp_path: Path, images: bool, cmdline: str | None) -> None:
    if images and cmdline:
        cmdline = cmdline.replace("# nohz_full=7 later\n", "")  # Which ukify 257 takes for parameters.
    boot = EntryBoot(efi_host(tmp_path), images, cmdline)
    before = files(boot)
    outcome = run(boot, "nohz_full=1-3", "hugepagesz=1G", "hugepages=2", absent=["quiet"])
    assert outcome.to_diff() == {
        "before": {"cmdline:nohz_full": None, "cmdline:hugepages": None, "cmdline:quiet": ""},
        "after": {"cmdline:nohz_full": "1-3", "cmdline:hugepages": "hugepagesz=1G hugepages=2", "cmdline:quiet": None},
    }
    for line in boot.lines():
        words = line.split()
        assert words[:3] == BASE.split()[:3]
        assert words[-3:] == ["nohz_full=1-3", "hugepagesz=1G", "hugepages=2"]
        assert "quiet" not in words
    # What kernels get that are installed later; kernel-install adds the machine itself.
    assert "nohz_full=1-3" in boot.host.fs.read(CMDLINE)
    assert ("systemd.machine_id" in boot.host.fs.read(CMDLINE)) is False
    assert run(boot, "nohz_full=1-3", absent=["quiet"]).changes == []

    back = undo(boot)
    assert back.to_diff()["after"] == {"cmdline:nohz_full": None, "cmdline:hugepages": None, "cmdline:quiet": ""}
    after = files(boot)
    assert after.keys() == before.keys()
    assert {path for path in before if after[path] != before[path]} <= {boot.image(NEW)[1:], boot.image(OLD)[1:]}
    assert [("reboot before a kernel is installed" in remark) for remark in back.remarks] == [True] * (cmdline is None)
    assert undo(boot).changes == []


def test_only_the_options_of_an_entry_differ(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    before = boot.host.fs.read(boot.entry(OLD)).splitlines()
    run(boot, "nohz_full=1-3")
    after = boot.host.fs.read(boot.entry(OLD)).splitlines()
    assert [(one, other) for one, other in zip(before, after) if one != other] == [
        (f"options    {boot.options}", f"options    {boot.options} nohz_full=1-3")
    ]
    assert boot.calls == []


def test_options_may_be_in_several_rows_or_in_none(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path), cmdline=BASE)
    boot.host.put(boot.entry(NEW), "options  a=1   b=2\noptions root=/dev/vda2 foo=1\nlinux /a\noptions\tro  quiet")
    boot.host.put(boot.entry(OLD), "linux /a")
    run(boot, "foo=2")
    rows = boot.host.fs.read(boot.entry(NEW)).splitlines()
    assert rows == ["options  a=1   b=2", "options root=/dev/vda2", "linux /a", "options\tro quiet foo=2"]
    assert boot.host.fs.read(boot.entry(OLD)) == "linux /a\noptions foo=2"


def test_what_the_boot_loader_reads_is_flushed_and_told_if_it_is_not(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    boot.unflushed = "Input/output error"
    (remark,) = run(boot, "nohz_full=1-3").remarks
    assert remark.startswith(f"{boot.entry(NEW)} is written, but lies partly in the journal")
    assert boot.flushed == [boot.entry(NEW), boot.entry(OLD)]


def test_entries_of_others_stay(tmp_path: Path) -> None:
    """Another system on the same partition, a kernel whose modules are gone, and an entry by hand."""
    boot = EntryBoot(efi_host(tmp_path))
    others = [
        boot.entry("6.1.0-gone"),
        boot.entry(NEW).replace(MACHINE, "fedora"),
        "/boot/efi/loader/entries/mine.conf",
    ]
    for path in others:
        boot.host.put(path, f"options {BASE}")
    run(boot, "nohz_full=1-3")
    assert len(boot.lines()) == 2
    assert [boot.host.fs.read(path) for path in others] == [f"options {BASE}"] * 3


def test_entries_with_counters_of_boots_are_ours(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    for release, counters in ((NEW, "+2-1"), (OLD, "+3")):
        path = f"{boot.host.root}{boot.entry(release)}"
        os.rename(path, path.replace(".conf", f"{counters}.conf"))
    run(boot, "nohz_full=1-3")
    assert [line.rpartition(" ")[2] for line in boot.lines()] == ["nohz_full=1-3"] * 2


def test_a_boot_partition_at_two_places_is_one(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    os.symlink("boot/efi", f"{boot.host.root}/efi")
    assert len(boot.lines()) == 2


# Images


def test_an_image_is_built_elsewhere_and_renamed(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path), images=True, cmdline=BASE)
    run(boot, "nohz_full=1-3")
    assert [call[1:] for call in boot.calls] == [
        [
            "BOOT_ROOT=/boot/efi/sovereign-epyc-new",
            "kernel-install",
            f"--entry-token=literal:{MACHINE}",
            "add",
            release,
            f"/boot/vmlinuz-{release}",
        ]
        for release in (NEW, OLD)
    ]
    assert sorted(os.listdir(f"{boot.host.root}/boot/efi")) == ["EFI"]
    assert sorted(os.listdir(f"{boot.host.root}/boot/efi/EFI/Linux")) == [
        os.path.basename(boot.image(release)) for release in (NEW, OLD)
    ]


def test_a_failed_build_leaves_all_as_it_was(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path), images=True)
    before = files(boot)
    for fault, words in (
        ("fails", r"No space left on device.*put back"),
        ("builds_nothing", r"built no image of the kernel 6.12.117\+deb13-amd64.*layout=uki.*put back"),
    ):
        setattr(boot, fault, True)
        with pytest.raises(TuningError, match=words):
            run(boot, "nohz_full=1-3")
        assert files(boot) == before
        setattr(boot, fault, False)


def test_a_failed_build_gives_the_file_its_former_text_before_the_run_goes_on(tmp_path: Path) -> None:
    """A kernel that is installed before the rollback must not get the new parameters."""
    boot = EntryBoot(efi_host(tmp_path), images=True)
    before = files(boot)
    boot.fails = True
    with pytest.raises(TuningError, match="No space left"):
        boot.find().apply_settings({"nohz_full": "1-3"})
    after = files(boot)
    after.pop(first_texts.RECORD[1:])
    assert after == before


def test_an_image_that_gets_its_parameters_elsewhere_is_not_put_in_place(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path), images=True, cmdline=BASE)
    before = files(boot)
    boot.configured_elsewhere = "root=/dev/vda2 nohz_full=7"
    words = (
        rf"the new {boot.image(NEW).replace('+', '.')} does not have it: wanted '1-3', found '7'.*/etc/kernel/uki.conf"
    )
    with pytest.raises(NotApplied, match=words):
        run(boot, "nohz_full=1-3")
    assert files(boot) == before


def test_a_second_build_that_fails_takes_the_first_back(tmp_path: Path) -> None:
    """And says that this host is between two states, where even that is not possible."""
    boot = EntryBoot(efi_host(tmp_path), images=True, cmdline=BASE)
    whole = EntryBoot.__call__

    def build_first_only(command: list[str]) -> str:
        boot.fails = command[-2] == OLD and "nohz_full" in boot.host.fs.read(CMDLINE)
        return whole(boot, command)

    boot.find = lambda find=boot.find: _with_run(find(), build_first_only)  # type: ignore[method-assign,misc]
    with pytest.raises(TuningError, match=r"No space left.*put back"):
        run(boot, "nohz_full=1-3")
    assert [line for line in boot.lines() if "nohz_full" in line] == []
    assert boot.host.fs.read_status(first_texts.RECORD) is None

    def build_first_once(command: list[str]) -> str:
        boot.fails = len(boot.calls) > count
        return whole(boot, command)

    count = len(boot.calls)
    boot.find = lambda find=boot.find: _with_run(find(), build_first_once)  # type: ignore[method-assign,misc]
    with pytest.raises(Unrestored, match="between two states"):
        run(boot, "nohz_full=1-3")
    assert "did not end" in boot.find().unfinished_reason()


def _with_run(loader: object, play: object) -> object:
    loader.run = play  # type: ignore[attr-defined]
    return loader


def test_an_image_without_its_kernel_is_refused_before_anything_is_changed(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path), images=True)
    boot.host.drop(f"/boot/vmlinuz-{OLD}")
    before = files(boot)
    with pytest.raises(BadRequest, match=rf"kernel-install remove {OLD.replace('+', '.')}"):
        run(boot, "nohz_full=1-3")
    assert files(boot) == before


def test_the_command_line_of_an_image(tmp_path: Path) -> None:
    image = tmp_path / "image.efi"
    image.write_bytes(build_image(" a=1 b\n"))
    assert uki.read_command_line(str(image)) == " a=1 b\n"
    image.write_bytes(build_image("", [".linux"]))
    assert uki.read_command_line(str(image)) == ""
    image.write_bytes(build_image("a=1")[:0x90])
    assert uki.read_command_line(str(image)) == ""
    for text in (b"", b"MZ", b"MZ".ljust(0x40, b"\x80"), build_image("a=1").replace(b"PE\0\0", b"NE\0\0")):
        image.write_bytes(text)
        with pytest.raises(TuningError, match=r"image.efi is no unified kernel image\.$"):
            uki.read_command_line(str(image))


# What others do meanwhile


def test_what_others_change_meanwhile_stays(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    run(boot, "nohz_full=1-3", absent=["quiet"])
    text = boot.host.fs.read(CMDLINE)
    boot.host.put(CMDLINE, f"{text} theirs=1")
    back = undo(boot)
    assert f"{CMDLINE} keeps what others have changed in it since." in back.remarks
    assert boot.host.fs.read(CMDLINE) == "root=/dev/vda2 ro console=ttyS0 theirs=1 quiet"
    assert boot.host.fs.read_status(first_texts.RECORD) is None


def test_an_entry_that_others_made_anew_does_not_go_back_to_its_first_initrd(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    run(boot, "nohz_full=1-3")
    text = boot.host.fs.read(boot.entry(NEW))
    boot.host.put(boot.entry(NEW), text.replace("/initrd.img", "/microcode.img"))
    boot.host.drop(boot.entry(OLD))
    undo(boot)
    assert boot.host.fs.read(boot.entry(NEW)) == text.replace("/initrd.img", "/microcode.img").replace(
        " nohz_full=1-3", ""
    )
    assert boot.host.fs.read_status(boot.entry(OLD)) is None


def test_an_entry_that_lost_it_is_drift(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path))
    run(boot, "nohz_full=1-3")
    boot.host.put(boot.entry(OLD), boot.host.fs.read(boot.entry(OLD)).replace(" nohz_full=1-3", ""))
    one = knob(boot, "nohz_full=1-3")
    wanted = one.wanted_settings()
    assert one.read_settings(wanted) == wanted
    assert one.rewrite_reason("cmdline:nohz_full", "1-3").startswith("not every boot entry has it; ")
    assert [change.address for change in run(boot, "nohz_full=1-3").changes] == ["cmdline:nohz_full"]
    assert boot.lines()[1].endswith(" nohz_full=1-3")


def test_settings_are_found_and_go_although_the_ledger_is_lost(tmp_path: Path) -> None:
    boot = EntryBoot(efi_host(tmp_path), cmdline=f"{BASE} nosmt")
    before = files(boot)
    run(boot, "nohz_full=1-3", "console=tty1", absent=["nosmt"])
    boot.host.drop("/var/lib/sovereign-epyc/ledger*.json")
    assert undo(boot).to_diff()["after"] == {
        "cmdline:nohz_full": None,
        "cmdline:console": "ttyS0",
        "cmdline:nosmt": "",
    }
    assert files(boot) == before


# Runs that end in the middle


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


def is_killed_at(turn: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Do something until it writes, removes or renames for the ``turn``-th time; return whether it came that far."""
    left = iter(range(turn))

    def fatal(real: Callable[..., object]) -> Callable[..., object]:
        def call(*words: object, **more: object) -> object:
            if next(left, None) is None:
                raise Killed
            return real(*words, **more)

        return call

    with monkeypatch.context() as patch:
        for module, name in ((textfile, "write_file"), (textfile, "remove_file"), (os, "replace")):
            patch.setattr(module, name, fatal(getattr(module, name)))
        # A killed process does not roll back.
        patch.setattr(converge, "_restore_values_before_run", lambda done, error: None)
        try:
            act()
        except Killed:
            return True
    return False


@KINDS
@pytest.mark.parametrize("back", [False, True], ids=["set", "undo"])
def test_after_a_kill_at_each_write_all_entries_are_whole_and_the_next_run_ends_it(
    tmp_path: Path, images: bool, back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = EntryBoot(efi_host(tmp_path), images)
    before, first = files(boot), boot.lines()
    lines = {BASE, first[0], f"{BASE} nohz_full=1-3", f"{first[0]} nohz_full=1-3"}
    turn = 0
    while True:
        if back:
            run(boot, "nohz_full=1-3")
        if not is_killed_at(turn, lambda: undo(boot) if back else run(boot, "nohz_full=1-3"), monkeypatch):
            break
        assert set(boot.lines()) <= lines
        run(boot, "nohz_full=1-3")
        assert all(line.endswith(" nohz_full=1-3") for line in boot.lines())
        assert boot.find().unfinished_reason() == ""
        undo(boot)
        after = files(boot)
        assert after.keys() == before.keys()
        assert {path for path in before if after[path] != before[path]} <= {boot.image(NEW)[1:], boot.image(OLD)[1:]}
        turn += 1
    # The ledger twice, the record before and after, the file and two entries.
    assert turn >= 7
