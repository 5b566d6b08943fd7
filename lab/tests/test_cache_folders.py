# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of the cache is complete, or it is not there; no QEMU and no guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from vepyc.cache_folders import ensure_folder, replaced_folder


def write_file(folder: Path) -> None:
    (folder / "file").write_text(folder.name)


def fail_halfway(folder: Path) -> None:
    write_file(folder)
    raise ValueError("the network is down")


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize("in_place", [False, True])
def test_a_build_that_failed_is_begun_anew_and_a_complete_one_is_kept(tmp_path: Path, in_place: bool) -> None:
    folder = tmp_path / "venvs/name"
    with pytest.raises(ValueError, match="down"):
        ensure_folder(folder, fail_halfway, in_place)
    assert in_place or list(folder.parent.iterdir()) == []
    assert ensure_folder(folder, write_file, in_place) == folder
    assert (folder / "file").read_text() == ("name" if in_place else "name.building")
    ensure_folder(folder, fail_halfway, in_place)


def test_a_folder_is_replaced_only_by_a_complete_one(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with replaced_folder(tmp_path / "state") as work:
            (work / text).touch()
    with pytest.raises(ValueError, match="down"), replaced_folder(tmp_path / "state") as work:
        fail_halfway(work)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*")] == [Path("state"), Path("state/new")]
