# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Model files from a real server on the loopback: whole ones, refused ones, and what stays of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web import download
from ansible_collections.sovereign.epyc.plugins.module_utils._models import fetch as model_fetch
from ansible_collections.sovereign.epyc.plugins.module_utils._models.fetch import Progress
from ansible_collections.sovereign.epyc.tests.unit.fakes.mirrors import (
    MIB,
    ONE,
    OTHER,
    Fetcher,
    Mirror,
    checksum,
    fetching,
)


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fetcher]:
    with fetching(tmp_path, monkeypatch) as fetcher:
        yield fetcher


# Whole files


def test_a_file_is_fetched_once(fetch: Fetcher) -> None:
    done = fetch()
    assert fetch.path.read_bytes() == ONE and not fetch.part.exists()
    assert fetch.path.stat().st_mode & 0o7777 == 0o644
    assert done.pop("seconds") >= 0
    assert done == {
        "changed": True,
        "diff": {
            "before": {f"model_file:{fetch.path}": None},
            "after": {f"model_file:{fetch.path}": checksum(ONE)},
        },
        "remarks": [],
        "path": str(fetch.path),
        "size": len(ONE),
        "checksum": checksum(ONE),
        "downloaded": len(ONE),
        "resumed": 0,
    }
    again = fetch()
    assert again["changed"] is False and again["downloaded"] == 0
    assert fetch.ranges() == [None]


def test_redirections_are_followed(fetch: Fetcher) -> None:
    fetch(name="moved")
    assert fetch.path.read_bytes() == ONE
    assert [path for dummy, path, dummy2 in fetch.server.requests] == ["/moved", "/model.gguf"]


def test_a_check_writes_nothing_and_says_the_same(fetch: Fetcher) -> None:
    checked = fetch(check=True, mode="0600", owner="0")
    assert list(fetch.folder.iterdir()) == []
    assert [method for method, dummy, dummy2 in fetch.server.requests] == ["HEAD"]
    assert (checked["size"], checked["remarks"]) == (None, [])
    done = fetch(mode="0600", owner="0")
    assert checked["diff"] == done["diff"]
    assert fetch(check=True, mode="0600", owner="0")["changed"] is False


def test_a_check_that_the_server_refuses_is_a_remark(fetch: Fetcher) -> None:
    fetch.mirror.status = 403
    (remark,) = fetch(check=True)["remarks"]
    assert "the server answers 403 Forbidden. This was only a HEAD request" in remark


