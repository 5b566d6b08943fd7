# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new version beside the running one: its plan and its units; tests/service/test_llama_updates.py starts some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest, TuningError
from ansible_collections.sovereign.epyc.plugins.module_utils._io.paths import UNIT_FOLDER
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.catalogue import LLAMA
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.llama_cpp.engine import LlamaEngine
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.options.options import Options
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.plan.memory.free_memory import FreeMemory
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import shared_host as planning
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.unit import start_first
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.update import handover
from ansible_collections.sovereign.epyc.tests.unit.fakes import ggufs
from ansible_collections.sovereign.epyc.tests.unit.fakes.llama_plans import GB, NEW, machine
from ansible_collections.sovereign.epyc.tests.unit.plugins.module_utils._serving.unit.test_unit_files import service

RUNS = {"expect": {"nodes": "0"}, "mapped": []}


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(ggufs.written(tmp_path / "m.gguf", 40 * GB).path)


def asked(model: str, **more: Any) -> dict[str, Any]:
    return {
        "name": "chat",
        "binary": "/opt/llama-server",
        "model": model,
        "port": 8080,
        "prompt_cache": "0MiB",
        "cpus": "1-15",
        **more,
    }


def room(monkeypatch: pytest.MonkeyPatch, gigabytes: int) -> None:
    monkeypatch.setattr(
        planning.free_memory, "read_free_and_staged_memory", lambda *dummy: FreeMemory({0: gigabytes * GB})
    )


def test_it_is_the_same_instance_under_another_name(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 50)
    raw = asked(model, host="0.0.0.0", watchdog=60, context=512)
    found = start_first.plan_temporary_instance(LlamaEngine(), machine("9754"), raw, NEW, [], [], RUNS)
    options = found.options
    assert (found.unit, options.host, options.watchdog, options.context) == (
        "llama-chat-next.service",
        "0.0.0.0",
        None,
        512,
    )
    assert options.port != 8080 and raw["name"] == "chat"
    assert len(start_first.temporary_instance_name("x" * 40)) == 40


