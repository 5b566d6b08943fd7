# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies on a hugetlbfs: what there is room for, on trees; and real copies on one that root mounts."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.safe_open import open_folder
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import stage as staging
from ansible_collections.sovereign.epyc.tests.unit.fakes import hosts

MIB = 1 << 20
PAGE = 2 * MIB
POOL = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
PAGES = 6
#: The mounts of these tests are found by this source in /proc/mounts.
MOUNT_SOURCE = "sovereign-epyc-tests"


# What there is room for


@pytest.fixture
def fs(tmp_path: Path) -> KernelFS:
    """Two nodes with 10 and 4 free pages, of which 2 are promised."""
    tree = hosts.Host(tmp_path)
    tree.put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 14)
    tree.put("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", 2)
    for node, free in ((0, 10), (1, 4)):
        tree.put(f"/sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/free_hugepages", free)
    return tree.fs


@pytest.mark.parametrize(
    ("need", "kind", "nodes", "words"),
    [
        (12, None, (), ""),
        (13, None, (), "1 of them are missing in the pool, 12 are free"),
        (10, "bind", (0,), ""),
        (11, "bind", (0,), "1 of them are missing on nodes 0"),
        (12, "bind", (0, 1), ""),
        (8, "interleave", (0, 1), ""),
        (9, "interleave", (0, 1), "1 of them are missing on node 1"),
        (12, "interleave", (0, 1), "2 of them are missing on node 1"),
        (30, "bind", (0,), "18 of them are missing in the pool, 12 are free; 20 of them are missing on nodes 0"),
        (1, "bind", (7,), "1 of them are missing on nodes 7"),
    ],
)
def test_how_many_pages_are_missing(
    fs: KernelFS, need: int, kind: str | None, nodes: tuple[int, ...], words: str
) -> None:
    assert staging.huge_page_shortage_message(fs, need, 2048, (kind, nodes)) == words


@pytest.mark.parametrize(
    ("kind", "nodes", "found", "right"),
    [
        ("bind", (0,), {0: 8}, True),
        ("bind", (0,), {0: 7, 1: 1}, False),
        ("bind", (0, 1), {0: 7, 1: 1}, True),
        ("interleave", (0, 1), {0: 4, 1: 4}, True),
        ("interleave", (0, 1), {0: 6, 1: 2}, False),
        ("interleave", (0, 1, 2), {0: 3, 1: 3, 2: 2}, True),
        ("interleave", (0, 1), {0: 8}, False),
        (None, (), {3: 8}, True),
        ("bind", (0,), {}, True),  # a kernel without NUMA tells nothing
    ],
)
def test_where_a_copy_may_lie(
    tmp_path: Path, kind: str | None, nodes: tuple[int, ...], found: dict[int, int], right: bool
) -> None:
    (tmp_path / "model.gguf").write_bytes(bytes(8 * 4096))
    with (tmp_path / "model.gguf").open("rb") as file, open_folder(str(tmp_path)) as folder:
        copy = staging.FileCopy(file.name, file.fileno(), folder, 4096)
    if right:
        staging._require_pages_on_policy_nodes(copy, (kind, nodes), found)
        return
    with pytest.raises(NotApplied, match=rf"not staged as {kind} on nodes .* wants it: node 0: "):
        staging._require_pages_on_policy_nodes(copy, (kind, nodes), found)


# Real copies


@pytest.fixture
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A hugetlbfs with a pool of a few pages; the pool is as it was afterwards. Needs root."""
    number = POOL / "nr_hugepages"
    folder = tmp_path_factory.mktemp("huge pages")
    # The pool is the machine's, and tests of several Pythons may run at a time.
    with open(Path(tempfile.gettempdir(), "sovereign-epyc-tests.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _unmount_what_killed_runs_left()
        before = int(number.read_text())
        try:
            number.write_text(str(PAGES))
            assert int(number.read_text()) == PAGES, "pages are in use, or there is no memory for them"
            options = f"pagesize=2M,size={PAGES * PAGE}"
            subprocess.run(["mount", "-t", "hugetlbfs", "-o", options, MOUNT_SOURCE, str(folder)], check=True)
            try:
                yield folder
            finally:
                subprocess.run(["umount", str(folder)], check=True)
        finally:
            number.write_text(str(before))


def _unmount_what_killed_runs_left() -> None:
    """A run that was killed leaves its hugetlbfs mounted, and the files in it hold pages of the pool."""
    for line in Path("/proc/mounts").read_text().splitlines():
        source, path = line.split(" ")[:2]
        if source == MOUNT_SOURCE:
            subprocess.run(["umount", path.replace("\\040", " ")], check=True)


@pytest.fixture
def folder(mounted: Path) -> Iterator[Path]:
    yield mounted
    for file in mounted.iterdir():
        file.unlink()


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that needs three pages and has a bit of the third."""
    model = tmp_path_factory.mktemp("disk") / "model.gguf"
    model.write_bytes(os.urandom(2 * PAGE + 12345))
    os.utime(model, ns=(1, 1_700_000_000_123_456_789))
    model.chmod(0o640)
    os.chown(model, 12, 34)
    return model


