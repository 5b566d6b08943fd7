# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A model at a URL without a checksum: taken with the one that a hub states, and remembered; else refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._io.store import Store
from ansible_collections.sovereign.epyc.plugins.module_utils._models import fetch as model_fetch
from ansible_collections.sovereign.epyc.tests.unit.fakes.hubs import AT, ONE, OTHER, Hub, hubs
from ansible_collections.sovereign.epyc.tests.unit.fakes.mirrors import checksum
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say

NONE: dict[str, Any] = {"checksum": None}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hubs(tmp_path, monkeypatch) as one:
        yield one


def find_refusal(hub: Hub, **more: Any) -> str | None:
    options = {"path": str(hub.paths[0]), "url": hub.server.url + AT % 1, "checksum": [], "timeout": 5, **more}
    refusal = model_fetch.fetch_impossible_reason(options, Store(str(hub.folder / "host"), read_only=True))
    assert hub.fetched() == []
    return refusal


def test_what_a_hub_states_is_remembered_and_never_asked_for_again(hub: Hub) -> None:
    done = hub(**NONE)
    assert done["checksum"] == [checksum(ONE), checksum(OTHER)]
    assert [path.read_bytes() for path in hub.paths] == hub.contents
    assert done["remarks"][0].startswith(f"{hub.paths[0]}: {checksum(ONE)} is stated by the server of the file alone.")
    asked = len(hub.server.requests)
    for check in (True, False):
        again = hub(check=check, **NONE)
        assert (again["changed"], again["remarks"], again["checksum"]) == (False, [], done["checksum"])
    assert len(hub.server.requests) == asked


def test_a_check_asks_once_for_each_file_and_writes_nothing(hub: Hub) -> None:
    checked = hub(check=True, **NONE)
    assert checked["diff"]["after"] == {f"model_file:{path}": checksum(c) for path, c in zip(hub.paths, hub.contents)}
    assert [method for method, dummy, dummy2 in hub.server.requests] == ["HEAD", "HEAD"]
    assert list(hub.folder.iterdir()) == []


def test_a_file_that_was_changed_since_is_held_against_what_the_hub_stated_then(hub: Hub) -> None:
    hub(**NONE)
    os.utime(hub.paths[0], ns=(1, 1))
    asked = len(hub.server.requests)
    assert hub(**NONE)["changed"] is False and len(hub.server.requests) == asked
    hub.paths[0].write_bytes(OTHER)
    hub.linked[1] = checksum(OTHER)[7:]
    assert hub(**NONE)["diff"]["before"] == {f"model_file:{hub.paths[0]}": checksum(OTHER)}
    assert hub.paths[0].read_bytes() == ONE


def test_a_file_that_came_by_other_ways_is_taken_as_it_is(hub: Hub) -> None:
    hub.paths[0].parent.mkdir()
    for path, content in zip(hub.paths, hub.contents):
        path.write_bytes(content)
    assert hub(**NONE)["changed"] is False and hub.server.requests == []
    hub.paths[1].write_bytes(OTHER[:-1])
    assert "is truncated" in hub.refused(**NONE)


def test_another_url_is_another_file(hub: Hub) -> None:
    """Also where the file before was fetched with a checksum."""
    hub()
    asked = len(hub.server.requests)
    other = hub.server.url + (AT % 1).replace("0123", "4567")
    hub.contents = [OTHER, ONE]
    hub.linked = {1: checksum(OTHER)[7:], 2: checksum(ONE)[7:]}
    assert hub(url=other, **NONE)["changed"] is True and len(hub.server.requests) > asked
    assert [path.read_bytes() for path in hub.paths] == [OTHER, ONE]


def test_a_store_that_sends_something_else_than_its_hub_states(hub: Hub) -> None:
    hub.contents = [OTHER, OTHER]
    assert f"has the checksum {checksum(OTHER)}, but {checksum(ONE)} was requested" in hub.refused(**NONE)
    assert not any(hub.there())


def test_a_server_that_states_none_is_refused_with_the_line_to_add(hub: Hub) -> None:
    """What the store behind a hub states does not count."""
    hub.linked = {}
    hub.store.answer = lambda request: say(request, 200, ONE, X_Linked_ETag=f'"{checksum(ONE)[7:]}"')
    sentence = (
        f"checksum: {hub.server.url}{AT % 1} is not taken without a checksum, because its server states no SHA-256 of "
        "it. Add the line 'checksum: sha256:HEX', of a model in several files, a list with one for each, where HEX is "
        f"what 'curl -sL {hub.server.url}{AT % 1} | sha256sum' prints."
    )
    assert hub.refused(**NONE) == hub.refused(check=True, **NONE) == find_refusal(hub) == sentence
    assert hub.fetched() == [] and not any(hub.there())


def test_a_server_that_cannot_be_asked_says_why(hub: Hub) -> None:
    hub.server.answer = lambda request: say(request, 503)
    refusal = hub.refused(**NONE)
    words = "because its server cannot be asked for one: the server answers 503 Service Unavailable. Add the line"
    assert words in refusal


def test_no_checksum_is_believed_that_came_over_plain_http(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked at all."""
    monkeypatch.setattr(model_fetch, "fetch_file_headers", lambda *dummy: pytest.fail("it was asked"))
    refusal = find_refusal(hub, url="http://h.example.com/m.gguf", path="/nonexistent/m.gguf")
    assert refusal == (
        "checksum: http://h.example.com/m.gguf is not taken without a checksum, because whoever is on the way of "
        "http:// could state another one. Add the line 'checksum: sha256:HEX', where HEX is what "
        "'curl -sL http://h.example.com/m.gguf | sha256sum' prints."
    )


# The look before the first change


def test_a_look_refuses_what_cannot_be_had_and_reads_no_file_whole(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_refusal(hub) is None
    assert len(hub.server.requests) == 2, "one request for each file"
    assert "does not fit" in str(find_refusal(hub, reserve="900000GiB"))
    missing = find_refusal(hub, url=None)
    assert missing == f"There is no file {hub.paths[0]} on the host. Give its url, or copy it there first."
    monkeypatch.setattr(model_fetch, "compute_sha256", lambda *dummy: pytest.fail("it was read"))
    hub.paths[0].parent.mkdir()
    hub.paths[0].write_bytes(ONE)
    assert find_refusal(hub, checksum=[checksum(OTHER)], url=None) is None, "ensure compares it"
    asked = len(hub.server.requests)
    assert find_refusal(hub, checksum=[checksum(ONE)]) is None and len(hub.server.requests) == asked
    assert not (hub.folder / "host").exists()


def test_a_look_asks_nobody_where_a_token_is_needed(hub: Hub) -> None:
    """The token stays with the controller until something is fetched."""
    hub.private = True
    assert "is gated: accept its licence" in str(find_refusal(hub))
    asked = len(hub.server.requests)
    assert find_refusal(hub, token_file="/run/x.token") is None and len(hub.server.requests) == asked
