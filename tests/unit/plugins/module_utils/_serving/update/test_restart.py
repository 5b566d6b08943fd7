# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long nobody will be served, and for how long nobody was."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils._serving.update import restart
from ansible_collections.sovereign.epyc.plugins.module_utils._serving.update.restart import (
    Restart,
    estimate_start_seconds,
)
from ansible_collections.sovereign.epyc.tests.unit.fakes.servers import say, serving

GB = 10**9
OLD, TWICE = {"/srv/old.gguf": [40 * GB, 1]}, {"/srv/new.gguf": [80 * GB, 1]}
UNIT = "llama-chat.service"
ENDING = ", and up to 5 s more while its last requests end"
SHOWN = """\
InactiveExitTimestamp=Mon 2026-11-30 23:59:30.250000 UTC
ActiveEnterTimestamp=Tue 2026-12-01 00:00:44.000000 UTC
ExecStartPost={ path=/a ; argv[]=/a llama await URL ; stop_time=[Tue 2026-12-01 00:00:20.250000 UTC] ; pid=24 }
ExecStartPost={ path=/a ; argv[]=/a llama answer URL ; stop_time=[Tue 2026-12-01 00:00:43.500000 UTC] ; pid=25 }
MainPID=41
"""


class LastStart:
    """A last start of 50 s that read some bytes from the disk, and files of which nothing is cached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes_read = 0
        self.uncached = 1.0
        self.shown = SHOWN
        monkeypatch.setattr(restart.command, "run_command", lambda words: self.shown)
        monkeypatch.setattr(restart.textfile, "read_text", self.read_text)
        monkeypatch.setattr(restart, "_count_uncached_bytes", lambda path, size: size * self.uncached)

    def read_text(self, path: str) -> str:
        assert path == "/proc/41/io"
        return f"rchar: 1\nread_bytes: {self.bytes_read}\n"


@pytest.fixture
def last_start(monkeypatch: pytest.MonkeyPatch) -> LastStart:
    return LastStart(monkeypatch)


@pytest.mark.parametrize(
    ("bytes_read", "uncached", "files", "speed", "cached", "seconds"),
    [
        # The last start read nothing from the disk, and the next will not either.
        (0, 0.0, OLD, GB, False, 50),
        # The last start read all: 40 s for the disk, and 10 s for the rest of it.
        (40 * GB, 0.0, OLD, GB, False, 10),
        (40 * GB, 1.0, OLD, GB, False, 50),
        (40 * GB, 0.5, OLD, GB, False, 30),
        # A model of twice the size.
        (40 * GB, 1.0, TWICE, GB, False, 100),
        (40 * GB, 1.0, TWICE, GB, True, 20),
        (0, 1.0, TWICE, None, False, 100),
        # The process has read more than its model, as a router does.
        (90 * GB, 0.0, OLD, GB, False, 10),
        (40 * GB, 0.0, OLD, GB / 10, False, 0.1),
    ],
)
def test_the_last_start_and_the_page_cache_predict_the_next(
    last_start: LastStart,
    bytes_read: int,
    uncached: float,
    files: dict[str, list[int]],
    speed: float | None,
    cached: bool,
    seconds: int,
) -> None:
    last_start.bytes_read, last_start.uncached = bytes_read, uncached
    assert estimate_start_seconds(UNIT, OLD, files, speed, cached) == seconds


def test_of_a_server_that_is_not_asked_the_whole_start_counts(last_start: LastStart) -> None:
    last_start.shown = re.sub(r"ExecStartPost=.*\n", "", SHOWN)
    assert estimate_start_seconds(UNIT, OLD, OLD, None, False) == 73.8


def test_what_is_cached_of_a_file_is_sampled(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(bytes(4 << 20))
    assert restart._count_uncached_bytes(str(path), 4 << 20) < 1 << 20, "it was written a moment ago"
    assert restart._count_uncached_bytes(str(tmp_path / "none"), 7) == 7


@pytest.mark.parametrize(
    ("announced", "outage", "message"),
    [
        (0, None, f"{UNIT} needs a restart; nobody notices: the new server is started first."),
        (95, None, f"{UNIT} needs a restart; nobody is served for about 95 s{ENDING}. Why."),
        (0, 0.0, f"{UNIT} was restarted; nobody noticed: the new server was started first."),
        (
            95,
            91.25,
            f"{UNIT} was restarted; nobody was served for 91.2 s (about 95 s were announced, and up to 5 s more). Why.",
        ),
        (
            2.4,
            2.25,
            f"{UNIT} was restarted; nobody was served for 2.2 s (about 2.4 s were announced, and up to 5 s more). Why.",
        ),
        (0, 0.7, f"{UNIT} was restarted; nobody was served for 0.7 s (nothing was announced)."),
    ],
)
def test_the_operator_reads_a_sentence(announced: float, outage: float | None, message: str) -> None:
    one = Restart(UNIT, "start_first", announced, "Why." if announced else "", "", 5)
    one.is_done, one.outage_seconds = outage is not None, outage
    assert one.format_message() == message and one.to_dict()["message"] == message


def test_a_restart_at_another_address_has_no_measured_outage() -> None:
    one = Restart(UNIT, "stop_first", 95, "", "", 5)
    with one.measure_outage():
        pass
    assert one.format_message() == f"{UNIT} was restarted; nobody was served for about 95 s."


def test_the_time_without_a_server_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "PAUSE_SECONDS", 0.01)
    status = [200]
    with serving(lambda request: say(request, status[0], b'{"status":"ok"}')) as server:
        one = Restart(UNIT, "start_first", 0, "", server.url, 5)
        with one.measure_outage():
            time.sleep(0.1)
        assert one.outage_seconds == 0
        with one.measure_outage():
            time.sleep(0.1)
            status[0] = 503
            time.sleep(0.4)
            status[0] = 200
            time.sleep(0.1)
    assert one.outage_seconds and one.outage_seconds >= 0.3