def test_a_file_is_not_read_anew_while_it_is_the_same(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """Size, time and inode tell; a file with the same of all three and another content is one that nobody made."""
    fetch()
    read: list[str] = []
    real = model_fetch.compute_sha256
    monkeypatch.setattr(model_fetch, "compute_sha256", lambda path: read.append(path) or real(path))  # type: ignore[func-returns-value]
    assert fetch()["changed"] is False and read == []
    os.utime(fetch.path, ns=(1, 1))
    assert fetch()["changed"] is False and len(read) == 1
    assert fetch()["changed"] is False and len(read) == 1
    fetch.path.write_bytes(OTHER)
    done = fetch()
    assert done["diff"]["before"] == {f"model_file:{fetch.path}": checksum(OTHER)} and len(read) == 2
    assert fetch.path.read_bytes() == ONE


def test_a_newer_file_takes_the_place_of_the_old_one_with_its_mode(fetch: Fetcher) -> None:
    fetch()
    fetch.path.chmod(0o640)
    os.chown(fetch.path, 12, 34)
    fetch.mirror.content = OTHER
    assert fetch(wanted=OTHER)["changed"] is True
    found = fetch.path.stat()
    assert fetch.path.read_bytes() == OTHER
    assert (found.st_mode & 0o7777, found.st_uid, found.st_gid) == (0o640, 12, 34)


def test_owner_and_mode_are_set_on_a_file_that_is_there(fetch: Fetcher) -> None:
    fetch()
    done = fetch(mode="0600", owner="12", group="34")
    at = f"model_file:{fetch.path}"
    assert done["diff"] == {
        "before": {f"{at}/owner": str(os.getuid()), f"{at}/group": str(os.getgid()), f"{at}/mode": "0644"},
        "after": {f"{at}/owner": "12", f"{at}/group": "34", f"{at}/mode": "0600"},
    }
    assert fetch(mode="0600", owner="12", group="34")["changed"] is False
    assert fetch(owner="root")["diff"]["after"] == {f"{at}/owner": "0"}
    assert fetch.path.stat().st_mode & 0o7777 == 0o600
    assert fetch(check=True, owner="nobody-of-this-name")["remarks"] == [
        "owner: there is no 'nobody-of-this-name' on this host yet."
    ]
    assert "make it first" in fetch.refused(owner="nobody-of-this-name")


def test_a_file_that_is_there_needs_no_server(fetch: Fetcher) -> None:
    fetch.path.parent.mkdir()
    fetch.path.write_bytes(ONE)
    assert fetch(url=None)["changed"] is False
    assert fetch(url=None, checksum=None)["checksum"] is None
    assert fetch.refused(url=None, wanted=OTHER).endswith(f"but {checksum(OTHER)} was requested.")
    fetch.path.write_bytes(ONE[:-1])
    assert "is truncated: its tensors need 3 MiB" in fetch.refused(url=None, checksum=None)
    assert fetch.server.requests == []


def test_absent(fetch: Fetcher) -> None:
    fetch()
    fetch.part.write_bytes(b"left")
    at = f"model_file:{fetch.path}"
    wanted = {"before": {at: checksum(ONE), f"{at}.part": "a file"}, "after": {at: None, f"{at}.part": None}}
    assert fetch(check=True, state="absent")["diff"] == wanted and fetch.path.exists()
    assert fetch(state="absent")["diff"] == wanted
    assert not fetch.path.exists() and not fetch.part.exists()
    assert fetch.known() == {"files": {}, "parts": {}}
    assert fetch(state="absent")["changed"] is False


# Refusals


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<!DOCTYPE html><html><body>Please log in" + bytes(99), "It is an HTML or XML page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 123456789\n", "a pointer of Git LFS"),
        (ONE[:-1], "is truncated: its tensors need 3 MiB after the header, and 3.0 MiB are there"),
        (b"GG", "something else"),
        (OTHER, f"has the checksum {checksum(OTHER)}, but {checksum(ONE)} was requested"),
    ],
)
@pytest.mark.parametrize("old", [True, False])
def test_what_is_refused_takes_no_place(fetch: Fetcher, content: bytes, words: str, old: bool) -> None:
    fetch.mirror.content = content
    fetch.path.parent.mkdir()
    if old:
        fetch.path.write_bytes(OTHER)
    sentence = fetch.refused()
    assert words in sentence and sentence.endswith("The download is removed.")
    assert not fetch.part.exists() and fetch.path.exists() == old
    assert not old or (fetch.path.read_bytes() == OTHER and f"{fetch.path} is unchanged." in sentence)
    assert fetch.known().get("parts", {}) == {}


def test_a_foreign_file_is_refused_by_its_begin(fetch: Fetcher) -> None:
    """Not after tens of gigabytes: the server would go on for ever."""

    def endless(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(ONE)))
        request.end_headers()
        request.wfile.write(b"PK\3\4" + bytes(MIB))
        sent.append(request.rfile.read(1))  # Waits until the other side hangs up.

    sent: list[bytes] = []
    fetch.server.answer = endless
    assert "a zip archive" in fetch.refused(timeout=30)


@pytest.mark.parametrize(
    ("status", "words", "asked"),
    [
        (404, "the server answers 404 Not Found: it has no such file. Check the URL.", 1),
        (401, "the server answers 401 Unauthorized: it asks for a key. Check the URL.", 1),
        (503, "the server answers 503 Service Unavailable. 5 tries in a row brought nothing.", 5),
    ],
)
def test_a_server_that_refuses(fetch: Fetcher, status: int, words: str, asked: int) -> None:
    fetch.mirror.status = status
    assert words in fetch.refused()
    assert len(fetch.server.requests) == asked and not fetch.part.exists()


