# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of an instance as they come, change and go, and what is refused before any of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _llama_instance, _units
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, NotApplied, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._host import Host
from ansible_collections.sovereign.epyc.plugins.module_utils._kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._knob import Outcome, converge
from ansible_collections.sovereign.epyc.plugins.module_utils._ledger import Ledger
from ansible_collections.sovereign.epyc.plugins.module_utils._llama_instance import Instance
from ansible_collections.sovereign.epyc.plugins.module_utils._llama_options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._store import Store
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils.systemds import Systemd

MAIN, RPC = "llama-chat.service", "llama-chat-rpc.service"
ASKED = {"name": "chat", "binary": "/opt/llama-server", "model": "/srv/model.gguf"}


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    fake = Systemd(tmp_path, {MAIN: "multi-user.target"})
    monkeypatch.setattr(_units._command, "run", fake.run)
    return fake


def run(systemd: Systemd, texts: dict[str, str], check: bool = False) -> Outcome:
    root = str(systemd.root)
    ledger = Ledger(Store(root, read_only=check), KernelFS(root, read_only=check))
    files = {f"{_units.FOLDER}/{name}": text for name, text in texts.items()}
    return converge([Instance("chat", files, root=root)], ledger, check)


def there(systemd: Systemd) -> dict[str, str]:
    return {path.name: path.read_text() for path in systemd.file(MAIN).parent.glob("*.service")}


def test_it_comes_stays_and_goes(systemd: Systemd) -> None:
    assert run(systemd, {MAIN: "one"}, check=True).diff()["after"] == {
        f"llama:/etc/systemd/system/{MAIN}": "one",
        f"llama:{MAIN}/active": "active",
        f"llama:{MAIN}/enabled": "enabled",
    }
    assert there(systemd) == {}
    run(systemd, {MAIN: "one"})
    assert there(systemd) == {MAIN: "one"} and systemd.active == {MAIN: "active"}
    systemd.asked()
    assert run(systemd, {MAIN: "one"}).changes == [] and systemd.asked() == [f"show {MAIN} {RPC}"]
    run(systemd, {})
    assert there(systemd) == {} and systemd.active == {MAIN: "inactive"}
    assert run(systemd, {}).changes == []


def test_only_what_changed_is_started_again(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one", RPC: "draft"})
    systemd.asked()
    run(systemd, {MAIN: "two", RPC: "draft"})
    assert [call for call in systemd.asked() if "restart" in call] == [f"try-restart {MAIN}"]
    run(systemd, {MAIN: "two", RPC: "other"})
    assert [call for call in systemd.asked() if "restart" in call] == [f"try-restart {RPC}"]


def test_a_draft_that_is_not_wanted_any_more_goes(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one", RPC: "draft"})
    run(systemd, {MAIN: "two"})
    assert there(systemd) == {MAIN: "two"} and systemd.active == {MAIN: "active", RPC: "inactive"}


def test_one_that_does_not_start_leaves_the_one_before(systemd: Systemd) -> None:
    run(systemd, {MAIN: "one"})
    systemd.refuses, systemd.journal = "try-restart", "it has no weights\n"
    with pytest.raises(TuningError, match="The journal ends: it has no weights"):
        run(systemd, {MAIN: "two"})
    assert there(systemd) == {MAIN: "one"}


def test_one_that_ends_at_once_is_a_failure(systemd: Systemd) -> None:
    systemd.breaks = {MAIN}
    with pytest.raises(NotApplied, match=rf"llama:{MAIN}/active: .* wanted 'active', found 'failed'"):
        run(systemd, {MAIN: "one"})
    assert there(systemd) == {}


def test_a_mask_is_replaced_and_never_written_through(systemd: Systemd) -> None:
    behind = systemd.root / "behind"
    behind.write_text("")
    behind.chmod(0o666)
    systemd.file(MAIN).symlink_to(behind)
    run(systemd, {MAIN: "one"})
    assert behind.read_text() == "" and not systemd.file(MAIN).is_symlink()
    assert os.stat(systemd.file(MAIN)).st_mode & 0o777 == 0o644


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which this process listens."""
    server = socket.create_server(("127.0.0.1", 0))
    number: int = server.getsockname()[1]
    with server:
        yield number


def test_a_port_that_another_has_is_refused(port: int) -> None:
    with pytest.raises(BadRequest, match=rf"port {port} of 127\.0\.0\.1 is taken by another program; 'ss -ltnp'"):
        _llama_instance._refuse_a_taken_port(Options.parse({**ASKED, "port": port}), running=False)


def test_a_port_that_the_instance_has_itself_is_not_taken(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options.parse({**ASKED, "port": port})
    monkeypatch.setattr(_llama_instance._textfile, "read", lambda path: f"ExecStart=x --port {port} --slots\n")
    _llama_instance._refuse_a_taken_port(options, running=True)
    monkeypatch.setattr(_llama_instance._textfile, "read", lambda path: "ExecStart=x --port 1 --slots\n")
    with pytest.raises(BadRequest, match="is taken by another program"):
        _llama_instance._refuse_a_taken_port(options, running=True)


def test_an_address_of_another_host_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"host 192\.0\.2\.1: .* Say an address of this host\."):
        _llama_instance._refuse_a_taken_port(Options.parse({**ASKED, "port": 8080, "host": "192.0.2.1"}), False)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"binary": "/usr/bin/false"}, "/usr/bin/false does not answer to --help, exit code 1"),
        ({"binary": "/none"}, "there is no /none"),
        ({"port": 80}, "port is '80'; say a whole number from 1024 to 65535."),
    ],
)
def test_what_cannot_be_is_refused_first(asked: dict[str, object], words: str) -> None:
    with pytest.raises(TuningError) as caught:
        _llama_instance.of_host(Host(KernelFS(read_only=True)), {**ASKED, "port": 8080, **asked})
    assert words in str(caught.value)
