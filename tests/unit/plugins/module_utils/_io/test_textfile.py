# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of ours, also in folders that belong to somebody else, who may lay out links and files of any name."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile

OWN, SHARED = 0o755, 0o777


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that anybody may write into, as its owner may in one of node_exporter."""
    place = tmp_path / "collector"
    place.mkdir()
    place.chmod(SHARED)
    return place


def test_nothing_is_written_through_what_others_laid_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Red for a name that can be known before: all that it could be is a link to somebody's file."""
    victim = tmp_path / "shadow"
    victim.write_text("root:x")
    for name in ("x.prom.sovereign-new", f".x.prom.{bytes(8).hex()}"):
        (folder / name).symlink_to(victim)
    textfile.write_file(str(folder / "x.prom"), "ours")
    # Also where the name was guessed.
    monkeypatch.setattr(os, "urandom", bytes)
    with pytest.raises(TuningError, match=r"x\.prom cannot be written: File exists\. It is as it was"):
        textfile.write_file(str(folder / "x.prom"), "more")
    assert (victim.read_text(), (folder / "x.prom").read_text()) == ("root:x", "ours")


@pytest.mark.parametrize("rights", [OWN, SHARED])
def test_mode_is_inherited_only_where_nobody_else_can_have_set_it(folder: Path, rights: int) -> None:
    path = folder / "x.prom"
    path.touch()
    path.chmod(0o4777)
    folder.chmod(rights)
    textfile.write_file(str(path), "ours")
    assert stat.S_IMODE(path.stat().st_mode) == (0o4777 if rights == OWN else 0o644)


def test_what_is_not_to_be_inherited_is_not(tmp_path: Path) -> None:
    path = tmp_path / "unit"
    path.touch()
    path.chmod(0o666)
    textfile.write_file(str(path), "ours", 0o600, keep_owner=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("there", ["link", "file"])
def test_the_owner_is_inherited_in_a_folder_of_root_only(
    there: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link to a file of somebody else gives no owner away, and is replaced."""
    folder.chmod(OWN)
    path, target = folder / "x", folder / "target"
    target.touch()
    if there == "link":
        path.symlink_to(target)
    else:
        path.touch()
    given = []
    monkeypatch.setattr(os, "fchown", lambda descriptor, user, group: given.append((user, group)))
    textfile.write_file(str(path), "ours")
    assert given == ([] if there == "link" else [(os.geteuid(), os.getegid())])
    assert (path.is_symlink(), path.read_text(), target.read_text()) == (False, "ours", "")


def test_a_write_that_fails_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TuningError, match="No space left on device"):
        textfile.write_file(str(folder / "x.prom"), "ours")
    assert list(folder.iterdir()) == []


def left_over(folder: Path, name: str = "x.prom", digit: str = "a") -> Path:
    """A file that a killed run has left beside another one."""
    path = folder / f".{name}.{16 * digit}"
    path.touch()
    return path


def test_a_missing_file_needs_no_removal_on_a_read_only_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses such an unlink before it looks whether the file is there."""

    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "unlink", refuse)
    textfile.remove_file(str(tmp_path / "missing"))
    (tmp_path / "file").touch()
    with pytest.raises(TuningError, match="cannot be removed: Read-only file system"):
        textfile.remove_file(str(tmp_path / "file"))


@pytest.mark.parametrize(
    "step", [lambda path: textfile.write_file(path, "ours"), textfile.remove_file], ids=["replace", "remove"]
)
@pytest.mark.parametrize("rights", [OWN, SHARED])
def test_what_a_killed_run_has_left_beside_a_file_goes(folder: Path, rights: int, step: Callable[[str], None]) -> None:
    folder.chmod(rights)
    other, dummy = left_over(folder, "other.prom"), left_over(folder)
    step(str(folder / "x.prom"))
    assert {path.name for path in folder.iterdir()} - {"x.prom"} == {other.name}


def test_what_another_run_is_writing_stays(folder: Path) -> None:
    """Both write the same file, and the later one wins."""
    written, real = [], os.fsync

    def second(descriptor: int) -> None:
        if not written:
            written.append(True)
            textfile.write_file(str(folder / "x.prom"), "second")
        real(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", second)
        textfile.write_file(str(folder / "x.prom"), "first")
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("x.prom", "first")]


def test_a_file_that_was_taken_for_a_left_over_before_it_was_locked_is_made_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, real = [], os.open

    def opened(name: str, flags: int, *rest: Any, **more: Any) -> int:
        descriptor = real(name, flags, *rest, **more)
        if flags & os.O_CREAT:
            made.append(name)
            if len(made) == 1:
                textfile.remove_temporary_files(str(folder))
        return descriptor

    monkeypatch.setattr(os, "open", opened)
    textfile.write_file(str(folder / "x.prom"), "ours")
    assert len(made) == 2 and [path.name for path in folder.iterdir()] == ["x.prom"]


def test_what_is_not_ours_stays_in_a_folder_of_others(folder: Path, tmp_path: Path) -> None:
    """Only a file with one name of root, or of who runs this, can be what we have left."""
    (tmp_path / "shadow").touch()
    names = [f".x.prom.{16 * digit}" for digit in "0123"]
    (folder / names[0]).symlink_to(tmp_path / "shadow")
    os.link(tmp_path / "shadow", folder / names[1])
    os.mkfifo(folder / names[2])
    (folder / names[3]).mkdir()
    textfile.write_file(str(folder / "x.prom"), "ours")
    assert sorted(path.name for path in folder.iterdir()) == [*names, "x.prom"]


def test_a_file_system_without_locks_is_written_all_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    left = left_over(folder)
    monkeypatch.setattr(fcntl, "flock", refuse)
    textfile.write_file(str(folder / "x.prom"), "ours")
    assert (folder / "x.prom").read_text() == "ours" and left.exists()


@pytest.mark.parametrize("trick", [os.symlink, os.link], ids=["link", "second name"])
def test_no_file_is_given_away_by_another_name(trick: Callable[..., None], folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "shadow"
    victim.touch(0o600)
    trick(victim, folder / "model.gguf")
    with pytest.raises(TuningError, match=r"others may write into .*collector, and it is a link or has a second name"):
        textfile.set_owner_and_mode(str(folder / "model.gguf"), -1, -1, 0o666)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o600
    # Where only we may write, a link is our own wish.
    folder.chmod(OWN)
    textfile.set_owner_and_mode(str(folder / "model.gguf"), -1, -1, 0o640)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o640


def test_what_is_not_there_cannot_be_given(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match=r"model\.gguf cannot be given owner or mode: No such file"):
        textfile.set_owner_and_mode(str(tmp_path / "model.gguf"), -1, -1, 0o640)
