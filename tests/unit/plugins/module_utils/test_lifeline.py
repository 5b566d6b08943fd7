# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Programs of a group that begin and end together: real processes, and sockets on the loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.sovereign.epyc.plugins.module_utils import _cli, _lifeline
from ansible_collections.sovereign.epyc.plugins.module_utils._errors import BadRequest
from ansible_collections.sovereign.epyc.plugins.module_utils._notation import ip_addresses

LONG = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture(autouse=True)
def handlers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[..., Any]]]:
    """Handlers of signals, which only a main thread can set; and pauses that are short."""
    kept: list[Callable[..., Any]] = []
    monkeypatch.setattr(signal, "signal", lambda number, handler: kept.append(handler))
    monkeypatch.setattr(_lifeline, "PAUSE", 0.02)
    yield kept


#: Follows at a port of the loopback, which is no address that a user may name.
FOLLOW = f"""
import sys
from {_lifeline.__name__} import wait_for_leader_and_run
sys.modules[wait_for_leader_and_run.__module__].PAUSE = 0.02
sys.exit(wait_for_leader_and_run(("127.0.0.1", int(sys.argv[1])), sys.argv[2:]))
"""


class Follower:
    """A process that runs a program with its leader."""

    def __init__(self, program: list[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = ("127.0.0.1", int(free.getsockname()[1]))
        self.command = [sys.executable, "-c", FOLLOW, str(self.address[1]), *program]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(self.command, env=variables, stdout=subprocess.DEVNULL)

    def ended(self) -> int:
        assert self.process
        return self.process.wait(20)


def marks(path: Path, then: str) -> list[str]:
    """Return a program that says by a file that it runs, and then does this."""
    return [sys.executable, "-c", f"import pathlib, sys, time; pathlib.Path({str(path)!r}).touch(); {then}"]


def until(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, f"{path} never came"
        time.sleep(0.01)


def test_all_end_with_the_program_of_the_leader(tmp_path: Path) -> None:
    first, second = Follower(marks(tmp_path / "first", "time.sleep(60)")), Follower(LONG)
    first.start()
    second.start()
    wait = f"p = pathlib.Path({str(tmp_path / 'first')!r})\nwhile not p.exists(): time.sleep(.01)\nsys.exit(3)"
    program = [sys.executable, "-c", f"import pathlib, sys, time\n{wait}"]
    assert _lifeline.wait_for_followers_and_run([first.address, second.address], program) == 3
    assert first.ended() == second.ended() == 1


def test_the_program_of_the_leader_ends_with_that_of_a_follower(capsys: pytest.CaptureFixture[str]) -> None:
    one = Follower([sys.executable, "-c", "raise SystemExit(4)"])
    one.start()
    assert _lifeline.wait_for_followers_and_run([one.address], LONG) == 1
    assert one.ended() == 4
    assert f"The connection to 127.0.0.1:{one.address[1]} broke, so that this part ends too." in capsys.readouterr().err


def test_one_that_leaves_before_the_beginning_begins_nothing(tmp_path: Path) -> None:
    """Such as a leader whose other followers are not there yet, when it is stopped."""
    one = Follower(marks(tmp_path / "begun", "sys.exit(0)"))
    one.start()
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(one.address, 5).close()
            break
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.01)
    # It goes on to the next one, which the kernel has let in meanwhile.
    assert _lifeline.wait_for_followers_and_run(
        [one.address], [sys.executable, "-c", "import time; time.sleep(.2)"]
    ) in (0, 1)
    until(tmp_path / "begun")
    assert one.ended() in (0, 1)


def test_a_follower_that_comes_late_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    one = Follower([sys.executable, "-c", "import time; time.sleep(60)"])

    class Clock:
        def sleep(self, seconds: float) -> None:
            if not one.process:
                one.start()
            time.sleep(0.01)

    assert _lifeline.wait_for_followers_and_run([one.address], [sys.executable, "-c", ""], Clock()) == 0
    assert one.ended() == 1
    said = capsys.readouterr().out
    assert f"It waits for 127.0.0.1:{one.address[1]}: Connection refused." in said and "are there." in said


def test_a_stop_is_handed_on(tmp_path: Path, handlers: list[Callable[..., Any]]) -> None:
    one = Follower(LONG)
    one.start()
    stop = threading.Thread(target=lambda: (until(tmp_path / "up"), handlers[0](signal.SIGTERM, None)))
    stop.start()
    assert (
        _lifeline.wait_for_followers_and_run([one.address], marks(tmp_path / "up", "time.sleep(60)"))
        == 128 + signal.SIGTERM
    )
    stop.join()
    assert one.ended() == 1


def test_what_cannot_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(ip_addresses, "PRIVATE_NETWORKS", ("127.0.0.0/8",))
    one = Follower(LONG)
    one.start()
    assert _cli.main(["group", "lead", f"127.0.0.1:{one.address[1]}", "--", "/no/such"]) == 1
    assert capsys.readouterr().err == "/no/such does not start: No such file or directory.\n"
    assert one.ended() == 1


@pytest.mark.parametrize(
    "words", [[], ["lead"], ["lead", "10.0.0.1:1024", "program"], ["push", "10.0.0.1:1024", "--", "x"]]
)
def test_how_it_is_called(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["group", *words]) == 1
    assert capsys.readouterr().err == _lifeline.USAGE


def test_addresses_that_it_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert _cli.main(["group", "follow", "192.0.2.1:29500", "--", "x"]) == 1
    assert "192.0.2.1 is not an address of a private network" in capsys.readouterr().err
    with pytest.raises(BadRequest, match=r"192.0.2.1:29500 cannot be listened on: .* see that the interface is up"):
        _lifeline.wait_for_leader_and_run(("192.0.2.1", 29500), ["x"])
