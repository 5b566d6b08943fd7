# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stored files of other versions: older formats are read, and newer ones are refused by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._bench.documents import document_shape, run_document
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, Damaged, NewerFormat
from ansible_collections.sovereign.epyc.plugins.module_utils._formats import take_stamp
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import FORMATS, REQUESTS, TRIAL, Store
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs import trial
from ansible_collections.sovereign.epyc.plugins.module_utils._knobs.protocol import ledger, stored_requests
from ansible_collections.sovereign.epyc.plugins.module_utils._notation.shape import Leaf, Nullable
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit.installed import (
    append_digest_line,
    is_unchanged_since_digest,
)
from ansible_collections.sovereign.epyc.plugins.module_utils._version import VERSION

#: What each file may hold in its present format, and a digest of that for the large document of a run.
RECORDED = json.loads((Path(__file__).parents[2] / "data/formats.json").read_text())
NEWER = {"format": 9, "collection": "9.8.7", "what": ["a", "later", "version", "has"]}
REFUSAL = (
    "was written by a newer version of the collection (9.8.7): its format is 9, and this version "
    f"({VERSION}) reads formats up to {{}}. Nothing was changed. Leave the file where it is, and use version 9.8.7 or "
    "a newer one."
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("this-boot\n")
    (tmp_path / "var/lib/sovereign-epyc").mkdir(mode=0o700, parents=True)
    return Store(str(tmp_path))


def fs_of(store: Store) -> KernelFS:
    return KernelFS(str(Path(store.folder).parents[2]))


def end_trial(store: Store) -> None:
    trial.end_trial(store, fs_of(store), lambda: True)


READERS: list[tuple[str, Callable[[Store], object]]] = [
    (REQUESTS, stored_requests.load_stored_requests),
    (REQUESTS, lambda store: ledger.Ledger(store, fs_of(store)).load_originals()),
    *((name, lambda store: ledger.Ledger(store, fs_of(store)).load_originals()) for name in ledger.FILES),
    (TRIAL, end_trial),
    (TRIAL, lambda store: trial.remove_trial_of_earlier_boot(store, fs_of(store))),
]


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_file_of_a_newer_version_is_refused_by_its_name_and_stays(
    store: Store, name: str, read: Callable[[Store], object]
) -> None:
    path = Path(store.file_path(name))
    path.write_text(json.dumps(NEWER))
    with pytest.raises(NewerFormat) as caught:
        read(store)
    assert str(caught.value) == f"{path} {REFUSAL.format(FORMATS.get(name, 1))}"
    assert json.loads(path.read_text()) == NEWER


def test_what_can_be_computed_again_is_then(store: Store) -> None:
    Path(store.file_path("last_run.json")).write_text(json.dumps(NEWER))
    assert store.load_cache("last_run.json") == {}


@pytest.mark.parametrize("version", [None, 5, "1.0\x1b[2J"])
def test_a_version_that_cannot_be_shown_is_left_out(version: Any) -> None:
    with pytest.raises(NewerFormat, match=r"by a newer version of the collection: .* and use the newer version\.$"):
        take_stamp("/x", {"format": 2, "collection": version}, 1)


@pytest.mark.parametrize("number", ["2", 0, -1, True, None, 1.5])
def test_what_is_no_number_is_damage(number: Any) -> None:
    with pytest.raises(Damaged, match="which is no number of a format"):
        take_stamp("/x", {"format": number}, 1)


def test_a_run_of_a_newer_version_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"schema": 3, "collection": "9.8.7"}))
    with pytest.raises(BadRequest, match=r"run: it was written by a newer version of the collection \(9\.8\.7\): its"):
        run_document.load_document(str(path))


def test_older_formats_are_read_and_saved_in_the_present_one(store: Store) -> None:
    """The first versions wrote no number."""
    old = {"intent": {}, "requests": {"sysfs/numa": {"numa_balancing": False}}}
    path = Path(store.file_path(REQUESTS))
    path.write_text(json.dumps(old))
    assert store.has_older_format(REQUESTS) and stored_requests.load_stored_requests(store) == ({}, old["requests"])
    store.save_in_present_format(REQUESTS)
    assert json.loads(path.read_text()) == {"format": 2, "collection": VERSION, **old}
    before = path.stat().st_mtime_ns
    store.save_in_present_format(REQUESTS)
    assert not store.has_older_format(REQUESTS) and path.stat().st_mtime_ns == before


def shape_to_data(shape: Any) -> Any:
    """Return a shape as data in which all that it accepts shows."""
    if isinstance(shape, dict):
        return {key if isinstance(key, str) else "<any>": shape_to_data(inner) for key, inner in shape.items()}
    if isinstance(shape, list):
        return [shape_to_data(inner) for inner in shape]
    if isinstance(shape, Nullable):
        return {"null or": shape_to_data(shape.shape)}
    return shape.words if isinstance(shape, Leaf) else shape.__name__


@pytest.mark.parametrize(
    ("name", "shape"),
    [(REQUESTS, stored_requests.SHAPE), (ledger.FILES[0], ledger.SHAPE), (TRIAL, trial.SHAPE)],
)
def test_another_content_is_another_format(name: str, shape: Any) -> None:
    """Older versions would call a file with another content damaged.

    When this fails, raise the number in FORMATS of store.py, read the old format too, and record the new one here.
    """
    assert [FORMATS.get(name, 1), shape_to_data(shape)] == RECORDED[name]


def test_another_document_of_a_run_is_another_schema() -> None:
    """When this fails, raise MINOR for more fields and SCHEMA for other ones, upgrade old documents, and record it."""
    text = json.dumps(shape_to_data(document_shape.DOCUMENT_SHAPE), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert [document_shape.SCHEMA, document_shape.MINOR, digest] == RECORDED["run document"]


def test_the_digest_of_a_recorded_unit_still_holds() -> None:
    """With another digest, each unit that an older version wrote would count as edited by hand."""
    text = "[Service]\nExecStart=/bin/true\n"
    assert append_digest_line(text) == RECORDED["unit"]
    assert is_unchanged_since_digest(RECORDED["unit"])
