# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What `vepyc up` refuses, builds and waits for before a machine runs, and how the commands fail."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vepyc import SHAPES, VepycError, start_machine
from vepyc.llama import delivery
from vepyc.machine.run_directory import Config, RunDirectory
from vepyc.machine.sockets import wait_for_server
from vepyc.machine.start import choose_port
from vepyc.paths import hold_lock, run_tool

from .conftest import wait_while

LAB = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.usefixtures("own_home")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": "epyc1"}, "there is no shape 'epyc1'; the shapes are small, "),
        ({"shape": "small", "kernel": "5.4"}, "there is no guest with kernel '5.4'; choose 6.12 or 6.1"),
        ({"shape": "small", "name": "No Host"}, "'No Host' cannot be a host name"),
    ],
)
def test_up_refuses_what_it_does_not_know(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(VepycError, match=message):
        start_machine(**arguments)


def test_a_taken_port_names_the_option_before_an_image_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vepyc.machine.start.ensure_image", lambda release: pytest.fail("an image was looked for"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(VepycError, match=f"port {port} on 127.0.0.1 is taken, .* choose another port with --port"):
            start_machine("small", port=port)


def test_nothing_is_begun_that_would_fill_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("vepyc.paths.shutil.disk_usage", lambda folder: SimpleNamespace(free=1 << 30))
    has = "in .*, which has 1.0 GiB free; make room there, or name a folder on another disk"
    with pytest.raises(VepycError, match=f"the trixie image needs 4 GiB {has}"):
        start_machine("small", name="full")
    monkeypatch.setattr("vepyc.machine.start.image_dir", lambda release: tmp_path)
    with pytest.raises(VepycError, match=f"the first boot of a small needs 1.5 GiB {has}"):
        start_machine("small", name="full")
    assert not RunDirectory.of_machine("full").path.exists()


def test_a_port_that_another_machine_is_about_to_use_is_not_free() -> None:
    first = choose_port(SHAPES["small"], "one", None)
    RunDirectory.of_machine("one").create(Config("one", "small", "6.12", first, "image", None))
    RunDirectory.of_machine("going").path.mkdir()
    assert choose_port(SHAPES["small"], "two", None) > first


def test_a_run_directory_without_a_supervisor_is_stale() -> None:
    run_dir = RunDirectory.of_machine("gone")
    run_dir.create(Config(name="gone", shape="small", kernel="6.12", port=1, image="", snapshot=None))
    assert not run_dir.is_alive()
    run_dir.end_and_remove()
    assert not run_dir.path.exists()


def test_a_server_is_waited_for_until_it_listens(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, subprocess.Popen(["sleep", "20"]) as process:
        server.bind(str(tmp_path / "named"))
        threading.Timer(0.2, server.listen).start()
        wait_for_server(tmp_path / "named", process, 30).close()
        with pytest.raises(VepycError, match=r"behind absent did not listen in 0\.1 seconds"):
            wait_for_server(tmp_path / "absent", process, 0.1)
        process.kill()
        with pytest.raises(VepycError, match="behind absent ended with -9 instead of listening"):
            wait_for_server(tmp_path / "absent", process, 30)


# Builds


def test_a_tool_that_fails_is_named_with_its_last_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(VepycError, match=f"sh failed with exit code 3: No space left on device; see {log}"):
        run_tool(["sh", "-c", "echo begun; echo No space left on device >&2; exit 3"], log)


def test_what_a_killed_build_has_begun_ends_with_it(tmp_path: Path) -> None:
    """With a mmdebstrap that mounts something in the new root, and then stays."""
    root, begun, tool = tmp_path / "root", tmp_path / "begun", tmp_path / "mmdebstrap"
    root.mkdir()
    tool.write_text(f"#!/bin/sh\nmount -t tmpfs none {root} && touch {begun} && sleep 600\n")
    tool.chmod(0o755)
    build = (
        "from pathlib import Path; from vepyc.images.debian import install_debian;"
        f" install_debian('a', ['b'], Path({str(root)!r}), Path('log'))"
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(LAB)}
    building = subprocess.Popen([sys.executable, "-c", build], cwd=tmp_path, env=environment)
    wait_while(lambda: not begun.exists())
    assert is_running(tool) and not root.is_mount(), "the mount is none of ours"
    building.kill()
    building.wait()
    wait_while(lambda: is_running(tool))
    root.rmdir()


def is_running(program: Path) -> bool:
    return subprocess.run(["pgrep", "-f", f"^/bin/sh {program}"], stdout=subprocess.DEVNULL).returncode == 0


def test_what_is_made_meanwhile_ends_with_a_block_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that is taken is said at once, not when llama.cpp is built."""
    monkeypatch.setattr(delivery, "_BUILD_COMMAND", ("sleep", "600"))
    with pytest.raises(VepycError, match="port is taken"), delivery.built_in_background():
        raise VepycError("the port is taken")


def test_who_waits_for_another_process_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    with hold_lock("image"):
        waiting = threading.Thread(target=lambda: hold_lock("image", "the image (1 to 3 minutes)").__enter__())
        waiting.start()
        printed: list[str] = []
        wait_while(lambda: not printed.append(capsys.readouterr().out) and not "".join(printed))
    waiting.join()
    assert "".join(printed) == "waiting for the image (1 to 3 minutes), which another process makes\n"


def test_what_could_not_be_made_is_said_after_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_BUILD_COMMAND", ("false",))
    with pytest.raises(VepycError, match="for the reason above"), delivery.built_in_background():
        pass


# The command line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ssh", "nobody", "true"], "vepyc: machine 'nobody' is not running; start it with: vepyc up"),
        (["status", "nobody"], "vepyc: machine 'nobody' is not running; start it with: vepyc up"),
        (["down", "nobody"], "vepyc: there is no machine 'nobody'; vepyc status lists those that run"),
        (["down"], "vepyc: name one machine, or say --all"),
    ],
)
def test_the_command_line_fails_with_one_sentence(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, LAB / "bin/vepyc", *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", message + "\n")


def test_list_shows_every_shape() -> None:
    done = subprocess.run([sys.executable, LAB / "bin/vepyc", "list"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(SHAPES)
