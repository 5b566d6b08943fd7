# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests on virtual EPYCs share: a machine, playbooks run against it, and modules run inside it."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from vepyc import Machine, VepycError, up
from vepyc.play import Play, run_playbook

ROOT = Path(__file__).parents[2]
PAYLOAD = "/run/payload"  # in the guest; a tmpfs, so that the disk stays as it was
COLLECTION = "ansible_collections/sovereign/epyc/plugins"

# All that resctrl groups are: their masks and limits, CPUs and modes, and, but for the default group's, their threads.
STATE = r"""
grep ' resctrl ' /proc/self/mounts
cd /sys/fs/resctrl && find . -name schemata -o -name cpus_list -o -name mode -o -path './*/tasks' |
    sort | xargs -r grep -H ''
"""
CLEAN = """
umount /sys/fs/resctrl
for online in $(grep -lx 0 /sys/devices/system/cpu/cpu*/online); do echo 1 >$online; done
rm -rf /var/lib/sovereign-epyc
"""


class Guest:
    """A machine of the tests' own."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        hosts = {"all": {"children": {machine.shape: {"hosts": {machine.name: {"ansible_port": machine.port}}}}}}
        (folder / "hosts.json").write_text(json.dumps(hosts))
        (folder / "group_vars").symlink_to(ROOT / "inventories/lab/group_vars")

    def run(self, command: str, check: bool = True) -> str:
        """Run a shell command as root and return what it printed."""
        return self.machine.run(command, check=check).stdout

    def everything(self) -> dict[str, str]:
        """Every address that the collection could write, with what is there."""
        text = Path(__file__).with_name("host_state.py").read_text()
        return dict(json.loads(self.machine.run("python3 -", input=text).stdout))

    def changed_since(self, before: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
        """The addresses that differ, with what was and what is there."""
        now = self.everything()
        pairs = {address: (before.get(address), now.get(address)) for address in before.keys() | now.keys()}
        return {address: (was, is_now) for address, (was, is_now) in pairs.items() if was != is_now}

    def state(self) -> str:
        """Every byte that the kernel shows about resctrl groups."""
        return self.run(STATE, check=False)

    def read(self, *path: str) -> str:
        """A file of resctrl."""
        return self.run(f"cat /sys/fs/resctrl/{'/'.join(path)}").strip()

    def masks(self, group: str, resource: str = "L3") -> dict[int, str]:
        """A line of a group's schemata, masks without leading zeros; group '.' is the default one."""
        lines = [line.strip().split(":") for line in self.read(group, "schemata").splitlines()]
        row = dict(lines)[resource]
        return {int(key): value.strip().lstrip("0") for key, value in (item.split("=") for item in row.split(";"))}

    def play(self, playbook: Path | str, *arguments: str, succeeds: bool = True, programs: Path | None = None) -> Play:
        """Run a playbook against this machine, with another Ansible if one is named."""
        play = run_playbook(self.folder, playbook, *arguments, programs=programs)
        if succeeds:
            assert play.returncode == 0, play.output
        return play

    def carry_modules(self) -> None:
        """Put our modules and the part of Ansible they need into the guest, the same files that a play would send."""
        ansible = Path(find_spec("ansible").submodule_search_locations[0])  # type: ignore[union-attr,index]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
            for source, name in (
                (ansible / "module_utils", "ansible/module_utils"),
                (ansible / "release.py", "ansible/release.py"),
                (ROOT / "plugins/module_utils", f"{COLLECTION}/module_utils"),
                (ROOT / "plugins/modules", f"{COLLECTION}/modules"),
            ):
                archive.add(source, name, filter=lambda info: None if "__pycache__" in info.name else info)
            archive.addfile(tarfile.TarInfo("ansible/__init__.py"))
        command = [*self.machine.ssh_command(), f"mkdir {PAYLOAD} && tar -xzC {PAYLOAD}"]
        subprocess.run(command, cwd=self.machine.run_dir.path, input=buffer.getvalue(), check=True)

    def module(self, name: str, fault: str = "", **options: Any) -> dict[str, Any]:
        """Run one of our modules as Ansible would, but without the seconds that a play takes on an emulated machine.

        ``fault`` is Python that runs before it, in the same process.
        """
        done = self.run_module(name, fault, **options)
        assert done.stdout.strip().startswith("{"), done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    def run_module(self, name: str, fault: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
        """Run one of our modules and return how its process ended."""
        package = COLLECTION.replace("/", ".")
        start = f"import runpy; runpy.run_module('{package}.modules.{name}', run_name='__main__', alter_sys=True)"
        program = shlex.quote(f"{fault}\n{start}")
        return self.machine.run(
            f"file=$(mktemp -p {PAYLOAD}) && cat >$file && PYTHONPATH={PAYLOAD} python3 -c {program} $file; exit $?",
            check=False,
            input=json.dumps({"ANSIBLE_MODULE_ARGS": options}),
        )


@contextlib.contextmanager
def guest_of(shape: str, name: str, folder: Path, kernel: str = "6.12") -> Iterator[Guest]:
    # A run of these tests that was killed may have left one, and nothing is known of it.
    with contextlib.suppress(VepycError):
        Machine.find(f"test-{name}").down()
    machine = up(shape, name=f"test-{name}", kernel=kernel)
    try:
        yield Guest(machine, folder)
    finally:
        machine.down()


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Callable[..., Guest]]:
    """Boot a machine for one test: nobody was there before."""
    with contextlib.ExitStack() as stack:

        def boot(shape: str, name: str, kernel: str = "6.12") -> Guest:
            return stack.enter_context(guest_of(shape, name, tmp_path, kernel))

        yield boot


@pytest.fixture(scope="module")
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """The small machine, one for each file of tests."""
    name = Path(request.node.name).stem.removeprefix("test_").replace("_", "-")
    with guest_of("small", name, tmp_path_factory.mktemp("small")) as guest:
        guest.carry_modules()
        yield guest


@pytest.fixture
def guest(small: Guest) -> Iterator[Guest]:
    """The small machine, without resctrl mounted; left in the same way."""
    yield small
    small.run(CLEAN, check=False)
