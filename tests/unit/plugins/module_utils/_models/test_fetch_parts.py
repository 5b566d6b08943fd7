# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models in several files, from real servers on the loopback: all files or none, and each from where it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._models import fetch as model_fetch
from ansible_collections.sovereign.epyc.tests.unit.fakes.hubs import AT, ONE, OTHER, SOME, Hub, hubs
from ansible_collections.sovereign.epyc.tests.unit.fakes.mirrors import checksum


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hubs(tmp_path, monkeypatch) as made:
        yield made


def test_all_files_are_one_model(hub: Hub) -> None:
    done = hub()
    assert [path.read_bytes() for path in hub.paths] == hub.contents and hub.there() == [True, True, False, False]
    sums = [checksum(ONE), checksum(OTHER)]
    assert done["diff"]["after"] == {f"model_file:{path}": one for path, one in zip(hub.paths, sums)}
    assert (done["path"], done["size"], done["checksum"]) == (str(hub.paths[0]), len(ONE) + len(OTHER), sums)
    assert (done["downloaded"], done["resumed"], done["remarks"]) == (len(ONE) + len(OTHER), 0, [])
    asked = len(hub.server.requests)
    assert hub()["changed"] is False and len(hub.server.requests) == asked
    hub.paths[1].unlink()
    assert hub()["downloaded"] == len(OTHER) and hub.fetched() == ["/blob/1", "/blob/2", "/blob/2"]


def test_space_is_checked_for_all_before_the_first_byte(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    class Disk:
        f_bavail, f_frsize = 37, SOME

    monkeypatch.setattr(model_fetch.os, "statvfs", lambda dummy: Disk)
    for more in ({}, {"check": True}, {"size": [len(ONE), len(OTHER)]}):
        sentence = hub.refused(**more)
        assert sentence.startswith(f"{hub.paths[0]} with its 1 other files does not fit: 199 KiB are needed and 1 MiB")
    assert hub.fetched() == [] and not hub.paths[0].parent.exists()


def test_each_file_goes_on_where_it_was(hub: Hub) -> None:
    hub.breaks = [SOME, 2 * SOME + 7, len(ONE), SOME, *[0] * 9]
    assert "the next run goes on there" in hub.refused()
    assert hub.there() == [False, False, True, True] and hub.parts[0].read_bytes() == ONE
    hub.breaks = []
    done = hub()
    assert done["resumed"] == len(ONE) + SOME and done["downloaded"] == len(OTHER) - SOME
    assert [path.read_bytes() for path in hub.paths] == hub.contents


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (OTHER[:-9], "is truncated: its tensors need"),
        (ONE, f"m-00002-of-00002.gguf has the checksum {checksum(ONE)}, but {checksum(OTHER)} was requested"),
        (b"<html>" + bytes(99), "It is an HTML or XML page"),
    ],
)
def test_old_files_stay_until_every_new_one_is_right(hub: Hub, second: bytes, words: str) -> None:
    hub.paths[0].parent.mkdir()
    for path in hub.paths:
        path.write_bytes(b"old")
    hub.contents[1] = second
    sentence = hub.refused()
    assert words in sentence and sentence.endswith(f"{hub.paths[1]} is unchanged. The download is removed.")
    assert [path.read_bytes() for path in hub.paths] == [b"old", b"old"]
    assert hub.there() == [True, True, True, False]
    hub.contents[1] = OTHER
    assert hub()["resumed"] == len(ONE) and [path.read_bytes() for path in hub.paths] == hub.contents


def test_a_file_of_another_size_is_refused_before_its_first_byte(hub: Hub) -> None:
    hub.contents[1] = OTHER[:-9]
    size = [len(ONE), len(OTHER)]
    words = (
        f"m-00002-of-00002.gguf has {len(OTHER) - 9} bytes, but {len(OTHER)} are expected: it is truncated, or another"
    )
    assert words in hub.refused(size=size, check=True) and hub.fetched() == []
    assert words in hub.refused(size=size)
    assert hub.there() == [False, False, True, False]


