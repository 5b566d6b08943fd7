# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Models of a hub that wants a token or says a checksum, from real servers on the loopback: no secret leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.tests.unit.fakes.hubs import AT, ONE, OTHER, TOKEN, Hub, hubs
from ansible_collections.sovereign.epyc.tests.unit.fakes.mirrors import checksum
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hubs(tmp_path, monkeypatch) as made:
        yield made


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
        (
            "GatedRepo",
            "m-00001-of-00002.gguf is gated: accept its licence at {}/org/name and set epyc_llama_hub_token to a",
        ),
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
    assert f"{checksum(OTHER)} is stated by the server of the file alone. Give it as the" in done["remarks"][1]
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
    assert "because its server states no SHA-256 of it. Add the line" in hub.refused(checksum="server")
    assert not any(hub.there())
