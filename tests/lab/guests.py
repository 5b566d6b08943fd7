# Copyright (c) 2026, the sovereign.epyc authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A virtual EPYC as the tests use it: playbooks run against it, modules run inside it, and what its kernel shows."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vepyc import Machine, Preparation, VepycError, up
from vepyc.paths import locked
from vepyc.play import Play, kill_playbook, run_playbook
from vepyc.python import KILL_MODULES

from .programs import Programs

ROOT = Path(__file__).parents[2]
PAYLOAD = "/run/payload"  # in the guest; a tmpfs, so that the disk stays as it was
STORE = "/var/lib/sovereign-epyc"  # where the collection keeps its record
#: A partition of the small machine.
INTENT = {"draft": {"ccds": 1, "l3": "12MiB"}, "verify": {"l3": "12MiB"}, "default": {"l3": "4MiB"}}
COLLECTION = "ansible_collections/sovereign/epyc/plugins"

# What resctrl shows of its groups: masks and limits, CPUs, modes, and the threads of all but the default group.
STATE = r"""
grep ' resctrl ' /proc/self/mounts
cd /sys/fs/resctrl && find . -name schemata -o -name cpus_list -o -name mode -o -path './*/tasks' |
    sort | xargs -r grep -H ''
"""

# What has changed on the disk since a moment, by the ctime, which no program can set: a write that restores all else
# shows too, and a file that is gone shows in its folder. Left out:
CHANGED = r"""
find / -xdev \( \
    -path /root -o `# .ansible/tmp, the folder of Ansible's own connection` \
    -path /tmp -o `# not on this disk; python3 tries here whether it can make files` \
    -path /dev -o `# nor is this, where reading registers makes a folder for a moment` \
    -path /run -o -path /var/tmp `# where a server is tried, a unit and its private folder are for a moment` \
\) -prune -o -newerct @MOMENT -print
"""


class Guest:
    """A machine of the tests' own."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        self.programs = Programs(machine, PAYLOAD)
        #: For tests that must leave everything as it was: that, and what is another now.
        self.first: dict[str, str] = {}
        self.left: Callable[[], set[str]] = set
        hosts = {"all": {"children": {machine.shape: {"hosts": {machine.name: {"ansible_port": machine.port}}}}}}
        (folder / "hosts.json").write_text(json.dumps(hosts))
        (folder / "group_vars").symlink_to(ROOT / "inventories/lab/group_vars")

    def run(self, command: str, check: bool = True) -> str:
        """Run a shell command as root and return what it printed."""
        return self.machine.run(command, check=check).stdout

    def wait_for(self, path: str) -> None:
        """Wait until a file is there, and remove it."""
        self.run(f"timeout 30 sh -c 'until [ -e {path} ]; do sleep 0.1; done' && rm {path}")

    def python(self, program: str) -> str:
        """Run a Python program as root and return what it printed."""
        done = self.programs.run(program)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def everything(self) -> dict[str, str]:
        """Every address that the collection could write, with what is there."""
        return dict(json.loads(self.python(Path(__file__).with_name("host_state.py").read_text())))

    def changed_since(self, before: dict[str, str]) -> dict[str, tuple[str | None, str | None]]:
        """The addresses that differ, with what was and what is there."""
        now = self.everything()
        pairs = {address: (before.get(address), now.get(address)) for address in before.keys() | now.keys()}
        return {address: (was, is_now) for address, (was, is_now) in pairs.items() if was != is_now}

    def untouched(self) -> tuple[dict[str, str], str]:
        """What a check must leave alone, for ``touched_since``: every setting, and each file of the disk."""
        # Files get the time of the kernel's last tick, which may be milliseconds ago.
        return self.everything(), self.run("date +%s.%N; sleep 0.1").strip()

    def touched_since(self, before: tuple[dict[str, str], str]) -> set[str]:
        """The settings that differ, and the files that were written, even if they hold what they did."""
        settings, moment = before
        return {*self.changed_since(settings), *self.run(CHANGED.replace("MOMENT", moment)).splitlines()}

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

    def kill_play(self, playbook: str, after: int) -> bool:
        """Run a playbook until its record has that many lines, and kill it together with the module that runs here."""
        return kill_playbook(self.folder, playbook, after=after, kill=lambda: self.run(KILL_MODULES, check=False))

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
        module = f"{COLLECTION.replace('/', '.')}.modules.{name}"
        program = f"{fault}\nfrom {module} import main\nmain()\n"
        return self.programs.run(program, [module], {"ANSIBLE_MODULE_ARGS": options})


@contextlib.contextmanager
def guest_of(
    shape: str,
    name: str,
    folder: Path,
    kernel: str = "6.12",
    prepared: Preparation | None = None,
) -> Iterator[Guest]:
    """A machine of a test's own, as its shape is after its first boot or as it is prepared.

    Who asks for one of the same name, a second worker or a second run of these tests, waits for the end of the first.
    """
    name = f"test-{name}"
    with locked(name):
        # A run that was killed may have left it, in an unknown state.
        with contextlib.suppress(VepycError):
            Machine.find(name).down()
        machine = up(shape, name=name, kernel=kernel, prepared=prepared)
        guest = Guest(machine, folder)
        try:
            yield guest
        finally:
            guest.programs.end()
            machine.down()
