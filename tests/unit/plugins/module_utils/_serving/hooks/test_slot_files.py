# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prompts saved by one server and restored by the next; tests/service/test_slot_files.py has a real one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import slot_files
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

#: The bytes of the file of a slot for each token.
EACH = 100


class Llama:
    """A llama-server with the texts in its slots, which answers as build 11434 does."""

    def __init__(self, folder: Path, slots: int = 3) -> None:
        self.folder = folder
        self.slots = [""] * slots
        self.last_tasks: list[int | None] = [None] * slots
        self.busy: set[int] = set()
        self.requests: list[str] = []
        self.refuses = ""
        #: The numbers of requests in progress that it tells, one after the other, and then 0.
        self.counts: list[int] = []
        self.on_save: Callable[[], None] = lambda: None

    def read(self, slot: int, text: str, task: int) -> None:
        self.slots[slot], self.last_tasks[slot] = text, task

    def __call__(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if request.path == "/slots":
            say(request, 200, json.dumps([self.describe(slot) for slot in range(len(self.slots))]).encode())
            return
        if request.path == "/metrics":
            count = self.counts.pop(0) if self.counts else 0
            say(request, 200, f"llamacpp:requests_processing {count}\n".encode())
            return
        slot, action = int(request.path.split("/")[2].partition("?")[0]), request.path.rpartition("=")[2]
        file = self.folder / json.loads(body)["filename"]
        self.requests.append(f"{action} {slot}")
        if self.refuses:
            say(request, 501, json.dumps({"error": {"code": 501, "message": self.refuses}}).encode())
        elif action == "save":
            self.on_save()
            file.write_text("x" * EACH * len(self.slots[slot]) + self.slots[slot])
            say(request, 200, json.dumps({"n_saved": len(self.slots[slot])}).encode())
        else:
            text = file.read_text()
            self.slots[slot] = text[len(text) * EACH // (EACH + 1) :]
            say(request, 200, json.dumps({"n_restored": len(self.slots[slot])}).encode())

    def describe(self, slot: int) -> dict[str, Any]:
        last = self.last_tasks[slot]
        used = {} if last is None else {"id_task": last, "n_prompt_tokens": len(self.slots[slot])}
        return {"id": slot, "n_ctx": 100, "is_processing": slot in self.busy, **used}


class Service:
    """An instance whose server is replaced at each start; the hooks run as systemd runs them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.model = folder / "state", folder / "m.gguf"
        self.folder.mkdir()
        self.model.write_text("a model")
        self.capsys = capsys
        self.server = Llama(self.folder)

    def run_hook(self, *words: str) -> str:
        with serving(self.server) as server:
            assert _cli.main(("llama", words[0], server.url, str(self.folder), *words[1:], "--timeout", "60")) == 0
        return self.capsys.readouterr().out

    def start(self, options: str = "same", slots: int = 3) -> str:
        self.server = Llama(self.folder, slots)
        return self.run_hook("restore-slots", "--options", options, "--files", json.dumps([str(self.model)]))

    def stop(self, limit: int = 10**6) -> str:
        return self.run_hook("save-slots", "--limit", str(limit), "--slot-bytes", f"0,{EACH + 1}")

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))


@pytest.fixture
def service(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.delenv("MAINPID", raising=False)
    monkeypatch.setattr(slot_files, "ROOM_FOR_OTHERS", 0)
    monkeypatch.setattr(slot_files.server_http, "PAUSE_SECONDS", 0.01)
    return Service(tmp_path, capsys)


def filled(service: Service) -> Service:
    service.start()
    service.server.read(0, "oldest", 3)
    service.server.read(2, "newest prompt", 8)
    return service


def test_prompts_come_back_to_their_slots(service: Service) -> None:
    assert filled(service).stop().startswith("2 prompts with 19 tokens are saved in ")
    assert service.names() == ["server.json", "slot-0.json", "slot-0.kv", "slot-2.json", "slot-2.kv"]
    assert service.start().startswith("2 prompts with 19 tokens are restored: ")
    assert service.server.slots == ["oldest", "", "newest prompt"]
    assert service.server.requests == ["restore 2", "restore 0"]
    assert service.names() == ["server.json"]


def test_a_server_that_was_killed_starts_without_prompts(service: Service) -> None:
    filled(service).stop()
    service.start()
    assert service.start().startswith("0 prompts with 0 tokens are restored")


def test_a_restored_prompt_that_nobody_used_is_saved_again(service: Service) -> None:
    filled(service).stop()
    service.start()
    assert service.stop(101 * 13 + 101 * 6).startswith("2 prompts with 19 tokens are saved in ")


def test_a_server_with_fewer_slots_gets_the_newest(service: Service) -> None:
    filled(service).stop()
    assert "The saved prompt of slot 0 is left out: no slot is left for it." in service.start(slots=1)
    assert service.server.slots == ["newest prompt"]


def test_a_longer_prompt_that_a_client_has_just_sent_is_not_overwritten(service: Service) -> None:
    filled(service).stop()
    service.server = Llama(service.folder)
    service.server.read(2, "the long prompt of a fast client", 0)
    service.server.read(1, "ping", 1)
    service.run_hook("restore-slots", "--options", "same", "--files", json.dumps([str(service.model)]))
    assert service.server.slots == ["newest prompt", "oldest", "the long prompt of a fast client"]


def test_a_slot_that_works_on_a_request_is_not_overwritten(service: Service) -> None:
    filled(service).stop()
    service.server = Llama(service.folder)
    service.server.busy = {0, 2}
    said = service.run_hook("restore-slots", "--options", "same", "--files", json.dumps([str(service.model)]))
    assert "slot 0 is left out: no slot is left for it." in said and service.server.slots == ["", "newest prompt", ""]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda file: file.write_bytes(b"y" + file.read_bytes()[1:]), "its file is damaged."),
        (lambda file: file.write_bytes(file.read_bytes()[:-1]), "its file is damaged."),
        (lambda file: file.unlink(), "[Errno 2] No such file"),
        (lambda file: file.with_suffix(".json").write_text("{"), "its note is damaged, or of another version"),
        (lambda file: replace_in(file, '"form": 1', '"form": 0'), "its note is damaged, or of another version"),
        (lambda file: replace_in(file, '"tokens": 13', '"tokens": 12'), "the server has restored 13 of 12 tokens."),
    ],
)
def test_a_damaged_file_is_left_out(service: Service, damage: Any, reason: str) -> None:
    filled(service).stop()
    damage(service.folder / "slot-2.kv")
    said = service.start()
    assert f"The saved prompt of slot 2 is left out: {reason}" in said and "1 prompt with 6 tokens" in said
    assert service.server.slots[0] == "oldest" and service.names() == ["server.json"]


def replace_in(file: Path, old: str, new: str) -> None:
    note = file.with_suffix(".json")
    assert old in note.read_text()
    note.write_text(note.read_text().replace(old, new))


@pytest.mark.parametrize("name", ["slot-2.part", "slot-7.kv"])
def test_a_torn_file_is_removed(service: Service, name: str) -> None:
    filled(service).stop()
    (service.folder / name).write_text("torn")
    service.start()
    assert service.names() == ["server.json"] and service.server.slots[2] == "newest prompt"


def test_prompts_of_another_server_are_left_out(service: Service) -> None:
    filled(service).stop()
    assert "was saved by a server with other options." in service.start("other")
    filled(service).stop()
    service.model.write_text("a changed model")
    assert f"was saved by a server with another {service.model}." in service.start()
    assert service.server.requests == []


def test_a_stop_hook_of_a_newer_unit_saves_what_the_old_server_loaded(service: Service) -> None:
    """After a play wrote another model into the unit, systemd runs the new hook against the old server."""
    filled(service)
    service.model.write_text("another model")
    service.stop()
    assert "was saved by a server with another" in service.start()


def test_a_model_that_was_replaced_while_the_server_started_is_not_trusted(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(service).stop()
    monkeypatch.setattr(slot_files, "_read_start_time", lambda fs, process: service.model.stat().st_ctime - 1)
    monkeypatch.setenv("MAINPID", "1")
    assert f"{service.model} was changed after the server had started." in service.start()
    service.server.read(0, "more", 1)
    monkeypatch.delenv("MAINPID")
    assert service.stop().startswith("No prompt is saved, because it is not known which files")
    assert service.names() == []


def test_the_start_time_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS

    ours = slot_files._read_start_time(KernelFS(read_only=True), os.getpid())
    first = slot_files._read_start_time(KernelFS(read_only=True), 1)
    assert first <= ours <= os.times().elapsed + ours


def test_the_newest_prompts_get_the_room(service: Service) -> None:
    said = filled(service).stop(101 * 15)
    assert "Slot 0 is not saved: its 6 tokens take about 606 B, and slot_files has room for 202 B more." in said
    assert service.names() == ["server.json", "slot-2.json", "slot-2.kv"]
    assert service.server.requests == ["save 2", "save 1"], "an unused slot may hold a restored prompt"


def test_a_file_that_is_larger_than_estimated_is_removed(service: Service) -> None:
    filled(service)
    said = service.run_hook("save-slots", "--limit", "1000", "--slot-bytes", "0,1")
    assert "Slot 2 is not saved: its file takes 1313 B, and slot_files has room for 1000 B more." in said
    assert service.names() == ["server.json", "slot-0.json", "slot-0.kv"]


def test_a_full_disk_is_left_alone(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_files, "ROOM_FOR_OTHERS", 1 << 60)
    said = filled(service).stop()
    assert "Slot 2 is not saved: it takes about 1313 B, and the disk of " in said
    assert service.server.requests == []


def test_a_request_that_came_while_prompts_were_saved_is_waited_for(service: Service) -> None:
    filled(service).server.counts = [1, 1, 0]
    service.stop()
    assert service.server.counts == []


def test_a_busy_slot_is_left_out(service: Service) -> None:
    filled(service).server.busy = {2}
    assert "Slot 2 is not saved: it works on a request." in service.stop()
    assert service.server.requests == ["save 0", "save 1"]


def test_what_would_take_too_long_is_left_out(service: Service) -> None:
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    filled(service)
    told: list[str] = []
    clock = Clock()
    with serving(service.server) as running:
        server = slot_files.Server(running.url, None, 100, clock)
        service.server.on_save = lambda: setattr(clock, "now", clock.now + 90)
        slot_files.save_slots(server, str(service.folder), 10**6, (0, EACH + 1), None, told.append)
    assert "Slot 0 is not saved: it would take about 42 s, and 10 s are left." in told, told
    assert service.server.requests == ["save 2"] and "slot-2.kv" in service.names()


def test_a_server_that_cannot_save_says_so(service: Service) -> None:
    filled(service).server.refuses = "This feature is not supported by multimodal."
    said = service.stop()
    assert "This feature is not supported by multimodal." in said


def test_a_server_that_is_gone_fails_no_stop(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    filled(service)
    words = ("--limit", "9", "--slot-bytes", "0,1", "--timeout", "5")
    assert _cli.main(("llama", "save-slots", "http://127.0.0.1:1", str(service.folder), *words)) == 0
    assert "No prompt is saved: http://127.0.0.1:1/slots: the connection is refused." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("save-slots", "--limit", "x", "--slot-bytes", "0,1"), "--limit or --slot-bytes: 'x' and '0,1' are no bytes."),
        (("save-slots", "--limit", "1", "--slot-bytes", "0"), "--limit or --slot-bytes: '1' and '0' are no bytes."),
        (("save-slots", "--limit", "1", "--slot-bytes", "0,1"), "/none: the prompts cannot be saved: No such file"),
        (("restore-slots", "--options", "a", "--files", "[]"), "/none: the prompts cannot be restored: No such file"),
        (("restore-slots", "--options", "a", "--files", "["), "--files: '[' is no list of files in JSON."),
    ],
)
def test_impossible_words(words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = (words[0], "http://127.0.0.1:1", "/none", *words[1:], "--timeout", "1")
    assert _cli.main(("llama", *command)) == 1
    assert sentence in capsys.readouterr().err
