# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The originals in two files of which one is enough, and what is said when neither is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.converge import converge_knobs
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.knob import Change, Knob
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.ledger import FILES, Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol.stored_requests import (
    StoredRequests,
    load_stored_requests,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION

BOOT = "first-boot"
RUNNING = {"boot_id": BOOT, "originals": {"x:a": "1"}}
#: What a file may hold after a power cut on a bad disk, an edit by hand, or a program that took it for its own.
DAMAGED = [
    b"",
    b"\x00" * 300,
    b'{"running": {"boot_id": "first-boot", "orig',
    b"[]",
    b"5",
    b"null",
    b'{"running": []}',
    b'{"running": {"originals": {"x:a": 1}}}',
    b'{"lasting": {"x:a": {}}}',
    b'{"lasting": {}, "others": {}}',
    b'{"format": "1"}',
    b"[" * 100_000,
    b"\xff\xfe",
]


class Quiet(Knob):
    """A knob that has what it wants."""

    prefix = "x"

    def wanted_settings(self) -> dict[str, str | None]:
        return {}

    def read_settings(self, addresses: Any) -> dict[str, str | None]:
        return {}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text(f"{BOOT}\n")
    ledger = Ledger(Store(str(tmp_path)), KernelFS(str(tmp_path)))
    with ledger.hold_lock():
        ledger.ensure_files()
        ledger.remember_originals(Quiet(), [Change("x:a", "1", "2")])
    return ledger


def file(ledger: Ledger, turn: int) -> Path:
    return Path(ledger.store.file_path(FILES[turn]))


def test_both_files_hold_the_same(ledger: Ledger) -> None:
    hardware = {"boot_id": BOOT, "originals": {}}
    expected = {"format": 1, "collection": VERSION, "running": RUNNING, "hardware": hardware, "lasting": {}}
    assert json.loads(file(ledger, 0).read_text()) == expected
    assert file(ledger, 1).read_text() == file(ledger, 0).read_text()
    assert ledger.damaged_copy_reason() == ""


@pytest.mark.parametrize("content", [*DAMAGED, None])
def test_one_of_them_is_enough_and_the_next_run_mends_the_other(ledger: Ledger, content: bytes | None) -> None:
    good = file(ledger, 0).read_bytes()
    for turn in (0, 1):
        file(ledger, turn).unlink()
        if content is not None:
            file(ledger, turn).write_bytes(content)
        if content is not None or turn == 0:
            assert str(file(ledger, turn)) in ledger.damaged_copy_reason()
            assert f"{file(ledger, 1 - turn)} has the same" in ledger.damaged_copy_reason()
        assert ledger.load_originals() == {"x:a": "1"}
        converge_knobs([Quiet()], ledger, check=True)
        assert not file(ledger, turn).exists() or file(ledger, turn).read_bytes() == content, "a check mends nothing"
        ledger.ensure_files()
        converge_knobs([Quiet()], Ledger(ledger.store, ledger.fs))
        assert ledger.damaged_copy_reason() == ""
        if content is not None or turn == 0:
            assert file(ledger, turn).read_bytes() == good


@pytest.mark.parametrize("content", DAMAGED)
@pytest.mark.parametrize("check", [True, False])
def test_without_a_whole_one_nothing_is_done_and_none_is_advised_away(
    ledger: Ledger, content: bytes, check: bool
) -> None:
    for turn in (0, 1):
        file(ledger, turn).write_bytes(content)
    with pytest.raises(TuningError, match=r"ledger\.json is damaged: .*Put ledger\.json or ledger\.copy\.json back"):
        converge_knobs([Quiet()], ledger, check=check)
    assert [file(ledger, turn).read_bytes() for turn in (0, 1)] == [content, content]


def test_both_gone_though_requests_are_stored(ledger: Ledger) -> None:
    converge_knobs([StoredRequests(ledger.store, {"x/x": {}})], ledger)
    for turn in (0, 1):
        file(ledger, turn).unlink()
    assert ledger.has_lost_originals()
    with pytest.raises(TuningError, match=r"ledger\.json is gone\. .*there is no whole copy"):
        ledger.load_originals()


class Register(Quiet):
    """A knob of what no kernel resets."""

    outlives_kexec = True


@pytest.mark.parametrize(
    ("loader", "left"),
    [
        ("208", {"r:a": "0"}),  # kexec
        ("114", {}),  # GRUB
        ("", {}),
    ],
)
def test_originals_of_registers_outlive_a_kexec(tmp_path: Path, ledger: Ledger, loader: str, left: Any) -> None:
    """The kernel that comes next finds the registers as they were, and its own settings anew."""
    ledger.remember_originals(Register(), [Change("r:a", "0", "1")])
    assert ledger.load_originals() == {"x:a": "1", "r:a": "0"}
    for boot in ("second-boot", "third-boot"):
        (tmp_path / "proc/sys/kernel/random/boot_id").write_text(f"{boot}\n")
        (tmp_path / "proc/sys/kernel/bootloader_type").write_text(f"{loader}\n")
        later = Ledger(ledger.store, ledger.fs)
        assert later.load_originals() == left
        later.ensure_files()
        later.remember_originals(Register(), [Change("r:a", "1", "0"), Change("r:b", "0", "1")])
        left = {"r:a": "1", **left, "r:b": "0"}
        assert later.load_originals() == left
        left = left if loader == "208" else {}
    later.forget_originals(["r:a", "r:b"])
    assert later.load_originals() == {}


def test_what_an_older_version_wrote_is_read_and_gets_a_copy(ledger: Ledger) -> None:
    for turn in (0, 1):
        file(ledger, turn).unlink()
    file(ledger, 0).write_text(json.dumps({"running": RUNNING, "lasting": {"x:b": None}}))
    ledger = Ledger(ledger.store, ledger.fs)
    assert (ledger.damaged_copy_reason(), ledger.load_originals()) == ("", {"x:a": "1", "x:b": None})
    converge_knobs([StoredRequests(ledger.store, {"x/x": {}})], ledger)
    assert file(ledger, 1).read_text() == file(ledger, 0).read_text()
    assert json.loads(file(ledger, 1).read_text())["format"] == 1


@pytest.fixture
def old_host(tmp_path: Path, ledger: Ledger) -> Ledger:
    """A host of a version that wrote the ledger at the first change of a setting, and changed none."""
    for turn in (0, 1):
        file(ledger, turn).unlink()
    Path(ledger.store.file_path("desired.json")).write_text('{"intent": {}, "requests": {"x/x": {}}}')
    return Ledger(ledger.store, ledger.fs)


def test_a_host_on_which_an_older_version_changed_nothing_has_an_empty_ledger(old_host: Ledger) -> None:
    assert (old_host.load_originals(), old_host.damaged_copy_reason(), old_host.has_lost_originals()) == ({}, "", False)
    converge_knobs([StoredRequests(old_host.store, {"x/x": {}})], old_host)
    assert not file(old_host, 0).exists(), "nothing was stored or changed"


@pytest.mark.parametrize("change", ["stores another request", "changes a setting"])
def test_from_the_first_change_on_its_ledger_can_be_lost(old_host: Ledger, change: str) -> None:
    if change == "changes a setting":
        with old_host.hold_lock():
            old_host.remember_originals(Quiet(), [Change("x:a", "1", "2")])
    else:
        converge_knobs([StoredRequests(old_host.store, {"x/x": {"other": 1}})], old_host)
    assert file(old_host, 0).read_text() == file(old_host, 1).read_text()
    for turn in (0, 1):
        file(old_host, turn).unlink()
    assert Ledger(old_host.store, old_host.fs).has_lost_originals()


def test_the_same_holds_where_an_older_version_left_both_files(ledger: Ledger) -> None:
    Path(ledger.store.file_path("desired.json")).write_text('{"format": 1, "requests": {"x/x": {}}}')
    later = Ledger(ledger.store, ledger.fs)
    later.ensure_files()
    for turn in (0, 1):
        file(ledger, turn).unlink()
    assert later.has_lost_originals()


def test_without_a_ledger_and_with_damaged_requests_it_counts_as_lost(old_host: Ledger) -> None:
    Path(old_host.store.file_path("desired.json")).write_text("{")
    assert old_host.has_lost_originals()


@pytest.mark.parametrize(
    "content",
    [*DAMAGED[:6], b'{"requests": []}', b'{"requests": {"x/x": 5}}', b'{"intent": "none"}', b'{"format": "x"}'],
)
def test_damaged_requests_are_named_and_can_be_made_anew(ledger: Ledger, content: bytes) -> None:
    Path(ledger.store.file_path("desired.json")).write_bytes(content)
    with pytest.raises(TuningError, match=r"desired\.json is damaged: .*Move it away, and run site\.yml"):
        load_stored_requests(ledger.store)


def test_the_last_file_takes_the_folder_along(ledger: Ledger) -> None:
    with ledger.hold_lock():
        ledger.forget_originals(["x:a"])
        ledger.remove_files_if_empty()
    assert not Path(ledger.store.folder).exists()


def test_a_run_that_stores_nothing_leaves_nothing(tmp_path: Path, ledger: Ledger) -> None:
    other = Ledger(Store(str(tmp_path / "other")), ledger.fs)
    converge_knobs([Quiet()], other)
    assert not Path(other.store.folder).exists()