def test_what_runs_needs_its_file_too(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel calls pages of files available, and these are in use."""
    other = str(ggufs.written(tmp_path / "other.gguf", 30 * GB).path)
    room(monkeypatch, 60)
    start_first.plan_temporary_instance(
        LlamaEngine(), machine("9754"), asked(model), NEW, [], [], {**RUNS, "mapped": [model]}
    )
    with pytest.raises(BadRequest, match="The instance needs"):
        start_first.plan_temporary_instance(
            LlamaEngine(), machine("9754"), asked(model), NEW, [], [], {**RUNS, "mapped": [other]}
        )
    start_first.plan_temporary_instance(
        LlamaEngine(), machine("9754"), asked(model), NEW, [({0: 30 * GB}, {})], [], {**RUNS, "mapped": [other]}
    )


def test_the_temporary_instance_keeps_no_prompts(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room(monkeypatch, 50)
    raw = asked(model, slot_files="1GiB")
    found = start_first.plan_temporary_instance(LlamaEngine(), machine("9754"), raw, NEW, [], [], RUNS)
    assert found.options.slot_files is None and raw["slot_files"] == "1GiB"


MAIN = f"{UNIT_FOLDER}/llama-chat-next.service"
TEXT = """\
[Service]
ExecStart=/opt/llama-server
ExecStartPost=/usr/sbin/sovereign-epyc llama await http://127.0.0.1:41000 --timeout 9
ExecStartPost=-+/usr/sbin/sovereign-epyc llama home $MAINPID --cpus 0
ExecStop=-/usr/sbin/sovereign-epyc llama drain http://127.0.0.1:41000 --timeout 9
"""
SERVES = "ExecStartPost={ path=a ; code=exited ; status=0 }\nExecStartPost={ path=b ; code=exited ; status=1 }\n"


class Systemd:
    """Notes what is asked of it; ``shown`` is what it shows of the temporary unit."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown = f"{SERVES}ActiveState=active\n"
        self.real_state = "active"
        self.calls: list[str] = []
        self.root = str(root)
        self.folder = root / "run/systemd/system"
        put = monkeypatch.setattr
        put(start_first, "run_systemctl", lambda verb, units, *more: self.calls.append(" ".join([verb, *units])))
        put(start_first.command, "run_command", self.run_command)
        put(start_first, "add_journal_to_error", lambda error, units: error)
        put(start_first, "read_unit_properties", lambda units: {units[0]: {"ActiveState": self.real_state}})

    def run_command(self, words: list[str]) -> str:
        return self.shown if "show" in words else ""

    def drop_in(self) -> str:
        return (self.folder / "llama-chat-next.service.d/temporary.conf").read_text()


class Redirection(handover.Handover):
    """A handover that is only noted."""

    def __init__(self, systemd: Systemd) -> None:
        super().__init__("chat", "127.0.0.1", 8080, 41000)
        self.systemd = systemd

    def redirect_new_connections(self) -> None:
        self.systemd.calls.append("redirect")


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    monkeypatch.setattr(handover, "find_nft_program", lambda: "/usr/sbin/nft")
    return Systemd(tmp_path, monkeypatch)


def next_server(systemd: Systemd, hands_over: bool = True) -> start_first.NextServer:
    plan = service(name="chat-next", drain_timeout=20, stop_timeout=5, start_timeout=100)
    return start_first.NextServer(plan, {MAIN: TEXT}, LLAMA, Redirection(systemd) if hands_over else None, systemd.root)


def test_the_temporary_server_gets_new_connections_from_start_to_end(systemd: Systemd) -> None:
    server = next_server(systemd)
    server.start_and_redirect_new_connections()
    assert systemd.calls == ["restart llama-chat-next.service", "redirect"] and server.is_running
    server.end_after_its_last_request()
    assert systemd.calls[2:] == ["stop llama-chat-next.service", "reset-failed llama-chat-next.service"]
    assert list(systemd.folder.iterdir()) == []
    server.end_after_its_last_request()
    assert len(systemd.calls) == 4, "it has ended"


def test_the_unit_of_a_temporary_server_ends_by_itself_and_takes_the_redirection_along(systemd: Systemd) -> None:
    next_server(systemd).start_and_redirect_new_connections()
    lines = systemd.drop_in().splitlines()
    assert "RuntimeMaxSec=285" in lines, "a drain, a stop, and two starts"
    first, drain, last = (line for line in lines if line.startswith("ExecStop") and "=-" in line)
    assert first.startswith("ExecStop=-+/usr/sbin/nft") and "flush chain inet sovereign-epyc-chat" in first
    assert "llama drain" in drain
    assert last.startswith("ExecStopPost=-+/usr/sbin/nft") and "delete table inet sovereign-epyc-chat" in last


def test_nothing_that_fails_fails_the_temporary_unit(systemd: Systemd) -> None:
    next_server(systemd).start_and_redirect_new_connections()
    lines = systemd.drop_in().splitlines()
    assert [line[:40] for line in lines if line.startswith("ExecStartPost=-")] == [
        "ExecStartPost=-/usr/sbin/sovereign-epyc ",
        "ExecStartPost=-+/usr/sbin/sovereign-epyc",
    ]
    (codes,) = (line for line in lines if line.startswith("SuccessExitStatus="))
    assert codes.startswith("SuccessExitStatus=1 2 3 ") and codes.endswith(
        "255 SIGABRT SIGBUS SIGFPE SIGILL SIGKILL SIGSEGV SIGSYS"
    )


@pytest.mark.parametrize(
    "shown", [f"{SERVES}ActiveState=inactive\n", f"{SERVES.replace('status=0', 'status=1')}ActiveState=active\n"]
)
def test_a_version_that_does_not_serve_is_removed_again(systemd: Systemd, shown: str) -> None:
    systemd.shown = shown
    with pytest.raises(
        TuningError, match=r"next to the running instance, which is untouched, and failed: .* does not serve"
    ):
        next_server(systemd).start_and_redirect_new_connections()
    assert "redirect" not in systemd.calls and "stop llama-chat-next.service" in systemd.calls
    assert list(systemd.folder.iterdir()) == []


def test_without_a_handover_it_only_shows_that_it_serves(systemd: Systemd) -> None:
    server = next_server(systemd, hands_over=False)
    assert "RuntimeMaxSec=60" in next(text for path, text in server._texts.items() if path.endswith(".conf"))
    server.start_and_redirect_new_connections()
    assert not server.is_running and systemd.calls[1] == "stop llama-chat-next.service"


def test_what_a_killed_run_left_ends_when_the_instance_serves(systemd: Systemd) -> None:
    start_first.end_leftover_server(systemd.root, "chat", LLAMA)
    assert systemd.calls == []
    next_server(systemd).start_and_redirect_new_connections()
    systemd.calls, systemd.real_state = [], "failed"
    start_first.end_leftover_server(systemd.root, "chat", LLAMA)
    assert systemd.calls == ["start llama-chat.service"], "nobody else serves"
    systemd.real_state = "active"
    start_first.end_leftover_server(systemd.root, "chat", LLAMA)
    assert "stop llama-chat-next.service llama-chat-next-rpc.service" in systemd.calls
    assert list(systemd.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "user", "folder"),
    [
        ("StateDirectory", None, "/var/lib/mine"),
        ("StateDirectory", "llama", ""),
        ("RuntimeDirectory", None, "/run/mine"),
        ("RuntimeDirectory", "llama", "/run/mine"),
    ],
)
def test_a_folder_of_the_unit_is_for_one_server(model: str, setting: str, user: str | None, folder: str) -> None:
    options = Options.parse(asked(model, unit_settings={setting: "mine"}, user=user))
    reason = f"The new server cannot be started first, because {folder} in unit_settings is for one server."
    assert start_first.single_server_reason(options) == (reason if folder else "")
