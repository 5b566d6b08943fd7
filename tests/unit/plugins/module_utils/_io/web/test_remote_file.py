# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The beginning of a file on a real server on the loopback, with range requests and without, and servers that fail."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web import remote_file
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web.http import parse_sha256_header
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web.remote_file import CHUNK, RemoteFile
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving

KIB, MIB = 1 << 10, 1 << 20
CONTENT = bytes(range(256)) * 64 * KIB
HUGE = 400 << 30
DIGEST = hashlib.sha256(CONTENT).digest()


class Mirror:
    """A server of one file of 16 MiB; its habits can be changed."""

    def __init__(self) -> None:
        self.ranges = True
        self.size: int | None = len(CONTENT)
        self.tag = '"one"'
        self.sent = 0
        self.cut: int | None = None  # how many bytes of each answer are sent before the connection ends
        self.begin_off = 0
        self.headers: dict[str, str] = {}

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/moved":
            say(request, 302, Location="/model.gguf", X_Linked_ETag=f'"{DIGEST.hex()}"')
            return
        begin, dummy, end = request.headers.get("Range", "bytes=0-")[len("bytes=") :].partition("-")
        same = request.headers.get("If-Range") in (None, self.tag)
        if not self.ranges or not same:
            request.send_response(200)
            if self.size is not None:
                request.send_header("Content-Length", str(self.size))
            self.body(request, CONTENT)
            return
        at, stop = int(begin), min(int(end) + 1, len(CONTENT))
        request.send_response(206)
        request.send_header("Content-Range", f"bytes {at + self.begin_off}-{stop - 1}/{self.size or '*'}")
        request.send_header("Content-Length", str(stop - at))
        self.body(request, CONTENT[at:stop])

    def body(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        """Send as much of it as the client reads."""
        for name, value in {"ETag": self.tag, **self.headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * KIB)
        for at in range(0, len(body[: self.cut]), 16 * KIB):
            try:
                request.wfile.write(body[: self.cut][at : at + 16 * KIB])
            except OSError:
                return
            self.sent += 16 * KIB


@pytest.fixture
def mirror() -> Mirror:
    return Mirror()


@pytest.fixture
def server(mirror: Mirror) -> Iterator[Server]:
    with serving(mirror) as server:
        yield server


def opened(server: Server, name: str = "model.gguf") -> RemoteFile:
    return RemoteFile(f"{server.url}/{name}", 5)


def refused(server: Server, reach: int = 1) -> str:
    with pytest.raises(TuningError) as caught, opened(server) as file:
        file.read(reach)
    return str(caught.value)


def ranges(server: Server) -> list[str | None]:
    return [headers.get("Range") for dummy, dummy2, headers in server.requests]


def test_parts_grow_as_they_are_asked_for(server: Server) -> None:
    with opened(server) as file:
        assert (file.size, file.read(4), file.received_bytes) == (len(CONTENT), CONTENT[:4], MIB)
        file.seek(MIB, os.SEEK_CUR)
        assert file.read(3) == CONTENT[MIB + 4 :][:3]
        file.seek(4)
        assert file.read(4 * MIB) == CONTENT[4:][: 4 * MIB]
        assert file.received_bytes == 7 * MIB
    assert ranges(server) == [f"bytes=0-{MIB - 1}", f"bytes={MIB}-{3 * MIB - 1}", f"bytes={3 * MIB}-{7 * MIB - 1}"]
    assert [headers.get("If-Range") for dummy, dummy2, headers in server.requests] == [None, '"one"', '"one"']


def test_the_end_of_the_file_ends_it(server: Server) -> None:
    with opened(server) as file:
        file.seek(len(CONTENT) - 2)
        assert file.read(100) == CONTENT[-2:]
        assert file.read(1) == b""


def test_a_server_that_sends_no_parts_is_not_read_to_the_end(server: Server, mirror: Mirror) -> None:
    """It says 400 GiB and would send all it has: the connection ends behind what was asked for."""
    mirror.ranges, mirror.size = False, HUGE
    with opened(server) as file:
        assert (file.size, file.read(100)) == (HUGE, CONTENT[:100])
        assert file.received_bytes <= CHUNK
    assert len(server.requests) == 1
    assert mirror.sent < 4 * MIB


def test_an_answer_that_is_cut_is_taken_up_again(server: Server, mirror: Mirror) -> None:
    mirror.cut = 600 * KIB
    with opened(server) as file:
        assert file.read(2 * MIB) == CONTENT[: 2 * MIB]
    assert ranges(server)[1] == f"bytes={600 * KIB}-{600 * KIB + 2 * MIB - 1}"


@pytest.mark.parametrize(
    ("habit", "words"),
    [
        ({"cut": 0}, "the connection ended after 0 bytes."),
        ({"cut": 0, "ranges": False}, "the connection ended after 0 bytes."),
        ({"begin_off": 1}, "answers with another range than it was asked for."),
        ({"size": None}, "answers with another range than it was asked for."),
        ({"size": None, "ranges": False}, "neither sends parts of a file nor says how large it is."),
        ({"size": 0, "ranges": False}, "is empty: check the URL"),
    ],
)
def test_servers_that_cannot_be_read(server: Server, mirror: Mirror, habit: dict[str, object], words: str) -> None:
    vars(mirror).update(habit)
    said = refused(server)
    assert words in said and server.url in said and said.count("\n") == 0


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_changes_in_between(server: Server, mirror: Mirror, ranges: bool) -> None:
    """With If-Range the server sends the new file, and one that does not know it says its new tag."""
    with opened(server) as file, pytest.raises(TuningError, match="has changed on the server while its header was"):
        mirror.tag, mirror.ranges = '"two"', ranges
        file.read(2 * MIB)


def test_a_tag_that_changes_in_a_part(server: Server, mirror: Mirror) -> None:
    with opened(server) as file, pytest.raises(TuningError, match="has changed on the server while its header was"):
        mirror.headers = {"ETag": '"two"'}
        file.read(2 * MIB)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (401, "the server answers 401 Unauthorized: it asks for a key. Check the URL."),
        (404, "the server answers 404 Not Found: it has no such file. Check the URL."),
        (416, "is empty: check the URL"),
        (500, "the server answers 500 Internal Server Error. Check the URL."),
    ],
)
def test_answers_without_a_file(server: Server, code: int, words: str) -> None:
    server.answer = lambda request: say(request, code)
    assert words in refused(server)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(TuningError, match=r"cannot be fetched: Connection refused\."):
        RemoteFile(f"http://127.0.0.1:{port}/model.gguf")


