# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Downloads from a real server on the loopback that end half way, and what is done with the part that is there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web import download, http
from ansible_collections.sovereign.epyc.plugins.module_utils._io.web.download import Download
from ansible_collections.sovereign.epyc.plugins.module_utils._models import fetch as fetching_models
from ansible_collections.sovereign.epyc.tests.unit.fakes.mirrors import (
    MIB,
    ONE,
    OTHER,
    Fetcher,
    fetching,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fetcher]:
    with fetching(tmp_path, monkeypatch) as fetcher:
        yield fetcher


def test_a_broken_connection_is_taken_up_again(fetch: Fetcher) -> None:
    fetch.mirror.breaks_after = [MIB, 0, MIB]
    done = fetch()
    assert fetch.path.read_bytes() == ONE
    assert fetch.ranges() == [None, f"bytes={MIB}-", f"bytes={MIB}-", f"bytes={2 * MIB}-"]
    assert {headers.get("If-Range") for dummy, dummy2, headers in fetch.server.requests[1:]} == {'"one"'}
    assert (done["remarks"], done["downloaded"], done["resumed"]) == ([], len(ONE), 0)


def test_a_later_run_goes_on(fetch: Fetcher) -> None:
    fetch.mirror.breaks_after = [MIB, *[0] * 20]
    assert f"{MIB} bytes stay in {fetch.part}; the next run goes on there." in fetch.refused()
    assert fetch.part.read_bytes() == ONE[:MIB] and not fetch.path.exists()
    del fetch.mirror.breaks_after[:], fetch.server.requests[:]
    done = fetch()
    assert fetch.path.read_bytes() == ONE
    assert fetch.ranges() == [f"bytes={MIB}-"]
    assert (done["resumed"], done["downloaded"]) == (MIB, len(ONE) - MIB)
    assert done["remarks"] == ["Resumed after 1 MiB from an earlier run."]
    assert fetch.known()["parts"] == {}


def test_a_part_that_is_whole_is_not_asked_for(fetch: Fetcher) -> None:
    fetch.leave_part(ONE)
    assert fetch()["downloaded"] == 0
    assert fetch.server.requests == [] and fetch.path.read_bytes() == ONE


@pytest.mark.parametrize(
    ("habit", "remark"),
    [
        ({"headers": {"ETag": '"two"'}}, "the file on the server has changed"),
        ({"ranges": False}, "the server sends no parts of it"),
    ],
)
def test_a_part_of_what_is_no_more_is_thrown_away(fetch: Fetcher, habit: dict[str, Any], remark: str) -> None:
    fetch.leave_part(OTHER[:MIB])
    vars(fetch.mirror).update(habit)
    done = fetch()
    assert fetch.path.read_bytes() == ONE
    assert len(done["remarks"]) == 1 and done["remarks"][0].endswith(f"is fetched from the beginning again: {remark}.")
    assert (done["resumed"], len(fetch.server.requests)) == (0, 1)


def test_a_file_that_changes_while_it_is_fetched(fetch: Fetcher) -> None:
    def change() -> None:
        fetch.mirror.content, fetch.mirror.headers = ONE, {"ETag": '"new"'}

    fetch.mirror.content, fetch.mirror.headers = OTHER, {"ETag": '"old"'}
    fetch.mirror.breaks_after, fetch.mirror.then = [MIB], change
    assert "has changed" in fetch()["remarks"][0]
    assert fetch.path.read_bytes() == ONE


@pytest.mark.parametrize(
    ("old", "new", "remark"),
    [
        ((OTHER, {"ETag": '"old"'}), {"ETag": '"new"'}, "the file on the server has changed"),
        ((OTHER + b"longer", {}), {}, "the server answered with another range than it was asked for"),
    ],
)
def test_the_rest_of_another_file_is_not_appended(
    fetch: Fetcher, old: tuple[bytes, dict[str, str]], new: dict[str, str], remark: str
) -> None:
    """The server ignores If-Range, so it sends the rest of its new file after the start of the old one was fetched."""

    def change() -> None:
        fetch.mirror.content, fetch.mirror.headers = ONE, new

    fetch.mirror.heeds_if_range = False
    fetch.mirror.content, fetch.mirror.headers = old
    fetch.mirror.breaks_after, fetch.mirror.then = [MIB], change
    (found,) = fetch()["remarks"]
    assert found.endswith(f"is fetched from the beginning again: {remark}.")
    assert fetch.path.read_bytes() == ONE
    assert fetch.ranges() == [None, f"bytes={MIB}-", None]


@pytest.mark.parametrize("headers", [{}, {"ETag": 'W/"weak"'}])
def test_without_a_validator_the_checksum_tells(fetch: Fetcher, headers: dict[str, str]) -> None:
    """The server has another file by now and no word for it: the part is thrown away when all of it is there."""
    fetch.leave_part(OTHER[: 2 * MIB], validator=None)
    fetch.mirror.headers = headers
    done = fetch()
    assert fetch.path.read_bytes() == ONE
    assert fetch.ranges() == [f"bytes={2 * MIB}-", None]
    assert done["remarks"][0].endswith("what an earlier run left belongs to another file.")


def test_the_time_of_the_last_change_is_a_validator(fetch: Fetcher) -> None:
    fetch.mirror.headers = {"Last_Modified": "Sat, 01 Aug 2026 00:00:00 GMT"}
    fetch.mirror.breaks_after = [MIB]
    fetch()
    assert fetch.server.requests[1][2]["If-Range"] == "Sat, 01 Aug 2026 00:00:00 GMT"


