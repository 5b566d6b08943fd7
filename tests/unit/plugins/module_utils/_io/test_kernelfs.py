# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import Absent, Refused, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import kernelfs
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS


@pytest.fixture
def fs(tmp_path: Path) -> KernelFS:
    (tmp_path / "file").write_text("text\n\n")
    (tmp_path / "folder").mkdir()
    return KernelFS(str(tmp_path))


def test_a_text_is_read_without_its_last_newlines(fs: KernelFS) -> None:
    assert fs.read("/file") == "text"


def test_no_more_is_read_than_asked(fs: KernelFS) -> None:
    assert fs.read("/file", limit=2) == "te"


def test_bytes_that_are_no_text_do_not_stop_a_run(fs: KernelFS, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\xffb")
    assert fs.read("/file") == "a\ufffdb"


def test_bytes_are_read_at_an_offset(fs: KernelFS) -> None:
    assert fs.read_at("/file", 1, 2) == b"ex"


def test_without_a_root_paths_are_the_hosts_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    assert KernelFS().read(str(tmp_path / "file")) == "here"


@pytest.mark.parametrize("path", ["/nothing", "/file/nothing"])
def test_what_is_absent_is_said_so(fs: KernelFS, path: str) -> None:
    with pytest.raises(Absent, match=f"Cannot read {path}: "):
        fs.read(path)
    with pytest.raises(Absent):
        fs.read_at(path, 0, 1)
    assert fs.read_if_present(path) is None
    assert fs.list_names(path) == []
    assert not fs.is_dir(path)


def test_a_refused_read_is_never_taken_for_absence(fs: KernelFS) -> None:
    with pytest.raises(Refused, match=r"Cannot read /folder: Is a directory\.") as caught:
        fs.read_if_present("/folder")
    assert caught.value.path == "/folder"
    assert os.strerror(caught.value.errno) == "Is a directory"


def test_a_read_only_kernel_file_is_explained(fs: KernelFS, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_open(*dummy: object) -> int:
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(os, "open", refuse_open)
    with pytest.raises(Refused) as refused:
        fs.write_refusal_errno("/some/file", "?")
    assert str(refused.value) == (
        "Cannot open /some/file: Read-only file system. Kernel files are read-only in a container, because kernel "
        "settings belong to its host."
    )


def test_names_are_sorted(fs: KernelFS) -> None:
    assert fs.list_names("/") == ["file", "folder"]
    assert fs.is_dir("/folder")


def test_writing_changes_bytes_in_place_and_never_truncates(fs: KernelFS, tmp_path: Path) -> None:
    fs.write("/file", "TE")
    assert (tmp_path / "file").read_text() == "TExt\n\n"


def test_writing_never_makes_a_file(fs: KernelFS, tmp_path: Path) -> None:
    with pytest.raises(Absent, match=r"Cannot write 'fff0' to /nothing: No such file"):
        fs.write("/nothing", "fff0\n")
    assert not (tmp_path / "nothing").exists()


def test_a_half_taken_write_is_refused(fs: KernelFS) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        with pytest.raises(Refused, match="/file took only 3 of 4 bytes of 'fff0'"):
            fs.write("/file", "fff0")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_folders_are_made_and_removed(fs: KernelFS, tmp_path: Path) -> None:
    fs.mkdir("/group")
    assert (tmp_path / "group").is_dir()
    fs.rmdir("/group")
    assert not (tmp_path / "group").exists()


def test_a_refused_folder_names_the_cause(fs: KernelFS) -> None:
    with pytest.raises(Refused, match=r"Cannot make /folder: File exists\."):
        fs.mkdir("/folder")
    with pytest.raises(Absent, match=r"Cannot remove /nothing: "):
        fs.rmdir("/nothing")


def test_no_label_is_none(fs: KernelFS) -> None:
    assert fs.read_trusted_attribute("/folder", "sovereign_epyc") is None
    assert fs.read_trusted_attribute("/nothing", "sovereign_epyc") is None


@pytest.mark.parametrize(
    "write",
    [
        lambda fs: fs.write("/file", "new"),
        lambda fs: fs.mkdir("/new"),
        lambda fs: fs.rmdir("/folder"),
        lambda fs: fs.set_trusted_attribute("/folder", "name", "value"),
        lambda fs: fs.mount_filesystem("resctrl", "/folder"),
        lambda fs: fs.unmount_filesystem("/folder"),
    ],
)
def test_a_check_can_write_nothing(fs: KernelFS, write: Callable[[KernelFS], None]) -> None:
    with pytest.raises(TuningError, match="A check tried to write /"):
        write(KernelFS(fs.root, read_only=True))
    assert fs.read("/file") == "text"
    assert fs.list_names("/") == ["file", "folder"]


def test_a_lock_keeps_the_next_one_out_until_it_is_released(fs: KernelFS) -> None:
    again = kernelfs.hold_file_lock(f"{fs.root}/folder", "/folder", timeout=0)
    with fs.hold_lock("/folder"), pytest.raises(TuningError, match="held the lock on /folder"), again:
        pass
    with kernelfs.hold_file_lock(f"{fs.root}/folder", "/folder", timeout=0):
        pass


def test_a_lock_is_released_after_a_failure(fs: KernelFS) -> None:
    with pytest.raises(ZeroDivisionError), fs.hold_lock("/folder"):
        raise ZeroDivisionError
    with kernelfs.hold_file_lock(f"{fs.root}/folder", "/folder", timeout=0):
        pass


def test_a_lock_on_nothing_is_absent(fs: KernelFS) -> None:
    with pytest.raises(Absent, match="Cannot open /nothing"), fs.hold_lock("/nothing"):
        pass
