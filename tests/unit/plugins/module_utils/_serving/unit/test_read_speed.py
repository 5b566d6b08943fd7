# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast a file is read, from a real file system."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import read_speed

HERE = Path(__file__).parent


@pytest.fixture
def file() -> Iterator[str]:
    """A file of 33 MiB beside the tests, which are on a disk; the folder for tests may be in memory."""
    path = HERE / f".{os.getpid()}.gguf"
    try:
        path.touch()
        os.truncate(path, (33 << 20) + 3)
        yield str(path)
    finally:
        path.unlink(missing_ok=True)


def test_the_speed_is_what_comes_in_a_time(file: str) -> None:
    """By a clock that goes on by half a second at each look, until two seconds are over."""
    looks = iter(number / 2 for number in range(100))
    found = read_speed.measure_direct_read_speed(file, SimpleNamespace(monotonic=lambda: next(looks)))
    # Five pieces until then.
    assert found == 5 * read_speed.PIECE_BYTES / 3


def test_the_end_of_a_file_is_no_piece_too_few(file: str) -> None:
    found = read_speed.measure_direct_read_speed(file)
    assert found is not None and found > 0


def test_where_nothing_can_be_measured_nothing_is_said(tmp_path: Path) -> None:
    assert read_speed.measure_direct_read_speed(str(tmp_path / "none.gguf")) is None
    assert read_speed.measure_direct_read_speed("/proc/self/status") is None


def test_a_small_file_tells_nothing(file: str) -> None:
    os.truncate(file, 31 << 20)
    assert read_speed.measure_direct_read_speed(file) is None
