# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy and keepalived configured in a folder, with a systemd and a HAProxy that only remember."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NewerFormat, NotApplied
from ansible_collections.sovereign.epyc.tests.unit.fakes.distributions import TEXT, Distribution

STATE_LINE = "4 model_chat 1 h1:a 10.9.0.1 2 1 100 100 0 0 0 0 0 0 0 0 - 8081 -"
MODELS = [{"backend": "model_chat", "servers": [{"name": "h1:a", "address": "10.9.0.1:9000"}]}]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    return Distribution(tmp_path, monkeypatch)


def test_haproxy_is_configured_and_restored(distribution: Distribution) -> None:
    before = distribution.files()
    changes = distribution.apply()
    files = distribution.files()
    (key,) = (name for name in files if name.endswith(".key"))
    text = TEXT.replace("<key file>", str(distribution.haproxy / key))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert files["haproxy.cfg"] == (text.replace("<digest>", digest), 0o644)
    assert (files[key], files["haproxy.cfg.before-sovereign-epyc"]) == (("key secret\n", 0o600), before["haproxy.cfg"])
    assert distribution.calls == ["reload"] and distribution.state("loaded") == digest
    assert "secret" not in str(changes.after) and "of the distribution" in str(changes.before)
    again = distribution.apply()
    assert (again.after, distribution.calls, distribution.files()) == ({}, ["reload"], files)
    restored = distribution.service()
    restored.restore_configuration_and_state()
    assert distribution.files() == before and distribution.calls == ["reload", "reload"] and restored.after
    nothing = distribution.service()
    nothing.restore_configuration_and_state()
    assert nothing.after == {}


def test_a_note_of_a_newer_version_is_refused_and_stays(distribution: Distribution) -> None:
    distribution.apply()
    note = Path(distribution.service().note_path)
    note.write_text('{"format": 9}')
    with pytest.raises(NewerFormat, match=f"{note} was written by a newer version"):
        distribution.service().restore_configuration_and_state()
    assert note.read_text() == '{"format": 9}'


def test_a_new_key_has_a_file_of_its_own_and_the_old_file_is_removed(distribution: Distribution) -> None:
    distribution.apply()
    distribution.apply(key="another")
    assert [text for name, (text, dummy) in distribution.files().items() if name.endswith(".key")] == ["key another\n"]
    distribution.apply(key="")
    assert not [name for name in distribution.files() if name.endswith(".key")]


def test_a_check_writes_nothing_and_shows_all(distribution: Distribution) -> None:
    before = distribution.files()
    distribution.set_state(active="inactive", enabled="disabled")
    changes = distribution.apply(check=True)
    assert (distribution.files(), distribution.calls) == (before, [])
    assert {address.rpartition("/")[2] for address in changes.after} >= {"haproxy.cfg", "haproxy:active"}
    distribution.apply()
    before, calls = distribution.files(), list(distribution.calls)
    removal = distribution.service(check=True)
    removal.restore_configuration_and_state()
    assert (distribution.files(), distribution.calls) == (before, calls) and removal.after["haproxy:active"] == "stop"


def test_a_service_that_was_off_is_off_again(distribution: Distribution) -> None:
    (distribution.haproxy / "haproxy.cfg").unlink()
    distribution.set_state(active="inactive", enabled="disabled")
    distribution.apply()
    assert (distribution.state("active"), distribution.state("enabled")) == ("active", "enabled")
    distribution.service().restore_configuration_and_state()
    assert (distribution.state("active"), distribution.state("enabled")) == ("inactive", "disabled")
    assert distribution.files() == {}


def test_a_service_that_ran_and_was_not_enabled_is_so_again(distribution: Distribution) -> None:
    distribution.set_state(enabled="disabled")
    distribution.apply()
    distribution.restore()
    assert (distribution.state("active"), distribution.state("enabled")) == ("active", "disabled")


def test_a_configuration_that_haproxy_refuses_is_not_put_in_place(distribution: Distribution) -> None:
    distribution.apply()
    before = distribution.files()
    with pytest.raises(BadRequest, match="in 'timeout queue'"):
        distribution.apply("no timeout\n")
    assert (distribution.files(), distribution.calls) == (before, ["reload"])


def test_a_reload_without_effect_is_an_error(distribution: Distribution) -> None:
    distribution.reload_works = False
    with pytest.raises(NotApplied, match="journalctl -u haproxy"):
        distribution.apply()
    assert distribution.calls == ["reload", *["sleep"] * 10]


def test_servers_out_of_service_stay_so_at_their_new_ports(distribution: Distribution) -> None:
    state = distribution.haproxy / "sovereign-epyc.state"
    state.write_text(f"1\n{STATE_LINE}\n{STATE_LINE.replace('h1:a', 'h9:a')}\n")
    distribution.apply(models=MODELS)
    assert state.read_text().splitlines()[2:] == [STATE_LINE.replace("8081", "9000")]


def test_the_script_of_the_configuration_from_before_stays_where_this_one_is_refused(
    distribution: Distribution,
) -> None:
    def scripts() -> list[str]:
        return [text for name, (text, dummy) in distribution.files().items() if name.endswith(".script")]

    distribution.apply(f"{TEXT}lua-load <script file>\n", script="one\n")
    before = distribution.files()["haproxy.cfg"]
    assert f"lua-load {distribution.haproxy}/sovereign-epyc-" in before[0] and scripts() == ["one\n"]
    with pytest.raises(BadRequest):
        distribution.apply("no timeout <script file>\n", script="two\n")
    assert distribution.files()["haproxy.cfg"] == before and "one\n" in scripts()
    distribution.apply(f"{TEXT}lua-load <script file>\n", script="three\n")
    assert scripts() == ["three\n"]


def test_keepalived_is_configured_and_removed(distribution: Distribution) -> None:
    distribution.set_state(active="inactive", enabled="disabled")
    before = distribution.files()
    for text in ("one\n", "one\n", "two\n"):
        keepalived = distribution.service("keepalived")
        keepalived.refuse_foreign_keepalived()
        keepalived.apply_configuration(text, script="check\n")
    assert distribution.calls == ["start", "enable", "reload"]
    note = json.loads((distribution.keepalived / "before-sovereign-epyc.json").read_text())
    assert not note["enabled"] and note["loaded"] == hashlib.sha256(b"two\n").hexdigest()
    assert [text for name, text in distribution.files().items() if name.endswith(".script")] == [("check\n", 0o644)]
    distribution.service("keepalived").restore_configuration_and_state()
    assert distribution.files() == before and distribution.calls[3:] == ["stop", "disable"]


def test_a_foreign_configuration_of_keepalived_is_refused(distribution: Distribution) -> None:
    distribution.service("haproxy").refuse_foreign_keepalived()
    distribution.service("keepalived").refuse_foreign_keepalived()
    (distribution.keepalived / "keepalived.conf").write_text("of somebody else\n")
    with pytest.raises(BadRequest, match="not from here"):
        distribution.service("keepalived").refuse_foreign_keepalived()