NODE = (KernelFS().read_if_present("/sys/devices/system/node/has_memory") or "0")[0]


def stage(*words: object) -> str:
    nodes: staging.Policy = ("bind", (int(NODE),))
    path, folder, *more = words
    return staging.stage_model(KernelFS(read_only=True), str(path), str(folder), nodes, *map(bool, more))


def free() -> int:
    return int((POOL / "free_hugepages").read_text())


def test_a_copy_is_what_its_model_is(folder: Path, model: Path) -> None:
    said = stage(model, folder)
    assert said == (f"{model} is staged in {folder}: 4.0 MiB in 3 pages of 2 MiB (node {NODE}: 3).")
    (copy,) = folder.iterdir()
    found = copy.stat()
    assert copy.name == "model.gguf" and found.st_size == 3 * PAGE
    assert copy.read_bytes() == model.read_bytes() + bytes(PAGE - 12345)
    assert (found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, 12, 34)


def test_the_folder_of_an_instance_is_made_on_a_hugetlbfs_and_nowhere_else(mounted: Path, model: Path) -> None:
    before = os.umask(0o077)
    try:
        stage(model, mounted / "llama-chat")
    finally:
        os.umask(before)
    assert (mounted / "llama-chat" / "model.gguf").exists()
    assert (mounted / "llama-chat").stat().st_mode & 0o777 == 0o755
    with pytest.raises(BadRequest, match="No such file or directory"):
        stage(model, model.parent / "llama-chat")
    assert not (model.parent / "llama-chat").exists()


def test_a_copy_is_made_once(folder: Path, model: Path) -> None:
    stage(model, folder)
    first = (folder / "model.gguf").stat()
    assert stage(model, folder) == f"{model} is staged in {folder} already."
    assert (folder / "model.gguf").stat().st_ino == first.st_ino
    os.utime(model)
    assert "in 3 pages" in stage(model, folder)
    assert (folder / "model.gguf").stat().st_ino != first.st_ino
    assert len(list(folder.iterdir())) == 1


def test_a_copy_is_mapped_in_huge_pages(folder: Path, model: Path) -> None:
    stage(model, folder)
    with (folder / "model.gguf").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        assert memory[:9] == model.read_bytes()[:9]
        smaps = Path("/proc/self/smaps").read_text().partition(f"{folder}/model.gguf")[2]
    assert "KernelPageSize:     2048 kB" in smaps.partition("VmFlags")[0]


def test_interleaved_on_the_nodes_that_there_are(folder: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["llama", "stage", str(model), str(folder), "--policy", "interleave"]) == 0
    assert "pages of 2 MiB (node " in capsys.readouterr().out
    assert _cli.main(["llama", "stage", str(model), str(folder), "--nodes", NODE]) == 0
    assert "already" in capsys.readouterr().out


def test_a_pool_that_is_too_small(folder: Path, model: Path) -> None:
    os.truncate(model, 7 * PAGE)
    before = free()
    with pytest.raises(BadRequest) as refusal:
        stage(model, folder)
    assert f"{model} needs 7 pages of 2 MiB, and {7 - PAGES} of them are missing in the pool" in str(refusal.value)
    assert "Enlarge the pool" in str(refusal.value) and "--replace" not in str(refusal.value)
    assert list(folder.iterdir()) == [] and free() == before


def test_an_older_copy_stays_until_the_new_one_fits(folder: Path, model: Path) -> None:
    stage(model, folder)
    old = (folder / "model.gguf").read_bytes()
    model.write_bytes(os.urandom(4 * PAGE))
    with pytest.raises(BadRequest, match=r"1 of them are missing in the pool, 3 are free.*give --replace to remove"):
        stage(model, folder)
    assert (folder / "model.gguf").read_bytes() == old
    assert "in 4 pages" in stage(model, folder, True)
    assert (folder / "model.gguf").read_bytes() == model.read_bytes()


