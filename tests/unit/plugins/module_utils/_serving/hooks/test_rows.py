# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model is read onto the nodes of its threads, on the one node of this machine; tests/lab/test_llama.py has four."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._kernel import page_cache
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import cache, cli, rows
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs

ROW = 4096 // 32 * 34
HEIGHT = 2048
PAGES = HEIGHT * ROW // 4096


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of 8.5 MiB, on the disk and not in the page cache."""
    path = tmp_path_factory.mktemp("disk") / "model.gguf"
    content = ggufs.gguf(ggufs.model(block_count=1), [ggufs.tensor("output.weight", (4096, HEIGHT), 8, 0)], 0)
    path.write_bytes(content + os.urandom(HEIGHT * ROW))
    cache.evict_file_from_page_cache(str(path))
    assert not cache.sample_page_cache(str(path)).cached_pages
    return str(path)


def spread(model: str) -> tuple[str, list[str]]:
    told: list[str] = []
    return rows.read_rows_onto_nodes(KernelFS(read_only=True), model, 8, 1, told.append), told


def test_it_is_read_once_and_told(model: str) -> None:
    said, told = spread(model)
    assert said == (
        f"{model}: 100.0 % of 1 large tensors lie on the node of the thread that reads them (100.0 % can, with pages "
        "of 4 KiB)."
    )
    assert told[0].startswith(f"{model}: 1") and told[-1] == f"{model}: 100 % of 8.5 MiB read."
    assert PAGES <= cache.sample_page_cache(str(model)).cached_pages <= PAGES + 3
    said, told = spread(model)
    assert said.startswith(f"{model} is where its threads read it already: 100.0 %") and told == []


def test_what_a_killed_run_has_read_is_not_dropped(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with page_cache.open_with_size(model) as (fd, size):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(fd, size // 2, 0)
    monkeypatch.setattr(cache, "evict_file_from_page_cache", lambda path: pytest.fail(f"{path} was dropped"))
    assert "100.0 % of 1 large" in spread(model)[0]


def test_a_node_with_too_little_memory_is_named(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "read_available_bytes", lambda fs, node: 5 << 20)
    said, told = spread(model)
    assert f"{model} stays where it is: node 0 has 5 MiB available, and 8704 KiB of the rows belong" in said
    assert told == []
    assert cache.sample_page_cache(model).cached_pages < 100, "only its header was read"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TuningError, match="cannot be read"):
        spread(str(tmp_path / "none.gguf"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--threads", "many", "--nodes", "0"], "--threads: 'many' is not a number of threads."),
        (["--threads", "0", "--nodes", "0"], "--threads: '0' is not a number of threads."),
        (["--threads", "8", "--nodes", "9"], "there is no node 9"),
        (["--threads", "8"], "usage:"),
    ],
)
def test_what_its_command_refuses(
    model: str, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run_hook_command(["rows", model, *words]) == 1
    assert sentence in capsys.readouterr().err
