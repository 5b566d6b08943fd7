# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds of llama.cpp that are refused before cmake starts: impossible requests, missing programs, held locks."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.builder import build as llama_build
from ansible_collections.sovereign.epyc.tests.unit.fakes.builders import (
    Builder,
)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"checksum": "md5:d41d8cd98f00b204e9800998ecf8427e"}, "say sha256: and 64 hexadecimal digits"),
        ({"checksum": ""}, "checksum: say which archive it shall be"),
        ({"checksum": f"sha256:{'1' * 64}"}, f"but sha256:{'1' * 64} was requested."),
        ({"archive": "sources.tar.gz"}, "archive: 'sources.tar.gz' is no URL and no whole path"),
        ({"archive": "ftp://127.0.0.1/x"}, "archive: 'ftp://127.0.0.1/x' cannot be fetched"),
        ({"archive": "/nowhere/x"}, "archive: there is no file /nowhere/x on the host"),
        ({"cmake_options": {"-DGGML_NATIVE": True}}, "'-DGGML_NATIVE' is no name of an option; say it without -D"),
        ({"cmake_options": {"A B": True}}, "'A B' is no name of an option"),
        ({"cmake_options": {"A": None}}, "A has no value that cmake takes"),
        ({"cmake_options": {"A": ["x"]}}, "A has no value that cmake takes"),
        ({"cmake_options": {"A": "x\n"}}, "A has no value that cmake takes"),
        ({"cmake_options": {"CMAKE_CXX_COMPILER": "g++-99"}}, "g++-99 cannot be found on the host."),
        ({"jobs": 0}, "jobs: '0' is too few"),
        ({"jobs": -1}, "jobs: '-1' is no whole number"),
        ({"reserve": "much"}, "reserve: 'much' is no amount of memory"),
        ({"reserve": "900000GiB"}, "does not fit: 1 GiB are needed and 900000.0 GiB must stay free"),
    ],
)
def test_what_cannot_be_is_refused_in_a_check_too(builder: Builder, options: dict[str, Any], words: str) -> None:
    for check in (True, False):
        assert words in builder.refused(check=check, **options)


def test_a_folder_that_cannot_be_made_is_named(builder: Builder, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TuningError, match=r"file/builds cannot be written: Not a directory\.$"):
        builder(folder=str(tmp_path / "file/builds"))


def test_a_folder_of_others_is_refused(builder: Builder, tmp_path: Path) -> None:
    """Whoever may write there could put another program in the place of the one that services run."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    said = builder.refused(folder=str(tmp_path / "shared/builds"))
    assert f"folder: others than root may write into {tmp_path}/shared, and services would run" in said
    assert not (tmp_path / "shared/builds").exists()


def test_missing_programs_are_named_with_their_packages(builder: Builder) -> None:
    (builder.programs / "c++").unlink()
    assert builder.refused(cmake_options={}) == (
        "c++ cannot be found on the host. Install it: on Debian and Ubuntu with 'apt install g++'."
    )
    (builder.programs / "cmake").unlink()
    assert "cmake and c++ cannot be found on the host. Install it: on Debian" in builder.refused(check=True)
    assert builder.refused(check=True).endswith("with 'apt install cmake g++'.")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    file = os.open(folder, os.O_RDONLY)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(file)


def test_compilers_of_a_killed_run_are_not_disturbed(builder: Builder) -> None:
    part = Path(builder.build().part)
    part.mkdir(parents=True)
    with held(part), pytest.raises(TuningError, match=r"Another program has held the lock on .*\.part"):
        builder()
    assert part.is_dir()


def test_two_builds_in_a_folder_wait_for_each_other(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = llama_build.hold_file_lock
    monkeypatch.setattr(llama_build, "hold_file_lock", lambda path, name, seconds=0.0: real(path, name, 0.0))
    builder.folder.mkdir()
    with held(builder.folder), pytest.raises(TuningError, match="Another program has held the lock on"):
        builder()
    assert list(builder.folder.iterdir()) == []
