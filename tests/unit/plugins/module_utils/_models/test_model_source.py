# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models on a real server on the loopback, of which only the headers are fetched, and what is recommended for them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web import download
from ansible_collections.sovereign.epyc.plugins.module_utils._models import model_source
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend import recommend as recommending
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.recommend.recommend import Request, recommend
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import Server, say, serving
from ansible_collections.sovereign.epyc.tests.unit.fakes.sized_hosts import check_text, check_variables, sized

GIB = 1 << 30
#: A header that says 40 GiB of weights, and its size on the server.
HEAD = ggufs.gguf(
    ggufs.model(block_count=80, context_length=8192), [ggufs.tensor("blk.0.a", (256, 40 * GIB // 144), 12, 0)]
)
SIZE = len(HEAD) + 40 * GIB // 144 * 144
GIVEN = f"sha256:{'0' * 63}1"


class Files:
    """A server of headers, each with the size of its whole file; it sends nothing behind the header."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {"/model.gguf": (HEAD, SIZE)}
        self.ranges = True
        self.says_digest = True

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        if path not in self.files:
            say(request, 404)
            return
        head, size = self.files[path]
        headers = {"ETag": '"one"'}
        if self.says_digest:
            headers["Repr_Digest"] = f"sha-256=:{base64.b64encode(hashlib.sha256(head).digest()).decode()}:"
        if not self.ranges:
            say(request, 200, head, Content_Length=str(size), **headers)
            return
        begin, dummy, end = request.headers["Range"][len("bytes=") :].partition("-")
        stop = min(int(end) + 1, size)
        body = head[int(begin) : stop]
        say(request, 206, body, Content_Range=f"bytes {begin}-{stop - 1}/{size}", **headers)


@pytest.fixture
def files() -> Files:
    return Files()


@pytest.fixture
def server(files: Files) -> Iterator[Server]:
    with serving(files) as server:
        yield server


def read(server: Server, name: str = "model.gguf", *checksums: str) -> model_source.ModelSource:
    return model_source.read_model_and_files_to_fetch(f"{server.url}/{name}", checksums, "/srv/models/", 5)


def refused(server: Server, name: str = "model.gguf", *checksums: str) -> str:
    with pytest.raises(TuningError) as caught:
        read(server, name, *checksums)
    said = str(caught.value)
    assert "\n" not in said and said.endswith(".")
    return said


def digest(head: bytes) -> str:
    return f"sha256:{hashlib.sha256(head).hexdigest()}"


@pytest.mark.parametrize("ranges", [True, False])
def test_the_header_alone_is_fetched(server: Server, files: Files, ranges: bool) -> None:
    files.ranges = ranges
    found = read(server)
    assert found.model.path == "/srv/models/model.gguf"
    assert found.model.to_dict()["tensor_bytes"] == 40 * GIB // 144 * 144
    (file,) = found.files
    assert (file.path, file.url, file.size) == ("/srv/models/model.gguf", f"{server.url}/model.gguf", SIZE)
    assert file.checksum == digest(HEAD)
    assert len(server.requests) == 1


def test_a_model_in_several_files(server: Server, files: Files) -> None:
    """What follows a ? is the same for each; names are read as they are meant."""
    parts = {}
    for number in (1, 2):
        count = [ggufs.entry("split.tensors.count", "i", 2)] if number == 1 else []
        entries = [*(ggufs.model(block_count=2) if number == 1 else []), *count]
        head = ggufs.gguf(entries, [ggufs.tensor(f"t{number}", (256, GIB // 144), 12, 0)])
        parts[f"/a%20b-0000{number}-of-00002.gguf"] = (head, len(head) + GIB)
    files.files = parts
    found = read(server, "a%20b-00001-of-00002.gguf?download=true")
    assert [file.url for file in found.files] == [f"{server.url}{name}?download=true" for name in parts]
    assert [file.path for file in found.files] == [f"/srv/models/a b-0000{number}-of-00002.gguf" for number in (1, 2)]
    assert [part.path for part in found.model.parts] == [file.path for file in found.files]
    assert sum(file.size for file in found.files) > 2 * GIB
    assert "has 2 files, and 1 checksums are given" in refused(server, "a%20b-00001-of-00002.gguf", GIVEN)
    del parts["/a%20b-00002-of-00002.gguf"]
    assert "the server answers 404 Not Found" in refused(server, "a%20b-00001-of-00002.gguf")


def test_a_checksum_that_the_server_does_not_say(server: Server, files: Files) -> None:
    files.says_digest = False
    assert "The server does not say the SHA-256 of" in refused(server)
    assert read(server, "model.gguf", GIVEN).files[0].checksum == GIVEN
    assert "is no checksum; say sha256:" in refused(server, "model.gguf", "md5:1")


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize(
    ("content", "size", "words"),
    [
        (b"<html>no</html>", 15, "/model.gguf is not a GGUF file. It is an HTML or XML page"),
        (HEAD[:200], 200, "/model.gguf is truncated or damaged"),
        (HEAD, len(HEAD) + GIB, "/model.gguf is truncated: its tensors need"),
        (HEAD[:200], SIZE, "/model.gguf cannot be fetched: the connection ended after 200 bytes."),
        (b"", 0, "is empty: check the URL"),
    ],
)
def test_files_that_are_no_models(
    server: Server, files: Files, ranges: bool, content: bytes, size: int, words: str
) -> None:
    files.ranges = ranges and bool(size)
    files.files["/model.gguf"] = (content, size)
    assert words in refused(server)


def test_urls_that_name_no_model(server: Server) -> None:
    assert "it has no such file" in refused(server, "none.gguf")
    assert "does not end in the name of a .gguf file" in refused(server, "model.bin")
    assert server.requests[-1][1] == "/none.gguf"


# What is recommended for them


def recommended(server: Server, root: Path, *names: str, **more: Any) -> dict[str, Any]:
    request = Request(str(root / "models"), 8080, None, 5)
    asked = [{"model": f"{server.url}/{name}", **more} for name in names]
    return recommend(sized("9754"), asked, request, str(root))


@pytest.fixture(autouse=True)
def all_ports_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommending, "require_free_port", lambda fs, options, units: None)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that were asked for of the disk, which has room for all."""
    asked: list[int] = []
    monkeypatch.setattr(recommending, "require_disk_space", lambda path, missing, reserve: asked.append(missing))
    return asked


def test_models_to_fetch(server: Server, tmp_path: Path, room: list[int]) -> None:
    result = recommended(server, tmp_path, "model.gguf")
    check_text(result["text"], result["variables"])
    check_variables(result["variables"])
    path = str(tmp_path / "models/model.gguf")
    assert result["variables"]["epyc_llama_models"] == [
        {"path": path, "url": f"{server.url}/model.gguf", "checksum": digest(HEAD)}
    ]
    assert [one["model"] for one in result["variables"]["epyc_llama_instances"]] == [path]
    assert room == [SIZE]
    assert not (tmp_path / "models").exists()


def test_a_draft_is_fetched_where_it_is_used(server: Server, files: Files, tmp_path: Path, room: list[int]) -> None:
    small = ggufs.gguf(
        ggufs.model(block_count=8, context_length=8192), [ggufs.tensor("blk.0.a", (256, GIB // 144), 12, 0)]
    )
    files.files["/small.gguf"] = (small, len(small) + GIB)
    used = recommended(server, tmp_path, "model.gguf", draft=f"{server.url}/small.gguf")["variables"]
    assert [Path(one["path"]).name for one in used["epyc_llama_models"]] == ["model.gguf", "small.gguf"]
    left = recommended(server, tmp_path, "model.gguf", draft=f"{server.url}/model.gguf")["variables"]
    assert [Path(one["path"]).name for one in left["epyc_llama_models"]] == ["model.gguf"]


def test_two_files_of_one_name(server: Server, files: Files, tmp_path: Path) -> None:
    files.files["/other/model.gguf"] = files.files["/model.gguf"]
    with pytest.raises(TuningError, match=r"model.gguf and .*/other/model.gguf would both be "):
        recommended(server, tmp_path, "model.gguf", "other/model.gguf")


def test_a_disk_without_room(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download.os, "statvfs", lambda folder: SimpleNamespace(f_bavail=40, f_frsize=GIB))
    with pytest.raises(TuningError, match=r"40\.0 GiB are needed and 1 GiB must stay"):
        recommended(server, tmp_path, "model.gguf")