def test_a_run_that_is_killed_leaves_what_it_has(hub: Hub) -> None:
    """A process of its own, killed with its second file half there."""
    program = (
        "import sys;"
        "from ansible_collections.sovereign.epyc.plugins.module_utils._models.fetch import ensure_model_files;"
        "from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store;"
        "path, url, store, *sums = sys.argv[1:];"
        "ensure_model_files(dict(path=path, url=url, checksum=sums, state='present', reserve='1MiB'), Store(store))"
    )
    stopped: list[BaseHTTPRequestHandler] = []
    real = hub.send

    def stuck(request: BaseHTTPRequestHandler) -> None:
        if request.command == "GET" and request.path == "/blob/2":
            request.send_response(200)
            request.send_header("ETag", '"x"')
            request.send_header("Content-Length", str(len(OTHER)))
            request.end_headers()
            request.wfile.write(OTHER[:SOME])
            stopped.append(request)
            request.rfile.read(1)
            return
        real(request)

    hub.store.answer = stuck
    given = [str(hub.paths[0]), hub.server.url + AT % 1, str(hub.folder / "host"), checksum(ONE), checksum(OTHER)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", program, *given], env=environment) as run:
        for dummy in range(1000):
            if stopped and hub.parts[1].exists() and hub.parts[1].stat().st_size == SOME:
                break
            threading.Event().wait(0.02)  # Other pauses are none in these tests.
        run.send_signal(signal.SIGKILL)
    assert hub.there() == [False, False, True, True] and hub.parts[1].stat().st_size == SOME
    hub.store.answer = real
    assert hub()["resumed"] == len(ONE) + SOME and [path.read_bytes() for path in hub.paths] == hub.contents


def test_absent_is_for_all_files(hub: Hub) -> None:
    hub()
    hub.parts[1].write_bytes(b"left")
    done = hub(state="absent", url=None)
    assert done["changed"] is True and not any(hub.there())
    assert hub(state="absent", url=None)["changed"] is False


def test_one_checksum_is_for_one_file(hub: Hub) -> None:
    assert hub(checksum=checksum(ONE))["size"] == len(ONE) and hub.there() == [True, False, False, False]


def test_progress_counts_all_files(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int | None]] = []
    monkeypatch.setattr(model_fetch.Progress, "__call__", lambda self, have, total: told.append((have, total)))
    hub(progress=str(hub.folder / "progress"))
    both = len(ONE) + len(OTHER)
    assert told[-1] == (both, both) and all(total == both for dummy, total in told)
    assert told == sorted(told) and told[0][0] <= len(ONE), "it is told from the first file on"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"checksum": [checksum(ONE)] * 3}, "has 2 files, and 3 are given; give one for each."),
        ({"size": [1]}, "size: "),
        ({"size": [1, -1]}, "size: '-1' is no whole number"),
        ({"path": "/m/x-00002-of-00002.gguf"}, "is not the first of its 2 files; give /m/x-00001-of-00002.gguf."),
        ({"url": "http://127.0.0.1/x.gguf"}, "is not the first of 2 files, as "),
        ({"path": "/m/x.gguf"}, "/m/x.gguf has 1 files, and 2 are given"),
        ({"checksum": [], "url": f"http://h.example.com{AT % 1}"}, "a list with one for each, where HEX is what"),
        ({"checksum": "server", "url": None}, "'server' needs a url"),
        ({"checksum": ["server", checksum(ONE)]}, "'server' stands alone"),
        ({"checksum": "server", "url": "https://h.example.com/o/n/resolve/main/x.gguf"}, "name a commit of 40"),
        ({"checksum": "server", "url": f"http://h.example.com{AT % 1}"}, "must begin with https:// and name a commit"),
        ({"token": "a b"}, "token: it has spaces or other characters"),
        ({"token": "a\nX-Evil: 1"}, "token: it has spaces or other characters"),
        ({"token": "x", "url": f"http://h.example.com{AT % 1}"}, "token: everybody on the way could read it"),
        ({"token_file": "/nowhere"}, "token_file: /nowhere has no token"),
    ],
)
def test_what_cannot_be_asked(hub: Hub, more: dict[str, Any], words: str) -> None:
    assert words in hub.refused(**more)
    assert hub.server.requests == [] and hub.store.requests == []