def test_other_protocols_are_refused() -> None:
    with pytest.raises(TuningError, match="say one that begins with https:// or http://"):
        RemoteFile("file:///etc/passwd")


# The checksum


def test_the_checksum_of_a_redirection(server: Server) -> None:
    """It stands in the answer that redirects, as Hugging Face has it, and not in that of the server it leads to."""
    with opened(server, "moved") as file:
        assert (file.sha256, file.read(4)) == (DIGEST.hex(), CONTENT[:4])


def test_no_checksum_is_said(server: Server) -> None:
    with opened(server) as file:
        assert file.sha256 is None


TEXT = base64.b64encode(DIGEST).decode()


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        ({"Repr-Digest": f"sha-512=:AAAA:, sha-256=:{TEXT}:"}, True),
        ({"Digest": f"SHA-256={TEXT}"}, True),
        ({"X-Linked-ETag": f'"{DIGEST.hex().upper()}"'}, True),
        ({"X-Linked-ETag": '"9eb98c817f04b051b3bcca591bcd4e03cec88018"'}, False),
        ({"Repr-Digest": "sha-256=:not base64:"}, False),
        ({"Repr-Digest": "sha-256=:AAAA:"}, False),
        ({"ETag": f'"{DIGEST.hex()}"'}, False),
    ],
)
def test_where_a_checksum_stands(headers: dict[str, str], right: bool) -> None:
    assert parse_sha256_header(headers) == (DIGEST.hex() if right else None)


def test_a_part_is_no_larger_than_was_asked_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server may send more, and is not read on."""
    monkeypatch.setattr(remote_file, "FIRST", KIB)

    def generous(request: BaseHTTPRequestHandler) -> None:
        say(request, 206, CONTENT, Content_Range=f"bytes 0-{KIB - 1}/{len(CONTENT)}")

    server.answer = generous
    with opened(server) as file:
        assert file.received_bytes == KIB
