# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder of the record, and what may lie in its place or in the places of its files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Damaged, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import textfile
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.tests.unit.fakes import disks

NAME = "ledger.json"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "var/lib").mkdir(parents=True)
    return Store(str(tmp_path))


@pytest.fixture
def folder(store: Store) -> Path:
    """The folder of the store, with one file in it."""
    store.save_document(NAME, {})
    return Path(store.folder)


def lock(store: Store) -> None:
    with store.hold_lock():
        pass


def load(store: Store) -> None:
    store.load_document(NAME)


def has(store: Store) -> None:
    store.has_file(NAME)


def save(store: Store) -> None:
    store.save_document(NAME, {})


ALL = [lock, load, has, save]


@pytest.mark.parametrize("use", [lock, load, lambda store: store.load_lines(NAME)])
def test_a_user_without_the_rights_is_told_whose_they_are(
    store: Store, folder: Path, use: Callable[[Store], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*dummy: object, **more: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    for user, words in (
        (0, r"Permission denied\.$"),
        (1000, r"Permission denied\. Run this as root, in Ansible with bec"),
    ):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        with pytest.raises(TuningError, match=words):
            use(store)


@pytest.mark.parametrize("use", ALL)
def test_a_link_to_nothing_is_refused_at_once(store: Store, use: Callable[[Store], None]) -> None:
    """As one to a file system that is not mounted yet."""
    Path(store.folder).symlink_to("/data/epyc-that-is-not-mounted")
    with pytest.raises(TuningError, match=r"sovereign-epyc is a link to /data/epyc-that-is-not-mounted, where nothing"):
        use(store)


def test_a_link_to_a_folder_is_followed(store: Store, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(0o700)
    Path(store.folder).symlink_to(tmp_path / "data")
    with store.hold_lock():
        save(store)
    assert [path.name for path in (tmp_path / "data").iterdir()] == [NAME]


def test_a_link_to_itself_is_refused(store: Store) -> None:
    Path(store.folder).symlink_to(store.folder)
    with pytest.raises(TuningError, match=r"cannot be looked at: Too many levels of symbolic links\. Nothing was ch"):
        lock(store)


@pytest.mark.parametrize("use", ALL)
@pytest.mark.parametrize("put", [os.mkfifo, Path.touch], ids=["FIFO", "file"])
def test_what_is_no_folder_is_refused(store: Store, use: Callable[[Store], None], put: Callable[[Path], None]) -> None:
    put(Path(store.folder))
    with pytest.raises(TuningError, match=r"sovereign-epyc is no folder, .* Move it away, and run this again\."):
        use(store)


@pytest.mark.parametrize("use", ALL)
@pytest.mark.parametrize("mode", [0o770, 0o777, 0o702])
def test_a_folder_that_others_may_write_is_refused(
    store: Store, folder: Path, mode: int, use: Callable[[Store], None]
) -> None:
    folder.chmod(mode)
    for asked in (store, Store(str(folder.parents[2]), read_only=True)):
        if asked is store or use is not save:
            with pytest.raises(TuningError, match=rf"mode {mode:04o}, .*'chown root: {folder} && chmod 700 {folder}'"):
                use(asked)
    folder.chmod(0o755)
    use(store)


def test_a_folder_of_somebody_else_is_refused(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks.give_to_somebody(folder, monkeypatch)
    with pytest.raises(TuningError, match=r"sovereign-epyc is of .* and has the mode 0700, so others than root can"):
        lock(store)


def test_a_file_that_others_may_write_is_refused(store: Store, folder: Path) -> None:
    (folder / NAME).chmod(0o666)
    with pytest.raises(TuningError, match=rf"mode 0666, .*chmod 600 {folder / NAME}'"):
        store.load_cache(NAME)


@pytest.mark.parametrize("put", [os.mkfifo, os.mkdir], ids=["FIFO", "folder"])
def test_what_is_no_file_is_damaged(store: Store, folder: Path, put: Callable[[Path], None]) -> None:
    (folder / NAME).unlink()
    put(folder / NAME)
    with pytest.raises(Damaged, match=r"ledger\.json is damaged: it is no ordinary file"):
        load(store)


def test_a_file_that_is_a_link_to_nothing_is_damaged(store: Store, folder: Path) -> None:
    (folder / NAME).unlink()
    (folder / NAME).symlink_to("/nothing")
    with pytest.raises(Damaged, match="it is a link to /nothing, where nothing is"):
        load(store)


LEFT = [f".{name}.{16 * digit}" for name, digit in ((NAME, "0"), ("desired.json", "a"), ("probe", "f"))]


def test_a_run_that_has_the_lock_removes_what_killed_ones_have_left(store: Store, folder: Path) -> None:
    others = ["ledger.json", ".ledger.json.0123", f".{16 * '0'}", f".ledger.json.{16 * 'x'}"]
    for name in (*LEFT, *others):
        (folder / name).touch()
    lock(Store(str(folder.parents[2])))
    assert sorted(path.name for path in folder.iterdir()) == sorted(others)


def test_the_folder_goes_though_a_killed_run_has_left_a_file(store: Store) -> None:
    Path(store.folder).mkdir(0o700)
    for name in LEFT:
        (Path(store.folder) / name).touch()
    with store.hold_lock():
        store.save_document(NAME, {})
        store.remove_file(NAME)
    assert not Path(store.folder).exists()


def test_another_name_that_cannot_be_given_is_told(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks.refuse_changes(monkeypatch, folder, errno.EROFS)
    with pytest.raises(TuningError, match=r"ledger\.json cannot be renamed to x: Read-only file system\. It is as it"):
        store.rename_file(NAME, "x")


def test_a_store_that_cannot_be_written_is_told_before_anything_is(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.require_writable()
    assert [path.name for path in folder.iterdir()] == [NAME]
    disks.refuse_changes(monkeypatch, folder, errno.EROFS)
    with pytest.raises(TuningError, match=r"sovereign-epyc cannot be written: Read-only file system\. Nothing was ch"):
        store.require_writable()


def test_a_check_makes_nothing_to_know_that(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Store(str(folder.parents[2]), read_only=True)
    monkeypatch.setattr(textfile, "require_writable_folder", None)
    check.require_writable()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(TuningError, match=r"sovereign-epyc cannot be written\. Nothing was changed"):
        check.require_writable()
