# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models in several files and models of a hub, from real servers on the loopback: all or nothing, and no secret."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io import download
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._models import fetch as model_fetch
from ansible_collections.sovereign.epyc.tests.unit.fakes.ggufs import gguf, model, tensor
from ansible_collections.sovereign.epyc.tests.unit.fakes.mirrors import checksum
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
AT = f"/org/name/resolve/{COMMIT}/q4/m-0000%d-of-00002.gguf"
TOKEN = "hf_swordfish"
#: Two small models, and less than half of one.
SOME = 1 << 15
HEAD = gguf(model(), [tensor("a", (24576,), 0, 0)])
ONE, OTHER = HEAD + b"1" * 3 * SOME, HEAD + b"2" * 3 * SOME


class Hub:
    """A hub that redirects to a store of its own, each with its habits, and what fetches two files from it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, server: Server, store: Server) -> None:
        monkeypatch.setattr(download.time, "sleep", lambda dummy: None)
        self.folder, self.server, self.store = folder, server, store
        self.paths = [folder / "models" / f"m-0000{number}-of-00002.gguf" for number in (1, 2)]
        self.parts = [path.with_suffix(".gguf.part") for path in self.paths]
        self.contents = [ONE, OTHER]
        self.linked = {1: checksum(ONE)[7:], 2: checksum(OTHER)[7:]}
        self.private = False
        self.code: str | None = "GatedRepo"
        self.heads = True  # whether the store answers questions without a body
        self.breaks: list[int] = []  # bytes after which the store breaks off its next answers
        server.answer, store.answer = self.redirect, self.send

    def redirect(self, request: BaseHTTPRequestHandler) -> None:
        if self.private and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            more = {"X_Error_Code": self.code} if self.code else {}
            say(request, 401, **more)
            return
        number = int(request.path.partition("m-")[2][:5])
        linked = {"X_Linked_ETag": f'"{self.linked[number]}"'} if number in self.linked else {}
        size = str(len(self.contents[number - 1]))
        say(request, 302, Location=f"{self.store.url}/blob/{number}", X_Linked_Size=size, **linked)

    def send(self, request: BaseHTTPRequestHandler) -> None:
        content = self.contents[int(request.path[-1]) - 1]
        if request.command == "HEAD" and not self.heads:
            say(request, 403)
            return
        begin = int((request.headers.get("Range") or "bytes=0-")[len("bytes=") : -1])
        code, whole = (206, len(content)) if begin else (200, len(content))
        headers = {"ETag": '"x"', "Content_Length": str(whole - begin)}
        if begin:
            headers["Content_Range"] = f"bytes {begin}-{whole - 1}/{whole}"
        body = content[begin:]
        if request.command == "GET" and self.breaks:
            body = body[: self.breaks.pop(0)]
        say(request, code, body, **headers)

    def __call__(self, check: bool = False, **more: Any) -> dict[str, Any]:
        options = {
            "path": str(self.paths[0]),
            "state": "present",
            "url": self.server.url + AT % 1,
            "checksum": [checksum(ONE), checksum(OTHER)],
            "reserve": "1MiB",
            "timeout": 5,
            **more,
        }
        return model_fetch.ensure(options, Store(str(self.folder / "host"), read_only=check), check)

    def refused(self, **more: Any) -> str:
        with pytest.raises(TuningError) as refusal:
            self(**more)
        assert TOKEN not in str(refusal.value)
        return str(refusal.value)

    def fetched(self) -> list[str]:
        return [path for method, path, dummy in self.store.requests if method == "GET"]

    def there(self) -> list[bool]:
        return [path.exists() for path in (*self.paths, *self.parts)]


@contextmanager
def hubs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(say) as server, serving(say) as store:  # type: ignore[arg-type]  # each gets its answers above
        yield Hub(folder, monkeypatch, server, store)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hubs(tmp_path, monkeypatch) as made:
        yield made


# Several files


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
        "import sys; from ansible_collections.sovereign.epyc.plugins.module_utils._models.fetch import ensure;"
        "from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store;"
        "path, url, store, *sums = sys.argv[1:];"
        "ensure(dict(path=path, url=url, checksum=sums, state='present', reserve='1MiB'), Store(store))"
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
        ({"checksum": []}, "url needs the checksum of the file"),
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


# A hub


def test_a_token_goes_to_its_server_alone(hub: Hub, tmp_path: Path) -> None:
    hub.private = True
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    done = hub(token_file=str(file))
    assert not file.exists() and TOKEN not in str(done)
    assert {headers.get("Authorization") for dummy, dummy2, headers in hub.server.requests} == {f"Bearer {TOKEN}"}
    assert hub.fetched() == ["/blob/1", "/blob/2"]
    assert all("Authorization" not in headers for dummy, dummy2, headers in hub.store.requests)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(kept) >= 3 and not any(TOKEN.encode() in one for one in kept)


def test_a_token_follows_on_the_same_server(hub: Hub) -> None:
    """As from the old name of a repository to the new one."""
    hub.private = True
    moved = hub.server.answer
    hub.server.answer = lambda request: (
        say(request, 307, Location=request.path[4:]) if request.path.startswith("/old") else moved(request)
    )
    assert hub(url=f"{hub.server.url}/old{AT % 1}", token=TOKEN)["changed"] is True


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("GatedRepo", "m-00001-of-00002.gguf is gated: accept its licence at {}/org/name and set llama_hub_token to a"),
        (
            "RepoNotFound",
            "the hub answers 401 Unauthorized. Either there is no {}/org/name, so check its name; or it is",
        ),
        (None, "the hub answers 401 Unauthorized. Either there is no {}/org/name, so check its name; or it is"),
    ],
)
def test_a_hub_that_wants_a_token(hub: Hub, code: str | None, words: str) -> None:
    hub.private, hub.code = True, code
    for more in ({}, {"check": True}, {"token": "wrong"}, {"checksum": checksum(ONE)}):
        sentence = hub.refused(**more)
        assert words.format(hub.server.url) in sentence and sentence.count(". ") < 2
    assert hub.store.requests == [] and not any(hub.there())


def test_a_check_sends_no_token(hub: Hub, tmp_path: Path) -> None:
    hub.private = True
    for asked in ({}, {"checksum": "server"}):
        done = hub(check=True, token_file="/run/nothing.token", **asked)
        assert done["changed"] is True and hub.server.requests == [] and list(tmp_path.iterdir()) == []
        assert done["remarks"][0].endswith("in check mode no token is sent, so the server was not asked.")


def test_the_store_behind_a_hub_may_refuse_a_question(hub: Hub) -> None:
    """A signed address is often good for one kind of request; the hub itself says how large the file is."""
    hub.heads = False
    done = hub(check=True)
    assert (done["remarks"], done["size"]) == ([], None)
    assert "does not fit: 199 KiB are needed" in hub.refused(check=True, reserve="900000GiB")


def test_the_word_of_a_hub(hub: Hub) -> None:
    done = hub(checksum="server")
    assert done["checksum"] == [checksum(ONE), checksum(OTHER)]
    assert [path.read_bytes() for path in hub.paths] == hub.contents
    assert f"{checksum(OTHER)} is the word of the server alone. Give it as the checksum" in done["remarks"][1]
    asked = len(hub.server.requests)
    again = hub(checksum="server")
    assert (again["changed"], again["remarks"], len(hub.server.requests)) == (False, [], asked)
    # Another commit is another word.
    other = hub.server.url + (AT % 1).replace("0123", "4567")
    assert hub(checksum="server", url=other)["changed"] is False and len(hub.server.requests) == asked + 2


def test_a_store_that_sends_something_else_than_its_hub_says(hub: Hub) -> None:
    hub.contents = [OTHER, OTHER]
    assert f"has the checksum {checksum(OTHER)}, but {checksum(ONE)} was requested" in hub.refused(checksum="server")
    assert not any(hub.there())


def test_a_hub_that_says_no_checksum(hub: Hub) -> None:
    """And the word of the store behind it is not asked for."""
    hub.linked = {}
    hub.store.answer = lambda request: say(request, 200, ONE, X_Linked_ETag=f'"{checksum(ONE)[7:]}"')
    assert "the server does not say the SHA-256 of" in hub.refused(checksum="server")
    assert not any(hub.there())
