# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HAProxy and keepalived configured in a folder, with a systemd and a HAProxy that only remember."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NotApplied
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway import service
from ansible_collections.sovereign.epyc.plugins.module_utils._gateway.service import GatewayService
from ansible_collections.sovereign.epyc.plugins.module_utils._io import command
from ansible_collections.sovereign.epyc.plugins.module_utils._io.command import CommandResult

URL = "http://127.0.0.1:8405/configuration"
TEXT = "string <digest>\nmap_str(<key file>)\n"
STATE_LINE = "4 model_chat 1 h1:a 10.9.0.1 2 1 100 100 0 0 0 0 0 0 0 0 - 8081 -"
MODELS = [{"backend": "model_chat", "servers": [{"name": "h1:a", "address": "10.9.0.1:9000"}]}]


class Distribution:
    """The folder /etc of a host with both packages, and the states of their services."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[str] = []
        self.active, self.enabled, self.loaded = "active", "enabled", ""
        self.haproxy, self.keepalived = root / "etc/haproxy", root / "etc/keepalived"
        for folder in (self.haproxy, self.keepalived):
            folder.mkdir(parents=True)
        (self.haproxy / "haproxy.cfg").write_text("of the distribution\n")
        (self.haproxy / "haproxy.cfg").chmod(0o640)
        self.reload_works = True

    def run_command(self, words: Sequence[str]) -> str:
        if words[1] == "show":
            return f"ActiveState={self.active}\nUnitFileState={self.enabled}\n"
        self.calls.append(words[1])
        if words[1] in ("start", "stop"):
            self.active = "active" if words[1] == "start" else "inactive"
        if words[1] in ("enable", "disable"):
            self.enabled = f"{words[1]}d"
        if words[1] in ("start", "reload") and self.reload_works:
            self.loaded = (self.haproxy / "haproxy.cfg").read_text().partition("\n")[0].removeprefix("string ")
        return ""

    def try_command(self, words: Sequence[str]) -> CommandResult:
        refused = "no timeout" in Path(words[-1]).read_text()
        return CommandResult(int(refused), "", "[ALERT] in 'timeout queue'\n" if refused else "")

    def service(self, name: str = "haproxy", check: bool = False) -> GatewayService:
        return GatewayService(name, check, str(self.root), clock=self)

    def sleep(self, seconds: float) -> None:
        self.calls.append("sleep")

    def apply(self, text: str = TEXT, check: bool = False, **more: Any) -> GatewayService:
        haproxy = self.service(check=check)
        haproxy.apply_configuration(text, **{"key": "secret", "url": URL, **more})
        return haproxy

    def files(self) -> dict[str, tuple[str, int]]:
        paths = [path for path in self.root.rglob("*") if path.is_file()]
        return {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in paths}


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Distribution:
    fake = Distribution(tmp_path)
    monkeypatch.setattr(command, "run_command", fake.run_command)
    monkeypatch.setattr(command, "try_command", fake.try_command)
    monkeypatch.setattr(service, "_fetch_text_from_this_host", lambda url: fake.loaded)
    return fake


def test_haproxy_is_configured_and_restored(distribution: Distribution) -> None:
    before = distribution.files()
    changes = distribution.apply()
    files = distribution.files()
    (key,) = (name for name in files if name.endswith(".key"))
    text = TEXT.replace("<key file>", str(distribution.haproxy / key))
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert files["haproxy.cfg"] == (text.replace("<digest>", digest), 0o644)
    assert (files[key], files["haproxy.cfg.before-sovereign-epyc"]) == (("key secret\n", 0o600), before["haproxy.cfg"])
    assert distribution.calls == ["reload"] and distribution.loaded == digest
    assert "secret" not in str(changes.after) and "of the distribution" in str(changes.before)
    again = distribution.apply()
    assert (again.after, distribution.calls, distribution.files()) == ({}, ["reload"], files)
    restored = distribution.service()
    restored.restore_configuration_and_state()
    assert distribution.files() == before and distribution.calls == ["reload", "reload"] and restored.after
    nothing = distribution.service()
    nothing.restore_configuration_and_state()
    assert nothing.after == {}


def test_a_new_key_has_a_file_of_its_own_and_the_old_file_is_removed(distribution: Distribution) -> None:
    distribution.apply()
    distribution.apply(key="another")
    assert [text for name, (text, dummy) in distribution.files().items() if name.endswith(".key")] == ["key another\n"]
    distribution.apply(key="")
    assert not [name for name in distribution.files() if name.endswith(".key")]


def test_a_check_writes_nothing_and_shows_all(distribution: Distribution) -> None:
    before = distribution.files()
    distribution.active, distribution.enabled = "inactive", "disabled"
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
    distribution.active, distribution.enabled = "inactive", "disabled"
    distribution.apply()
    assert (distribution.active, distribution.enabled) == ("active", "enabled")
    distribution.service().restore_configuration_and_state()
    assert (distribution.active, distribution.enabled, distribution.files()) == ("inactive", "disabled", {})


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
    distribution.active, distribution.enabled = "inactive", "disabled"
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