def test_a_server_that_says_nothing(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TRIES", 2)  # each is a second
    fetch.server.answer = lambda request: request.rfile.read(1) and None
    assert "timed out" in fetch.refused(timeout=1)
    fetch.server.http.server_close()
    assert "Connection refused" in fetch.refused(url="http://127.0.0.1:9/model.gguf")


def test_a_disk_that_is_too_small(fetch: Fetcher) -> None:
    """Before the first byte; and in check mode too."""
    for check in (False, True):
        sentence = fetch.refused(reserve="900000GiB", check=check)
        assert sentence.startswith(f"{fetch.path} does not fit: 3.0 MiB are needed and 900000.0 GiB must stay free")
    assert not fetch.path.exists() and not fetch.part.exists()


def test_what_fits_only_because_a_part_is_there(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    class Disk:
        f_bavail, f_frsize = 3, MIB

    monkeypatch.setattr(model_fetch.os, "statvfs", lambda dummy: Disk)
    assert "but the file system of" in fetch.refused()
    fetch.leave_part(ONE[: 2 * MIB])
    assert fetch(check=True)["remarks"] == []
    assert fetch()["resumed"] == 2 * MIB


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": "file:///etc/passwd"}, "cannot be fetched; say one that begins with https:// or http://"),
        ({"checksum": None, "url": "http://h.example.com/m.gguf"}, "/m.gguf is not taken without a checksum"),
        ({"checksum": "md5:d41d8cd98f00b204e9800998ecf8427e"}, "say sha256: and 64 hexadecimal digits"),
        ({"checksum": f"sha256:{'g' * 64}"}, "say sha256: and 64 hexadecimal digits"),
        ({"mode": "420"}, "quote it as '0644'"),
        ({"mode": "0888"}, "quote it as '0644'"),
        ({"reserve": "much"}, "reserve: 'much' is no amount of memory"),
        ({"timeout": -1}, "timeout: '-1' is no whole number"),
        ({"path": "/proc"}, "/proc is not a regular file"),
        ({"url": None}, "on the host. Give its url, or copy it there first."),
    ],
)
def test_what_cannot_be_asked(fetch: Fetcher, options: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        fetch(**options)
    assert words in str(refusal.value)
    assert fetch.server.requests == []


# Progress


def test_progress_is_told_in_a_file_and_removed(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fetch.folder / "progress"
    told: list[str] = []
    fetch.mirror.breaks_after = [MIB]
    fetch.mirror.then = lambda: told.append(file.read_text())
    monkeypatch.setattr(model_fetch, "INTERVAL", 0)
    real = Mirror.__call__

    def slowly(request: BaseHTTPRequestHandler) -> None:
        for dummy in range(500):
            if not fetch.mirror.breaks_after and not file.exists():
                time.sleep(0.01)
        told.extend(file.read_text() for dummy in range(not fetch.mirror.breaks_after))
        real(fetch.mirror, request)

    fetch.server.answer, fetch.mirror.then = slowly, lambda: None
    fetch(progress=str(file))
    assert told and told[0].startswith("1 MiB of 3.0 MiB (33 %), ") and not file.exists()


def test_the_progress_of_a_proof_is_told_too(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that came by other ways is read whole, once."""
    told: list[str] = []
    file = fetch.folder / "progress"
    real = Progress.__call__

    def heard(self: Progress, have: int, total: int | None) -> None:
        real(self, have, total)
        told.append(file.read_text() if file.exists() else "")

    monkeypatch.setattr(model_fetch, "INTERVAL", 0)
    monkeypatch.setattr(Progress, "__call__", heard)
    fetch.path.parent.mkdir()
    fetch.path.write_bytes(ONE)
    fetch(check=True, progress=str(file), url=None)
    assert told == []
    fetch(progress=str(file), url=None)
    assert told[0].startswith("1 MiB of 3.0 MiB (33 %), ") and not file.exists()


def test_the_line_of_progress(tmp_path: Path) -> None:
    times = iter([0.0, 1.0, 2.0, 11.0])
    file = tmp_path / "progress"
    tell = Progress(str(file), lambda: next(times))
    tell(10 * MIB, 110 * MIB)
    tell(20 * MIB, 110 * MIB)
    assert not file.exists()
    tell(32 * MIB, 110 * MIB)
    assert file.read_text() == "32 MiB of 110 MiB (29 %), 2 MiB/s, 39 s left\n"