def test_a_part_of_another_url_is_of_no_known_file(fetch: Fetcher) -> None:
    fetch.leave_part(ONE[:MIB], url="other.gguf")
    fetch()
    assert "If-Range" not in fetch.server.requests[0][2]
    assert fetch.path.read_bytes() == ONE


def test_a_part_that_is_too_large(fetch: Fetcher) -> None:
    fetch.leave_part(ONE + b"more")
    assert "larger than the file" in fetch()["remarks"][0]
    fetch.path.unlink()
    fetch.leave_part(ONE + b"more", url="other.gguf")
    assert "no such range" in fetch()["remarks"][0]
    assert fetch.path.read_bytes() == ONE


def test_a_server_that_never_sends_all(fetch: Fetcher) -> None:
    """It says that there is more than it has, and so the end never comes."""
    fetch.mirror.length = len(ONE) + 5
    fetch.mirror.ranges = False
    assert "it was begun 4 times, because the server sends no parts of it" in fetch.refused()
    assert not fetch.path.exists()


def test_two_runs_do_not_write_into_one_part(fetch: Fetcher) -> None:
    fetch.leave_part(b"")
    with fetch.part.open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "Another run is fetching" in fetch.refused()
        assert fetch.part.exists()
    fetch()


def test_an_answer_in_chunks_has_no_length(fetch: Fetcher) -> None:
    def chunks(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        for at in range(0, len(ONE), MIB):
            piece = ONE[at : at + MIB]
            request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if cut and at:
                cut.clear()
                return
        request.wfile.write(b"0\r\n\r\n")

    cut = [True]
    fetch.server.answer = chunks
    remarks = fetch()["remarks"]
    assert fetch.path.read_bytes() == ONE
    assert any("free space was not checked" in remark for remark in remarks)


def send_chunks(request: BaseHTTPRequestHandler, status: int, content: bytes, **headers: str) -> None:
    """Send content without its length."""
    request.send_response(status)
    for name, value in {**headers, "Transfer-Encoding": "chunked"}.items():
        request.send_header(name.replace("_", "-"), value)
    request.end_headers()
    for at in range(0, len(content), MIB):
        request.wfile.write(b"%x\r\n%s\r\n" % (len(content[at : at + MIB]), content[at : at + MIB]))
    request.wfile.write(b"0\r\n\r\n")


def test_a_part_that_is_longer_than_announced_is_not_written_to_its_end(fetch: Fetcher) -> None:
    fetch.leave_part(ONE[:MIB])
    total = f"bytes {MIB}-{len(ONE) - 1}/{len(ONE)}"
    fetch.server.answer = lambda request: send_chunks(request, 206, ONE[MIB:] + bytes(9 * MIB), Content_Range=total)
    assert f"sends more than the {len(ONE)} bytes that it announced. The part was removed." in fetch.refused()
    assert not fetch.part.exists() and not fetch.path.exists()


def test_a_file_of_unknown_length_leaves_the_reserve_free(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch.server.answer = lambda request: send_chunks(request, 200, ONE)
    monkeypatch.setattr(fetching_models, "count_free_bytes", lambda dummy: 3 * MIB)
    assert f"sends more than the {2 * MIB} bytes that may be written here" in fetch.refused()
    assert not fetch.part.exists() and not fetch.path.exists()
    assert f"sends more than the {MIB} bytes that may be written here" in fetch.refused(size=MIB)


def test_a_server_that_sends_hardly_anything_is_left(fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LEAST_BYTES_SECONDS", -1)
    monkeypatch.setattr(download, "LEAST_BYTES", 1 << 30)
    message = fetch.refused()
    assert "0 bytes came in 0 s. 0 bytes stay in" in message, message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_requests_to_this_host_use_no_proxy(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """A hub token in a request would otherwise go to the proxy."""
    with (
        serving(lambda request: say(request, 200, b"own")) as server,
        serving(lambda request: say(request, 200)) as proxy,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        url = f"http://{host}:{server.url.rpartition(':')[2]}/x"
        with http.open_url(url, 5, {"Authorization": "Bearer secret"}) as response:
            assert response.read() == b"own"
        assert proxy.requests == []
        with http.open_url("http://elsewhere.example.com/x", 5, {}):
            assert len(proxy.requests) == 1


def test_pauses_grow(tmp_path: Path) -> None:
    def broken(request: BaseHTTPRequestHandler) -> None:
        say(request, 503)

    with serving(broken) as server:
        download = Download(f"{server.url}/x", str(tmp_path / "x.part"))
        pauses: list[float] = []
        download.sleep = pauses.append
        with pytest.raises(TuningError):
            download.fetch()
    assert pauses == [2, 4, 8, 16]


@pytest.mark.parametrize("trick", ["symlink", "link"])
def test_a_part_that_is_a_way_to_another_file_is_not_written(fetch: Fetcher, tmp_path: Path, trick: str) -> None:
    victim = tmp_path / "shadow"
    victim.write_bytes(b"root:x")
    fetch.part.parent.mkdir()
    if trick == "symlink":
        fetch.part.symlink_to(victim)
    else:
        os.link(victim, fetch.part)
    assert str(fetch.part) in fetch.refused()
    assert victim.read_bytes() == b"root:x" and not fetch.path.exists()
