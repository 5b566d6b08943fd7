# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A hub of models and the store behind it on the loopback, and the fetch of a model in two files from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web import download
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
        return model_fetch.ensure_model_files(options, Store(str(self.folder / "host"), read_only=check), check)

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