def test_an_older_copy_that_is_in_use_keeps_its_pages(folder: Path, model: Path) -> None:
    stage(model, folder)
    with (folder / "model.gguf").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
        model.write_bytes(os.urandom(4 * PAGE))
        with pytest.raises(BadRequest, match="keeps its pages even after it was removed"):
            stage(model, folder, True)
    assert "in 4 pages" in stage(model, folder)


def test_a_pool_that_somebody_else_takes_from_meanwhile(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages are counted before; that they are gone a moment later is an error, and not the end of the process."""
    os.truncate(model, 7 * PAGE)
    monkeypatch.setattr(staging, "_require_or_make_space_for_copies", lambda *dummy: None)
    before = free()
    with pytest.raises(TuningError, match=r"No space left on device\. Another process took pages of the pool"):
        stage(model, folder)
    assert list(folder.iterdir()) == [] and free() == before


def test_what_a_killed_run_left_is_in_nobodys_way(folder: Path, model: Path) -> None:
    left = os.open(folder / ".model.gguf.part", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(left, 0, 5 * PAGE)
    os.close(left)
    assert "in 3 pages" in stage(model, folder)
    assert len(list(folder.iterdir())) == 1


def test_a_model_that_changes_while_it_is_staged(folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.posix_fadvise

    def grow(fd: int, at: int, count: int, advice: int) -> None:
        real(fd, at, count, advice)
        with model.open("ab") as file:
            file.write(b"more")

    monkeypatch.setattr(staging.os, "posix_fadvise", grow)
    with pytest.raises(TuningError, match="changed while it was staged"):
        stage(model, folder)
    monkeypatch.setattr(staging.os, "posix_fadvise", lambda *dummy: os.truncate(model, MIB))
    monkeypatch.setattr(staging, "CHUNK", MIB)
    with pytest.raises(TuningError, match="became shorter while it was staged"):
        stage(model, folder)
    assert list(folder.iterdir()) == []


def test_a_file_of_root_in_the_place_of_the_model_gives_nothing_away(
    folder: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner of the models puts a link there while the pages are allocated; size and time can be made the same."""
    secret = model.with_name("shadow")
    secret.write_bytes(b"root:secret" + bytes(2 * PAGE + 12334))
    secret.chmod(0o600)
    os.utime(secret, ns=(1, model.stat().st_mtime_ns))
    content = model.read_bytes()

    def put_a_link(*dummy: object) -> contextlib.AbstractContextManager[None]:
        model.unlink()
        model.symlink_to(secret)
        return contextlib.nullcontext()

    monkeypatch.setattr(staging.page_memory, "memory_policy_in_block", put_a_link)
    stage(model, folder)
    assert (folder / "model.gguf").read_bytes() == content + bytes(PAGE - 12345)
    # The one who puts it there before gets a copy that root alone can read.
    monkeypatch.undo()
    os.utime(secret)
    stage(model, folder)
    found = (folder / "model.gguf").stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.geteuid())


def test_what_is_no_file_is_not_waited_for(folder: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    with pytest.raises(BadRequest, match=r"model\.gguf cannot be staged: It is no regular file\."):
        stage(tmp_path / "model.gguf", folder)


def test_all_files_of_a_model(folder: Path, tmp_path: Path) -> None:
    parts = [tmp_path / f"model-0000{number}-of-00002.gguf" for number in (1, 2)]
    parts[0].write_bytes(b"1" * PAGE)
    with pytest.raises(BadRequest, match=r"model-00002-of-00002\.gguf cannot be staged: No such file"):
        stage(parts[0], folder)
    parts[1].write_bytes(b"2" * (PAGE + 1))
    assert "2.0 MiB in" not in stage(parts[0], folder)
    assert sorted(path.name for path in folder.iterdir()) == [part.name for part in parts]
    (folder / parts[1].name).unlink()
    assert "in 2 pages" in stage(parts[0], folder)
    parts[1].write_bytes(b"")
    with pytest.raises(BadRequest, match="is empty: there is nothing to stage"):
        stage(parts[0], folder)


def test_the_source_does_not_stay_in_the_page_cache(folder: Path, model: Path) -> None:
    from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import cache

    with model.open("rb") as file:
        os.fsync(file.fileno())
    stage(model, folder)
    assert cache.sample_page_cache(str(model)).cached_pages == 0
