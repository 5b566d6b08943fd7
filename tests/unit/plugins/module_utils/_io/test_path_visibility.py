# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which folders a unit must be shown, and what bars its user, in trees with links and closed folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io import path_visibility

ANYONE = None


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with models, of which the sandbox hides HOME; all is open to everyone."""
    monkeypatch.setattr(path_visibility, "HIDDEN", (str(tmp_path / "home"),))
    for folder in ("home/ann/models", "home/ann/hub/snapshots/1", "home/ann/hub/blobs", "srv/closed/models"):
        (tmp_path / folder).mkdir(parents=True)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    return tmp_path


def model(path: Path) -> Path:
    path.write_text("x")
    path.chmod(0o644)
    return path


def shown(tree: Path, path: Path) -> list[str]:
    return [str(Path(folder).relative_to(tree)) for folder in path_visibility.hidden_folders_to_show([str(path)])]


def what_bars(
    tree: Path, path: Path, who: path_visibility.Who = ANYONE, staged: bool = False
) -> tuple[str, str] | None:
    barred = path_visibility.find_access_barrier(str(path), who, staged)
    return barred and (str(Path(barred[0]).relative_to(tree)), barred[1])


def test_a_file_of_a_cache_of_hugging_face_is_shown_with_its_link(tree: Path) -> None:
    model(tree / "home/ann/hub/blobs/abc")
    link = tree / "home/ann/hub/snapshots/1/m.gguf"
    link.symlink_to("../../blobs/abc")
    assert shown(tree, link) == ["home/ann/hub/snapshots/1", "home/ann/hub/blobs"]
    outside = tree / "srv/m.gguf"
    outside.symlink_to(link)
    assert shown(tree, outside) == ["home/ann/hub/snapshots/1", "home/ann/hub/blobs"]
    (tree / "home/ann").chmod(0o700)
    assert what_bars(tree, outside) is None, "systemd makes the folders above what it shows anew"
    (tree / "home/ann/hub/blobs").chmod(0o700)
    assert what_bars(tree, outside) == ("home/ann/hub/blobs", "entered")


def test_a_folder_that_is_a_link_into_a_hidden_one(tree: Path) -> None:
    model(tree / "home/ann/models/m.gguf")
    (tree / "srv/models").symlink_to(tree / "home/ann/models")
    path = tree / "srv/models/m.gguf"
    assert shown(tree, path) == ["home/ann/models"] and what_bars(tree, path) is None
    (tree / "home/all").symlink_to("ann")
    assert what_bars(tree, tree / "home/all/models/m.gguf") is None
    (tree / "srv/far").symlink_to(tree / "home/all/models")
    assert what_bars(tree, tree / "srv/far/m.gguf") == ("home/all", "seen")


def test_a_closed_folder_far_above_is_found(tree: Path) -> None:
    path = model(tree / "srv/closed/models/m.gguf")
    assert what_bars(tree, path) is None and shown(tree, path) == []
    (tree / "srv/closed").chmod(0o750)
    assert what_bars(tree, path) == ("srv/closed", "entered")
    link = tree / "srv/m.gguf"
    link.symlink_to("closed/../closed/./models/m.gguf")
    assert what_bars(tree, link) == ("srv/closed", "entered")
    assert what_bars(tree, path, staged=True) is None, "a copy is read"
    path.chmod(0o600)
    assert what_bars(tree, path, staged=True) == ("srv/closed/models/m.gguf", "read")


def test_what_a_user_and_its_groups_may(tree: Path) -> None:
    path = model(tree / "srv/closed/models/m.gguf")
    found = path.stat()
    path.chmod(0o640)
    for who, may in (
        ((found.st_uid, []), True),
        ((4711, [found.st_gid]), True),
        ((4711, [4711]), False),
        (None, False),
    ):
        assert what_bars(tree, path, who) == (None if may else ("srv/closed/models/m.gguf", "read"))
    path.chmod(0o044)
    assert what_bars(tree, path, (found.st_uid, [])) == ("srv/closed/models/m.gguf", "read")


def test_links_in_a_circle_end(tree: Path) -> None:
    (tree / "home/one").symlink_to("two")
    (tree / "home/two").symlink_to("one")
    assert shown(tree, tree / "home/one") == ["home"]
