# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server of one model file on the loopback, and what fetches the file from it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web import download
from ansible_collections.sovereign.epyc.plugins.module_utils._models import fetch
from ansible_collections.sovereign.epyc.tests.unit.fakes.ggufs import gguf, model, tensor
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving

MIB = 1 << 20


def weights(letter: bytes) -> bytes:
    """A model of 3 MiB, each with other weights."""
    head = gguf(model(), [tensor("a", (786432,), 0, 0)])
    return head + letter * (3 * MIB)


ONE, OTHER = weights(b"1"), weights(b"2")


def checksum(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class Mirror:
    """A server of one file, as its kind does it: with ranges and a validator; each of its habits can be changed."""

    def __init__(self) -> None:
        self.content = ONE
        self.headers = {"ETag": '"one"'}
        self.ranges = True
        self.heeds_if_range = True
        self.breaks_after: list[int] = []  # of each answer in turn, how many bytes before the connection breaks
        self.status = 200
        self.then: Callable[[], None] = lambda: None  # happens when a connection has broken
        self.length: int | None = None

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        if request.path == "/moved":
            say(request, 302, Location="/model.gguf")
            return
        if self.status != 200:
            say(request, self.status, b"<html>no</html>")
            return
        begin, code, body, headers = 0, 200, self.content, dict(self.headers)
        asked = request.headers.get("Range")
        same = not self.heeds_if_range or request.headers.get("If-Range") in (None, *self.headers.values())
        if asked and self.ranges and same:
            begin = int(asked[len("bytes=") : -1])
            if begin >= len(self.content):
                say(request, 416, Content_Range=f"bytes */{len(self.content)}")
                return
            code, body = 206, self.content[begin:]
            headers["Content_Range"] = f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}"
        if self.length is not None:
            headers["Content_Length"] = str(self.length)
        if request.command != "HEAD" and self.breaks_after:
            headers.setdefault("Content_Length", str(len(body)))
            body = body[: self.breaks_after.pop(0)]
            say(request, code, body, **headers)
            self.then()
            return
        say(request, code, body, **headers)


class Fetcher:
    """The options of a file, the store, and the server that it comes from."""

    def __init__(self, folder: Path, mirror: Mirror, server: Server) -> None:
        self.path = folder / "models" / "model.gguf"
        self.part = folder / "models" / "model.gguf.part"
        self.folder = folder
        self.mirror = mirror
        self.server = server
        self.store = Store(str(folder / "host"))

    def __call__(
        self, check: bool = False, name: str = "model.gguf", wanted: bytes = ONE, **more: Any
    ) -> dict[str, Any]:
        options = {
            "path": str(self.path),
            "state": "present",
            "url": f"{self.server.url}/{name}",
            "checksum": checksum(wanted),
            "reserve": "1MiB",
            "timeout": 5,
            **more,
        }
        return fetch.ensure_model_files(options, Store(str(self.folder / "host"), read_only=check), check)

    def refused(self, **more: Any) -> str:
        with pytest.raises(TuningError) as refusal:
            self(**more)
        return str(refusal.value)

    def ranges(self) -> list[str | None]:
        """What was asked for in each request."""
        return [headers.get("Range") for dummy, dummy2, headers in self.server.requests]

    def known(self) -> dict[str, Any]:
        return self.store.load_document("model_files.json")

    def leave_part(self, content: bytes, validator: str | None = '"one"', url: str = "model.gguf") -> None:
        """Leave the partial file and the note of a run that was interrupted."""
        self.part.parent.mkdir(exist_ok=True)
        self.part.write_bytes(content)
        facts = {"url": f"{self.server.url}/{url}", "size": len(ONE), "validator": validator}
        self.store.save_document("model_files.json", {"parts": {str(self.path): facts}})


@contextmanager
def fetching(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fetcher]:
    """Fetch from a mirror without pauses."""
    monkeypatch.setattr(download.time, "sleep", lambda dummy: None)
    mirror = Mirror()
    with serving(mirror) as server:
        yield Fetcher(folder, mirror, server)
