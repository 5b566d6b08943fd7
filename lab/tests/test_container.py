# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the users of containers rely on. The first run installs their Debian."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vepyc import GuestError, VepycError
from vepyc.container import Container, running_container
from vepyc.playbook_runs import quick_ansible_variables, run_command, write_inventory
from vepyc.quick_python.python_files import FORK_SERVER

from .conftest import wait_while

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "note").write_text("from outside\n")
    return folder


@pytest.fixture(scope="module")
def box(shared: Path) -> Iterator[Container]:
    with running_container("test-box", {shared: "/srv/closed"}, {shared: "/srv/shared"}) as box:
        yield box


def processes_of(name: str) -> list[int]:
    """The process ids of systemd-nspawn for a container of that name."""
    mark = f"--machine={name}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in arguments and arguments[0].endswith(b"systemd-nspawn"):
            found.append(int(path.parent.name))
    return found


def test_systemd_runs_the_container(box: Container) -> None:
    assert box.run("cat /proc/1/comm; systemctl is-system-running; systemctl --failed --no-legend").stdout == (
        "systemd\nrunning\n"
    )


def test_a_hardened_unit_runs_in_a_control_group_of_its_own(box: Container) -> None:
    options = "-p DynamicUser=yes -p ProtectSystem=strict -p PrivateDevices=yes -p SystemCallFilter=@system-service"
    done = box.run(
        f"systemd-run --quiet --wait --pipe --unit=probe {options} sh -c 'id -u; grep ^0: /proc/self/cgroup'"
    )
    user, group = done.stdout.split()
    assert 61184 <= int(user) <= 65519  # systemd's range for dynamic users
    assert group == "0::/system.slice/probe.service"


def test_only_the_loopback_is_there(box: Container) -> None:
    links = json.loads(box.run("ip -json address show up").stdout)
    assert [link["ifname"] for link in links] == ["lo"]


def test_a_command_that_fails_says_what_it_printed(box: Container) -> None:
    with pytest.raises(GuestError, match=r"test-box: exit code 3: echo no luck; exit 3\nno luck"):
        box.run("echo no luck; exit 3")
    assert box.run("exit 3", check=False).returncode == 3


def test_a_command_that_does_not_end_is_an_error(box: Container) -> None:
    with pytest.raises(GuestError, match="no end after 1 s: sleep 60"):
        box.run("sleep 60", timeout=1)


def test_a_bound_folder_is_shared_both_ways(box: Container, shared: Path) -> None:
    assert box.run("cat /srv/shared/note; cat >/srv/shared/answer", input="from inside").stdout == "from outside\n"
    assert (shared / "answer").read_text() == "from inside"
    assert "Read-only file system" in box.run("rm -rf /srv/closed/*", check=False).stderr
    assert (shared / "answer").exists()


def test_ansible_comes_in(box: Container, tmp_path: Path) -> None:
    inventory = write_inventory(tmp_path, {"box": box.inventory_variables()})
    command = [str(Path(sys.executable).with_name("ansible")), "all", "-i", str(inventory)]
    command += ["-m", "ansible.builtin.systemd_service", "-a", "name=dbus.service"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ActiveState: active" in done.stdout


def parent_of_modules(box: Container, folder: Path, *through: str) -> str:
    """The command line of the Python of which a module of a test is a child."""
    inventory = write_inventory(folder, {"box": box.inventory_variables(through)})
    words = ["all", "-i", str(inventory), "-m", "shell", "-a", "tr '\\0' ' ' </proc/$PPID/cmdline"]
    done = run_command("ansible", *words, **quick_ansible_variables())
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_modules_run_in_a_python_that_is_there(box: Container, tmp_path: Path) -> None:
    """Not where the connection leads into another namespace, in which that Python is not, and not in a measurement."""
    there = f"/usr/bin/python3 /{FORK_SERVER} --socket"
    assert there in parent_of_modules(box, tmp_path)
    assert there not in parent_of_modules(box, tmp_path, "nsenter", "--net=/proc/1/ns/net")
    box.remove_speedups()
    assert there not in parent_of_modules(box, tmp_path)


def test_nothing_is_left_of_a_container() -> None:
    with running_container("test-gone") as box:
        box.run("touch /etc/made-by-a-test")
        assert processes_of("test-gone")
    assert processes_of("test-gone") == []
    assert list(Path("/sys/fs/cgroup").glob("**/vepyc-test-gone")) == []
    with running_container("test-gone") as box:
        box.run("test ! -e /etc/made-by-a-test")


def test_it_ends_with_the_process_that_started_it() -> None:
    program = (
        "import time; from vepyc.container import running_container\n"
        "with running_container('test-orphan'): print('up', flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert b"up\n" in iter(owner.stdout.readline, b"")
    assert processes_of("test-orphan")
    owner.kill()
    owner.wait()
    wait_while(lambda: processes_of("test-orphan"), seconds=10)
    with running_container("test-orphan") as box:
        box.run("true")


def test_who_is_not_root_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(VepycError, match="containers need root"), running_container("test-nobody"):
        pass
