# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files in folders of others: which links are followed, what is no file, and which folders others may write."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import safe_open, textfile

NOBODY = 65534


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The folder of another user."""
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    return folder


@pytest.mark.parametrize("of_root", [True, False])
def test_a_link_is_followed_where_root_alone_can_have_put_it(of_root: bool, tmp_path: Path, shared: Path) -> None:
    """Its owner could otherwise have root write into any folder of the host."""
    (tmp_path / "target").mkdir()
    link = (tmp_path if of_root else shared) / "link"
    link.symlink_to(tmp_path / "target")
    path = link / "deeper" / "node.prom"
    if of_root:
        textfile.write_file(str(path), "text")
        assert (tmp_path / "target/deeper/node.prom").read_text() == "text"
        textfile.remove_file(str(path))
    else:
        with pytest.raises(TuningError, match=r"cannot be written: link is a link, in a folder that others may write"):
            textfile.write_file(str(path), "text")
        (tmp_path / "target/node.prom").write_text("of root")
        with pytest.raises(TuningError, match="cannot be removed: link is a link"):
            textfile.remove_file(str(link / "node.prom"))
        with pytest.raises(TuningError, match="cannot be renamed"):
            textfile.rename_file(str(link / "node.prom"), str(link / "more"))
        assert [file.name for file in (tmp_path / "target").iterdir()] == ["node.prom"]


def test_root_removes_no_folder_behind_a_link_of_another_user(tmp_path: Path, shared: Path) -> None:
    """The user of a service, by a process of his own, puts a link in the place of his folder."""
    victim, path = tmp_path / "root/llama-chat", shared / "state/llama-chat"
    victim.mkdir(parents=True)
    (victim / "file").touch()
    for folder in tmp_path.parents:  # The other user reaches his folder.
        if folder.stat().st_mode & 0o001 == 0 and folder.name.startswith("pytest"):
            folder.chmod(0o711)
    tmp_path.chmod(0o711)
    subprocess.run(["ln", "-s", victim.parent, shared / "state"], check=True, user=NOBODY, group=NOBODY)
    safe_open.remove_folder_or_link(str(path))
    assert (victim / "file").exists()
    subprocess.run(["rm", shared / "state"], check=True, user=NOBODY, group=NOBODY)
    subprocess.run(["mkdir", "-p", path], check=True, user=NOBODY, group=NOBODY)
    subprocess.run(["ln", "-s", victim, path / "inside"], check=True, user=NOBODY, group=NOBODY)
    safe_open.remove_folder_or_link(str(path))
    assert not path.exists() and (victim / "file").exists()
    subprocess.run(["ln", "-s", victim, path], check=True, user=NOBODY, group=NOBODY)
    safe_open.remove_folder_or_link(str(path))
    assert not path.is_symlink() and (victim / "file").exists()
    safe_open.remove_folder_or_link(str(path))


def test_links_are_followed_as_the_kernel_does(tmp_path: Path) -> None:
    """A relative one, one that goes up, one of root's in /tmp, and one that leads to itself."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "up").symlink_to("a/../a/b")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    (tmp_path / "tmp/ours").symlink_to("../up")
    with safe_open.open_folder(str(tmp_path / "tmp/ours")) as folder:
        assert os.fstat(folder.descriptor).st_ino == (tmp_path / "a/b").stat().st_ino
    with pytest.raises(OSError, match="Too many levels"), safe_open.open_folder(str(tmp_path / "loop")):
        pass
    os.lchown(tmp_path / "tmp/ours", NOBODY, NOBODY)
    with pytest.raises(OSError, match="ours is a link"), safe_open.open_folder(str(tmp_path / "tmp/ours")):
        pass


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_file_is_not_read(kind: str, tmp_path: Path) -> None:
    """Red without O_NONBLOCK: a FIFO blocks until another process opens its other end."""
    path = tmp_path / "x.prom"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(TuningError, match=r"x\.prom cannot be read: (It is no regular file|Is a directory)\."):
        textfile.read_text(str(path))


def test_a_masked_unit_is_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "unit").symlink_to("/dev/null")
    assert textfile.read_text(str(tmp_path / "unit")) == ""


def test_folders_that_others_may_write(tmp_path: Path, shared: Path) -> None:
    assert safe_open.find_folder_others_can_write(str(tmp_path / "new/builds")) is None
    assert safe_open.find_folder_others_can_write(str(shared / "new/builds")) == str(shared)
    os.chown(shared, 0, 0)
    shared.chmod(0o775)
    assert safe_open.find_folder_others_can_write(str(shared)) == str(shared)
    shared.chmod(0o1777)
    assert safe_open.find_folder_others_can_write(str(shared / "builds")) is None
