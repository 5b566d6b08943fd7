# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When a server that does not answer is killed, and when not; tests/service/test_llama_recovery.py has a real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli
from ansible_collections.sovereign.epyc.plugins.module_utils._io.kernelfs import KernelFS
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.hooks import server_http, watchdog

UNIT, URL = "llama-chat.service", "http://127.0.0.1:8080"
SILENT = (None, "it does not answer (timed out)")


class Over(Exception):
    """All answers were given."""


class Host:
    """A server with its answers, of which a silent one takes all the time that it is given."""

    def __init__(self, answers: Sequence[tuple[int | None, str]]) -> None:
        self.answers = list(answers)
        self.now = 0.0
        self.asked: list[str] = []
        self.did: list[str] = []
        self.told: list[str] = []

    def ask(self, url: str, path: str, timeout: float, key: str | None = None) -> tuple[int | None, str]:
        self.asked.append(f"{url}{path}")
        answer = self.answers.pop(0)
        self.now += timeout if answer == SILENT else 0
        return answer

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if not self.answers:
            raise Over
        self.now += seconds

    def run(self, words: Sequence[str]) -> str:
        self.did.append(" ".join(words))
        return ""


def watched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *answers: tuple[int | None, str]) -> Host:
    host = Host(answers)
    monkeypatch.setattr(server_http, "send_get_request", host.ask)
    monkeypatch.setattr(watchdog.command, "run_command", host.run)
    with pytest.raises(Over):
        watchdog.watch_and_kill_silent_server(
            KernelFS(str(tmp_path), read_only=True), URL, UNIT, 60, None, host.told.append, host
        )
    return host


def test_one_that_is_silent_for_so_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    host = watched(monkeypatch, tmp_path, (200, ""), SILENT, (200, ""))
    assert host.did == [f"systemctl kill --signal=KILL {UNIT}"]
    assert host.told == [f"{UNIT} has not answered for 60 s, at {URL}/metrics. It is killed, and starts anew."]
    assert set(host.asked) == {f"{URL}/metrics"}


@pytest.mark.parametrize("answer", [(503, "loading"), (401, ""), (None, server_http.CONNECTION_REFUSED)])
def test_one_that_answers_something_or_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: tuple[int | None, str]
) -> None:
    assert watched(monkeypatch, tmp_path, *[answer] * 20).did == []


def test_each_silence_counts_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert len(watched(monkeypatch, tmp_path, SILENT, SILENT, (200, "")).did) == 2


@pytest.mark.parametrize("seconds", ["0", "soon"])
def test_a_limit_that_is_none(capsys: pytest.CaptureFixture[str], seconds: str) -> None:
    assert _cli.main(["llama", "watch", URL, "--unit", UNIT, "--timeout", seconds]) == 1
    assert capsys.readouterr().err.startswith("--timeout: ")
